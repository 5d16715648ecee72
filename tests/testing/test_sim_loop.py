"""The event loop in virtual time: what asyncio programs rely on holds, and what can't be simulated is refused."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

import reconvene
from reconvene.testing import Cluster, NotSimulated, Stuck, TimedOut
from reconvene.testing.loop import SimLoop
from reconvene.testing.process import Process

Scenario = Callable[[], Coroutine[Any, Any, Any]]


def run(main: Scenario, limit_s: int = 100_000) -> Any:
    loop = SimLoop(Random(0), limit_s * 10**9)
    try:
        return loop.run_until_complete(main())
    finally:
        loop.end()


def test_time_is_virtual_in_all_of_asyncio() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        await asyncio.sleep(3600)
        times.append(loop.time())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50):
                await asyncio.Event().wait()
        times.append(loop.time())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 7)
        times.append(loop.time())
        await asyncio.wait([asyncio.create_task(asyncio.sleep(1)), asyncio.create_task(asyncio.sleep(5))], timeout=3)
        times.append(loop.time())
        return times

    assert run(main) == [0, 3600, 3650, 3657, 3660]


def test_what_is_due_at_one_moment_comes_in_the_order_in_which_it_was_set() -> None:
    async def main() -> list[int]:
        loop, seen = asyncio.get_running_loop(), list[int]()
        for number in range(50):
            loop.call_later(1, seen.append, number)
        loop.call_later(0.5, seen.append, -1)
        await asyncio.sleep(2)
        return seen

    assert run(main) == [-1, *range(50)]


def test_a_set_of_tasks_has_one_order() -> None:
    """asyncio keeps tasks in sets, which go by addresses otherwise: a TaskGroup cancels in their order."""

    async def main() -> list[str]:
        ended: list[str] = []

        async def work(name: str) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(name)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError

        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                for number in range(20):
                    tasks.create_task(work(str(number)))
                tasks.create_task(fail())

        with pytest.raises(ExceptionGroup):
            await group()
        return ended

    assert run(main) == run(main)


def test_a_deadlock_fails_at_once_and_says_what_waits() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(forgotten(), name="the forgotten one")

    with pytest.raises(Stuck, match=r"nothing can happen any more\. .*the forgotten one at test_sim_loop.py:\d+"):
        run(main)


def test_a_wait_that_only_heartbeats_interrupt_is_a_deadlock() -> None:
    """Three sites beacon for ever, and a client that is connected sends its signs of life."""

    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as site:
            async for _ in site.log.follow():
                pass

    with pytest.raises(Stuck, match=r"waits for something .*test_sim_loop.py:\d+ async for _ in site.log.follow"):
        Cluster(1).run(scenario)


def test_waiting_for_a_site_that_nobody_starts_is_a_deadlock() -> None:
    """The client goes on looking for it, for ever."""

    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as site:
            net.crash("a")
            async for _ in site.log.follow():
                pass

    with pytest.raises(Stuck, match=r"at 6.*Waiting: the scenario at test_sim_loop.py:\d+ async for _ in [^;]*$"):
        Cluster(1).run(scenario)


def test_a_long_sleep_is_no_deadlock() -> None:
    async def scenario(net: Cluster) -> float:
        async with net.connect("a"):
            await asyncio.sleep(500)
        return asyncio.get_running_loop().time()

    assert Cluster(1).run(scenario) > 500


def test_virtual_time_has_a_limit() -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(TimedOut, match=r"not ended after 1min of virtual time.*await asyncio.sleep\(1\)"):
        run(main, limit_s=60)


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda loop: asyncio.to_thread(print), "a thread"),
        (lambda loop: loop.run_in_executor(None, print), "a thread"),
        (lambda loop: loop.getaddrinfo("localhost", 80), "the resolver"),
        (lambda loop: asyncio.open_unix_connection("/tmp/x"), "a Unix socket"),
        (lambda loop: asyncio.start_unix_server(print, "/tmp/x"), "a Unix socket"),
        (lambda loop: asyncio.create_subprocess_exec("true"), "a subprocess"),
        (lambda loop: asyncio.create_subprocess_shell("true"), "a subprocess"),
        (lambda loop: loop.add_signal_handler(signal.SIGTERM, print), "a signal"),
        (lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol), "a real socket"),
        (lambda loop: loop.sock_accept(None), "a real socket"),
        (lambda loop: loop.add_reader(sys.stdin, print), "a real socket"),
    ],
)
def test_what_is_not_simulated_is_refused(use: Callable[[asyncio.AbstractEventLoop], Any], what: str) -> None:
    async def main() -> None:
        await use(asyncio.get_running_loop())

    with pytest.raises(NotSimulated, match=what + r".*simulated event loop; docs/testing\.md"):
        run(main)


def test_a_thread_that_calls_is_refused() -> None:
    async def main() -> list[BaseException]:
        loop, errors = asyncio.get_running_loop(), list[BaseException]()

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return errors

    (error,) = run(main)
    assert isinstance(error, NotSimulated)


def test_real_addresses_are_refused() -> None:
    async def tcp(net: Cluster) -> None:
        await asyncio.open_connection("example.org", 80)

    async def site(net: Cluster) -> None:
        async with reconvene.connect("unix:/run/site.sock"):
            pass

    async def tls(net: Cluster) -> None:
        async with reconvene.connect(net.address("a"), tls=True):
            pass

    with pytest.raises(NotSimulated, match=r"example.org:80: there is no such machine .* name of a site: a, b"):
        Cluster(2).run(tcp)
    with pytest.raises(NotSimulated, match="a Unix socket"):
        Cluster(1).run(site)
    with pytest.raises(NotSimulated, match="TLS"):
        Cluster(1).run(tls)


def test_a_paused_process_stands_still_and_a_dead_one_is_gone() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        seen: list[str] = []

        async def work(name: str) -> None:
            try:
                while True:
                    await asyncio.sleep(1)
                    seen.append(f"{name} {loop.time():g}")
            finally:
                seen.append(f"{name} ends")  # a killed process does not get here

        processes = [Process(name, 0) for name in "ab"]
        for process in processes:
            process.context.run(loop.create_task, work(process.name))
        await asyncio.sleep(1.5)
        processes[0].paused = True
        processes[1].die()
        await asyncio.sleep(10)
        loop.resume(processes[0])
        await asyncio.sleep(1.2)
        return list(seen)

    assert run(main) == ["a 1", "b 1", "a 11.5", "a 12.5"]
