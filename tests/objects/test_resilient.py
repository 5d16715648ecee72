"""A resilient object, in virtual time: each call has its effect once, whichever members fail."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.objects.faults import ISIS, break_something

from reconvene import GroupView, InvalidArgument, Malformed, Unavailable
from reconvene.objects import OperationFailed, ResilientObject, Work, change, operation
from reconvene.testing import Cluster

Make = Callable[..., Cluster]
ACCOUNTS = "xyz"


class Bank:
    """Every account is the list of what was booked: a call's result says where its own booking stands."""

    def __init__(self) -> None:
        self.accounts: dict[str, list[str]] = {}

    @operation(by="account")
    async def book(self, work: Work, account: str, what: str) -> int:
        place = len(self.accounts.get(account, []))
        await asyncio.sleep(random.uniform(0, 0.2))
        work.change(self.append, account, what)
        return place

    @operation()
    async def total(self, work: Work) -> int:
        before = sum(map(len, self.accounts.values()))
        await asyncio.sleep(0.1)
        assert before == sum(map(len, self.accounts.values())), "it runs alone"
        return before

    @operation(by="account")
    async def slow(self, work: Work, account: str) -> list[Any]:
        for step in range(len(work.notes), 5):
            await asyncio.sleep(1)
            await work.note(f"{step} at attempt {work.attempt}")
        work.change(self.append, account, work.id)
        return [*work.notes]

    @operation()
    async def fail(self, work: Work) -> None:
        work.change(self.append, "x", "never")
        raise LookupError("no such thing")

    @operation()
    async def stumble(self, work: Work) -> None:
        work.change(self.explode)

    @change
    def append(self, account: str, what: str) -> None:
        self.accounts.setdefault(account, []).append(what)

    @change
    def explode(self) -> None:
        raise LookupError("at every member")

    def snapshot(self) -> Any:
        return self.accounts

    def restore(self, state: Any) -> None:
        self.accounts = state


Kind = type[ResilientObject[Bank]]


def run(make: Make, seed: int, kind: Kind = ResilientObject) -> None:
    """Three members, each of which books while sites fail. Judges what callers were told against the accounts."""
    told: dict[str, tuple[str, int, float]] = {}
    members: dict[str, ResilientObject[Bank]] = {}
    begun: list[float] = []

    class Noting(kind):  # type: ignore[valid-type, misc]
        """Notes when the group begins: where all members are killed at once, ISIS promises nothing of what was before
        (after a time without a majority that happens)."""

        def viewed(self, view: GroupView) -> None:
            if view.number == 1:
                begun.append(asyncio.get_running_loop().time())
            super().viewed(view)

    async def program(net: Cluster, name: str) -> None:
        life = random.randrange(1 << 30)
        async with (
            net.connect(name, wait=60) as site,
            Noting(site.isis, "bank", Bank(), last_to_fail=True) as bank,
            asyncio.TaskGroup() as tasks,
        ):
            members[name] = bank

            async def book(number: int) -> None:
                what, account = f"{name}-{life}-{number}", random.choice(ACCOUNTS)
                place = await bank.run(Bank.book, account, what)
                told[what] = account, place, asyncio.get_running_loop().time()

            for number in range(25):
                tasks.create_task(book(number))
                await asyncio.sleep(random.uniform(0, 0.3))
                if number % 10 == 0:
                    await bank.run(Bank.total)
            await asyncio.sleep(10_000)

    async def scenario(net: Cluster) -> list[dict[str, list[str]]]:
        for name in net.names:
            net.spawn(name, program, net, name)
        for _ in range(3):
            await asyncio.sleep(random.uniform(0.5, 3))
            await break_something(net)
        await asyncio.sleep(60)
        for bank in members.values():
            await bank.ready(60)
            assert not bank._open, "every call is done"
        return [bank.copy.accounts for bank in members.values()]

    accounts, *others = make("abc", seed=seed, settings=ISIS, limit="20min", jitter="20ms").run(scenario)
    assert others == [accounts, accounts], "copies differ"
    booked = [what for whats in accounts.values() for what in whats]
    assert len(set(booked)) == len(booked), "booked twice"
    assert len(told) >= 75
    for what, (account, place, at) in told.items():
        if at > begun[-1]:
            assert accounts[account][place : place + 1] == [what], f"told {place} of {what}"


@pytest.mark.parametrize("seed", range(4))
def test_every_call_has_its_effect_once(cluster: Make, seed: int) -> None:
    run(cluster, seed)


class NobodyTakesOver(ResilientObject[Bank]):
    """Planted: a call stays with its coordinator."""

    def viewed(self, view: Any) -> None:
        self._start()


class ForgetsResults(ResilientObject[Bank]):
    """Planted: a member that comes back does not learn which calls are done."""

    def state(self) -> Any:
        number, open_, _, member = super().state()
        return number, open_, [], member


class ToldTooEarly(ResilientObject[Bank]):
    """Planted: the caller is told before the result is everywhere."""

    async def _is_everywhere(self) -> bool:
        return True


def cut_off(make: Make, kind: Kind) -> list[str]:
    """A caller at a, whose own member runs the operation, is cut off before the operation ends. Returns what it is
    told, and checks that the operation was done once."""

    async def member(net: Cluster, name: str) -> None:
        async with net.connect(name, wait=60) as site, kind(site.isis, "bank", Bank()):
            await asyncio.sleep(10_000)

    async def scenario(net: Cluster) -> list[str]:
        for name in "bc":
            net.spawn(name, member, net, name)
        async with net.connect("a") as site, kind(site.isis, "bank", Bank()) as bank:
            while len(bank.members) < 3:
                await asyncio.sleep(0.1)
            calling = asyncio.create_task(bank.run(Bank.slow, "x"))
            await asyncio.sleep(4.6)
            net.partition([["a"], ["b", "c"]])
            await asyncio.sleep(10)
            net.heal()
            async with asyncio.timeout(60):
                told = await calling
            assert len(bank.copy.accounts["x"]) == 1, "booked twice"
            return told

    return make("abc", settings=ISIS, limit="5min").run(scenario)


def test_a_cohort_continues_from_the_last_note(cluster: Make) -> None:
    """The caller is told what counts: what the cohort returned, not what its own member had before that."""
    assert cut_off(cluster, ResilientObject) == [f"{step} at attempt 1" for step in range(4)]


def test_a_caller_is_not_told_what_may_be_lost(cluster: Make) -> None:
    assert cut_off(cluster, ToldTooEarly) == [], "the first attempt's result, which did not count"


@pytest.mark.parametrize(
    ("kind", "error", "why"),
    [(NobodyTakesOver, TimeoutError, None), (ForgetsResults, AssertionError, "booked twice")],
)
def test_a_planted_bug_is_caught(cluster: Make, kind: Kind, error: type[Exception], why: str | None) -> None:
    with pytest.raises(error, match=why):
        cut_off(cluster, kind)


def test_operations_that_fail_and_bad_input(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b:
            with pytest.raises(TypeError, match=r"an object with snapshot\(\) expected, not object"):
                ResilientObject(a.isis, "bank", object())  # type: ignore[type-var]
            with pytest.raises(InvalidArgument, match="a parameter of book expected, not 'what'"):
                operation(by="what")(_book)
            one = ResilientObject(a.isis, "bank", Bank(), flush=False)
            async with one, ResilientObject(b.isis, "bank", Bank()) as two:
                with pytest.raises(OperationFailed, match="fail: LookupError: no such thing"):
                    await one.run(Bank.fail)
                with pytest.raises(OperationFailed, match="stumble: explode: LookupError: at every member"):
                    await two.run(Bank.stumble)
                with pytest.raises(TypeError, match="an operation of Bank expected"):
                    await one.run(Bank.append, "x", "y")  # type: ignore[arg-type, call-arg]
                with pytest.raises(TypeError, match="missing a required argument"):
                    await one.run(Bank.book, "x")  # type: ignore[call-arg]
                with pytest.raises(TypeError, match="numbers, text"):
                    await one.run(Bank.book, "x", object())  # type: ignore[arg-type]
                for junk in (b"", b"\xff", b"text"):
                    await b.isis.cbcast(junk, to="bank")
                assert await asyncio.gather(*(one.run(Bank.book, "x", f"{n}") for n in range(100))) == [*range(100)]
                assert await two.run(Bank.total) == 100
                assert one.copy.accounts == two.copy.accounts
            with pytest.raises(Unavailable, match="was left"):
                await one.run(Bank.total)

    cluster("abc", settings=ISIS).run(scenario)


class ByNumber(Bank):
    """Its state has numbers and text as keys, in the order in which they came."""

    def __init__(self, refuses: bool = False) -> None:
        super().__init__()
        self.refuses = refuses

    def snapshot(self) -> Any:
        if self.refuses:
            raise LookupError("no state today")
        return {7: 1, **self.accounts, 3: [{2: 1, "x": 2}]}

    def restore(self, state: Any) -> None:
        assert (state.pop(7), state.pop(3)) == (1, [{2: 1, "x": 2}])
        self.accounts = state


def test_any_keys_and_a_state_that_cannot_be_given(cluster: Make) -> None:
    """A member whose state can't be given is stopped and leaves; the newcomer takes it from another one."""

    async def scenario(net: Cluster) -> None:
        async with AsyncExitStack() as stack:
            a, b, c = [await stack.enter_async_context(net.connect(name)) for name in "abc"]
            bad = ByNumber()
            one = await stack.enter_async_context(ResilientObject(a.isis, "bank", bad))
            two = await stack.enter_async_context(ResilientObject(b.isis, "bank", ByNumber()))
            await one.run(Bank.book, "x", "1")
            bad.refuses = True
            while True:
                try:
                    three = await stack.enter_async_context(ResilientObject(c.isis, "bank", ByNumber()))
                    break
                except Malformed:
                    await asyncio.sleep(1)
            assert await three.run(Bank.book, "x", "2") == 1
            assert three.copy.accounts == two.copy.accounts == {"x": ["1", "2"]}
            assert [member.site for member in two.members] == ["b", "c"]
            with pytest.raises(Unavailable, match="was stopped: LookupError: no state today"):
                await one.run(Bank.total)

    cluster("abc", settings=ISIS, limit="2min").run(scenario)


async def _book(account: str) -> None:
    """Has no parameter `what`."""


_book.__name__ = "book"
