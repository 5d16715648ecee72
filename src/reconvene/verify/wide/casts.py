"""Casts between clusters, and what processes are told of those in other clusters [ISIS, 4.6]."""

from collections import Counter
from typing import cast

from msgspec import UNSET

from reconvene.trace.events import Row
from reconvene.verify.codes import SEND
from reconvene.verify.isis.causes import lacking_in
from reconvene.verify.isis.orders import knots
from reconvene.verify.isis_history import NEVER, Event
from reconvene.verify.wide.far import Far, far_of
from reconvene.verify.wide.judged import Findings, WideCheck, judged
from reconvene.verify.wide_history import Life, WideHistory

__all__ = ["CHECKS"]

_PREFIX = "isis:"


# -- once


@judged
def _once(wide: WideHistory, found: Findings) -> None:
    far = far_of(wide)
    for message in far.isis.casts.values():
        for event in message.receives if far.is_far(message) else ():
            found.case()
            problem = _problem(wide, far, event)
            if problem is not None:
                found.violate_row(far.row(event), problem)


def _problem(wide: WideHistory, far: Far, event: Event) -> str | None:
    message, row = event.msg, far.row(event)
    assert message is not None
    if not message.attempts:
        return f"nobody cast {message.name}"
    told = message.first
    if told.event.process != event.sender:
        return f"{message.name} was cast by {far.isis.name(told.event.process)}, not by {row.sender}"
    if told.event.site == event.site and told.event.place > event.place:
        return f"{message.name} was cast only later"
    if event.process not in told.dests:
        return f"{row.process} is no destination of {message.name}"
    first = message.got[event.process]
    if first is not event:
        return f"{message.name} was received before, at number {first.n}"
    if event.place > far.isis.processes[event.process].over:
        return f"{row.process} is over"
    if _brought(wide, event.site, row) is None:
        return f"the message that is said to have brought {message.name}, {row.reg}, was not delivered there before"
    return None


def _brought(wide: WideHistory, node: int, row: Row) -> int | None:
    """The delivery of the message that brought the cast of this `receive`, if there is one before it."""
    delivered = wide.got.get((node, row.inc), {}).get(wide.message_index(cast(str, row.reg)))
    return delivered if delivered is not None and wide.rows[delivered].n < row.n else None


# -- by all of a cluster


@judged
def _all(wide: WideHistory, found: Findings) -> None:
    """A node that delivers the message hands the cast to all its processes that are meant."""
    far = far_of(wide)
    isis = far.isis
    brought = _delivered_by(wide)
    for message in isis.casts.values():
        if not far.is_far(message) or not message.attempts or not message.receives:
            continue
        lives = brought.get(cast(str, far.row(message.receives[0]).reg), set())
        for process in message.first.dests:
            told = isis.processes[process]
            if isis.stands(process) and (told.site, told.inc) in lives:
                found.case()
                if process not in message.got:
                    what = f"{told.name} stands, and did not receive {message.name}, which its site has delivered"
                    found.violate_row(far.row(message.first.event), what)


def _delivered_by(wide: WideHistory) -> dict[str, set[Life]]:
    lives: dict[str, set[Life]] = {}
    for life, got in wide.got.items():
        for message in got:
            lives.setdefault(wide.messages[message], set()).add(life)
    return lives


# -- orders


@judged
def _causal(wide: WideHistory, found: Findings) -> None:
    far = far_of(wide)
    isis = far.isis
    for message in isis.casts.values():
        if far.is_far(message) and message.attempts and message.first.causal:
            found.case(len(message.receives))
    for event, lacking in lacking_in(isis):
        assert event.msg is not None
        for other in lacking:
            later = other.got.get(event.process)
            if later is None or not (far.is_far(event.msg) or far.is_far(other)):
                continue  # what its cluster has missed it need not wait for; the rest is a matter of its cluster
            row = far.row(event) if far.is_far(event.msg) else far.row(later)
            found.violate_row(
                row, f"{isis.name(event.process)} received {event.msg.name} before {other.name}, which precedes it"
            )
            break


@judged
def _order(wide: WideHistory, found: Findings) -> None:
    """The ABCASTs of a label that were received in the same regular wide configuration, or what followed it."""
    far = far_of(wide)
    sequences: dict[tuple[str, int], list[list[Event]]] = {}
    for process in far.isis.processes:
        own: dict[tuple[str, int], list[Event]] = {}
        for event in process.events:
            message = event.msg
            if event.kind != "receive" or message is None or not message.attempts or message.kind != "abcast":
                continue
            if far.is_far(message) and message.got.get(event.process) is event:
                found.case()
                brought = _brought(wide, event.site, far.row(event))
                if brought is not None:
                    own.setdefault((message.first.text, wide.root(brought)), []).append(event)
        for key, events in own.items():
            sequences.setdefault(key, []).append(events)
    for (label, _), of in sorted(sequences.items()):
        for circle in knots(of):
            words = "; then ".join(f"{far.isis.describe(one)}, {far.isis.describe(other)}" for one, other in circle)
            lowest = min((event for edge in circle for event in edge), key=lambda event: event.place)
            found.violate_row(far.row(lowest), f"ABCASTs with the label {label!r} in a circle: {words}")


# -- what crosses


@judged
def _direct(wide: WideHistory, found: Findings) -> None:
    """What crosses in a group of casts was cast to that group, or to processes of other clusters by name."""
    cast_to: Counter[tuple[int, int, str]] = Counter()
    for kind in ("cbcast", "abcast"):
        for node, row in wide.others.get(kind, ()):
            cast_to[node, row.inc, _PREFIX + ("" if row.group is UNSET else row.group)] += 1
    for event, code in enumerate(wide.kind):
        row = wide.rows[event]
        if code == SEND and str(row.group).startswith(_PREFIX):
            found.case()
            key = wide.node[event], row.inc, cast(str, row.group)
            cast_to[key] -= 1
            if cast_to[key] < 0:
                found.violate(event, "no process of the node has cast it to other clusters")


# -- failures


@judged
def _failed(wide: WideHistory, found: Findings) -> None:
    far = far_of(wide)
    isis = far.isis
    for process in isis.processes:
        told: set[int] = set()
        for event in process.events:
            if event.kind == "failed" and (event.site, event.n) in far.rows:
                found.case()
                told.add(event.sender)
                if not _is_over(wide, isis.name(event.sender)):
                    found.violate_row(far.row(event), f"{isis.name(event.sender)} is not over in its own cluster")
            elif event.kind == "receive" and event.sender in told:
                found.case()
                found.violate_row(
                    far.row(event), f"from {isis.name(event.sender)}, of which it was told that it failed"
                )


def _is_over(wide: WideHistory, name: str) -> bool:
    """Has its own cluster lost it: did it end, did its site fail, or go on without it?"""
    domain, _, own = name.partition("/")
    level = wide.levels.get(domain)
    if level is None or domain not in wide.tree.leaves:
        return False
    for index, process in enumerate(level.isis.processes):
        if process.name == own:
            return process.over != NEVER or level.isis.is_gone(index)
    return False


CHECKS = (
    WideCheck(
        id="wide.cast-once",
        layer="wide",
        source="ISIS, 3 and 4.6",
        case="a `receive`",
        violated="nobody cast that message; or another process; or, at the same node, only later; or the process is"
        " no destination of it; or it received the message before, or is over; or the message of layer `wide` that is"
        " said to have brought it (`reg`) was not delivered before by the same incarnation of the node",
        check=_once,
    ),
    WideCheck(
        id="wide.cast-all",
        layer="wide",
        source="ISIS, 3 and 4.6",
        case="where settled: a cast that a process received, and a destination that stands, whose node has delivered"
        " the message that brought it",
        violated="the destination did not receive the cast",
        check=_all,
    ),
    WideCheck(
        id="wide.cast-causal",
        layer="wide",
        source="ISIS, 3.3 and 4.6",
        case="a `receive` of a CBCAST",
        violated="the process received later a CBCAST that precedes it, also by way of casts within a cluster; or the"
        " same of two casts of which one is within its cluster",
        check=_causal,
    ),
    WideCheck(
        id="wide.cast-order",
        layer="wide",
        source="ISIS, 3.2 and 4.6",
        case="a `receive` of an ABCAST",
        violated="ABCASTs of one label, received in the same regular wide configuration or what followed it, are"
        " received in different orders by two processes, by whatever chain",
        check=_order,
    ),
    WideCheck(
        id="wide.cast-direct",
        layer="wide",
        source="ISIS, 4.6",
        case="a sending in a group `isis:NAME`",
        violated="the node's incarnation has sent more messages in that group than its processes have cast to it",
        check=_direct,
    ),
    WideCheck(
        id="wide.cast-failed",
        layer="wide",
        source="ISIS, 4.6",
        case="a `failed`; a `receive` after it of the same process, of who failed",
        violated="the process that is said to have failed is not over in its own cluster; or there is such a"
        " `receive`",
        check=_failed,
    ),
)
