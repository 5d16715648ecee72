"""Groups: their views [3.1], and which processes a cast to a group reaches [3.6]."""

from collections.abc import Iterator

from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck, violate_in
from reconvene.verify.isis_history import Event, IsisHistory, Shown
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


# -- views --------------------------------------------------------------------------------------------------------


def _views(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    for process in isis.processes:
        for views in process.views.values():
            tally.cases += len(views)
            for before, view in zip([None, *views], views, strict=False):
                problem = _wrong_view(isis, view, before)
                if problem is not None:
                    violate(view.event, problem)


def _wrong_view(isis: IsisHistory, view: Shown, before: Shown | None) -> str | None:
    event, lowest = view.event, isis.described[view.key]
    if (view.members, view.ranked) != (lowest.members, lowest.ranked):
        return f"with other members or another rank than at {isis.describe(lowest.event)}"
    if sorted(view.members) != sorted(view.ranked):
        return "those in `dests` are not its members"
    if event.process not in view.members:
        return "the process is not a member of it"
    if event.place > isis.processes[event.process].over:
        return "the process is over"
    if event.inside is not None and view.number != event.inside.number + 1:
        return f"expected view {event.inside.number + 1}, after {isis.describe(event.inside.event)}"
    if before is not None and view.number <= before.number:
        return f"its number is not above that of {isis.describe(before.event)}"
    return None


# -- addressing ---------------------------------------------------------------------------------------------------


def _members(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    for message in isis.casts.values():
        if not message.attempts or message.kind == "gbcast":
            continue
        for event in message.receives:
            attempt = message.attempts.get(event.attempt)
            if attempt is None or event.inside is None:
                continue
            tally.cases += 1
            missed = [member for member in event.inside.members if member not in attempt.dests]
            if missed:
                names = ", ".join(sorted(map(isis.name, missed)))
                violate(event, f"in view {event.inside.number}, of which {names} is no destination")
    for event, sent in _rejected(isis):
        tally.cases += 1
        if sent.inside is not None:
            violate(event, f"its sender was a member, in view {sent.inside.number}, at {isis.describe(sent)}")


def _rejected(isis: IsisHistory) -> Iterator[tuple[Event, Event]]:
    """Each reject, and the row of the attempt that it rejects."""
    for message in isis.casts.values():
        for event in message.rejects:
            if event.attempt in message.attempts:
                yield event, message.attempts[event.attempt].event


def _reject(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    for message in isis.casts.values():
        for number, attempt in message.attempts.items():
            if attempt.event.group is None:
                continue
            tally.cases += 1
            rejects = [e for e in message.rejects if e.attempt == number]
            received = [e for e in message.receives if e.attempt == number and _counts(isis, e)]
            rejected = [e for e in rejects if _counts(isis, e)]
            if rejected and received:
                violate(rejected[0], f"the same attempt was received, at {isis.describe(received[0])}")
            elif number == message.last_attempt and message.rejects and not message.receives:
                waits = [p for p in message.dests if isis.stands(p) and not isis.is_excused(message, p)]
                if waits and isis.stands(message.sender):
                    lowest = (rejects or message.rejects)[0]
                    violate(lowest, f"its sender stands, and no attempt was received; {isis.name(waits[0])} waits")


def _counts(isis: IsisHistory, event: Event) -> bool:
    """A process that is gone and got no later view of the group is excused."""
    views = isis.processes[event.process].views.get(event.group or "", ())
    return not isis.is_gone(event.process) or any(view.event.place > event.place for view in views)


CHECKS = (
    IsisCheck(
        id="isis.views",
        layer="isis",
        source="section 3.1",
        case="a `view`",
        violated="the lowest one of the same group and number has other members or another rank; or `dests` are not"
        " the members; or the process is not in it, or over; or its number is not one above that of the process's"
        " last view of the group (after a `leave`: not above it)",
        check=_views,
    ),
    IsisCheck(
        id="isis.members",
        layer="isis",
        source="section 3.6",
        case="a CBCAST or ABCAST to a group, received by a member; a `reject`",
        violated="a member of the view in which it was received is no destination of that attempt; of a `reject`: the"
        " sender was a member when it cast that attempt",
        check=_members,
    ),
    IsisCheck(
        id="isis.reject",
        layer="isis",
        source="section 3.6",
        case="an attempt to cast to a group",
        violated="one process rejects it, and another receives it (excused: a process that is gone and got no later"
        " view of that group); or, where settled, it is the last attempt, it or an earlier one was rejected, its"
        " sender stands, a destination stands, and no attempt was received",
        check=_reject,
    ),
)
