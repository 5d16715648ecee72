"""Clients that append to the log and follow it until they are stopped, and record every answer.

    python -m reconvene.lab.load.log_clients

A process of its own, as real clients are; `program.run_clients` has its orders. Its job is a `LogJob`, its report a
`LogReport`. A client has three writers on one connection: one appends single messages, many at the same time; one
appends bursts; one numbers its messages itself (`session`, `number`), and appends them again until it has a receipt.
A client also follows the log from the beginning, and calls a replicated map. One of a follower only follows, one of
an outpost only writes.
"""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct, field

from reconvene.client.connecting import connect
from reconvene.client.log import Log
from reconvene.client.pending_append import APPEND_BYTES
from reconvene.client.receipts import Receipt, Receipts
from reconvene.errors import OutcomeUnknown, PlaceForgotten, ReconveneError
from reconvene.lab.ledger.compare import keep
from reconvene.lab.ledger.digest import Digest, LogDigest
from reconvene.lab.ledger.linearizable import Call
from reconvene.lab.ledger.log import Append, payload
from reconvene.lab.load.fleet import ClientPlan
from reconvene.lab.load.map_calls import MAP, Caller
from reconvene.lab.load.pace import Pace, bursts
from reconvene.lab.load.program import TICK_S, Clients, run_clients
from reconvene.objects import ReplicatedMap

__all__ = ["WRITERS", "LogJob", "LogReport"]

WRITERS = ("single", "many", "named")
_CATCH_UP_S = 10.0
"""So much of the writing that a fault delayed is made up for."""
_BURST = 300
_TIMEOUT_S = 3.0
"""An append fails after so long without a connection."""
_SHORT_TIMEOUT_S = 1.0
"""The timeout of some appends: their writers do not wait for a site that stands still."""
_SHORT = 0.1
"""The share of appends with the short timeout."""
_ASKED = 0.5
"""The share of appends whose position is asked for."""
_AGAIN_S = 0.1
_CALLERS = 3
"""Callers of the map, for each client."""


class LogJob(Struct, frozen=True, kw_only=True):
    clients: list[ClientPlan]
    seed: int


class LogReport(Struct, kw_only=True):
    appends: list[Append] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """On the map."""
    followed: dict[str, Digest] = field(default_factory=dict)
    """By client."""
    errors: list[str] = field(default_factory=list)
    """Errors where they asked for positions or followed; they retried. The first ones."""
    faults: list[str] = field(default_factory=list)
    """Answers that never came."""


class Writer:
    def __init__(self, number: int, kind: str, rate: float, seed: int, report: LogReport, outpost: bool) -> None:
        self.number = number
        self._outpost = outpost
        self._kind = kind
        self._rate = rate
        self._report = report
        self._random = random.Random(f"{seed}/{number}")
        self._session = b"soak/%d/%d" % (seed, number)
        self._next = 1
        self._writing = True
        self._asking: set[asyncio.Task[None]] = set()
        self._trouble = ""
        """The last error where it asked for a position."""
        self.idle = False

    def quiet(self) -> None:
        self._writing = False

    @property
    def open(self) -> int:
        """How many answers it waits for."""
        return len(self._asking) + (not self.idle)

    async def write(self, log: Log) -> None:
        pace = Pace(_CATCH_UP_S)
        while self._writing:
            await asyncio.sleep(TICK_S * self._random.uniform(0.5, 1.5))
            for burst in bursts(pace.due(self._rate), self._random, _BURST):
                if self._writing:
                    await self._burst(log, burst)
        self.idle = True

    async def _burst(self, log: Log, count: int) -> None:
        first = self._next
        self._next += count
        messages = [payload(self.number, first + at) for at in range(count)]
        timeout = _SHORT_TIMEOUT_S if self._random.random() < _SHORT else None
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
        self._keep(number, 1, [receipt.id], int(receipt.duplicate), receipt)

    async def _many(self, log: Log, first: int, messages: Sequence[bytes], timeout: float | None) -> None:
        try:
            receipts = await log.append_many(messages, timeout=timeout)
        except ReconveneError as error:
            if error.taken:
                self._record(first, error.taken, "receipt")
            several = sum(map(len, messages)) > APPEND_BYTES  # then its parts have outcomes of their own
            unknown = several or isinstance(error, OutcomeUnknown)
            await self._failed(first + error.taken, len(messages) - error.taken, unknown)
            return
        self._keep(first, len(messages), receipts.ids, receipts.duplicate, receipts)

    async def _named(self, log: Log, first: int, messages: Sequence[bytes], timeout: float | None) -> None:
        while True:
            try:
                receipts = await log.append_many(messages, session=self._session, number=first, timeout=timeout)
            except ReconveneError:
                await asyncio.sleep(_AGAIN_S)
                continue
            self._keep(first, len(messages), receipts.ids, receipts.duplicate, receipts)
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
        append.ids, append.again, append.outpost = [known or "" for known in ids], again, self._outpost
        if self._random.random() < _ASKED:
            task = asyncio.create_task(self._ask(append, receipt))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, append: Append, receipt: Receipt | Receipts) -> None:
        while append.runs is None:
            try:
                found = await receipt.ordered()
            except PlaceForgotten as error:
                append.runs = [(position, 1) for position in error.positions]
            except ReconveneError as error:
                self._trouble = f"writer {self.number}, from {append.number} on: ordered: {error}"
                keep(self._report.errors, self._trouble)
                await asyncio.sleep(_AGAIN_S)
            else:
                append.runs = [(found, 1)] if isinstance(found, int) else list(found.runs)

    def waits(self) -> str:
        receipt = "" if self.idle else ", and a receipt"
        return f"writer {self.number}: {len(self._asking)} positions{receipt}; last error: {self._trouble or 'none'}"


class Client:
    def __init__(self, client: ClientPlan, seed: int, report: LogReport) -> None:
        self.name = f"client {client.number}"
        self._addresses = client.addresses
        self._report = report
        self._reads = client.place != "outpost"
        self.writers = [
            Writer(client.number * len(WRITERS) + at, kind, client.rate / len(WRITERS), seed, report, not self._reads)
            for at, kind in enumerate(WRITERS if client.place != "follower" else ())
        ]
        callers = _CALLERS if client.place == "site" else 0
        self.callers = [Caller(client.number * callers + at, seed, report.calls.append) for at in range(callers)]
        self._digest = LogDigest()

    async def live(self) -> None:
        async with connect(self._addresses, timeout=_TIMEOUT_S, wait=60.0) as site, AsyncExitStack() as opened:
            work = [writer.write(site.log) for writer in self.writers]
            # Until it is cancelled: positions are asked for on this connection after the writers are done.
            work.append(self._follow(site.log) if self._reads else _for_ever())
            if self.callers:
                kept = await opened.enter_async_context(ReplicatedMap(site.log, MAP))
                work += [caller.run(kept) for caller in self.callers]
            await asyncio.gather(*work)

    async def _follow(self, log: Log) -> None:
        while True:
            try:
                async for batch in log.follow(self._digest.next, control=True).batches():
                    self._digest.add(batch)
            except ReconveneError as error:
                keep(self._report.errors, f"{self.name}: follow: {error}")
                await asyncio.sleep(_AGAIN_S)

    def end(self) -> None:
        if self._reads:
            self._report.followed[self.name] = self._digest.digest()


async def _for_ever() -> None:
    await asyncio.Event().wait()


class LogClients(Clients):
    drain_s = 60.0

    def __init__(self, job: LogJob) -> None:
        self._report = LogReport()
        self._clients = [Client(client, job.seed, self._report) for client in job.clients]
        self._writers = [writer for client in self._clients for writer in client.writers]
        self._callers = [caller for client in self._clients for caller in client.callers]

    def lives(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [client.live() for client in self._clients]

    def quiet(self) -> None:
        for writer in self._writers:
            writer.quiet()
        for caller in self._callers:
            caller.quiet()

    @property
    def drained(self) -> bool:
        return not any(writer.open for writer in self._writers) and all(caller.idle for caller in self._callers)

    def report(self) -> LogReport:
        report = self._report
        report.faults += [f"no answer: {writer.waits()}" for writer in self._writers if writer.open]
        report.faults += ["no answer: a call on the map" for caller in self._callers if not caller.idle]
        for client in self._clients:
            client.end()
        return report


if __name__ == "__main__":
    run_clients(LogJob, LogClients)
