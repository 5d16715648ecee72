"""Processes in ISIS groups that cast, ask, answer and give their state, until they are stopped; they check what they
receive.

    python -m reconvene.lab.load.isis_clients

A program of its own, which may be killed at any time; `program.run_clients` has its orders. Its job is an `IsisJob`,
its report an `IsisReport`.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

from msgspec import Struct, field

from reconvene.client.connecting import connect
from reconvene.client.events import Blocked, Process
from reconvene.client.isis import Isis, IsisGroup
from reconvene.client.isis_call import Call
from reconvene.client.isis_events import ALL, Action, Cast, GroupLeft, GroupView, Killed, Reply
from reconvene.errors import OutcomeUnknown, ReconveneError
from reconvene.lab.ledger.compare import keep
from reconvene.lab.ledger.isis import LABELLED, ORDERED, PLAIN, IsisLedger, IsisReading, head
from reconvene.lab.load.fleet import ClientPlan
from reconvene.lab.load.pace import Pace
from reconvene.lab.load.program import TICK_S, Clients, run_clients

__all__ = ["IsisJob", "IsisReport", "Tally"]

_CATCH_UP_S = 0.5
_TIMEOUT_S = 3.0
_AGAIN_S = 0.1
_SMALL = (20, 200)
_LARGE = (70_000, 150_000)
_LARGE_SHARE = 0.001
"""Of the casts: larger than a packet."""
_KINDS = {"cbcast": 60, "label": 12, "abcast": 14, "causal": 6, "call": 6, "ordered call": 2}
"""What a writer does, with weights."""
_GBCAST_SHARE = 0.002
_LEAVE_SHARE = 0.001
"""Of the casts: so many are a GBCAST, or are followed by leaving a group and joining it again."""
_OUTSIDE_SHARE = 0.1
"""Of the casts: to a group of which this process is no member."""
_WRITERS = 16
"""Of a process. Each waits for the site's answer to one cast before the next: 15 ms and more where many programs
share the processors."""
_OPEN_CALLS = 100


class IsisJob(Struct, frozen=True, kw_only=True):
    clients: list[ClientPlan]
    groups: list[str]
    joins: list[list[str]]
    """Of each client."""
    seed: int


class Tally(Struct, kw_only=True):
    """What became of the requests of one process. Each is counted once, when it ends."""

    accepted: int = 0
    refused: int = 0
    unknown: int = 0
    calls: int = 0
    answered: int = 0
    """Calls that got as many replies and failures as were asked for."""
    ended: int = 0
    """Calls that ended with an error: their process was killed, or their time was over."""
    replies: int = 0
    failures: int = 0
    """Of destinations, in place of replies."""
    open: list[str] = field(default_factory=list)
    """Requests that had not ended when this process did."""
    missing: list[str] = field(default_factory=list)
    """Streams of which accepted casts never came to their own writer, though it was not killed."""


class IsisReport(Struct, kw_only=True):
    readings: list[IsisReading] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Why connections ended that were not closed."""


class _Stream:
    """What a writer casts until something goes wrong for it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.next: dict[tuple[str, int], int] = {}
        self.missing = 0
        """Accepted casts to own groups that have not come back."""
        self.broken = False

    def take_number(self, group: str, kind: int) -> int:
        number = self.next.get((group, kind), 0)
        self.next[group, kind] = number + 1
        return number


class Member:
    """One process."""

    def __init__(self, job: IsisJob, client: ClientPlan, joins: Sequence[str]) -> None:
        self.number = client.number
        self.ledger = IsisLedger(client.number)
        self.tally = Tally()
        self.ended: list[str] = []
        self._plan = client
        self._joins = joins
        self._all = job.groups
        self._random = random.Random(f"isis/{job.seed}/{client.number}")
        self._streams: dict[int, _Stream] = {}
        self._current: dict[int, _Stream] = {}
        """By writer."""
        self._me: Process | None = None
        """As far as this was read."""
        self._groups: dict[str, IsisGroup] = {}
        self._leaving: set[str] = set()
        """Groups whose end has not been read."""
        self._open: set[str] = set()
        self._requests = 0
        self._writing = True
        self._tasks: set[asyncio.Task[None]] = set()

    def quiet(self) -> None:
        self._writing = False

    @property
    def drained(self) -> bool:
        return not self._open and not any(self._lacking())

    def _lacking(self) -> list[_Stream]:
        return [stream for stream in self._streams.values() if stream.missing > 0 and not stream.broken]

    def report(self) -> Tally:
        self.tally.open = [f"client {self.number}: {what}" for what in sorted(self._open)]
        self.tally.missing = [
            f"client {self.number}: {stream.missing} casts of stream {stream.number} never came"
            for stream in self._lacking()
        ]
        return self.tally

    async def live(self) -> None:
        while True:
            try:
                async with connect(self._plan.addresses, timeout=_TIMEOUT_S, wait=60.0) as site:
                    await self._be(site.isis)
            except ReconveneError as error:
                keep(self.ended, f"client {self.number}: {error}")
            self._open = {what for what in self._open if what.startswith("call ")}  # the others were given up
            self._me = None
            self._killed()
            await asyncio.sleep(_AGAIN_S)

    async def _be(self, isis: Isis) -> None:
        tasks = [asyncio.create_task(self._write(isis, writer)) for writer in range(_WRITERS)]
        tasks.append(asyncio.create_task(self._keep_joined(isis)))
        try:
            await self._read(isis)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- membership

    async def _keep_joined(self, isis: Isis) -> None:
        while True:
            for name in self._joins:
                if name not in self._groups and name not in self._leaving and self._writing:
                    await self._join(isis, name)
            await asyncio.sleep(_AGAIN_S)

    async def _join(self, isis: Isis, name: str) -> None:
        try:
            me = await isis.open()
            if self._me not in (None, me):
                return  # the end of the identity before has not been read
            self._me = me
            digest = self.ledger.begin(name)
            group = await isis.join(
                name, state=(lambda: [digest.pack()], lambda chunks: self.ledger.take(name, chunks))
            )
        except ReconveneError:
            await asyncio.sleep(_AGAIN_S)
            return
        self._groups[name] = group
        if isis.me != me:  # it has joined as another process, whose first events may be an earlier one's
            await self._leave(name)

    async def _leave(self, name: str) -> None:
        group = self._groups.pop(name, None)
        if group is None:
            return
        self._leaving.add(name)
        self._open.add(f"leave {name}")
        with suppress(ReconveneError):  # killed meanwhile
            await group.leave()
        self._open.discard(f"leave {name}")

    # -- reading

    async def _read(self, isis: Isis) -> None:
        ledger = self.ledger
        async for event in isis:
            match event:
                case Cast():
                    writer, number = ledger.cast(event)
                    if writer == self.number and number in self._streams:
                        self._streams[number].missing -= 1
                    if event.wants_reply:
                        self._spawn(self._reply(event))
                case Action():
                    ledger.action(event)
                case GroupView():
                    ledger.view(event)
                case GroupLeft():
                    ledger.left(event.group)
                    self._leaving.discard(event.group)
                case Blocked():
                    ledger.reading.blocked += 1
                case Killed():
                    self._me = event.me
                    self._killed()

    async def _reply(self, cast: Cast) -> None:
        with suppress(ReconveneError):  # killed meanwhile: its caller is told
            await cast.reply(crc32(cast.data).to_bytes(4))

    def _killed(self) -> None:
        """What is under way may be lost."""
        self.ledger.killed()
        self._groups.clear()
        self._leaving.clear()
        for stream in self._streams.values():
            stream.broken = stream.broken or stream.missing > 0
        self._current.clear()

    def _stream(self, writer: int) -> _Stream:
        stream = self._current.get(writer)
        if stream is None or stream.broken:
            stream = self._current[writer] = self._streams[len(self._streams)] = _Stream(len(self._streams))
        return stream

    # -- writing

    async def _write(self, isis: Isis, writer: int) -> None:
        """Several of them cast at once; each has its own streams."""
        pace = Pace(_CATCH_UP_S)
        kinds, weights = list(_KINDS), list(_KINDS.values())
        while self._writing:
            await asyncio.sleep(TICK_S * self._random.uniform(0.5, 1.5))
            for _ in range(pace.due(self._plan.rate / _WRITERS if self._groups else 0.0)):
                if not (self._groups and self._writing):
                    break
                (kind,) = self._random.choices(kinds, weights)
                await self._one(isis, writer, kind)

    async def _one(self, isis: Isis, writer: int, kind: str) -> None:
        chance = self._random
        own = list(self._groups)
        others = [name for name in self._all if name not in self._joins]
        if chance.random() < _GBCAST_SHARE:
            await self._request("gbcast", isis.gbcast(chance.randbytes(20), chance.choice(own)))
            return
        outside = bool(others) and chance.random() < _OUTSIDE_SHARE
        name = chance.choice(others if outside else own)
        await self._cast(isis, self._stream(writer), kind, name)
        if chance.random() < _LEAVE_SHARE:
            await self._leave(chance.choice(own))

    async def _cast(self, isis: Isis, stream: _Stream, kind: str, name: str) -> None:
        chance = self._random
        ordered = kind in ("abcast", "causal", "ordered call")
        stream_kind = ORDERED if ordered else LABELLED if kind == "label" else PLAIN
        number = stream.take_number(name, stream_kind)
        size = chance.randint(*(_LARGE if chance.random() < _LARGE_SHARE else _SMALL))
        data = head(self.number, stream.number, stream_kind, number) + chance.randbytes(size)
        asks = kind.endswith("call") and len(self._open) < _OPEN_CALLS
        replies = chance.choice((1, ALL)) if asks else 0
        timeout = 2.0 if asks and chance.random() < 0.2 else None
        if ordered:
            request = isis.abcast(
                data, name, label="queue", causal=kind == "causal", replies=replies, timeout=timeout
            )
        else:
            label = "topic" if kind == "label" else None
            request = isis.cbcast(data, name, label=label, replies=replies, timeout=timeout)
        own = name in self._groups
        if own:
            stream.missing += 1  # it may come back before the site's answer does
        call = await self._request(kind, request)
        if call is None:
            stream.broken = True
        elif asks:
            self._spawn(self._hear(call, replies, crc32(data).to_bytes(4)))

    async def _request(self, kind: str, request: Coroutine[Any, Any, Call]) -> Call | None:
        """Waits until the site has it. None: it failed. Where it is cancelled, it stays open."""
        self._requests += 1
        what = f"cast {self._requests}, {kind}"
        self._open.add(what)
        call = None
        try:
            call = await request
            self.tally.accepted += 1
        except OutcomeUnknown:
            self.tally.unknown += 1
        except ReconveneError:
            self.tally.refused += 1
        self._open.discard(what)
        return call

    async def _hear(self, call: Call, asked: int, expected: bytes) -> None:
        what = f"call {call.id}"
        self._open.add(what)
        self.tally.calls += 1
        heard = []
        try:
            async for reply in call:
                heard.append(reply.sender if isinstance(reply, Reply) else reply.process)
                if isinstance(reply, Reply):
                    self.tally.replies += 1
                    if reply.data != expected:
                        self._fault(f"{what}: {reply.sender} answered another one")
                else:
                    self.tally.failures += 1
            self.tally.answered += 1
            if len(set(heard)) != len(heard):
                self._fault(f"{what}: one process answered twice: {heard}")
            if asked != ALL and len(heard) > asked:
                self._fault(f"{what}: {len(heard)} replies, where {asked} were asked for")
        except OutcomeUnknown:
            self.tally.ended += 1
        self._open.discard(what)

    def _fault(self, what: str) -> None:
        keep(self.ledger.reading.faults, f"client {self.number}: {what}")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class IsisClients(Clients):
    drain_s = 20.0

    def __init__(self, job: IsisJob) -> None:
        self._members = [Member(job, plan, joins) for plan, joins in zip(job.clients, job.joins, strict=True)]

    def lives(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [member.live() for member in self._members]

    def quiet(self) -> None:
        for member in self._members:
            member.quiet()

    @property
    def drained(self) -> bool:
        return all(member.drained for member in self._members)

    def report(self) -> IsisReport:
        return IsisReport(
            readings=[member.ledger.reading for member in self._members],
            tallies=[member.report() for member in self._members],
            ended=[why for member in self._members for why in member.ended],
        )


if __name__ == "__main__":
    run_clients(IsisJob, IsisClients)
