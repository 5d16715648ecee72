"""Load and observation of a group of ours: one site with one process inside it, as a program of its own.

    python -m reconvene.bench.site_load CONFIG throughput MEMBERS BYTES
    python -m reconvene.bench.site_load CONFIG latency MEMBERS BYTES COUNT PAUSE_US SERVICE send|listen
    python -m reconvene.bench.site_load CONFIG watch MEMBERS BYTES PER_SECOND

It speaks as `peers/cpg_load.c` does: {"members": n, "at": ns} at every regular view; a line on stdin starts it;
throughput gets "FROM TO" and tells {"from": n, "to": n, "cpu": s}; latency tells {"took": [ns, …]}. It ends when
stdin does. Only the public interface is used: what is measured is what an application gets.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from struct import Struct
from time import monotonic_ns, process_time

import msgspec

import reconvene
from reconvene.runtime.node import new_event_loop

__all__ = ["main"]

_STAMP = Struct("<Qq")
"""Carried at the front of every message: its number, when it was sent."""
_SLICE = 1_024


def _tell(line: object) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


class Load:
    def __init__(self, group: reconvene.Group, members: int) -> None:
        self.group = group
        self.members = members
        self.delivered = 0
        self.took: list[int] = []
        self.arrived: asyncio.Future[None] | None = None
        self.complete = asyncio.Event()
        """Every member has been there."""
        self.marks: list[tuple[int, str]] = []
        self.marked: dict[str, float] = {}

    async def count(self) -> None:
        """Reads batches, as an application in a hurry would."""
        async for event in self.group.batches():
            if type(event) is not reconvene.Batch:
                self.view(event)
                continue
            if self.marks and monotonic_ns() >= self.marks[0][0]:
                _, name = self.marks.pop(0)
                self.marked[name] = self.delivered
                self.marked[f"cpu_{name}"] = process_time()
            self.delivered += len(event.payloads)

    async def time(self) -> None:
        """Reads message by message, and notes how long each was under way."""
        async for event in self.group:
            if type(event) is not reconvene.Message:
                self.view(event)
                continue
            _, sent_ns = _STAMP.unpack_from(event.data)
            self.took.append(monotonic_ns() - sent_ns)
            if self.arrived is not None and not self.arrived.done():
                self.arrived.set_result(None)

    def view(self, event: object) -> None:
        if isinstance(event, reconvene.View) and event.kind == "regular":
            _tell({"members": len(event.members), "at": monotonic_ns()})
            if len(event.members) == self.members:
                self.complete.set()


async def throughput(load: Load, line: str, arguments: list[str]) -> None:
    size = int(arguments[0])
    start, end = map(int, line.split())
    load.marks = [(start, "from"), (end, "to")]
    payloads = [bytes(size)] * _SLICE
    while monotonic_ns() < end + 50_000_000:
        await load.group.send_many(payloads)
    while "to" not in load.marked:
        await asyncio.sleep(0.01)
    cpu = load.marked["cpu_to"] - load.marked["cpu_from"]
    _tell({"from": load.marked["from"], "to": load.marked["to"], "cpu": cpu})


async def latency(load: Load, line: str, arguments: list[str]) -> None:
    size, count, pause_us = map(int, arguments[:3])
    service, role = arguments[3:]
    loop = asyncio.get_running_loop()
    if role == "send":
        padding = bytes(max(0, size - _STAMP.size))
        for number in range(count):
            load.arrived = loop.create_future()
            await load.group.send(_STAMP.pack(number, monotonic_ns()) + padding, service)
            await load.arrived
            if pause_us:
                await asyncio.sleep(pause_us / 1e6)
    while len(load.took) < count:
        await asyncio.sleep(0.05)
    _tell({"took": load.took})


async def watch(load: Load, line: str, arguments: list[str]) -> None:
    size, per_second = map(int, arguments)
    payload = bytes(size)
    gap = max(0.002, 1 / per_second)
    burst = max(1, round(per_second * gap))
    while True:
        await load.group.send_many([payload] * burst)
        await asyncio.sleep(gap)


MODES: dict[str, Callable[[Load, str, list[str]], Awaitable[None]]] = {
    "throughput": throughput,
    "latency": latency,
    "watch": watch,
}


async def _main(config: str, mode: str, members: int, arguments: list[str]) -> None:
    async with reconvene.open(config) as site:
        load = Load(await site.join("bench"), members)
        reading = asyncio.create_task(load.time() if mode == "latency" else load.count())
        await load.complete.wait()
        lines = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        line = (await lines.readline()).decode()
        if line:
            working = asyncio.create_task(_work(MODES[mode], load, line, arguments))
            await lines.read()
            working.cancel()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _work(
    mode: Callable[[Load, str, list[str]], Awaitable[None]], load: Load, line: str, arguments: list[str]
) -> None:
    try:
        await mode(load, line, arguments)
    except reconvene.ReconveneError as error:
        print(error, file=sys.stderr)
        sys.stdout.close()


def main() -> None:
    config, mode, members, *arguments = sys.argv[1:]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_main(config, mode, int(members), arguments))


if __name__ == "__main__":
    main()
