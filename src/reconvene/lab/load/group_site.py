"""Load on a group: a program with one site and one member inside it.

    python -m reconvene.lab.load.group_site CONFIG MEMBERS throughput|latency|watch [HOST:PORT]

It works like `bench/peers/cpg_load.c`: JSON lines on stdout, {"members": n, "at": ns} at every regular view. When all
MEMBERS are there it takes orders on stdin, one after the other, and answers each:

    throughput  "FROM TO BYTES [profile]": sends until TO; answers {"from": n, "to": n, …}, its deliveries up to each
                moment, and what happened in between, once all messages of all members are delivered
    latency     "COUNT BYTES PAUSE_US SERVICE send|listen"; answers {"took": [ns, …]}, by message
    watch       "BYTES PER_SECOND": sends at this rate, answers only views

It ends when stdin does. It uses only the public interface, so it measures what an application gets. Datagrams to
HOST:PORT are read in the same event loop, and dropped: the least that a flood can cost a site.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from resource import RUSAGE_SELF, getrusage
from struct import Struct
from time import monotonic_ns
from typing import Any

import reconvene
from reconvene.lab.load.flood import bound, read_turn
from reconvene.lab.load.program import answer, open_orders, run_program
from reconvene.lab.load.sampler import Sampler

__all__ = ["END", "OVER_NS", "SLICE", "STAMP", "Load", "main", "throughput"]

STAMP = Struct("<Qq")
"""The beginning of every timed message: its number, and when it was sent."""
SLICE = 1_024
END = b"end"
"""The last message of a sender."""
OVER_NS = 50_000_000
"""The load continues for so long after the measured time."""


class Load:
    def __init__(self, site: reconvene.Site, group: reconvene.Group, members: int) -> None:
        self.site = site
        self.group = group
        self.members = members
        self.delivered = 0
        self.took: list[int] = []
        self.arrived: asyncio.Future[None] | None = None
        self.complete = asyncio.Event()
        """All members have joined."""
        self.changed = asyncio.Event()
        """There was another view since."""
        self.marks: list[int] = []
        """When to take notes."""
        self.noted: list[dict[str, Any]] = []
        self.ends = 0
        self.ended = asyncio.Event()
        """All messages of all members are delivered."""
        self.sampler: Sampler | None = None

    async def count(self) -> None:
        """Reads batches, as a fast application does."""
        async for event in self.group.batches():
            if type(event) is not reconvene.Batch:
                self.view(event)
                continue
            if self.marks and monotonic_ns() >= self.marks[0]:
                await self.note()
            self.delivered += len(event.payloads)
            if event.payloads[-1] == END:
                self.ends += 1
                if self.ends == self.members:
                    self.ended.set()

    async def note(self) -> None:
        self.marks.pop(0)
        if self.sampler is not None:
            if self.noted:
                self.sampler.stop()
            else:
                self.sampler.start()
        used = getrusage(RUSAGE_SELF)
        status = await self.site.status()
        self.noted.append(
            {
                "delivered": self.delivered,
                "user": used.ru_utime,
                "system": used.ru_stime,
                "counters": status.counters,
            }
        )

    async def time(self) -> None:
        """Reads message by message, and records how long each took."""
        async for event in self.group:
            if type(event) is not reconvene.Message:
                self.view(event)
                continue
            _, sent_ns = STAMP.unpack_from(event.data)
            self.took.append(monotonic_ns() - sent_ns)
            if self.arrived is not None and not self.arrived.done():
                self.arrived.set_result(None)

    def refuse_a_change(self) -> None:
        """Raises Unavailable if the group changed: messages may be missing."""
        if self.changed.is_set():
            raise reconvene.Unavailable("the group changed meanwhile: a site was suspected, or has ended")

    def view(self, event: object) -> None:
        if isinstance(event, reconvene.View) and event.kind == "regular":
            answer({"members": len(event.members), "at": monotonic_ns()})
            if self.complete.is_set():
                self.changed.set()
            elif len(event.members) == self.members:
                self.complete.set()


async def throughput(load: Load, arguments: list[str], service: str = "agreed") -> None:
    start, end, size = map(int, arguments[:3])
    load.sampler = Sampler() if arguments[3:] else None
    load.noted, load.ends = [], 0
    load.ended.clear()
    load.marks = [start, end]
    payloads = [bytes(size)] * SLICE
    while monotonic_ns() < end + OVER_NS:
        await load.group.send_many(payloads, service)
    await load.group.send(END, service)
    await _either(load.ended, load.changed)
    load.refuse_a_change()
    if len(load.noted) < 2:
        raise reconvene.Unavailable("nothing was delivered after the measured time")
    first, last = load.noted
    counted = {name: count - first["counters"].get(name, 0) for name, count in last["counters"].items()}
    figures: dict[str, object] = {"from": first["delivered"], "to": last["delivered"], "counted": counted}
    figures |= {name: last[name] - first[name] for name in ("user", "system")}
    if load.sampler is not None:
        figures["profile"] = [[*place, count] for place, count in load.sampler.seen.items()]
    answer(figures)


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def latency(load: Load, arguments: list[str]) -> None:
    count, size, pause_us = map(int, arguments[:3])
    service, role = arguments[3:]
    if role == "send":
        loop = asyncio.get_running_loop()
        padding = bytes(max(0, size - STAMP.size))
        for number in range(count):
            load.arrived = loop.create_future()
            await load.group.send(STAMP.pack(number, monotonic_ns()) + padding, service)
            await load.arrived
            load.refuse_a_change()
            if pause_us:
                await asyncio.sleep(pause_us / 1e6)
    while len(load.took) < count:
        load.refuse_a_change()
        await asyncio.sleep(0.05)
    answer({"took": load.took[:count]})
    # Not at the start: another member may have started, and sent, a little earlier.
    del load.took[:count]


async def watch(load: Load, arguments: list[str]) -> None:
    size, per_second = map(int, arguments)
    payload = bytes(size)
    gap = max(0.002, 1 / per_second)
    burst = max(1, round(per_second * gap))
    while True:
        await load.group.send_many([payload] * burst)
        await asyncio.sleep(gap)


MODES: dict[str, Callable[[Load, list[str]], Awaitable[None]]] = {
    "throughput": throughput,
    "latency": latency,
    "watch": watch,
}


async def _main(config: str, members: int, mode: str, sink: str = "") -> None:
    if sink:
        host, _, port = sink.rpartition(":")
        sock = bound((host, int(port)))
        asyncio.get_running_loop().add_reader(sock, read_turn, sock, bytearray(1 << 16))
    async with reconvene.open(config) as site:
        load = Load(site, await site.join("bench"), members)
        reading = asyncio.create_task(load.time() if mode == "latency" else load.count())
        await load.complete.wait()
        orders = await open_orders()
        working = None
        while line := (await orders.readline()).decode():
            working = asyncio.create_task(_work(MODES[mode], load, line.split()))
        for task in filter(None, (working, reading)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _work(mode: Callable[[Load, list[str]], Awaitable[None]], load: Load, arguments: list[str]) -> None:
    try:
        await mode(load, arguments)
    except reconvene.ReconveneError as error:
        print(error, file=sys.stderr)
        sys.stdout.close()


def main() -> None:
    config, members, mode, *sink = sys.argv[1:]
    run_program(_main(config, int(members), mode, *sink))


if __name__ == "__main__":
    main()
