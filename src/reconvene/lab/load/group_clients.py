"""Clients that write to groups and read them until they are stopped, and check what they read.

    python -m reconvene.lab.load.group_clients

A process of its own, as real clients are; `program.run_clients` has its orders. Its job is a `GroupJob`, its report a
`GroupReport`.
"""

import asyncio
import random
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from reconvene.client.connecting import connect
from reconvene.client.events import Batch, Blocked, Rejoined, View
from reconvene.client.group import Group
from reconvene.client.site import Site
from reconvene.errors import OutcomeUnknown, ReconveneError
from reconvene.ids import Service
from reconvene.lab.ledger.group import HEAD_BYTES, GroupLedger, Reading, head, is_fifo
from reconvene.lab.load.fleet import ClientPlan
from reconvene.lab.load.pace import Pace, bursts
from reconvene.lab.load.program import TICK_S, Clients, run_clients

__all__ = ["GroupChoice", "GroupJob", "GroupReport", "Stream", "Written"]

_CATCH_UP_S = 1.0
"""So much of the writing that a stall delayed is made up for."""
_TIMEOUT_S = 3.0
_AGAIN_S = 0.1
_SMALL = (HEAD_BYTES, 200)
_LARGE = (70_000, 150_000)
"""Bytes of a message: most are small, and some larger than a frame."""


class GroupChoice(Struct, frozen=True):
    name: str
    primary: bool = False


class GroupJob(Struct, frozen=True, kw_only=True):
    clients: list[ClientPlan]
    groups: list[GroupChoice]
    seed: int
    large: float = 0.002
    """The share of messages that are large."""
    services: list[str] = field(default_factory=lambda: [service.label for service in Service])


class Stream(Struct, kw_only=True):
    """What a writer sent until something went wrong for it; fifo messages and others are counted separately."""

    number: int
    accepted: list[int] = field(default_factory=lambda: [0, 0])
    """Accepted by the site: [others, fifo]."""
    returned: list[int] = field(default_factory=lambda: [0, 0])
    """Delivered to this client: [others, fifo]."""
    broken: bool = False
    """The connection or the primary component was lost: what is missing may be lost with it."""

    @property
    def missing(self) -> int:
        return sum(self.accepted) - sum(self.returned)


class Written(Struct, kw_only=True):
    """The result of one writer in one group."""

    client: int
    group: str
    accepted: int = 0
    refused: int = 0
    unknown: int = 0
    """Messages of unknown outcome."""
    streams: list[Stream] = field(default_factory=list)

    def lost(self) -> list[str]:
        """Messages that were accepted and never delivered, though the stream is not broken."""
        return [
            f"client {self.client} in {self.group}: {stream.missing} messages of stream {stream.number} never came"
            for stream in self.streams
            if stream.missing > 0 and not stream.broken
        ]


class GroupReport(Struct, kw_only=True):
    written: list[Written] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Why memberships ended that were not left."""


class Share:
    """The rate of one client, divided among those of its groups in which it can write now."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._able: set[Membership] = set()

    def of(self, membership: "Membership", able: bool) -> float:
        """Messages a second that this membership may write now."""
        if not able:
            self._able.discard(membership)
            return 0.0
        self._able.add(membership)
        return self._rate / len(self._able)


class Membership:
    """One client in one group: its writer and its reader."""

    def __init__(self, job: GroupJob, client: ClientPlan, choice: GroupChoice, share: Share) -> None:
        self.written = Written(client=client.number, group=choice.name)
        self.ledger = GroupLedger(f"client {client.number}", choice.name)
        self.ended: list[str] = []
        self._choice = choice
        self._share = share
        self._large = job.large
        self._services = [service for service in Service if service.label in job.services]
        self._random = random.Random(f"{job.seed}/{client.number}/{choice.name}")
        self._streams: dict[int, Stream] = {}
        self._stream = Stream(number=-1)
        self._writing = True
        self._next_stream()

    def quiet(self) -> None:
        """Ends the writing."""
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
                self._share.of(self, able=False)
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
        """Messages that are under way may be lost."""
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
        pace = Pace(_CATCH_UP_S)
        while self._writing:
            await asyncio.sleep(TICK_S * self._random.uniform(0.5, 1.5))
            due = pace.due(self._share.of(self, able=not group.blocked))
            for burst in bursts(due, self._random, due):
                if self._writing:
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
            # Else the connection was lost while it waited, and another site, or the same site later, accepted the
            # rest.
            stream.accepted[fifo] += taken
        written.accepted += taken
        if stream is not self._stream and not any(stream.accepted):
            self._streams.pop(stream.number, None)  # such as streams of a writer that is refused repeatedly

    def _payloads(self, stream: int, fifo: bool, count: int) -> Iterator[bytes]:
        for _ in range(count):
            low, high = _LARGE if self._random.random() < self._large else _SMALL
            front = head(self.written.client, stream, fifo, self._numbers[fifo])
            self._numbers[fifo] += 1
            yield front + bytes(self._random.randint(low, high) - HEAD_BYTES)


class GroupClients(Clients):
    drain_s = 15.0

    def __init__(self, job: GroupJob) -> None:
        self._clients = [(client, self._memberships(job, client)) for client in job.clients]
        self._all = [membership for _, own in self._clients for membership in own]

    @staticmethod
    def _memberships(job: GroupJob, client: ClientPlan) -> list[Membership]:
        share = Share(client.rate)
        return [Membership(job, client, choice, share) for choice in job.groups]

    def lives(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [_live(client, own) for client, own in self._clients]

    def quiet(self) -> None:
        for membership in self._all:
            membership.quiet()

    @property
    def drained(self) -> bool:
        return all(membership.drained for membership in self._all)

    def report(self) -> GroupReport:
        return GroupReport(
            written=[membership.report() for membership in self._all],
            readings=[membership.ledger.end() for membership in self._all],
            ended=[why for membership in self._all for why in membership.ended],
        )


async def _live(client: ClientPlan, memberships: list[Membership]) -> None:
    async with connect(client.addresses, timeout=_TIMEOUT_S, wait=60.0) as site:
        await asyncio.gather(*(membership.live(site) for membership in memberships))


if __name__ == "__main__":
    run_clients(GroupJob, GroupClients)
