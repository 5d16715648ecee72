"""Calls of a resilient object by processes that have no copy of it, in virtual time."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.objects.faults import ISIS, break_something
from tests.objects.test_resilient import ACCOUNTS, Bank

from reconvene import GroupView, OutcomeTimedOut, OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.objects import OperationFailed, ResilientCaller, ResilientObject
from reconvene.testing import Cluster

Make = Callable[..., Cluster]
Kind = type[ResilientObject[Bank]]


async def member(net: Cluster, name: str, kind: Kind, members: dict[str, ResilientObject[Bank]]) -> None:
    async with (
        net.connect(name, wait=60) as site,
        kind(site.isis, "bank", Bank(), last_to_fail=True) as bank,
    ):
        members[name] = bank
        await asyncio.sleep(10_000)


class Told:
    def __init__(self) -> None:
        self.places: dict[str, tuple[str, int, float]] = {}
        """By what was booked: the account, the place in it, and when the caller was told."""
        self.unknown: set[str] = set()
        self.unsent: set[str] = set()


async def caller(net: Cluster, name: str, told: Told) -> None:
    life = random.randrange(1 << 30)
    async with net.connect(name, wait=60) as site, asyncio.TaskGroup() as tasks:
        bank = ResilientCaller(site.isis, "bank", Bank, timeout=120)

        async def book(number: int) -> None:
            what, account = f"{name}-{life}-{number}", random.choice(ACCOUNTS)
            try:
                place = await bank.run(Bank.book, account, what)
                told.places[what] = account, place, asyncio.get_running_loop().time()
            except OutcomeUnknown:
                told.unknown.add(what)
            except (Rejected, Unavailable):
                told.unsent.add(what)

        for number in range(25):
            tasks.create_task(book(number))
            await asyncio.sleep(random.uniform(0, 0.3))


def run(make: Make, seed: int, kind: Kind = ResilientObject) -> Told:
    """Members at a, b and c, callers at each of them, and faults. Judges what callers were told."""
    told = Told()
    members: dict[str, ResilientObject[Bank]] = {}
    begun: list[float] = []

    class Noting(kind):  # type: ignore[valid-type, misc]
        """Notes when the group begins: where all members are killed at once, nothing is promised of earlier calls."""

        def viewed(self, view: GroupView) -> None:
            if view.number == 1:
                begun.append(asyncio.get_running_loop().time())
            super().viewed(view)

    async def scenario(net: Cluster) -> list[dict[str, list[str]]]:
        for name in net.names:
            net.spawn(name, member, net, name, Noting, members)
        while len(members) < 3:
            await asyncio.sleep(0.1)
        callers = [net.spawn(name, caller, net, name, told) for name in net.names]
        for _ in range(3):
            await asyncio.sleep(random.uniform(0.5, 3))
            await break_something(net)
        for program in callers:
            await program.wait()
        await asyncio.sleep(60)
        for bank in members.values():
            await bank.ready(60)
            assert (bank._open, bank._casts, bank._replying) == ({}, {}, set()), "every call is done"
        return [bank.copy.accounts for bank in members.values()]

    accounts, *others = make("abc", seed=seed, settings=ISIS, limit="20min", jitter="20ms").run(scenario)
    assert others == [accounts, accounts], "copies differ"
    booked = [what for whats in accounts.values() for what in whats]
    assert len(set(booked)) == len(booked), "booked twice"
    assert told.unsent.isdisjoint(booked), "booked, though nothing was sent"
    assert len(told.places) + len(told.unknown) + len(told.unsent) >= 75
    assert len(told.places) > 30
    for what, (account, place, at) in told.places.items():
        if at > begun[-1]:
            assert accounts[account][place : place + 1] == [what], f"told {place} of {what}"
    return told


@pytest.mark.parametrize("seed", range(3))
def test_every_call_has_its_effect_once(cluster: Make, seed: int) -> None:
    run(cluster, seed)


class NobodyTakesOver(ResilientObject[Bank]):
    """Planted: a call stays with its coordinator."""

    def viewed(self, view: Any) -> None:
        self._start()


def coordinator_fails(make: Make, kind: Kind = ResilientObject) -> list[str]:
    """The nearest member runs the operation, and fails meanwhile. Returns what it had noted before that."""
    members: dict[str, ResilientObject[Bank]] = {}

    async def scenario(net: Cluster) -> list[str]:
        programs = {name: net.spawn(name, member, net, name, kind, members) for name in net.names}
        while len(members) < 3:
            await asyncio.sleep(0.1)
        async with net.connect("a") as site:
            bank = ResilientCaller(site.isis, "bank", Bank, timeout=30)
            calling = asyncio.create_task(bank.run(Bank.slow, "x"))
            await asyncio.sleep(2.5)
            programs["a"].kill()
            told = [str(note) for note in await calling]
            assert [len(members[name].copy.accounts["x"]) for name in "bc"] == [1, 1]
            return told

    return make("abc", settings=ISIS).run(scenario)


def test_another_member_goes_on(cluster: Make) -> None:
    assert coordinator_fails(cluster) == [
        "0 at attempt 1", "1 at attempt 1",
    ]  # fmt: skip


def test_planted_nobody_takes_over(cluster: Make) -> None:
    with pytest.raises(OutcomeTimedOut):
        coordinator_fails(cluster, NobodyTakesOver)


def test_what_a_caller_is_told(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b:
            bank = ResilientCaller(b.isis, "bank", Bank)
            with pytest.raises(Rejected, match="no such group"):
                await bank.run(Bank.total)
            for wrong in (Bank.append, len, None):
                with pytest.raises(TypeError, match="an operation of Bank expected"):
                    await bank.run(wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="class expected"):
                ResilientCaller(b.isis, "bank", Bank())  # type: ignore[arg-type]
            async with ResilientObject(a.isis, "bank", Bank()):
                assert await bank.run(Bank.book, "x", "one") == 0
                assert await bank.run(Bank.book, "x", what="two") == 1
                assert await bank.run(Bank.total) == 2
                with pytest.raises(OperationFailed, match="fail: LookupError: no such thing"):
                    await bank.run(Bank.fail)
                with pytest.raises(OutcomeTimedOut, match=r"not answered within 0\.5 s"):
                    await ResilientCaller(b.isis, "bank", Bank, timeout=0.5).run(Bank.slow, "y")
                leaving = asyncio.create_task(bank.run(Bank.slow, "x"))
                await asyncio.sleep(1)
            with pytest.raises(OutcomeUnknown, match="failed or left"):
                await leaving
            with pytest.raises(ReconveneError):
                await bank.run(Bank.total)

    cluster("abc", settings=ISIS).run(scenario)
