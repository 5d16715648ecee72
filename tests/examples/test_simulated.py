"""The airline and the job queue under faults, in virtual time: what their pages promise holds whatever happens.

Their offices and workers run as they are, one beside each site.
"""

import asyncio
import importlib
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.sim.chunks import few

import reconvene
from reconvene.testing import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def airline(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("airline")


@pytest.fixture
def job_queue(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("job_queue")


async def break_something(net: Cluster) -> None:
    """One fault for a while; before the next one all is mended."""
    name = random.choice(net.names)
    match random.randrange(5):
        case 0:
            net.partition([[name], [other for other in net.names if other != name]])
        case 1:
            net.partition([[other] for other in net.names])
        case 2:
            net.crash(name)
        case 3:
            net.pause(name)
        case _:
            net.fill_disk(name)
    await asyncio.sleep(random.uniform(0.1, 15))
    if random.random() < 0.3 and net.state(name) == "up":
        net.crash(name)
        await asyncio.sleep(random.uniform(0.1, 3))
    await net.repair()
    await asyncio.sleep(random.uniform(0.1, 3))


# -- the airline


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_all_offices_agree_and_a_firm_seat_is_kept(airline: ModuleType, seed: int) -> None:
    told: dict[str, str] = {}

    async def office(address: str, passengers: list[str]) -> None:
        """Sells until it has sold to all of them; after a crash, to those who are left."""
        async with reconvene.connect(address, wait=60, timeout=5) as site:
            flight = airline.Flight()
            async with site.log.run(flight) as runner:
                one = airline.Office(site, flight, runner)
                while passengers:
                    passenger = passengers.pop()
                    told[passenger] = "nothing"
                    try:
                        told[passenger] = await one.sell(passenger)
                    except reconvene.ReconveneError:
                        told[passenger] = "that the office has trouble"
                    await asyncio.sleep(random.uniform(1, 4))

    async def scenario(net: Cluster) -> list[tuple[list[str], list[str]]]:
        offices = [
            net.spawn(name, office, net.address(name), [f"{name}{number}" for number in range(6)])
            for name in net.names
        ]
        for _ in range(3):
            await break_something(net)
        for one in offices:
            await one.wait()
        found = []
        for name in net.names:
            async with net.connect(name) as site:
                flight = airline.Flight()
                async with site.log.run(flight) as runner:
                    await runner.caught_up()
                    found.append((flight.seated, flight.refused))
        return found

    flights = Cluster("abc", seed=seed).run(scenario)
    seated, refused = flights[0]
    assert flights == [(seated, refused)] * 3
    assert len(seated) <= airline.SEATS
    assert len(set(seated) | set(refused)) == len(seated) + len(refused), "nobody is booked twice"
    assert {who for who, what in told.items() if what == "a seat"} <= set(seated)
    assert {who for who, what in told.items() if what.startswith("no seat")}.isdisjoint(seated)
    assert {who for who, what in told.items() if what == "a ticket, to be confirmed"} <= {*seated, *refused}


def test_a_minority_sells_its_quota_and_all_of_it_flies(airline: ModuleType) -> None:
    """With one partition the majority keeps back what the minority may sell: no blind ticket is refused."""

    async def scenario(net: Cluster) -> tuple[list[str], list[str]]:
        async with net.connect("a") as a, net.connect("b") as b:
            flights = [airline.Flight(), airline.Flight()]
            async with a.log.run(flights[0]) as at_a, b.log.run(flights[1]) as at_b:
                small, large = airline.Office(a, flights[0], at_a), airline.Office(b, flights[1], at_b)
                net.partition([["a"], ["b", "c"]])
                await net.wait_for()
                blind = [await small.sell(f"blind {number}") for number in range(4)]
                assert [answer[:8] for answer in blind] == ["a ticket", "a ticket", "no seat:", "no seat:"]
                for number in range(9):
                    await large.sell(f"firm {number}")
                net.heal()
                await asyncio.gather(*(receipt.ordered() for receipt in small.unconfirmed))
                await at_a.caught_up()
                return flights[0].seated, flights[0].refused

    seated, refused = Cluster("abc").run(scenario)
    assert len(seated) == airline.SEATS
    assert seated[-2:] == ["blind 0", "blind 1"]
    assert all(name.startswith("firm") for name in refused)


# -- the job queue


async def worker(job_queue: ModuleType, address: str, done: list[Any]) -> None:
    """Takes jobs and does them. Where its site has trouble it ends, and is started again, as a supervisor would."""
    while True:
        try:
            await work(job_queue, address, done)
        except* reconvene.ReconveneError:
            await asyncio.sleep(1)


async def work(job_queue: ModuleType, address: str, done: list[Any]) -> None:
    async with reconvene.connect(address, wait=60, timeout=5) as site:
        queue = job_queue.Queue()
        async with site.log.run(queue) as runner, asyncio.TaskGroup() as tasks:
            one = job_queue.Worker(site, await site.join("workers", primary=True), queue, runner)
            tasks.create_task(one.watch())
            while True:
                task = await one.take()
                if task is not None:
                    await asyncio.sleep(random.uniform(0.1, 2))
                    if await one.counted(task, await one.finish(task)):
                        done.append(task)
                await asyncio.sleep(0.5)


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_every_job_is_finished_once(job_queue: ModuleType, seed: int) -> None:
    async def scenario(net: Cluster) -> tuple[list[Any], list[str]]:
        done: list[Any] = []
        for name in net.names:
            net.spawn(name, worker, job_queue, net.address(name), done)
        async with net.connect("a", "b", "c", timeout=60) as site:
            queue = job_queue.Queue()
            async with site.log.run(queue) as runner:
                for number in range(8):
                    await site.log.append(job_queue.msgspec.json.encode(job_queue.Put(f"job {number}")), timeout=120)
                for _ in range(3):
                    await break_something(net)
                while len(queue.finished) < 8:
                    await asyncio.sleep(1)
                await runner.caught_up()
                return done, [job.what for job in queue.finished]

    done, finished = Cluster("abc", seed=seed, limit="10min").run(scenario)
    assert sorted(finished) == [f"job {number}" for number in range(8)]
    assert len({task.what for task in done}) == len(done), "no two workers were told that they had done one job"


def test_a_take_that_gets_its_place_after_its_worker_is_gone(job_queue: ModuleType) -> None:
    """Its site had accepted it, was cut off, and crashed. The job must not stay with a worker that is no more."""

    async def joined(site: reconvene.Site, queue: Any, runner: reconvene.Runner) -> Any:
        return job_queue.Worker(site, await site.join("workers", primary=True), queue, runner)

    async def cut_off(address: str, ready: asyncio.Event, cut: asyncio.Event) -> None:
        async with reconvene.connect(address) as site:
            queue = job_queue.Queue()
            async with site.log.run(queue) as runner:
                one = await joined(site, queue, runner)
                ready.set()
                await cut.wait()
                await one.take()

    async def scenario(net: Cluster) -> str:
        ready, cut = asyncio.Event(), asyncio.Event()
        program = net.spawn("c", cut_off, net.address("c"), ready, cut)
        await ready.wait()
        async with net.connect("a") as site:
            queue = job_queue.Queue()
            async with site.log.run(queue) as runner, asyncio.TaskGroup() as tasks:
                one = await joined(site, queue, runner)
                watching = tasks.create_task(one.watch())
                await one.put("the only job")
                await runner.caught_up()
                net.partition([["a", "b"], ["c"]])
                cut.set()
                await asyncio.sleep(0.1)
                program.kill()
                net.crash("c")
                await net.wait_for()
                net.heal()
                await net.restart("c")
                program.kill()
                await net.wait_for()
                while not any(job.worker for job in queue.open):
                    await asyncio.sleep(0.1)
                task = await one.take()
                watching.cancel()
                return str(task.what)

    assert Cluster("abc", limit="2min").run(scenario) == "the only job"
