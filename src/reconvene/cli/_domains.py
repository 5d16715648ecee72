"""What commands about several joined local clusters share: finding them, and showing them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from reconvene.cli._cluster import console, health_style
from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.errors import Unavailable
from reconvene.local import LocalDomains, SiteState
from reconvene.local.domain_layout import DomainLayout

__all__ = ["are_joined", "domains_document", "domains_tree", "report_domains", "sites_of"]

_WAIT_S = 20.0


def are_joined(directory: Path) -> bool:
    """Whether the directory is one of `up --clusters`."""
    return DomainLayout(directory).exists()


def sites_of(views: Sequence[SiteState]) -> list[dict[str, Any]]:
    return [
        {
            "name": view.name,
            "pid": view.pid,
            "state": view.state,
            "health": (view.status or {}).get("health"),
            "configuration": (view.status or {}).get("configuration"),
        }
        for view in views
    ]


def domains_document(domains: LocalDomains) -> dict[str, object]:
    """Which clusters there are, their gateways, who represents them, where they are, and what crosses."""
    clusters = []
    for name, views in domains.sites().items():
        told = [view.status["domain"] for view in views if view.status is not None and view.status.get("domain")]
        counters = [view.status["counters"] for view in views if view.status is not None]
        first: dict[str, Any] = told[0] if told else {}
        uppers = [one["upper"] for one in told if one["upper"] is not None]
        clusters.append(
            {
                "name": name,
                "gateways": domains.choices.clusters[name],
                "representative": _most([one["representative"] for one in told]),
                "term": max((one["term"] for one in told), default=0),
                "wide_configurations": sorted({one["configuration"] for one in told}),
                "connected": sorted({other for one in told for other in one["domains"]}),
                "out": first.get("out", []),
                "in": first.get("in", []),
                "waiting": sum(one["waiting"] for one in told),
                "crossed": sum(one["wide_crossed"] for one in counters),
                "brought_in": sum(one["wide_brought_in"] for one in counters),
                "refused": sum(one["wide_refused"] for one in counters),
                "rules_differ": {site: keys for one in told for site, keys in one["refused"].items()},
                "above": {one["name"]: one["members"] for one in uppers},
                "sites": sites_of(views),
            }
        )
    return {
        "dir": str(domains.layout),
        "components": [list(part) for part in domains.components or (domains.names,)],
        "clusters": clusters,
    }


def domains_tree(document: dict[str, Any]) -> Tree:
    parts = " ┃ ".join(" ".join(part) for part in document["components"])
    tree = Tree(Text.assemble(("above  ", "bold"), ("connected  ", "dim"), parts))
    for cluster in document["clusters"]:
        tree.add(_cluster_node(cluster))
    return tree


def _cluster_node(cluster: dict[str, Any]) -> Tree:
    confs = ", ".join(conf or "none" for conf in cluster["wide_configurations"]) or "none"
    node = Tree(
        Text.assemble(
            (cluster["name"], "bold"),
            ("  represented by ", "dim"),
            cluster["representative"] or "nobody",
            ("  wide configuration ", "dim"),
            confs,
            ("  with ", "dim"),
            " ".join(cluster["connected"]) or "-",
        )
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for site in cluster["sites"]:
        role = "gateway" if site["name"] in cluster["gateways"] else ""
        if site["name"] == cluster["representative"]:
            role = "represents"
        differs = cluster["rules_differ"].get(site["name"])
        if differs is not None:
            role = f"refused, its rules differ: {' '.join(differs)}"
        above = cluster["above"].get(f"{cluster['name']}.{site['name']}")
        health = site["health"] or site["state"]
        table.add_row(
            site["name"], Text(health, style=health_style(health)), role,
            "" if above is None else f"above with {' '.join(above)}",
        )  # fmt: skip
    node.add(table)
    passes = f"out {' '.join(cluster['out']) or 'nothing'}, in {' '.join(cluster['in']) or 'nothing'}"
    node.add(
        Text(
            f"passes {passes}; {cluster['crossed']} crossed, {cluster['brought_in']} brought in,"
            f" {cluster['waiting']} wait, {cluster['refused']} refused",
            style="dim",
        )
    )
    return node


def report_domains(domains: LocalDomains, wait: bool, as_json: bool) -> int:
    """After a fault or its end."""
    late: str | None = None
    if wait:
        try:
            domains.wait_for(_WAIT_S)
        except Unavailable as error:
            late = str(error)
    document = domains_document(domains)
    if as_json:
        print_json({**document, "late": late})
    else:
        console().print(domains_tree(document))
        if late is not None:
            console().print(Text(late, style="red"))
    return DONE if late is None else VIOLATED


def _most(names: Sequence[str | None]) -> str | None:
    known = sorted(name for name in names if name is not None)
    return max(known, key=known.count) if known else None
