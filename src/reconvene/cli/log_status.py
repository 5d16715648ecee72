"""reconvene log status: the log at each site, as a table."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from reconvene.cli._beside import beside_line, furthest_green
from reconvene.cli._cluster import AsJson, console
from reconvene.cli._output import print_json
from reconvene.cli._target import Key, MaybeDir, Node, Target, Tls
from reconvene.client.status import SnapshotInUse, snapshots_in_use
from reconvene.local import SiteState

__all__ = ["quorum_words", "status_command"]

_COLUMNS = ("primary", "ordered", "first", "yellow", "red", "behind")


def status_command(
    directory: MaybeDir = None,
    node: Node = None,
    key: Key = None,
    tls: Tls = None,
    why: Annotated[
        bool, typer.Option("--why", help="Say for each site why its component may or may not order.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the log at each site: ordered and waiting messages, and the replicas."""
    views = Target(directory, node, key, tls).look()()
    logs = {view.name: (view.status or {}).get("log") for view in views}
    if as_json:
        sites = [{"name": view.name, "state": view.state, "log": logs[view.name]} for view in views]
        print_json({"dir": None if directory is None else str(directory), "sites": sites})
        return
    out = console()
    out.print(_table(views, logs))
    for name, log in logs.items():
        if why:
            words = "not running" if log is None else log.get("why", "its program is too old to say")
            out.print(f"{name}: {words}", markup=False)
        elif log is not None and (log.get("outpost") or log.get("follow")):
            out.print(f"{name}: {beside_line(log, furthest_green(views))}", markup=False)
        elif log is not None and (log.get("waits") or log.get("left_out")):
            out.print(f"{name}: {log.get('waits') or log.get('left_out')}", markup=False)
    known = next((log for log in logs.values() if log is not None and log.get("replica")), None)
    if known is not None:
        out.print(f"replicas {' '.join(known.get('replicas', ()))}, quorum {quorum_words(known.get('quorum', {}))}")
    for line in _snapshots(logs):
        out.print(line)


def _snapshots(logs: dict[str, dict[str, Any] | None]) -> list[str]:
    """Which snapshots keep a site from truncating its log."""
    lines = []
    for site, log in sorted(logs.items()):
        names = {} if log is None else snapshots_in_use(log)
        if names:
            shown = ", ".join(_shown(name, one) for name, one in names.items())
            lowest = min(names, key=lambda name: names[name].needs)
            lines.append(f"{site}: snapshots {shown}; {lowest} needs the log from {names[lowest].needs:,} on")
    return lines


def _shown(name: str, one: SnapshotInUse) -> str:
    kept = "none yet" if one.position is None else f"at {one.position:,}"
    return f"{name} {kept}{', lacking' if one.lacks else ''}"


def _table(views: list[SiteState], logs: dict[str, dict[str, Any] | None]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("site", "state", "phase"):
        table.add_column(column, no_wrap=True)
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True, justify="right")
    table.add_column("storage", overflow="fold")
    furthest = furthest_green(views)
    for view in views:
        log = logs[view.name]
        if log is None:
            table.add_row(Text(view.name, style="bold"), view.state, *["-"] * (len(_COLUMNS) + 2))
            continue
        green = int(log.get("green", 0))
        red = int(log.get("red", 0)) + int(log.get("unlogged", 0))
        phase = "waits" if log.get("waits") else "no replica"
        if log.get("replica"):
            phase = str(log.get("phase", "-"))
        elif log.get("outpost"):
            phase = "outpost"
        elif log.get("follow"):
            phase = "follows"
        table.add_row(
            Text(view.name, style="bold"),
            view.state,
            phase,
            _primary(log),
            "-" if log.get("outpost") else f"{green:,}",
            "-" if log.get("outpost") else f"{int(log.get('base', 0)):,}",
            f"{int(log.get('yellow', 0)):,}",
            f"{red:,}",
            "-" if log.get("outpost") else f"{furthest - green:,}",
            str(log.get("storage", "-")),
        )
    return table


def _primary(log: dict[str, Any]) -> Text:
    """Followers and outposts order nothing."""
    if log.get("outpost") or log.get("follow"):
        return Text("-")
    return Text(str(log.get("primary") or "none"), style="green" if log.get("primary") else "yellow")


def quorum_words(quorum: dict[str, Any]) -> str:
    """A quorum in words."""
    match quorum.get("kind"):
        case "weighted":
            weights = dict(quorum.get("weights", {}))
            return "weighted " + " ".join(f"{name}={weight}" for name, weight in sorted(weights.items()))
        case "grid":
            return "grid " + " / ".join(" ".join(row) for row in quorum.get("rows", ()))
        case "dynamic":
            minimum = quorum.get("minimum")
            weights = dict(quorum.get("weights", {}))
            shown = [f"{name}={weight}" for name, weight in sorted(weights.items())]
            return " ".join(["dynamic", *([f"minimum {minimum}"] if minimum is not None else []), *shown])
        case kind:
            return str(kind)
