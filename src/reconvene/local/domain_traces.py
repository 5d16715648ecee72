"""The trace of several joined local clusters: what only an observer knows of it.

The sites write their own files, of all levels. This module writes which sites are down, which were connected, and
whether the run is settled, into run.json of each level and into domains.json.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconvene.local.domain_layout import ABOVE
from reconvene.local.traces import copy_files, copy_prefixes, write_run
from reconvene.runtime.site.wide_rows import write_wide_run
from reconvene.trace.domains import DOMAINS_FILE, WIDE_DIR, Domain, Domains, Pass, write_domains
from reconvene.trace.events import SCHEMA
from reconvene.trace.writer import RUN_FILE

if TYPE_CHECKING:
    from reconvene.local.domains import LocalDomains

__all__ = ["copy_levels", "files_of", "note_run"]


def files_of(domains: "LocalDomains") -> list[str]:
    """Every file of the trace, below its directory and without its ending."""
    return [
        *domains.nodes,
        *(f"wide/{node}" for node in domains.nodes),
        *(f"{ABOVE}/{site}" for site in domains.choices.upper),
    ]


def note_run(domains: "LocalDomains", *, settled: bool, down: Sequence[str]) -> None:
    """`down`: CLUSTER/SITE."""
    directory, choices = domains.trace_dir, domains.choices
    run = domains.layout.directory.name
    parts = [list(part) for part in domains.components or (domains.names,)]
    entries: list[Domain] = []
    for name, cluster in domains.clusters.items():
        log = cluster.choices.settings.get("log", {})
        write_run(
            directory / name,
            run=f"{run}/{name}",
            nodes=cluster.names,
            order=choices.order,
            settled=settled,
            components=cluster.components or (cluster.names,),
            down=[site for site in cluster.names if f"{name}/{site}" in down],
            log=log if isinstance(log, Mapping) else {},
        )
        entries.append(
            Domain(
                name=name,
                nodes=list(cluster.names),
                gateways=choices.clusters[name],
                upper=ABOVE,
                passes=_rules(cluster.choices.settings.get("domain", {})),
            )
        )
    write_run(
        directory / ABOVE,
        run=f"{run}/{ABOVE}",
        nodes=choices.upper,
        order=choices.order,
        settled=settled,
        components=[[site for site in choices.upper if site.partition(".")[0] in part] for part in parts],
        down=[site for site in choices.upper if site.replace(".", "/", 1) in down],
        log={"enabled": False},
    )
    entries.append(Domain(name=ABOVE, nodes=list(choices.upper), passes=Pass(out=["*"], into=["*"])))
    known = Domains(
        schema=SCHEMA,
        run=run,
        seed=0,
        settled=settled,
        components=parts,
        down=sorted(down),
        domains=entries,
    )
    write_domains(directory, known)
    write_wide_run(directory, known, choices.order)


def copy_levels(domains: "LocalDomains", target: Path, sizes: Mapping[str, int]) -> None:
    """Copies each file up to its size, level by level, and what says which sites there are."""
    source = domains.trace_dir
    for level in (*domains.names, ABOVE):
        own = {name.removeprefix(f"{level}/"): size for name, size in sizes.items() if name.startswith(f"{level}/")}
        copy_prefixes(source / level, target / level, own)
    (target / WIDE_DIR).mkdir(parents=True)
    for name in domains.names:
        (target / WIDE_DIR / name).mkdir()
        own = {
            node.rpartition("/")[2]: size for node, size in sizes.items() if node.startswith(f"{WIDE_DIR}/{name}/")
        }
        copy_files(source / WIDE_DIR / name, target / WIDE_DIR / name, own)
    shutil.copyfile(source / WIDE_DIR / RUN_FILE, target / WIDE_DIR / RUN_FILE)
    shutil.copyfile(source / DOMAINS_FILE, target / DOMAINS_FILE)


def _rules(domain: object) -> Pass:
    told = domain.get("pass") if isinstance(domain, Mapping) else None
    rules = told if isinstance(told, Mapping) else {"out": ["*"], "in": ["*"]}
    return Pass(out=_texts(rules.get("out")), into=_texts(rules.get("in")))


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else []
