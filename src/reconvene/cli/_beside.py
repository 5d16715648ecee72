"""Followers and outposts of the log, as the commands show them: from where, to where, and how far behind."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from reconvene.local import SiteState

__all__ = ["beside_line", "beside_table", "furthest_green", "kind_of", "split"]

_KINDS = ("follower", "outpost")


def kind_of(view: SiteState) -> str:
    """site | follower | outpost: by what it reports, or, where it does not answer, by its cluster's file. A member
    of a larger cluster that also follows a log counts as a site."""
    status = view.status
    if status is None:
        return view.kind
    log = status.get("log") or {}
    if log.get("outpost"):
        return "outpost"
    return "follower" if log.get("follow") and len(status["sites"]) == 1 else "site"


def split(views: Sequence[SiteState]) -> tuple[list[SiteState], list[SiteState]]:
    """The sites, and the followers and outposts beside them."""
    sites = [view for view in views if kind_of(view) not in _KINDS]
    return sites, [view for view in views if kind_of(view) in _KINDS]


def furthest_green(views: Sequence[SiteState]) -> int:
    """The highest green line of all that answer."""
    logs = [(view.status or {}).get("log") or {} for view in views]
    return max((int(log.get("green", 0)) for log in logs), default=0)


def beside_line(log: dict[str, Any], furthest: int) -> str:
    """One follower or outpost in words; `furthest` is the highest green line that is known."""
    if log.get("outpost"):
        waiting, limit = log["waiting"], log["limit"]
        waits = f"{int(waiting['messages']):,} of at most {int(limit['messages']):,} messages to be confirmed"
        return f"outpost, {waits}, {_connection(log)}"
    words, *trouble = _connection(log).split("; ", 1)
    return "; ".join([f"{words}, {_behind(log, furthest):,} messages behind", *trouble])


def beside_table(beside: Sequence[SiteState], furthest: int) -> Table:
    """`behind`: messages of the log that a follower lacks. `to confirm`: messages that an outpost accepted and not
    yet read back from the log."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("beside", "kind", "state"):
        table.add_column(column, no_wrap=True)
    for column in ("inc", "ordered", "behind", "to confirm"):
        table.add_column(column, no_wrap=True, justify="right")
    table.add_column("connection", overflow="fold")
    for view in beside:
        kind, name = kind_of(view), Text(view.name, style="bold")
        if view.status is None:
            table.add_row(name, kind, Text(view.state, style="red"), "-", "-", "-", "-", "-")
            continue
        log = view.status["log"]
        if kind == "follower":
            figures = (f"{int(log['green']):,}", f"{_behind(log, furthest):,}", "-")
        else:
            figures = ("-", "-", f"{int(log['waiting']['messages']):,}")
        table.add_row(name, kind, view.state, str(view.status["incarnation"]), *figures, _connection(log))
    return table


def _behind(log: dict[str, Any], furthest: int) -> int:
    """A follower without a source does not know how far the log has gone on."""
    return max(int(log["follow"].get("behind", 0)), furthest - int(log["green"]))


def _connection(log: dict[str, Any]) -> str:
    if log.get("outpost"):
        if log.get("site"):
            words = f"forwards to {log['site']}"
        else:
            words = "has nothing to forward" if log.get("step") == "idle" else "reaches no site"
        return f"{words}; {log['trouble']}" if log.get("trouble") else words
    follow = log["follow"]
    refused = [f"{source} is refused: {why}" for source, why in follow.get("refused", {}).items()]
    if follow.get("source"):
        return "; ".join([f"follows {follow['source']}", *refused])
    return "; ".join(["reaches none of its sources", *refused, *follow.get("trouble", {}).values()])
