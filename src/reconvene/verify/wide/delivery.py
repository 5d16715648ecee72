"""A message is delivered once, as it was sent, and only where it may go."""

from typing import cast

from reconvene.verify.codes import DELIVER, NONE, SERVICES
from reconvene.verify.wide.judged import Findings, WideCheck, judged
from reconvene.verify.wide_history import WideHistory

__all__ = ["CHECKS"]


@judged
def _once(wide: WideHistory, found: Findings) -> None:
    for event, kind in enumerate(wide.kind):
        if kind == DELIVER:
            found.case()
            problem = _problem(wide, event)
            if problem is not None:
                found.violate(event, problem)


def _problem(wide: WideHistory, event: int) -> str | None:
    message, row = wide.msg[event], wide.rows[event]
    told = wide.told[message]
    if told.sent == NONE:
        return "nobody sent it"
    sending = wide.describe(told.sent)
    if wide.names[told.node] != row.sender:
        return f"said to be from {row.sender}, but {sending}"
    if told.group != row.group:
        return f"to group {row.group}, but {sending} to {told.group}"
    if told.service != SERVICES[cast(str, row.service)]:
        return f"of another service than it was sent with, {sending}"
    if told.node == wide.node[event] and told.sent > event:
        return f"before it was sent, {sending}"
    first = wide.got[wide.life(event)][message]
    return None if first == event else f"was delivered before, {wide.describe(first)}"


@judged
def _pass(wide: WideHistory, found: Findings) -> None:
    for event, kind in enumerate(wide.kind):
        if kind != DELIVER:
            continue
        told = wide.told[wide.msg[event]]
        if told.node == NONE:
            continue  # wide.once speaks of it
        origin, here = wide.home[told.node], wide.home[wide.node[event]]
        if origin == here:
            continue
        found.case()
        if not told.is_wide:
            found.violate(event, f"its scope is cluster, and it is from {origin}")
        elif not wide.tree.passes(told.group, origin, here):
            found.violate(event, f"the rules do not let group {told.group} pass from {origin} to {here}")


CHECKS = (
    WideCheck(
        id="wide.once",
        layer="wide",
        source="Domains",
        case="a delivery",
        violated="the message was not sent; or by another sender, to another group or as another service; or, at the"
        " same node, only later; or the same incarnation of the node delivered it before",
        check=_once,
    ),
    WideCheck(
        id="wide.pass",
        layer="wide",
        source="Domains",
        case="a delivery in another domain than the sender's",
        violated="the message's scope is `cluster`; or the rules of a domain on its way, `out` where it goes up and"
        " `in` where it comes down, do not list its group",
        check=_pass,
    ),
)
