"""Crossings: local first, by the representative alone, and safe before anyone delivers as safe.

The `cross` rows of a domain name the CROSS in its own trace, the `in` rows the CROSSING in the trace of the domain
above: these traces show who had a crossing.
"""

from typing import cast

from msgspec import UNSET

from reconvene.trace.domains import upper_site
from reconvene.trace.events import Row
from reconvene.verify.codes import DELIVER, NONE, SAFE
from reconvene.verify.evs.safe import accountable
from reconvene.verify.history import History
from reconvene.verify.wide.home import Home
from reconvene.verify.wide.judged import Findings, WideCheck, judged
from reconvene.verify.wide_history import WideHistory

__all__ = ["CHECKS"]


_Named = dict[tuple[str, str], list[str]]
"""By domain and message: the CROSSes or CROSSINGs that hold it."""


class _Crossings:
    """Which message of which level each row is about, and where that was delivered."""

    def __init__(self, wide: WideHistory) -> None:
        self.wide = wide
        self.crosses = wide.others.get("cross", [])
        self.ins = wide.others.get("in", [])
        self._sites = {name: set(domain.nodes) for name, domain in wide.tree.domains.items()}
        named: dict[str, set[str]] = {}
        for node, row in self.crosses:
            named.setdefault(self.level_of(node, row), set()).add(cast(str, row.msg))
        for node, row in self.ins:
            upper = wide.tree.domains[self.level_of(node, row)].upper
            if upper is not None:
                named.setdefault(upper, set()).add(cast(str, row.msg))
        self.deliveries = {level: _deliveries(wide.levels[level], msgs) for level, msgs in named.items()}
        """By level and message, the events of its deliveries there."""
        self._lacking: dict[tuple[str, str], str | None] = {}

    def level_of(self, node: int, row: Row) -> str:
        """The domain whose representative the row is about: the node's own, or one above it.

        A CROSS was sent by a site of that domain, a CROSSING by one of the domain above it.
        """
        domains = self.wide.tree.domains
        line = self.wide.tree.line(self.wide.home[node])
        sender = cast(str, row.msg).split(":", 1)[0]
        for level in line[1:]:
            where = level if row.kind == "cross" else domains[level].upper
            if where is not None and sender in self._sites[where]:
                return level
        return line[0]

    def name_at(self, node: int, level: str) -> str:
        """What the node's site is called in this domain."""
        line = self.wide.tree.line(self.wide.home[node])
        name = self.wide.site[node]
        for below in line[: line.index(level)]:
            name = upper_site(below, name)
        return name

    def lacking(self, level: str, msg: str) -> str | None:
        """Someone who neither had this message nor failed, in a configuration of the level in which it was
        delivered."""
        key = (level, msg)
        if key not in self._lacking:
            self._lacking[key] = self._look(self.wide.levels[level], self.deliveries[level].get(msg, []))
        return self._lacking[key]

    def _look(self, h: History, events: list[int]) -> str | None:
        for conf in dict.fromkeys(h.conf[event] for event in events):
            for member in accountable(h, conf):
                if h.msg[events[0]] not in h.messages_of(member, h.root[conf]):
                    return h.names[member]
        return None


def _deliveries(h: History, msgs: set[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    wanted = {index: msg for index, msg in enumerate(h.messages) if msg in msgs}
    for event, kind in enumerate(h.kind):
        if kind == DELIVER and h.msg[event] in wanted:
            found.setdefault(wanted[h.msg[event]], []).append(event)
    return found


@judged
def _first(wide: WideHistory, found: Findings) -> None:
    crossings = wide.once(_Crossings)
    for node, row in crossings.crosses:
        found.case()
        problem = _not_first(wide, crossings, node, row)
        if problem is not None:
            found.violate_row(row, f"{problem} of its CROSS {row.msg}")


def _not_first(wide: WideHistory, crossings: _Crossings, node: int, row: Row) -> str | None:
    level = crossings.level_of(node, row)
    h = wide.levels[level]
    is_home = level == wide.home[node]
    site = h.name_index(crossings.name_at(node, level))
    safe = [event for event in crossings.deliveries[level].get(cast(str, row.msg), ()) if h.service[event] == SAFE]
    # Only the site's own two files have one order; of a level above it is seen only that there is a delivery.
    if any(h.node[event] == site and (h.n[event] < row.n or not is_home) for event in safe):
        return None
    if not safe:
        return "no safe delivery"
    # A site that was not there may know of it from the others, whom it met since.
    stay = wide.once(Home).stay(node, row.n) if is_home else None
    sent = h.sent[h.msg[safe[0]]]
    is_there = stay is not None and sent != NONE and h.root[stay.conf] == h.conf[sent]
    return "no safe delivery there before" if is_there else None


@judged
def _safe(wide: WideHistory, found: Findings) -> None:
    crossings = wide.once(_Crossings)
    out = _naming(wide, crossings, crossings.crosses)
    into = _naming(wide, crossings, crossings.ins)
    for event, kind in enumerate(wide.kind):
        if kind != DELIVER or wide.msg_service[wide.msg[event]] != SAFE:
            continue
        found.case()
        told = wide.told[wide.msg[event]]
        here = wide.home[wide.node[event]]
        origin = wide.home[told.node] if told.node != NONE else here
        ways = [(origin, msg) for msg in out.get((origin, told.id), ())]
        upper = wide.tree.domains[here].upper
        if upper is not None:
            ways += [(upper, msg) for msg in into.get((here, told.id), ())]
        for level, msg in ways:
            lacking = crossings.lacking(level, msg)
            if lacking is not None:
                found.violate(event, f"{level}/{lacking} neither had {msg}, by which it crossed, nor failed")
                break


def _naming(wide: WideHistory, crossings: _Crossings, rows: list[tuple[int, Row]]) -> _Named:
    found: _Named = {}
    for node, row in rows:
        home = wide.home[node]
        if crossings.level_of(node, row) != home:
            continue
        for member in row.members or ():
            named = found.setdefault((home, member), [])
            if row.msg not in named:
                named.append(cast(str, row.msg))
    return found


@judged
def _rep(wide: WideHistory, found: Findings) -> None:
    crossings = wide.once(_Crossings)
    terms: dict[tuple[str, str, int], str] = {}
    for node, row in wide.others.get("rep", ()):
        found.case()
        sender = "" if row.sender is UNSET else row.sender
        level = sender.partition("/")[0]
        if level not in wide.tree.line(wide.home[node]):
            level = wide.home[node]
        first = terms.setdefault((level, cast(str, row.conf), cast(int, row.view)), sender)
        if first != sender:
            both = f"{sender or 'nobody'}, and by {first or 'nobody'}"
            found.violate_row(row, f"term {row.view} of {row.conf} is represented by {both}")
    for node, row in sorted([*crossings.crosses, *crossings.ins], key=lambda each: (each[0], each[1].n)):
        found.case()
        level = crossings.level_of(node, row)
        representative = terms.get((level, cast(str, row.conf), cast(int, row.view)))
        me = f"{level}/{crossings.name_at(node, level)}"
        if representative is None:
            found.violate_row(row, f"no `rep` has term {row.view} of {row.conf} in {level}")
        elif representative != me:
            term = f"term {row.view} of {row.conf}"
            found.violate_row(row, f"{representative or 'nobody'} represents {level} in {term}")


CHECKS = (
    WideCheck(
        id="wide.safe",
        layer="wide",
        source="Domains",
        case="a delivery of a safe message",
        violated="in a local configuration in which a CROSS of the message was delivered, or in an upper one in which"
        " a CROSSING was delivered that brought it into the node's domain, a member neither delivered that CROSS or"
        " CROSSING, there or in what followed it, nor failed there",
        check=_safe,
    ),
    WideCheck(
        id="wide.first",
        layer="wide",
        source="ISIS, 4.6",
        case="a `cross`",
        violated="its CROSS was delivered as safe by no site of the cluster; or not before by the node itself, which"
        " is still in the local configuration in which it was sent, or in what followed that",
        check=_first,
    ),
    WideCheck(
        id="wide.rep",
        layer="wide",
        source="Domains",
        case="a `rep`; a `cross`, an `in`",
        violated="the lowest `rep` of the same term (of the same domain and local configuration) has another"
        " representative; or that representative is not the node, or there is no `rep` of that term",
        check=_rep,
    ),
)
