"""Load on the log: a program with one site inside it, which uses only the public interface.

    python -m reconvene.lab.load.log_site CONFIG [watch]

With `watch` it measures every few milliseconds how late its loop is. It answers {"open_ms": …} once it has started,
and {"ready": true} once the log is in a primary component. Then it takes orders on stdin, one after the other, and
answers each with one line of JSON:

    throughput FROM TO BYTES OUTSTANDING BATCH    {"ordered": n}: those that became green between the two moments (ns)
    latency COUNT BYTES                           {"took": [ms, …]}: appends one at a time, from call to green
    accept SECONDS BYTES                          {"accepted": n}: made durable here, ordered or not
    red COUNT BYTES                               {"accepted": n}: COUNT appended and durable, not ordered
    green COUNT                                   {"at": ns}: when the green line had reached COUNT
    several COUNT BYTES                           {"ms": ms}: COUNT appended at once, until all are green
    stood                                         {"stood_ms": …, "work_ms": …, "turn_ms": …, "configurations": n}:
                                                  the longest time that the loop was blocked, the most processor
                                                  time that it used meanwhile, and the site's longest turn
    block NAME,…                                  {"blocked": true}: datagrams from and to these sites are dropped
    status                                        {"status": {…}}, with this process's memory
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage
from time import monotonic, monotonic_ns, thread_time_ns
from typing import Any

import reconvene
from reconvene.client.status import document
from reconvene.lab.load.program import answer, open_orders, run_program

__all__ = ["main"]

_PAGE_BYTES = getpagesize()
_SLICE = 1_000
_BEGUN_EVERY_S = 0.01
_AHEAD = 16
"""Requests that wait to be durable at the same time."""
_RED_BYTES = 16 << 20
"""Bytes of one such request."""
_LOOK_EVERY_S = 0.002


async def throughput(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    start, end, size, outstanding, batch = map(int, arguments)
    ordered = 0
    payloads = [bytes(size)] * batch
    log = site.log

    async def many() -> None:
        nonlocal ordered
        while monotonic_ns() < end:
            receipts = await log.append_many(payloads)
            await receipts.ordered()
            if start <= monotonic_ns() < end:
                ordered += batch

    async def one() -> None:
        nonlocal ordered
        payload = payloads[0]
        while monotonic_ns() < end:
            receipt = await log.append(payload)
            await receipt.ordered()
            if start <= monotonic_ns() < end:
                ordered += 1

    await asyncio.gather(*(one() if batch == 1 else many() for _ in range(outstanding)))
    return {"ordered": ordered}


async def latency(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    count, size = map(int, arguments)
    took = []
    for _ in range(count):
        begin = monotonic_ns()
        await (await site.log.append(bytes(size))).ordered()
        took.append((monotonic_ns() - begin) / 1e6)
    return {"took": took}


async def accept(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    seconds, size = float(arguments[0]), int(arguments[1])
    end = monotonic() + seconds
    accepted = 0

    async def work() -> None:
        nonlocal accepted
        while monotonic() < end:
            await site.log.append_many([bytes(size)] * 100)
            accepted += 100

    with suppress(reconvene.Unavailable):  # its limit is reached: what was accepted before counts
        await asyncio.gather(*(work() for _ in range(_AHEAD)))
    return {"accepted": accepted}


async def red(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    count, size = map(int, arguments)
    left = count
    while left:
        now = min(left, _SLICE * _AHEAD, max(1, _RED_BYTES // size))
        await site.log.append_many([bytes(size)] * now)
        left -= now
    return {"accepted": count}


async def green(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    wanted = int(arguments[0])
    while True:
        status = await site.log.status()
        if status.green >= wanted:
            return {"at": monotonic_ns(), "green": status.green}
        await asyncio.sleep(0.002)


async def block(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    names = [name for name in "".join(arguments).split(",") if name]
    await site.block(names, names)
    return {"blocked": True}


async def status(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    return {"status": document(await site.log.status()), "resident": resident, "cpu": getrusage(RUSAGE_SELF).ru_utime}


async def several(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    count, size = map(int, arguments)
    data = b"G" * size
    begin = monotonic_ns()

    async def one() -> None:
        await (await site.log.append(data)).ordered()

    await asyncio.gather(*(one() for _ in range(count)))
    return {"ms": (monotonic_ns() - begin) / 1e6}


class Standstills:
    """The longest time that the loop was blocked."""

    def __init__(self) -> None:
        self.stood_ns = 0
        self.work_ns = 0
        """The most processor time of the loop's thread between two looks: the site's own share of that time."""
        self._at = monotonic_ns()
        self._worked = thread_time_ns()

    async def look(self) -> None:
        while True:
            self._at, self._worked = monotonic_ns(), thread_time_ns()
            await asyncio.sleep(_LOOK_EVERY_S)
            self.stood_ns = max(self.stood_ns, monotonic_ns() - self._at)
            self.work_ns = max(self.work_ns, thread_time_ns() - self._worked)


STANDSTILLS = Standstills()


async def stood(site: reconvene.Site, arguments: list[str]) -> dict[str, Any]:
    status = await site.status()
    return {
        "stood_ms": STANDSTILLS.stood_ns / 1e6,
        "work_ms": STANDSTILLS.work_ns / 1e6,
        "turn_ms": status.longest_turn_ms,
        "configurations": status.configurations,
    }


COMMANDS: dict[str, Callable[[reconvene.Site, list[str]], Awaitable[dict[str, Any]]]] = {
    "throughput": throughput,
    "latency": latency,
    "accept": accept,
    "red": red,
    "green": green,
    "several": several,
    "stood": stood,
    "block": block,
    "status": status,
}


async def _begun(site: reconvene.Site) -> None:
    """Waits for the log to begin, once all of its sites are together: before that it accepts nothing."""
    status = await site.log.status()
    while status.waits is not None:
        await asyncio.sleep(_BEGUN_EVERY_S)
        status = await site.log.status()


async def _main(config: str, watch: bool) -> None:
    began = monotonic_ns()
    async with reconvene.open(config) as site:
        opened = monotonic_ns()
        looking = asyncio.create_task(STANDSTILLS.look()) if watch else None
        orders = await open_orders()
        answer({"open_ms": (opened - began) / 1e6})
        await _begun(site)
        await site.log.barrier()
        answer({"ready": True})
        while line := (await orders.readline()).decode().split():
            answer(await COMMANDS[line[0]](site, line[1:]))
        if looking is not None:
            looking.cancel()


def main() -> None:
    run_program(_main(sys.argv[1], "watch" in sys.argv[2:]))


if __name__ == "__main__":
    main()
