"""A coordinator and its cohorts: each request is answered, its effect is there once, and nobody starts it twice."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.objects.storm import ISIS, storm

import reconvene
from reconvene import UNORDERED, OutcomeTimedOut, OutcomeUnknown, Process, Rejected, Unavailable
from reconvene.objects import Cohort, CohortCaller, Outcome
from reconvene.testing import Cluster

Make = Callable[..., Cluster]


class Tickets:
    """Which requests have got a ticket, and how often."""

    def __init__(self) -> None:
        self.sold: Counter[str] = Counter()

    def apply(self, update: bytes, sender: Process) -> None:
        self.sold[update.decode()] += 1

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.sold, order="deterministic")

    def restore(self, data: bytes) -> None:
        self.sold = Counter(msgspec.msgpack.decode(data, type=dict[str, int]))


class Oracle:
    def __init__(self) -> None:
        self.runs: Callable[[str], bool] = lambda name: True
        self.unaware: set[str] = set()
        """Sites that were cut off or stood still. A member there runs a request until it knows; and a caller there
        may have an answer of that member."""
        self.running: dict[str, list[str]] = {}
        """By request: the members that run it."""
        self.answered: set[str] = set()
        self.tickets: dict[str, Tickets] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.found: list[str] = []
        self.started = 0
        self.unknown = 0
        self.stop = False

    def start(self, name: str, request: str) -> None:
        self.started += 1
        others = [other for other in self.running.setdefault(request, []) if self.runs(other)]
        if others and self.unaware.isdisjoint({name, *others}):
            self.found.append(f"{request}: {name} starts it while {others} run it")
        if request in self.answered and request[0] not in self.unaware:
            self.found.append(f"{request}: {name} starts it, and it is answered")
        self.running[request].append(name)

    def end(self, name: str, request: str) -> None:
        self.running[request] = [other for other in self.running[request] if other != name]

    def judge(self) -> list[str]:
        found = [*self.found]
        sold = [tickets.sold for tickets in self.tickets.values()]
        if any(one != sold[0] for one in sold):
            found.append("copies differ")
        found += [f"{request}: {times} times" for request, times in sold[0].items() if times != 1]
        lost = sorted(request for request in self.answered - set(sold[0]) if request[0] not in self.unaware)
        return found + [f"{request}: answered, and forgotten" for request in lost]


async def member(address: str, name: str, oracle: Oracle) -> None:
    for running in oracle.running.values():
        if name in running:
            running.remove(name)  # it was killed

    async def run(request: bytes) -> Outcome:
        oracle.start(name, request.decode())
        try:
            await asyncio.sleep(random.expovariate(20))
            return Outcome(b"ticket for " + request, request)
        finally:
            oracle.end(name, request.decode())

    tickets = Tickets()
    async with (
        reconvene.connect(address, wait=120) as site,
        Cohort(site.isis, "tickets", run, data=tickets) as cohort,
    ):
        oracle.tickets[name], oracle.cohorts[name] = tickets, cohort
        await asyncio.Event().wait()


async def caller(net: Cluster, name: str, oracle: Oracle) -> None:
    """At no machine: it is never killed, but its site may be."""
    async with net.connect(name, wait=120) as site, CohortCaller(site.isis, "tickets") as tickets:
        number = 0
        while not oracle.stop:
            number += 1
            request = f"{name}{number}"
            try:
                assert await tickets.call(request.encode(), timeout=60) == b"ticket for " + request.encode()
                oracle.answered.add(request)
            except (OutcomeUnknown, Unavailable):
                oracle.unknown += 1
            except Rejected as error:
                if "no such group" not in str(error) and "nobody" not in str(error):
                    raise
            await asyncio.sleep(random.expovariate(10))


def run(cluster: Make, seed: int, rounds: int = 5, kinds: tuple[str, ...] = ("kill",)) -> Oracle:
    async def scenario(net: Cluster) -> Oracle:
        oracle = Oracle()
        programs = [net.spawn(name, member, net.address(name), name, oracle) for name in net.names]
        of = dict(zip(net.names, programs, strict=True))
        oracle.runs = lambda name: of[name].running and net.state(name) == "up"
        while len(oracle.cohorts) < 3:
            await asyncio.sleep(0.1)
        callers = [asyncio.create_task(caller(net, name, oracle)) for name in net.names]
        await storm(net, programs, rounds, kinds, oracle.unaware)
        await asyncio.sleep(1)
        oracle.stop = True
        await asyncio.gather(*callers)
        for cohort in oracle.cohorts.values():
            await cohort.ready()
        await asyncio.sleep(2)
        for cohort in oracle.cohorts.values():
            assert (cohort._open, cohort._done, cohort._casts, cohort._told) == ({}, {}, {}, [])
        for program in programs:
            program.kill()
        return oracle

    return cluster("abc", seed=seed, settings=ISIS).run(scenario)


@pytest.mark.parametrize("seed", range(1))
def test_members_are_killed(cluster: Make, seed: int) -> None:
    oracle = run(cluster, seed)
    assert oracle.judge() == []
    assert len(oracle.answered) > 50
    assert oracle.started > len(oracle.answered), "some were started again"


def test_planted_every_member_starts_it(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cohort, "_nearest", lambda self, caller: self._isis.me)
    assert any("while" in line for line in run(cluster, 0, rounds=1).found)


def test_crashes_partitions_and_pauses(cluster: Make) -> None:
    oracle = run(cluster, 1, kinds=("crash", "part", "pause"))
    assert oracle.judge() == []
    assert len(oracle.answered) > 50


@pytest.mark.long("test_members_are_killed and test_crashes_partitions_and_pauses have one seed each")
@pytest.mark.parametrize("seed", range(2, 14))
def test_more_faults(cluster: Make, seed: int) -> None:
    for kinds in (("kill",), ("crash", "kill"), ("crash", "kill", "part", "pause")):
        assert run(cluster, seed, 8, kinds).judge() == []


# -- one by one


async def starting(address: str, name: str, started: list[str], lasts_s: float = 0.0) -> None:
    """A member that notes what it runs."""

    async def run(request: bytes) -> bytes:
        started.append(name)
        await asyncio.sleep(lasts_s)
        return name.encode()

    async with reconvene.connect(address, wait=60) as site, Cohort(site.isis, "names", run):
        await asyncio.Event().wait()


def answered_and_crashed(cluster: Make) -> list[str]:
    """The coordinator b fails when its answer has reached the caller at a, and *done* has not reached c."""

    async def scenario(net: Cluster) -> list[str]:
        started: list[str] = []
        for name in ("b", "c"):
            net.spawn(name, starting, net.address(name), name, started)
        async with net.connect("a") as a, CohortCaller(a.isis, "names") as names:
            while not any(len(group.members) == 2 for group in await a.isis.groups()):
                await asyncio.sleep(0.1)
            net.cut("b", "c")
            assert await names.call(b"?", timeout=30) == b"b"
            net.crash("b")
            net.mend("b", "c")
            await asyncio.sleep(10)
        return started

    return cluster("abc", settings=ISIS).run(scenario)


def test_what_is_answered_is_not_run_again(cluster: Make) -> None:
    assert answered_and_crashed(cluster) == ["b"]


class Words:
    """What has been changed."""

    def __init__(self) -> None:
        self.all: list[bytes] = []

    def apply(self, update: bytes, sender: Process) -> None:
        self.all.append(update)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.all)

    def restore(self, data: bytes) -> None:
        self.all = msgspec.msgpack.decode(data)


@pytest.mark.parametrize("inside", [True, False])
def test_what_is_answered_in_a_part_that_is_lost_is_lost_unless_it_is_flushed(cluster: Make, inside: bool) -> None:
    """A member at c runs what it is asked for there, before c knows that it is cut off."""

    async def run(request: bytes) -> Outcome:
        return Outcome(request, request)

    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("c") as c, net.connect("c") as beside:
            copies = [Words(), Words()]
            async with (
                Cohort(a.isis, "words", run, data=copies[0]) as there,
                Cohort(c.isis, "words", run, data=copies[1]) as here,
                CohortCaller(beside.isis, "words") as caller,
            ):
                call, isis = (here.call, c.isis) if inside else (caller.call, beside.isis)
                assert await call(b"kept", timeout=5) == b"kept"
                await isis.flush()
                net.partition([["a", "b"], ["c"]])
                assert await call(b"lost", timeout=5) == b"lost"
                flushing = asyncio.create_task(isis.flush())
                await asyncio.sleep(10)
                assert not flushing.done(), "all of it may yet come out well"
                net.heal()
                with pytest.raises(Unavailable):
                    await flushing
                await here.ready(timeout=30)
                assert await there.call(b"later", timeout=30) == b"later"
                await asyncio.sleep(1)
                assert [copy.all for copy in copies] == [[b"kept", b"later"]] * 2

    cluster("abc", settings=ISIS).run(scenario)


def test_planted_the_answer_does_not_follow_done(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    right = reconvene.Isis.cbcast

    def cbcast(self: reconvene.Isis, data: bytes, to: Any, **options: Any) -> Any:
        if isinstance(to, list):
            options["label"] = UNORDERED
        return right(self, data, to, **options)

    monkeypatch.setattr(reconvene.Isis, "cbcast", cbcast)
    assert answered_and_crashed(cluster) == ["b", "c"]


def test_the_nearest_member_runs_it_and_the_next_one_takes_over(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        started: list[str] = []
        programs = {name: net.spawn(name, starting, net.address(name), name, started, 2.0) for name in "bde"}
        async with net.connect("a") as a, net.connect("c") as c, net.connect("e") as e:
            callers = [CohortCaller(site.isis, "names") for site in (a, c, e)]
            async with callers[0] as from_a, callers[1] as from_c, callers[2] as from_e:
                while not any(len(group.members) == 3 for group in await a.isis.groups()):
                    await asyncio.sleep(0.1)
                ranked = [member[0] for member in (await a.isis.groups())[0].members]
                answers = await asyncio.gather(from_a.call(b"?"), from_c.call(b"?"), from_e.call(b"?"))
                first = next(name for name in ranked if name in "bd")
                assert list(answers) == [b"b", first.encode(), b"e"], (
                    "to c, b and d are as near: the lower rank counts"
                )
                asking = asyncio.create_task(from_e.call(b"?"))
                started.clear()
                await asyncio.sleep(1)
                programs["e"].kill()
                assert await asking == b"d"
                assert started == ["e", "d"]
                asking = asyncio.create_task(from_a.call(b"?", timeout=30))
                await asyncio.sleep(1)
                for name in "bd":
                    programs[name].kill()
                with pytest.raises(OutcomeUnknown, match="all members failed or left"):
                    await asking
                await asyncio.sleep(1)
                with pytest.raises(Rejected):
                    await from_a.call(b"?", timeout=30)

    cluster("abcde", settings=ISIS).run(scenario)


def test_done_and_not_answered(cluster: Make) -> None:
    """The coordinator is killed between the two casts: a cohort answers in its place, and runs nothing."""

    async def scenario(net: Cluster) -> None:
        started: list[str] = []
        dead = asyncio.Event()

        async def dying(address: str) -> None:
            class Dying(Cohort):
                def _send_answer(self, key: Any) -> None:
                    dead.set()

            async def run(request: bytes) -> bytes:
                started.append("b")
                return b"b"

            async with reconvene.connect(address) as site, Dying(site.isis, "names", run):
                await asyncio.Event().wait()

        program = net.spawn("b", dying, net.address("b"))
        net.spawn("c", starting, net.address("c"), "c", started)
        async with net.connect("a") as a, CohortCaller(a.isis, "names") as names:
            while not any(len(group.members) == 2 for group in await a.isis.groups()):
                await asyncio.sleep(0.1)
            asking = asyncio.create_task(names.call(b"?"))
            await dead.wait()
            await asyncio.sleep(0.1)
            program.kill()
            assert await asking == b"b"
            assert started == ["b"]

    cluster("abc", settings=ISIS).run(scenario)


def test_what_run_raises_and_who_leaves(cluster: Make) -> None:
    async def run(request: bytes) -> Any:
        if request == b"no":
            raise Rejected("no")
        if request == b"wait":
            await asyncio.sleep(3)
        return {b"number": 3, b"big": b"x" * (2 << 20)}.get(request, b"done")

    async def scenario(net: Cluster) -> None:
        tickets = Tickets()
        async with net.connect("a") as a, net.connect("b") as b, Cohort(a.isis, "x", run, data=tickets) as one:
            async with Cohort(b.isis, "x", run) as other:
                with pytest.raises(Rejected, match="'x': no"):
                    await other.call(b"no")
                for request in (b"number", b"big"):
                    with pytest.raises(OutcomeUnknown):
                        await one.call(request)
                with pytest.raises(OutcomeTimedOut, match="answered"):
                    await one.call(b"wait", timeout=1)
                with pytest.raises(TypeError):
                    await one.call("text")  # type: ignore[arg-type]
                assert await asyncio.gather(*(other.call(b"%d" % number) for number in range(100))) == [b"done"] * 100
                asking = asyncio.create_task(other.call(b"wait"))
                await asyncio.sleep(1)
            with pytest.raises(OutcomeUnknown, match="block is over"):
                await asking
            with pytest.raises(Unavailable, match="block is over"):
                await other.call(b"late")
            await asyncio.sleep(5)
            assert (one._open, one._casts) == ({}, {}), "it has run what the other one left behind"
        with pytest.raises(TypeError, match="run"):
            Cohort(a.isis, "x", None)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="at_once"):
            Cohort(a.isis, "x", run, at_once=0)
        with pytest.raises(Unavailable, match="async with"):
            await CohortCaller(a.isis, "x").call(b"?")

    cluster("abc", settings=ISIS).run(scenario)
