"""Locks of `reconvene.objects`: a program that is a client of a site, and takes and releases locks by order.

    python -m reconvene.lab.load.isis_locks ADDRESS MEMBERS

It says {"ready": true} once the lock's group has so many members, and takes the same orders as
`bench/peers/etcd_locks.go`, a line each; and "others NAME COUNT": as "latency", with another lock each time. ADDRESS
is a site's socket, or a configuration file: then the site is inside this program.
"""

import asyncio
import sys
from time import monotonic_ns

import reconvene
from reconvene.lab.load.program import answer, open_orders, run_program
from reconvene.objects import Lock

__all__ = ["main"]

_GROUP = "locks"
_POLL_S = 0.02


async def _main(address: str, members: int) -> None:
    opened = reconvene.open(address) if address.endswith(".toml") else reconvene.connect(address)
    async with opened as site, Lock(site.isis, _GROUP) as lock:
        while len(lock.members) < members:
            await asyncio.sleep(_POLL_S)
        answer({"ready": True})
        orders = await open_orders()
        held: dict[str, asyncio.Event] = {}
        tasks = set()
        while words := (await orders.readline()).decode().split():
            match words:
                case ["latency", name, count]:
                    await _latency(lock, [name] * int(count))
                case ["others", name, count]:
                    await _latency(lock, [f"{name}/{number}" for number in range(int(count))])
                case ["take", name]:
                    held[name] = asyncio.Event()
                    tasks.add(asyncio.create_task(_take(lock, name, held[name])))
                case ["drop", name]:
                    held.pop(name).set()
                case _:
                    raise reconvene.Rejected(f"no such order: {' '.join(words)}")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _latency(lock: Lock, names: list[str]) -> None:
    took = []
    for name in names:
        began = monotonic_ns()
        async with lock.write(name):
            pass
        took.append(monotonic_ns() - began)
    answer({"took": took})


async def _take(lock: Lock, name: str, dropped: asyncio.Event) -> None:
    async with lock.write(name):
        answer({"got": name})
        await dropped.wait()
    answer({"dropped": name})


def main() -> None:
    address, members = sys.argv[1:]
    run_program(_main(address, int(members)))


if __name__ == "__main__":
    main()
