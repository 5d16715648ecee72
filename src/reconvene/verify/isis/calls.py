"""What a process may rely on: flush [3.5, 4.5], replies [3.5, 4.1], and the state that it is given [3.7]."""

from collections import deque
from collections.abc import Iterator

from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck, violate_in
from reconvene.verify.isis_history import Cast, Event, IsisHistory, Process
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]

ALL = -1
_CASTS = ("cbcast", "abcast", "gbcast")


# -- flush --------------------------------------------------------------------------------------------------------


def _flush(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    flushers = {i for i, process in enumerate(isis.processes) if any(e.kind == "flush" for e in process.events)}
    if not flushers:
        return
    knowledge = _Knowledge(isis, flushers)
    for index in sorted(flushers):
        for flush, message in _flushed(isis.processes[index]):
            for dest in message.dests:
                problem = _late(isis, knowledge, flush, message, dest)
                if problem is not None:
                    tally.cases += 1
                    if problem:
                        violate(flush, f"{isis.describe(message.last.event)} {problem}")


def _flushed(process: Process) -> Iterator[tuple[Event, Cast]]:
    """Each flush, and the casts that it covers and none before it did."""
    casts: list[Cast] = []
    for event in process.events:
        if event.kind in _CASTS:
            assert event.msg is not None
            if event.msg.first.event is event:
                casts.append(event.msg)
        elif event.kind == "flush" and event.msg in casts:
            last = casts.index(event.msg) + 1
            for message in casts[:last]:
                yield event, message
            del casts[:last]


def _late(isis: IsisHistory, knowledge: "_Knowledge", flush: Event, message: Cast, dest: int) -> str | None:
    """What is wrong; empty if nothing is. None: nothing can be said of this destination."""
    name, home = isis.name(dest), isis.processes[dest]
    received = message.got.get(dest)
    if received is not None:
        after = received.place > flush.place if home.site == flush.site else knowledge.has(received, flush)
        return f"was received by {name} only after it, at {isis.describe(received)}" if after else ""
    if isis.is_gone(dest) or isis.is_excused(message, dest):
        return None
    if isis.stands(dest) or home.site == flush.site or knowledge.has(home.events[-1], flush):
        return f"was not received by {name}"
    return None


class _Knowledge:
    """Of each event of a process: how far along some other processes it follows. A receive follows its cast, and an
    event of a process those before it."""

    def __init__(self, isis: IsisHistory, flushers: set[int]) -> None:
        self.isis = isis
        self.flushers = flushers
        self.known: list[dict[int, int]] = [{} for _ in isis.processes]
        """Of each process so far, by other process: the place of the highest event that precedes."""
        self.at: dict[Event, dict[int, int]] = {}
        """The same, at a cast, at a receive, and at a process's last event."""
        self.next = [0] * len(isis.processes)
        self._run()

    def has(self, event: Event, flush: Event) -> bool:
        """Does the flush precede this event?"""
        return self.at[event].get(flush.process, 0) >= flush.place

    def _run(self) -> None:
        waiting: dict[Event, list[int]] = {}
        ready = deque(range(len(self.isis.processes)))
        while True:
            while ready:
                self._advance(ready.popleft(), waiting, ready)
            blocked = [process for processes in waiting.values() for process in processes]
            if not blocked:
                return
            # A circle: each was received before the other was sent. The lowest receive counts as following nothing.
            lowest = min(blocked, key=lambda p: self.isis.processes[p].events[self.next[p]].place)
            for processes in waiting.values():
                if lowest in processes:
                    processes.remove(lowest)
            self._pass(lowest, self.isis.processes[lowest].events[self.next[lowest]], None)
            ready.append(lowest)

    def _advance(self, process: int, waiting: dict[Event, list[int]], ready: deque[int]) -> None:
        events = self.isis.processes[process].events
        while self.next[process] < len(events):
            event = events[self.next[process]]
            source = _source(event)
            if source is not None and source not in self.at:
                waiting.setdefault(source, []).append(process)
                return
            self._pass(process, event, source)
            ready.extend(waiting.pop(event, ()))

    def _pass(self, process: int, event: Event, source: Event | None) -> None:
        mine = self.known[process]
        if source is not None:
            for other, place in self.at[source].items():
                if mine.get(other, 0) < place:
                    mine[other] = place
        if process in self.flushers:
            mine[process] = event.place
        if event.kind == "receive" or event.kind in _CASTS or event is self.isis.processes[process].events[-1]:
            self.at[event] = dict(mine)
        self.next[process] += 1


def _source(event: Event) -> Event | None:
    """Of a receive: the cast that it is of."""
    if event.kind != "receive" or event.msg is None:
        return None
    attempt = event.msg.attempts.get(event.attempt)
    return attempt.event if attempt is not None else None


# -- replies ------------------------------------------------------------------------------------------------------


def _replies(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    answers, failures, knew = _told(isis)
    for message in isis.casts.values():
        if not message.attempts or message.first.replies != ALL or not isis.stands(message.sender):
            continue
        for dest in message.dests:
            answer = answers.get((message.sender, dest, message))
            is_silent = answer is None and (message.sender, dest, message) not in failures
            received = message.got.get(dest)
            # One that left after it received the request is still asked: it is alive, or its failure is told.
            if is_silent and received is None and isis.is_excused(message, dest):
                continue
            tally.cases += 1
            failed = knew.get((message.sender, dest))
            if is_silent:
                violate(message.last.event, f"{isis.name(dest)} neither answered nor failed")
            elif answer is not None and failed is not None and failed.place < answer.place:
                violate(answer, f"after {isis.describe(failed)}")


_ByRequest = dict[tuple[int, int, Cast | None], Event]
"""By process, the other process, and request."""


def _told(isis: IsisHistory) -> tuple[_ByRequest, _ByRequest, dict[tuple[int, int], Event]]:
    """The first answers and failures for a request, and the first failure for any."""
    answers: _ByRequest = {}
    failures: _ByRequest = {}
    knew: dict[tuple[int, int], Event] = {}
    for process in isis.processes:
        for event in process.events:
            if event.kind == "answer":
                answers.setdefault((event.process, event.sender, event.msg), event)
            elif event.kind == "failed":
                failures.setdefault((event.process, event.sender, event.msg), event)
                knew.setdefault((event.process, event.sender), event)
    return answers, failures, knew


# -- state --------------------------------------------------------------------------------------------------------


def _state(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    for process in isis.processes:
        since: dict[str, list[Event]] = {}
        """By group: the casts to it since the process became a member."""
        for event in process.events:
            group = event.group
            if group is None:
                continue
            if event.kind == "leave":
                since.pop(group, None)
            elif event.kind == "view":
                since.setdefault(group, [])
            elif event.kind in _CASTS and group in since:
                if event.msg is not None and event.msg.first.event is event:
                    since[group].append(event)
            elif event.kind == "state":
                tally.cases += 1
                if group not in since:
                    violate(event, "the process has no view of the group")
                elif since[group]:
                    violate(
                        event,
                        f"it cast to the group before its transfer was done, at {isis.describe(since[group][0])}",
                    )


CHECKS = (
    IsisCheck(
        id="isis.flush",
        layer="isis",
        source="section 3.5",
        case="a `flush`; a cast that it covers, and no earlier flush of the process did; and a destination of which"
        " something can be said",
        violated="it received the cast after the flush returned, or did not receive it",
        check=_flush,
    ),
    IsisCheck(
        id="isis.replies",
        layer="isis",
        source="sections 3.5 and 4.1",
        case="where settled: a request for all replies by a process that stands, and a destination",
        violated="there is neither its `answer` nor a `failed` of it for this request; or the `answer` comes after a"
        " `failed` of it",
        check=_replies,
    ),
    IsisCheck(
        id="isis.state",
        layer="isis",
        source="section 3.7",
        case="a `state`",
        violated="its process has no view of the group; or it cast to the group after it became a member and before"
        " this row. The next attempt of an earlier cast does not count",
        check=_state,
    ),
)
