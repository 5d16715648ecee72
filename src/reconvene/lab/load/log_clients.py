"""Clients that append to the log and follow it for as long as they are told to, and keep what they were told.

    python -m reconvene.lab.load.log_clients REPORT < JOB

A process of its own, as `ClientFleet` has them. A client has three writers on one connection: one that appends single
messages, many at a time; one that appends bursts; and one that names its messages itself, and appends them again
until it has a receipt. It follows the log from the beginning, and it calls on a replicated map.
"""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from reconvene.client.connecting import connect
from reconvene.client.log import Log
from reconvene.client.pieces import FLIGHT_BYTES
from reconvene.client.receipts import Receipt, Receipts
from reconvene.errors import OutcomeUnknown, ReconveneError
from reconvene.lab.ledger.digest import Digest, LogDigest
from reconvene.lab.ledger.linearizable import Call
from reconvene.lab.ledger.log import Append, payload
from reconvene.lab.load.fleet import DRAINED, first_line
from reconvene.lab.load.map_calls import MAP, Caller
from reconvene.objects import ReplicatedMap
from reconvene.runtime.node.main import new_event_loop

__all__ = ["WRITERS", "LogClient", "LogJob", "LogReport", "main"]

WRITERS = ("single", "many", "named")
_TICK_S = 0.02
_CATCH_UP_S = 10.0
"""Of writing that a fault held up, so much is made good."""
_BURST = 300
_TIMEOUT_S = 3.0
"""Without a connection an append fails after so long …"""
_HURRY_S = 1.0
"""… and some are in a hurry: their writers do not wait for a site that stands still."""
_HURRY = 0.1
_ASKED = 0.5
"""The share of appends whose position is asked for."""
_AGAIN_S = 0.1
_CALLERS = 3
"""Of the map, for each client."""
_DRAIN_S = 60.0
_KEPT = 20


class LogClient(Struct, frozen=True):
    number: int
    addresses: list[str]
    rate: float
    """Messages a second, of its writers together."""


class LogJob(Struct, frozen=True, kw_only=True):
    clients: list[LogClient]
    seed: int


class LogReport(Struct, kw_only=True):
    appends: list[Append] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """On the map."""
    followed: dict[str, Digest] = field(default_factory=dict)
    """By client."""
    errors: list[str] = field(default_factory=list)
    """That they were told where they asked for positions or followed, and asked again; the first ones."""
    faults: list[str] = field(default_factory=list)
    """What they waited for in vain."""


class Writer:
    def __init__(self, number: int, kind: str, rate: float, seed: int, report: LogReport) -> None:
        self.number = number
        self._kind = kind
        self._rate = rate
        self._report = report
        self._random = random.Random(f"{seed}/{number}")
        self._session = b"soak/%d/%d" % (seed, number)
        self._next = 1
        self._writing = True
        self._asking: set[asyncio.Task[None]] = set()
        self.idle = False

    def quiet(self) -> None:
        self._writing = False

    @property
    def open(self) -> int:
        """What it waits for."""
        return len(self._asking) + (not self.idle)

    async def write(self, log: Log) -> None:
        done_until = time.monotonic()
        while self._writing:
            await asyncio.sleep(_TICK_S * self._random.uniform(0.5, 1.5))
            now = time.monotonic()
            done_until = max(done_until, now - _CATCH_UP_S)
            due = int((now - done_until) * self._rate)
            done_until += due / self._rate
            while due > 0 and self._writing:
                burst = self._random.randint(1, min(due, _BURST))
                due -= burst
                await self._burst(log, burst)
        self.idle = True

    async def _burst(self, log: Log, count: int) -> None:
        first = self._next
        self._next += count
        messages = [payload(self.number, first + at) for at in range(count)]
        timeout = _HURRY_S if self._random.random() < _HURRY else None
        match self._kind:
            case "single":
                await asyncio.gather(
                    *(self._single(log, first + at, data, timeout) for at, data in enumerate(messages))
                )
            case "many":
                await self._many(log, first, messages, timeout)
            case _:
                await self._named(log, first, messages, timeout)

    async def _single(self, log: Log, number: int, data: bytes, timeout: float | None) -> None:
        try:
            receipt = await log.append(data, timeout=timeout)
        except ReconveneError as error:
            await self._failed(number, 1, isinstance(error, OutcomeUnknown))
            return
        self._keep(number, 1, [receipt.id], int(receipt.again), receipt)

    async def _many(self, log: Log, first: int, messages: Sequence[bytes], timeout: float | None) -> None:
        try:
            receipts = await log.append_many(messages, timeout=timeout)
        except ReconveneError as error:
            if error.taken:
                self._record(first, error.taken, "receipt")
            several = sum(map(len, messages)) > FLIGHT_BYTES  # then parts of it had fates of their own
            unknown = several or isinstance(error, OutcomeUnknown)
            await self._failed(first + error.taken, len(messages) - error.taken, unknown)
            return
        self._keep(first, len(messages), receipts.ids, receipts.again, receipts)

    async def _named(self, log: Log, first: int, messages: Sequence[bytes], timeout: float | None) -> None:
        while True:
            try:
                receipts = await log.append_many(messages, session=self._session, number=first, timeout=timeout)
            except ReconveneError:
                await asyncio.sleep(_AGAIN_S)
                continue
            self._keep(first, len(messages), receipts.ids, receipts.again, receipts)
            return

    async def _failed(self, first: int, count: int, unknown: bool) -> None:
        self._record(first, count, "unknown" if unknown else "refused")
        await asyncio.sleep(_AGAIN_S)

    def _record(self, first: int, count: int, outcome: str) -> Append:
        append = Append(self.number, first, count, outcome)
        self._report.appends.append(append)
        return append

    def _keep(self, first: int, count: int, ids: list[str | None], again: int, receipt: Receipt | Receipts) -> None:
        append = self._record(first, count, "receipt")
        append.ids, append.again = [known or "" for known in ids], again
        if self._random.random() < _ASKED:
            task = asyncio.create_task(self._ask(append, receipt))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, append: Append, receipt: Receipt | Receipts) -> None:
        while append.runs is None:
            try:
                told = await receipt.ordered()
            except ReconveneError as error:
                _note(self._report, f"writer {self.number}, from {append.number} on: ordered: {error}")
                await asyncio.sleep(_AGAIN_S)
            else:
                append.runs = [(told, 1)] if isinstance(told, int) else list(told.runs)

    def waits(self) -> str:
        return f"writer {self.number}: {len(self._asking)} positions" + ("" if self.idle else ", and a receipt")


class Client:
    def __init__(self, client: LogClient, seed: int, report: LogReport) -> None:
        self.name = f"client {client.number}"
        self._addresses = client.addresses
        self._report = report
        self.writers = [
            Writer(client.number * len(WRITERS) + at, kind, client.rate / len(WRITERS), seed, report)
            for at, kind in enumerate(WRITERS)
        ]
        self.callers = [Caller(client.number * _CALLERS + at, seed, report.calls.append) for at in range(_CALLERS)]
        self._digest = LogDigest()

    async def live(self) -> None:
        async with (
            connect(self._addresses, timeout=_TIMEOUT_S, wait=60.0) as site,
            ReplicatedMap(site.log, MAP) as kept,
        ):
            await asyncio.gather(
                self._follow(site.log),
                *(writer.write(site.log) for writer in self.writers),
                *(caller.run(kept) for caller in self.callers),
            )

    async def _follow(self, log: Log) -> None:
        while True:
            try:
                async for batch in log.follow(self._digest.next, control=True).batches():
                    self._digest.add(batch)
            except ReconveneError as error:
                _note(self._report, f"{self.name}: follow: {error}")
                await asyncio.sleep(_AGAIN_S)

    def end(self) -> None:
        self._report.followed[self.name] = self._digest.digest()


def _note(report: LogReport, what: str) -> None:
    if len(report.errors) < _KEPT:
        report.errors.append(what)


def _at_work(writers: Sequence[Writer], callers: Sequence[Caller]) -> bool:
    return any(writer.open for writer in writers) or not all(caller.idle for caller in callers)


async def run(job: LogJob, orders: asyncio.StreamReader) -> LogReport:
    report = LogReport()
    clients = [Client(client, job.seed, report) for client in job.clients]
    writers = [writer for client in clients for writer in client.writers]
    callers = [caller for client in clients for caller in client.callers]
    async with asyncio.TaskGroup() as tasks:
        lives = [tasks.create_task(client.live()) for client in clients]
        if await orders.readline():
            for writer in writers:
                writer.quiet()
            for caller in callers:
                caller.quiet()
            give_up_at = time.monotonic() + _DRAIN_S
            while _at_work(writers, callers) and time.monotonic() < give_up_at:
                await asyncio.sleep(_TICK_S)
            sys.stdout.buffer.write(DRAINED)
            sys.stdout.flush()
            await orders.read()
        for life in lives:
            life.cancel()
    report.faults += [f"in vain: {writer.waits()}" for writer in writers if writer.open]
    report.faults += ["in vain: a call on the map" for caller in callers if not caller.idle]
    for client in clients:
        client.end()
    return report


async def _main(job: LogJob) -> LogReport:
    orders = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(orders)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return await run(job, orders)


def main() -> int:
    job = msgspec.json.decode(first_line(), type=LogJob)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        report = runner.run(_main(job))
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
