"""What precedes what among CBCASTs [3.3, rules A and B], and in which order they may be received.

A causal ABCAST precedes and follows as a CBCAST under the default label. One way through all processes' sends and
receives, in which a cast comes before its receives, makes of each cast the set of those that precede it, as the bits
of an integer.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck, violate_in
from reconvene.verify.isis_history import Cast, Event, IsisHistory
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "lacking_in"]

Values = tuple[float, ...]
"""Of a label, in the order of its sorted components."""
_DEFAULT = ("",)


@dataclass(slots=True)
class _Known:
    """What a process has sent and received under labels with the same components."""

    highest: list[float]
    closed: int = 0
    """The casts, and all that precede them."""
    casts: list[tuple[Values, int]] = field(default_factory=list)


@dataclass(slots=True)
class Causes:
    casts: list[Cast] = field(default_factory=list)
    """CBCASTs and causal ABCASTs: their numbers are the bits."""
    lacking: list[tuple[Event, int]] = field(default_factory=list)
    """Receives before which the process did not receive what precedes and is addressed to it: the casts' bits."""
    after_causal_abcast: int = 0
    """How many receives are of CBCASTs that a causal ABCAST precedes."""
    relied_on: int = 0
    """The casts that precede one that a process that stands received."""


def causes_of(h: History) -> Causes:
    return h.once(_find_causes)


def _find_causes(h: History) -> Causes:
    return _Sweep(h.isis).run()


def lacking_in(isis: IsisHistory) -> Iterator[tuple[Event, list[Cast]]]:
    """Receives before which the process did not receive what precedes and is addressed to it, and what that is."""
    causes = _Sweep(isis).run()
    for event, bits in causes.lacking:
        yield event, [causes.casts[number] for number in _bits(bits)]


class _Sweep:
    def __init__(self, isis: IsisHistory) -> None:
        self.isis = isis
        self.found = Causes()
        self.number: dict[Cast, int] = {}
        for message in isis.casts.values():
            if message.attempts and message.first.causal:
                self.number[message] = len(self.found.casts)
                self.found.casts.append(message)
        count = len(isis.processes)
        self.past: list[dict[tuple[str, ...], _Known]] = [{} for _ in range(count)]
        self.got = [0] * count
        self.before: list[int | None] = [None] * len(self.found.casts)
        """Of each cast, those that precede it; None before its sending was come to."""
        self.abcasts = sum(1 << i for i, message in enumerate(self.found.casts) if message.kind == "abcast")
        self.meant: list[int] = [0] * count
        """Of each process, the casts of which it is a destination from the first attempt on; …"""
        self.meant_later: dict[tuple[int, str], int] = {}
        """… by process and group: those of which it is one of the last attempt only."""
        for number, message in enumerate(self.found.casts):
            self._address(number, message)
        self.events = [[event for event in process.events if self._counts(event)] for process in isis.processes]
        self.next = [0] * count
        self.waiting: dict[int, list[int]] = {}

    def _address(self, number: int, message: Cast) -> None:
        if self.isis.is_never_sent(message):
            return
        group, first = message.last.event.group, message.first.dests
        for process in message.dests:
            if group is None or process in first:
                self.meant[process] |= 1 << number
            else:
                key = process, group
                self.meant_later[key] = self.meant_later.get(key, 0) | 1 << number

    def _counts(self, event: Event) -> bool:
        message = event.msg
        if message is None or message not in self.number:
            return False
        return event.kind == "receive" or message.first.event is event

    def run(self) -> Causes:
        ready = deque(range(len(self.events)))
        while True:
            while ready:
                ready.extend(self._advance(ready.popleft()))
            blocked = [process for waiting in self.waiting.values() for process in waiting]
            if not blocked:
                break
            # A circle: each was received before the other was sent. The lowest receive is passed over.
            lowest = min(blocked, key=lambda process: self.events[process][self.next[process]].place)
            for waiting in self.waiting.values():
                if lowest in waiting:
                    waiting.remove(lowest)
            self.next[lowest] += 1
            ready.append(lowest)
        self.found.lacking.sort(key=lambda of: of[0].place)
        return self.found

    def _advance(self, process: int) -> list[int]:
        """Goes on along this process until it receives what was not come to yet. Returns the processes that
        waited for its casts."""
        freed: list[int] = []
        events = self.events[process]
        while self.next[process] < len(events):
            event = events[self.next[process]]
            assert event.msg is not None
            number = self.number[event.msg]
            if event.kind != "receive":
                self._send(process, number)
                freed += self.waiting.pop(number, ())
            else:
                before = self.before[number]
                if before is None:
                    self.waiting.setdefault(number, []).append(process)
                    break
                self._receive(process, event, number, before)
            self.next[process] += 1
        return freed

    def _send(self, process: int, number: int) -> None:
        message = self.found.casts[number]
        before = 0
        components, values = _label(message, inf)
        for known, these in self.past[process].items():
            if not set(known) <= set(components):
                continue
            mine = [values[components.index(component)] for component in known]
            if _is_below(these.highest, mine):
                before |= these.closed
            else:
                for theirs, other in these.casts:
                    if _is_below(theirs, mine):
                        before |= self._closed(other)
        self.before[number] = before
        self._learn(process, number)

    def _closed(self, number: int) -> int:
        return (self.before[number] or 0) | 1 << number

    def _learn(self, process: int, number: int) -> None:
        components, values = _label(self.found.casts[number], -inf)
        if not components:
            return
        known = self.past[process].get(components)
        if known is None:
            known = self.past[process][components] = _Known([-inf] * len(components))
        known.highest = list(map(max, known.highest, values))
        known.closed |= self._closed(number)
        known.casts.append((values, number))

    def _receive(self, process: int, event: Event, number: int, before: int) -> None:
        if self.isis.stands(process):
            self.found.relied_on |= before
        if before & self.abcasts and self.found.casts[number].kind == "cbcast":
            self.found.after_causal_abcast += 1
        meant = self.meant[process]
        if event.group is not None:
            meant |= self.meant_later.get((process, event.group), 0)
        lacking = before & meant & ~self.got[process]
        if lacking:
            lacking = sum(
                1 << other
                for other in _bits(lacking)
                if not self.isis.is_excused(self.found.casts[other], process, event.place)
            )
        if lacking:
            self.found.lacking.append((event, lacking))
        if not self.got[process] >> number & 1:
            self.got[process] |= 1 << number
            self._learn(process, number)


def _label(message: Cast, unknown: float) -> tuple[tuple[str, ...], Values]:
    """Its components, sorted, and their values. That of a causal ABCAST is a clock that its row does not show: it is
    above all that its sender knew, and below all that a process sends that knows it."""
    if message.kind == "abcast":
        return _DEFAULT, (unknown,)
    label = message.first.label
    components = tuple(sorted(label))
    return components, tuple(label[component] for component in components)


def _is_below(values: list[float] | Values, others: list[float]) -> bool:
    return all(value <= other for value, other in zip(values, others, strict=True))


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


# -- the checks ---------------------------------------------------------------------------------------------------


def _extended(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    causes = causes_of(h)
    for number in _bits(causes.relied_on):
        message = causes.casts[number]
        if isis.is_never_sent(message):
            continue
        for process in message.dests:
            if not isis.stands(process) or isis.is_excused(message, process):
                continue
            tally.cases += 1
            if process not in message.got:
                violate(
                    message.last.event,
                    f"{isis.name(process)}, a destination that stands, did not receive it, though a process that"
                    " stands received what it precedes",
                )


def _causal(h: History, tally: Tally) -> None:
    _count_lacking(h, tally, "cbcast", "cbcast")
    tally.cases += sum(len(message.receives) for message in h.isis.casts.values() if _is_cbcast(message))


def _causal_abcast(h: History, tally: Tally) -> None:
    _count_lacking(h, tally, "abcast", "")
    _count_lacking(h, tally, "cbcast", "abcast")
    tally.cases += causes_of(h).after_causal_abcast
    tally.cases += sum(len(m.receives) for m in causes_of(h).casts if m.kind == "abcast")


def _is_cbcast(message: Cast) -> bool:
    return bool(message.attempts) and message.kind == "cbcast"


def _count_lacking(h: History, tally: Tally, kind: str, lacking_kind: str) -> None:
    """Receives of casts of one kind that come before one of another, or, where that is empty, of any kind."""
    isis, violate = h.isis, violate_in(h, tally)
    causes = causes_of(h)
    for event, bits in causes.lacking:
        assert event.msg is not None
        if event.msg.kind != kind:
            continue
        for number in _bits(bits):
            other = causes.casts[number]
            if lacking_kind in ("", other.kind):
                violate(
                    event, f"the process did not receive before what precedes it: {isis.describe(other.last.event)}"
                )
                break


CHECKS = (
    IsisCheck(
        id="isis.extended",
        layer="isis",
        source="section 3.5",
        case="where settled: a cast that precedes one that a process that stands received; and a destination of it"
        " that stands",
        violated="the destination did not receive it",
        check=_extended,
    ),
    IsisCheck(
        id="isis.causal",
        layer="isis",
        source="section 3.3",
        case="a `receive` of a CBCAST",
        violated="the process did not receive before it a CBCAST that precedes it and is addressed to the process",
        check=_causal,
    ),
    IsisCheck(
        id="isis.causal-abcast",
        layer="isis",
        source="section 3.4",
        case="a `receive` of a causal ABCAST, or of a CBCAST that a causal ABCAST precedes",
        violated="the process did not receive before it a causal ABCAST that precedes it and is addressed to the"
        " process; or, of a causal ABCAST, a CBCAST that does",
        check=_causal_abcast,
    ),
)
