"""What commands about local clusters share: finding sites, waiting for them, showing them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reconvene.cli._output import DONE, VIOLATED, print_json
from reconvene.errors import Unavailable
from reconvene.ids import short_number
from reconvene.local import LocalCluster, SiteState

__all__ = [
    "AsJson",
    "Dir",
    "Sites",
    "Wait",
    "console",
    "health_style",
    "list_lines",
    "report_faults",
    "short",
    "site_document",
    "sites_table",
]

Dir = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The cluster's directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Sites = Annotated[
    list[str], typer.Argument(metavar="SITE", help="Names of sites; of joined clusters CLUSTER/SITE, or @CLUSTER.")
]
Wait = Annotated[bool, typer.Option(help="Wait until all connected sites share one configuration.")]

_STYLES = {"primary": "green", "minority": "yellow", "forming": "cyan"}
_STATES = {"up": "", "paused": "magenta", "down": "red", "silent": "red"}
_WAIT_S = 20.0
_WIDE = 160
"""Columns where the output is no terminal."""


def console() -> Console:
    plain = Console(highlight=False, markup=False)
    return plain if plain.is_terminal else Console(highlight=False, markup=False, width=_WIDE)


def short(status: dict[str, Any]) -> str:
    """A configuration in short: its number, and the site that proposed it."""
    return short_number(str(status.get("configuration", "")), status.get("sites", []))


def health_style(health: str) -> str:
    return _STYLES.get(health, "")


def site_document(view: SiteState) -> dict[str, object]:
    """One site in JSON: what is seen from outside, then the status that it reports."""
    return {**(view.status or {}), "name": view.name, "state": view.state, "pid": view.pid}


def sites_table(views: Sequence[SiteState], rates: dict[str, dict[str, float]]) -> Table:
    """`rates` has each site's sent and delivered messages per second, where they are known."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("site", no_wrap=True)
    for column in ("pid", "state", "inc", "health", "configuration"):
        table.add_column(column, no_wrap=True, justify="right" if column in ("pid", "inc") else "left")
    table.add_column("members", overflow="fold")
    for column in ("groups", "processes", "sent/s", "delivered/s"):
        table.add_column(column, no_wrap=True, justify="right")
    for view in views:
        status = view.status or {}
        rate = rates.get(view.name, {})
        health = str(status.get("health", "-"))
        table.add_row(
            Text(view.name, style="bold"),
            str(view.pid or "-"),
            Text(view.state, style=_STATES[view.state]),
            str(status.get("incarnation", "-")),
            Text(health, style=health_style(health)),
            short(status),
            ",".join(status.get("members", [])) or "-",
            str(status.get("group_count", "-")),
            str(status.get("processes", "-")),
            f"{rate['sent']:,.0f}" if rate else "-",
            f"{rate['delivered']:,.0f}" if rate else "-",
        )
    return table


def list_lines(views: Sequence[SiteState]) -> list[str]:
    """Notes on the list of sites: unfinished changes, and sites that are refused."""
    lines = []
    for view in views:
        known = (view.status or {}).get("list") or {}
        if known.get("waits_for"):
            lines.append(
                f"{view.name}: version {known['version']} of the list of sites waits for {known['waits_for']}"
            )
        lines += [f"{view.name} refuses {other}: {why}" for other, why in known.get("refused", {}).items()]
    return lines


def report_faults(cluster: LocalCluster, wait: bool, as_json: bool) -> int:
    """After a fault or its end: which sites are connected, which are down, and, with `wait`, the new
    configurations."""
    states = cluster.states()
    up = [name for name, state in states.items() if state == "up"]
    statuses: dict[str, dict[str, Any]] = {}
    late: str | None = None
    if wait and up:
        try:
            statuses = cluster.wait_for(timeout_s=_WAIT_S)
        except Unavailable as error:
            late = str(error)
    components = [list(part) for part in cluster.components or (cluster.names,)]
    configurations = {status["configuration"]: status for status in statuses.values()}
    if as_json:
        print_json(
            {
                "components": components,
                "down": [name for name, state in states.items() if state == "down"],
                "paused": [name for name, state in states.items() if state == "paused"],
                "configurations": [
                    {"configuration": number, "members": status["members"], "health": status["health"]}
                    for number, status in sorted(configurations.items(), key=lambda item: item[1]["members"])
                ],
                "late": late,
            }
        )
        return DONE if late is None else VIOLATED
    out = console()
    out.print(Text.assemble(("connected  ", "dim"), " ┃ ".join(" ".join(part) for part in components)))
    for kind in ("down", "paused"):
        found = [name for name, state in states.items() if state == kind]
        if found:
            out.print(Text.assemble((f"{kind:<9}  ", "dim"), (" ".join(found), _STATES[kind])))
    for status in sorted(configurations.values(), key=lambda status: str(status["members"])):
        out.print(
            Text.assemble(
                ("together   ", "dim"),
                f"{short(status)}[{','.join(status['members'])}] ",
                (status["health"], health_style(status["health"])),
            )
        )
    if late is not None:
        out.print(Text(late, style="red"))
    return DONE if late is None else VIOLATED
