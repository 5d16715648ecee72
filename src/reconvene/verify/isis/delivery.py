"""A cast is received once by each destination, and by all that stand or by none [3, atomicity]."""

from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck, violate_in
from reconvene.verify.isis_history import Event, IsisHistory
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _once(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    for message in isis.casts.values():
        tally.cases += len(message.receives)
        for event in message.receives:
            problem = _problem(isis, event)
            if problem is not None:
                violate(event, problem)


def _problem(isis: IsisHistory, event: Event) -> str | None:
    message = event.msg
    assert message is not None
    attempt = message.attempts.get(event.attempt)
    if attempt is None:
        return "no such cast" if not message.attempts else f"there is no attempt {event.attempt}"
    told = attempt.event
    if (told.group, told.view) != (event.group, event.view):
        return f"the cast names {_address(told)}, not {_address(event)}"
    if told.process != event.sender:
        return f"it was cast by {isis.name(told.process)}"
    if told.site == event.site and told.place > event.place:
        return f"it was cast only later, at {isis.describe(told)}"
    if told.kind == "gbcast":
        if event.inside is None:
            return "the process is no member of the group"
    elif event.process not in attempt.dests:
        return "the process is no destination of that attempt"
    first = message.got[event.process]
    if first is not event:
        return f"received before, at {isis.describe(first)}"
    if event.place > isis.processes[event.process].over:
        return "the process is over"
    return None


def _address(event: Event) -> str:
    return "no group" if event.group is None else f"view {event.view} of {event.group}"


def _atomic(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    for message in isis.casts.values():
        if not message.attempts:
            continue
        received = any(map(isis.stands, message.got))
        # A GBCAST that nobody received has no destinations: whether it gets through is a matter of isis.live.
        if not received and (message.kind == "gbcast" or not isis.stands(message.sender)):
            continue
        for process in message.dests:
            if not isis.stands(process) or isis.is_excused(message, process):
                continue
            tally.cases += 1
            if process not in message.got:
                violate(message.last.event, f"{isis.name(process)}, a destination that stands, did not receive it")


CHECKS = (
    IsisCheck(
        id="isis.once",
        layer="isis",
        source="section 3",
        case="a `receive`",
        violated="there is no such cast: of that message and attempt, to that group and view; or another process sent"
        " it; or, at the same site, it was cast only later; or the process is no destination of that attempt (of a"
        " GBCAST: no member of the group); or it received the message before; or it is over",
        check=_once,
    ),
    IsisCheck(
        id="isis.atomic",
        layer="isis",
        source="section 3",
        case="where settled: a cast that a process that stands received or, if it is no GBCAST, sent; and a"
        " destination that stands",
        violated="the destination did not receive it",
        check=_atomic,
    ),
)
