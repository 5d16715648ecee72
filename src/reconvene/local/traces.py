"""A local cluster's trace: its run.json always says what is known of the run.

The sites write their own files. This module writes what only an observer knows: which sites are down, which were
connected, and whether the run is settled. `settled` is set only if that was observed: no fault for a while, every
site that is up in one configuration with all sites that it is connected to, and nothing new in any file since.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconvene.errors import Rejected
from reconvene.runtime.site.journal import run_quorum
from reconvene.trace.events import CHANGED, SCHEMA, Run
from reconvene.trace.reader import was_changed
from reconvene.trace.writer import RUN_FILE, encode_run, node_file, stopped_file

__all__ = ["QUIET_S", "copy_files", "copy_prefixes", "is_quiet", "sizes", "write_run"]

QUIET_S = 3.0
"""A cluster without an event or a fault for this long is quiet: several times the silence after which a site suspects
another."""


def write_run(
    directory: Path,
    *,
    run: str,
    nodes: Sequence[str],
    followers: Sequence[str] = (),
    outposts: Sequence[str] = (),
    order: str,
    settled: bool,
    components: Sequence[Sequence[str]],
    down: Sequence[str],
    log: Mapping[str, object] | None = None,
) -> None:
    """run.json, whole or not at all; and an empty file for each node that has none yet.

    `log`: what the sites' configurations say under [log]; None: nothing, so that there is a log at all of them.
    """
    told = {} if log is None else log
    replicas, quorum = told.get("replicas"), told.get("quorum")  # of other types: the sites will refuse them
    directory.mkdir(parents=True, exist_ok=True)
    for node in (*nodes, *followers, *outposts):
        node_file(directory, node).touch()
    document = Run(
        schema=SCHEMA,
        run=run,
        nodes=list(nodes),
        stack="corel" if told.get("enabled", True) else "evs",
        order=order,
        seed=0,
        settled=settled,
        components=[list(component) for component in components],
        down=sorted(down),
        followers=list(followers),
        outposts=list(outposts),
        quorum=run_quorum(
            nodes,
            replicas if isinstance(replicas, Sequence) else (),
            quorum if isinstance(quorum, Mapping) else {"kind": "majority"},
        ),
    )
    if was_changed(directory):
        document.quorum = {**document.quorum, CHANGED: True}
    scratch = directory / f".{RUN_FILE}.{os.getpid()}"
    scratch.write_bytes(encode_run(document))
    scratch.replace(directory / RUN_FILE)


def is_quiet(directory: Path, nodes: Sequence[str], changed_at: float, quiet_s: float = QUIET_S) -> bool:
    """Whether nothing was recorded and no fault began or ended in the last seconds, and no trace is incomplete."""
    if any(stopped_file(directory, node).exists() for node in nodes):
        return False
    last = max((node_file(directory, node).stat().st_mtime for node in nodes), default=0.0)
    return time.time() - max(last, changed_at) >= quiet_s


def sizes(directory: Path, nodes: Sequence[str]) -> dict[str, int]:
    return {node: node_file(directory, node).stat().st_size for node in nodes}


def copy_files(source: Path, target: Path, prefixes: Mapping[str, int]) -> None:
    """Copies each node's file up to the given size."""
    for node, size in prefixes.items():
        with node_file(source, node).open("rb") as old, node_file(target, node).open("wb") as new:
            left = size
            while left and (data := old.read(min(left, 1 << 20))):
                new.write(data)
                left -= len(data)
        if stopped_file(source, node).exists():
            shutil.copyfile(stopped_file(source, node), stopped_file(target, node))


def copy_prefixes(source: Path, target: Path, prefixes: dict[str, int]) -> None:
    """Copies each node's file up to the given size, and run.json. Files only grow, so a prefix never changes."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise Rejected(f"{target}: is not empty; expected a new or an empty directory")
        copy_files(source, target, prefixes)
        shutil.copyfile(source / RUN_FILE, target / RUN_FILE)
    except OSError as error:
        raise Rejected(f"{target}: the trace can't be copied: {error.strerror}") from None
