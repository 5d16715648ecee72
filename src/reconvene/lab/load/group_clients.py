"""Clients that write and read for as long as they are told to, and check what they read.

    python -m reconvene.lab.load.group_clients REPORT < JOB

A process of its own, so that sites have clients as in life. The first line of its standard input is a `Job`; a second
line, whatever it says, ends the writing, and it answers with a line of its own when all that it wrote has come back.
At the end of its input it writes what it saw, a `Report`, into the file REPORT, and ends.
"""

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, field

from reconvene.client.connecting import connect
from reconvene.client.events import Batch, Blocked, Rejoined, View
from reconvene.client.group import Group
from reconvene.client.site import Site
from reconvene.errors import OutcomeUnknown, ReconveneError
from reconvene.ids import Service
from reconvene.lab.ledger.group import HEAD_BYTES, Ledger, Reading, head, is_fifo
from reconvene.lab.load.fleet import DRAINED, first_line
from reconvene.runtime.node.main import new_event_loop

__all__ = ["Client", "GroupChoice", "Job", "Report", "Stream", "Written", "main"]

_TICK_S = 0.02
_CATCH_UP_S = 1.0
"""Of writing that a stall held up, so much is made good."""
_TIMEOUT_S = 3.0
_AGAIN_S = 0.1
_DRAIN_S = 15.0
"""What was accepted has come back by then, or will not."""
_SMALL = (HEAD_BYTES, 200)
_LARGE = (70_000, 150_000)
"""Bytes of a message: most are small, and some larger than a frame."""


class GroupChoice(Struct, frozen=True):
    name: str
    primary: bool = False


class Client(Struct, frozen=True):
    number: int
    """Its messages carry it: unique in the run."""
    addresses: list[str]
    rate: float
    """Messages a second, in all its groups together."""


class Job(Struct, frozen=True, kw_only=True):
    clients: list[Client]
    groups: list[GroupChoice]
    seed: int
    large: float = 0.002
    """The share of messages that are large."""
    services: list[str] = field(default_factory=lambda: [service.label for service in Service])


class Stream(Struct, kw_only=True):
    """What a writer sent until something went wrong for it; fifo messages and others counted apart."""

    number: int
    accepted: list[int] = field(default_factory=lambda: [0, 0])
    """By the site: others, fifo."""
    returned: list[int] = field(default_factory=lambda: [0, 0])
    """Delivered here."""
    broken: bool = False
    """The connection or the primary component was lost, so that what is missing may be lost with it."""

    @property
    def missing(self) -> int:
        return sum(self.accepted) - sum(self.returned)


class Written(Struct, kw_only=True):
    """What came of one writer in one group."""

    client: int
    group: str
    accepted: int = 0
    refused: int = 0
    unknown: int = 0
    """It was not told whether they were taken."""
    streams: list[Stream] = field(default_factory=list)

    def lost(self) -> list[str]:
        """Messages that were accepted and never came back, though nothing had broken."""
        return [
            f"client {self.client} in {self.group}: {stream.missing} messages of stream {stream.number} never came"
            for stream in self.streams
            if stream.missing > 0 and not stream.broken
        ]


class Report(Struct, kw_only=True):
    written: list[Written] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Why memberships ended, where that was not asked for."""


class Pace:
    """What one client writes is shared out among those of its groups in which it can."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._able: set[Membership] = set()

    def share(self, membership: "Membership", able: bool) -> float:
        """Messages a second that this one may write now."""
        if not able:
            self._able.discard(membership)
            return 0.0
        self._able.add(membership)
        return self._rate / len(self._able)


class Membership:
    """One client in one group: its writer and its reader."""

    def __init__(self, job: Job, client: Client, choice: GroupChoice, pace: Pace) -> None:
        self.written = Written(client=client.number, group=choice.name)
        self.ledger = Ledger(f"client {client.number}", choice.name)
        self.ended: list[str] = []
        self._choice = choice
        self._pace = pace
        self._large = job.large
        self._services = [service for service in Service if service.label in job.services]
        self._random = random.Random(f"{job.seed}/{client.number}/{choice.name}")
        self._streams: dict[int, Stream] = {}
        self._stream = Stream(number=-1)
        self._writing = True
        self._next_stream()

    def quiet(self) -> None:
        """Nothing more is written."""
        self._writing = False

    @property
    def drained(self) -> bool:
        return not any(stream.missing > 0 and not stream.broken for stream in self._streams.values())

    def report(self) -> Written:
        self.written.streams = list(self._streams.values())
        return self.written

    async def live(self, site: Site) -> None:
        while True:
            try:
                group = await site.join(self._choice.name, primary=self._choice.primary)
            except ReconveneError:
                await asyncio.sleep(_AGAIN_S)
                continue
            writer = asyncio.create_task(self._write(group))
            try:
                await self._read(group)
            except ReconveneError as error:
                self.ended.append(str(error))
            finally:
                writer.cancel()
                self._pace.share(self, able=False)
            self._broke()
            self.ledger.rejoined()
            await asyncio.sleep(_AGAIN_S)

    # -- reading

    async def _read(self, group: Group) -> None:
        ledger = self.ledger
        async for event in group.batches():
            match event:
                case Batch():
                    self._returned(ledger.batch(event))
                case View():
                    ledger.view(event)
                case Blocked():
                    ledger.blocked()
                    self._broke()
                case Rejoined():
                    ledger.rejoined()
                    self._broke()

    def _returned(self, seen: list[tuple[int, int, bool]]) -> None:
        own = self.written.client
        for writer, stream, fifo in seen:
            if writer == own and stream in self._streams:
                self._streams[stream].returned[fifo] += 1

    def _broke(self) -> None:
        """What is under way may be lost."""
        for stream in self._streams.values():
            if stream.missing > 0 or stream is self._stream:
                stream.broken = True
        self._next_stream()

    # -- writing

    def _next_stream(self) -> None:
        self._stream = Stream(number=self._stream.number + 1)
        self._streams[self._stream.number] = self._stream
        self._numbers = [0, 0]

    async def _write(self, group: Group) -> None:
        done_until = time.monotonic()
        while self._writing:
            await asyncio.sleep(_TICK_S * self._random.uniform(0.5, 1.5))
            now = time.monotonic()
            rate = self._pace.share(self, able=not group.blocked)
            if not rate:
                done_until = now
                continue
            done_until = max(done_until, now - _CATCH_UP_S)
            due = int((now - done_until) * rate)
            done_until += due / rate
            while due > 0 and self._writing:
                burst = self._random.randint(1, due)
                due -= burst
                await self._burst(group, self._random.choice(self._services), burst)

    async def _burst(self, group: Group, service: Service, count: int) -> None:
        stream, fifo = self._stream, is_fifo(service)
        payloads = list(self._payloads(stream.number, fifo, count))
        written = self.written
        try:
            taken = await group.send_many(payloads, service)
            moved = stream is not self._stream
        except ReconveneError as error:
            taken = error.taken
            moved = stream is not self._stream
            if isinstance(error, OutcomeUnknown):
                stream.broken = True
                written.unknown += count - taken
            else:
                written.refused += count - taken
            if stream is self._stream:
                self._next_stream()
            await asyncio.sleep(_AGAIN_S)
        except asyncio.CancelledError:
            stream.broken = True
            written.unknown += count
            raise
        if not moved:
            # Else it waited while the connection was lost, and another site, or the same one anew, took it.
            stream.accepted[fifo] += taken
        written.accepted += taken
        if stream is not self._stream and not any(stream.accepted):
            self._streams.pop(stream.number, None)  # such as those of a writer that is refused, again and again

    def _payloads(self, stream: int, fifo: bool, count: int) -> Iterator[bytes]:
        for _ in range(count):
            low, high = _LARGE if self._random.random() < self._large else _SMALL
            front = head(self.written.client, stream, fifo, self._numbers[fifo])
            self._numbers[fifo] += 1
            yield front + bytes(self._random.randint(low, high) - HEAD_BYTES)


async def run(job: Job, orders: asyncio.StreamReader) -> Report:
    memberships: list[Membership] = []
    async with asyncio.TaskGroup() as tasks:
        lives = []
        for client in job.clients:
            pace = Pace(client.rate)
            own = [Membership(job, client, choice, pace) for choice in job.groups]
            memberships += own
            lives.append(tasks.create_task(_live(client, own)))
        if await orders.readline():
            for membership in memberships:
                membership.quiet()
            await _drain(memberships)
            sys.stdout.buffer.write(DRAINED)
            sys.stdout.flush()
            await orders.read()
        for life in lives:
            life.cancel()
    return Report(
        written=[membership.report() for membership in memberships],
        readings=[membership.ledger.end() for membership in memberships],
        ended=[why for membership in memberships for why in membership.ended],
    )


async def _live(client: Client, memberships: list[Membership]) -> None:
    async with connect(client.addresses, timeout=_TIMEOUT_S, wait=60.0) as site:
        await asyncio.gather(*(membership.live(site) for membership in memberships))


async def _drain(memberships: list[Membership]) -> None:
    give_up_at = time.monotonic() + _DRAIN_S
    while not all(membership.drained for membership in memberships) and time.monotonic() < give_up_at:
        await asyncio.sleep(_TICK_S)


async def _main(job: Job) -> Report:
    orders = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(orders)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return await run(job, orders)


def main() -> int:
    job = msgspec.json.decode(first_line(), type=Job)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        report = runner.run(_main(job))
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
