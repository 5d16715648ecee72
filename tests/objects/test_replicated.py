"""Replicated data: copies that end the same, see no update before its cause, and count each update once."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.objects.storm import ISIS, storm

import reconvene
from reconvene import OutcomeUnknown, Process, Unavailable
from reconvene.client.isis import IsisGroup
from reconvene.objects import ReplicatedData, ReplicatedDict
from reconvene.objects.replicated import Items
from reconvene.testing import Cluster

Make = Callable[..., Cluster]


class Ledger:
    """Deposits by account. An update names the totals that its writer saw: the causes."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.seen: list[str] = []
        """Updates before their causes."""

    def apply(self, update: bytes, sender: Process) -> None:
        account, amount, causes = msgspec.msgpack.decode(update, type=tuple[str, int, dict[str, int]])
        for cause, total in causes.items():
            if self.totals.get(cause, 0) < total:
                self.seen.append(f"{account} before {cause}")
        self.totals[account] = self.totals.get(account, 0) + amount

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.totals, order="deterministic")

    def restore(self, data: bytes) -> None:
        self.totals = msgspec.msgpack.decode(data, type=dict[str, int])


class Board:
    """What the programs of a test have, and what they did."""

    def __init__(self) -> None:
        self.ledgers: dict[str, ReplicatedData[Ledger]] = {}
        self.dicts: dict[str, ReplicatedDict] = {}
        self.sure: dict[str, int] = {}
        self.perhaps: dict[str, int] = {}
        self.early: list[str] = []
        self.stop = False


async def depositor(address: str, name: str, board: Board) -> None:
    """Adds to its own account, and writes keys that all write."""
    async with (
        reconvene.connect(address, wait=120) as site,
        ReplicatedData(site.isis, "ledger", Ledger()) as ledger,
        ReplicatedDict(site.isis, "words") as words,
    ):
        board.ledgers[name], board.dicts[name] = ledger, words
        account = name
        while not board.stop:
            board.perhaps[account] = board.perhaps.get(account, 0) + 1
            try:
                await ledger.update(msgspec.msgpack.encode((account, 1, ledger.data.totals)))
                key = str(random.randrange(8))
                await (words.remove(key) if random.random() < 0.3 else words.set(key, random.random()))
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(0.2)
            board.early += ledger.data.seen
            ledger.data.seen.clear()
            await asyncio.sleep(random.expovariate(20))
        await asyncio.Event().wait()


def run(cluster: Make, seed: int, rounds: int = 6) -> Board:
    async def scenario(net: Cluster) -> Board:
        board = Board()
        programs = [net.spawn(name, depositor, net.address(name), name, board) for name in net.names]
        await storm(net, programs, rounds)
        await asyncio.sleep(2)
        board.stop = True
        for name in net.names:
            await board.ledgers[name].ready()
            await board.dicts[name].ready()
        await asyncio.sleep(2)
        for program in programs:
            program.kill()
        return board

    return cluster("abc", seed=seed, settings=ISIS).run(scenario)


def judge(board: Board) -> list[str]:
    found = [*board.early]
    ledgers = [ledger.data.totals for ledger in board.ledgers.values()]
    words = [copy.items() for copy in board.dicts.values()]
    if any(ledger != ledgers[0] for ledger in ledgers):
        found.append(f"ledgers differ: {ledgers}")
    if any(copy != words[0] for copy in words):
        found.append(f"dictionaries differ: {words}")
    found += [
        f"{account}: {total} of {board.perhaps[account]}"
        for account, total in ledgers[0].items()
        if total > board.perhaps[account]
    ]
    return found


@pytest.mark.parametrize("seed", range(2))
def test_copies_under_faults(cluster: Make, seed: int) -> None:
    board = run(cluster, seed)
    assert judge(board) == []
    assert sum(board.ledgers["a"].data.totals.values()) > 50


@pytest.mark.long("test_copies_under_faults has fewer seeds")
@pytest.mark.parametrize("seed", range(2, 30))
def test_copies_under_more_faults(cluster: Make, seed: int) -> None:
    assert judge(run(cluster, seed, rounds=10)) == []


def joined_meanwhile(cluster: Make) -> list[dict[str, int]]:
    """The copies of a member that updates all the time, and of one that joins meanwhile."""

    async def scenario(net: Cluster) -> list[dict[str, int]]:
        net.network(latency="50ms")
        async with net.connect("a") as a, net.connect("b") as b, ReplicatedData(a.isis, "x", Ledger()) as one:

            async def write() -> None:
                for _ in range(200):
                    await one.update(msgspec.msgpack.encode(("a", 1, {})))
                    await asyncio.sleep(0.005)

            writing = asyncio.create_task(write())
            await asyncio.sleep(0.2)
            async with ReplicatedData(b.isis, "x", Ledger()) as other:
                await writing
                await asyncio.sleep(1)
                return [one.data.totals, other.data.totals]

    return cluster("abc", settings=ISIS).run(scenario)


def test_a_newcomer_counts_each_update_once(cluster: Make) -> None:
    assert joined_meanwhile(cluster) == [{"a": 200}, {"a": 200}]


def one_after_the_other(cluster: Make) -> list[str]:
    """b updates because of what a did, and c hears of a late. Returns what c had to apply too early."""

    async def scenario(net: Cluster) -> list[str]:
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            copies = [ReplicatedData(site.isis, "x", Ledger()) for site in (a, b, c)]
            async with copies[0] as one, copies[1] as two, copies[2] as three:
                net.cut("a", "c")
                await one.update(msgspec.msgpack.encode(("a", 1, {})))
                await asyncio.sleep(0.02)
                assert two.data.totals == {"a": 1}
                await two.update(msgspec.msgpack.encode(("b", 1, two.data.totals)))
                await asyncio.sleep(0.02)
                net.mend("a", "c")
                await asyncio.sleep(5)
                assert three.data.totals == {"a": 1, "b": 1}
                return three.data.seen

    return cluster("abc", settings=ISIS).run(scenario)


def test_no_update_comes_before_its_cause(cluster: Make) -> None:
    assert one_after_the_other(cluster) == []


def at_the_same_time(cluster: Make) -> list[dict[str, Any]]:
    async def scenario(net: Cluster) -> list[dict[str, Any]]:
        async with net.connect("a") as a, net.connect("b") as b:
            one, other = ReplicatedDict(a.isis, "words"), ReplicatedDict(b.isis, "words")
            async with one, other:
                await asyncio.gather(one.set("x", "a"), other.set("x", "b"), one.set("y", "a"), other.remove("y"))
                await asyncio.sleep(1)
                return [one.items(), other.items()]

    return cluster("abc", settings=ISIS).run(scenario)


def test_the_same_change_wins_everywhere(cluster: Make) -> None:
    one, other = at_the_same_time(cluster)
    assert one == other


def test_planted_without_order(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update under a label that is ordered after nothing comes before its causes."""
    right = IsisGroup.cbcast
    monkeypatch.setattr(IsisGroup, "cbcast", lambda self, data: right(self, data, label=reconvene.UNORDERED))
    assert one_after_the_other(cluster) == ["b before a"]


def test_planted_applied_before_it_is_received(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer's state then holds updates that the newcomer receives again, behind its first view."""

    async def update(self: ReplicatedData[Any], data: bytes) -> None:
        group = self._in_group()
        self.data.apply(data, self._isis.me)
        await group.cbcast(msgspec.msgpack.encode((0, data)))

    def received(self: ReplicatedData[Any], cast: reconvene.Cast) -> None:
        if cast.sender != self._isis.me:
            self.data.apply(msgspec.msgpack.decode(cast.data)[1], cast.sender)

    monkeypatch.setattr(ReplicatedData, "update", update)
    monkeypatch.setattr(ReplicatedData, "received", received)
    assert joined_meanwhile(cluster)[1]["a"] > 200


def test_planted_last_to_come_wins(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def set_it(self: Items, key: str, stamp: Any, change: Any) -> None:
        self.values.pop(key, None)
        if not change.remove:
            self.values[key] = (stamp, change.value)

    monkeypatch.setattr(Items, "_set", set_it)
    one, other = at_the_same_time(cluster)
    assert one != other


# -- without faults


def test_an_update_waits_for_no_network_and_a_newcomer_has_the_state(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        net.network(latency="200ms")
        loop = asyncio.get_running_loop()
        async with net.connect("a") as a, net.connect("b") as b, ReplicatedDict(a.isis, "words") as one:
            async with ReplicatedDict(b.isis, "words") as other:
                began = loop.time()
                await one.set("x", [1, 2])
                await one.set("y", 3)
                await one.remove("x")
                assert (one.items(), "x" in one, len(one), one.get("x", 7)) == ({"y": 3}, False, 1, 7)
                assert loop.time() - began < 0.1
                assert "y" not in other
                await a.isis.flush()
                assert other.items() == {"y": 3}
            with pytest.raises(Unavailable, match="left"):
                await other.set("x", 1)
            async with ReplicatedDict(b.isis, "words") as again:
                assert again.items() == {"y": 3}
                with pytest.raises(reconvene.Rejected, match="object of this name"):
                    await ReplicatedDict(b.isis, "words").__aenter__()
                with pytest.raises(TypeError, match="key"):
                    await again.set(3, 1)  # type: ignore[arg-type]
                with pytest.raises(TypeError, match="value"):
                    await again.set("x", object())
                with pytest.raises(reconvene.Rejected):
                    await again.set("x", b"x" * (2 << 20))
                await again.set("x", 1)

    cluster("abc", settings=ISIS).run(scenario)


def test_a_minority_reads_what_it_has_and_updates_nothing(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            objects = [ReplicatedDict(site.isis, "words") for site in (a, b, c)]
            async with objects[0] as one, objects[1] as two, objects[2] as three:
                await three.set("x", 1)
                await asyncio.sleep(1)
                net.partition([["a", "b"], ["c"]])
                await three.set("x", 2)
                await asyncio.sleep(5)
                assert not three.is_current
                with pytest.raises(Unavailable):
                    await three.set("x", 3)
                await one.set("x", 4)
                assert three.get("x") == 2, "its own update, which nobody else has"
                net.heal()
                await asyncio.sleep(1)
                await three.ready(timeout=30)
                assert (two.get("x"), three.get("x")) == (4, 4)
                await three.set("x", 5)
                await asyncio.sleep(1)
                assert [copy.get("x") for copy in objects] == [5, 5, 5]

    cluster("abc", settings=ISIS).run(scenario)


def change(clock: int, floor: int, key: str | None, value: object = None, *, remove: bool = False) -> bytes:
    return msgspec.msgpack.encode((clock, floor, key, value, remove))


P, Q = Process("a", 1, 1), Process("b", 1, 1)


def test_copies_are_the_same_in_whichever_order_changes_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """And after removed keys are forgotten."""
    monkeypatch.setattr("reconvene.objects.replicated._REMOVED", 3)
    draw = random.Random(7)
    for _ in range(200):
        streams: dict[Process, list[bytes]] = {P: [], Q: []}
        for sender, stream in streams.items():
            clock = 0
            for _ in range(12):
                clock += draw.randint(1, 3)
                key = draw.choice(["x", "y", "z", "u", "v", None])
                stream.append(change(clock, clock, key, f"{sender}{clock}", remove=draw.random() < 0.6))
        copies = []
        for _ in range(2):
            items = Items()
            items.viewed([P, Q])
            left = {sender: [*stream] for sender, stream in streams.items()}
            while any(left.values()):
                sender = draw.choice([sender for sender, stream in left.items() if stream])
                items.apply(left[sender].pop(0), sender)
            copies.append(items)
        assert copies[0].values == copies[1].values
        assert copies[0].snapshot() == copies[1].snapshot()
        taken = Items()
        taken.restore(copies[0].snapshot())
        assert taken.snapshot() == copies[0].snapshot()


def test_removed_keys_are_forgotten_when_all_have_told_their_floor(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b:
            one, other = ReplicatedDict(a.isis, "words"), ReplicatedDict(b.isis, "words")
            async with one, other:
                for number in range(1_200):
                    await one.set(str(number), number)
                    await one.remove(str(number))
                await asyncio.sleep(1)
                assert len(one.data.removed) == len(other.data.removed) < 400
                await other.set("7", 7)
                await asyncio.sleep(1)
                assert one.items() == {"7": 7}

    cluster("abc", settings=ISIS).run(scenario)


def test_what_is_no_change_is_passed_over() -> None:
    items = Items()
    for data in (
        b"",
        b"\xff",
        b"text",
        b"\x91\x01",
        b"\x93\x01\x01\xa1\xff",
        b"\x94\x01\x01\xa1k" + 5_000 * b"\x91" + b"\x90",
    ):
        items.apply(data, P)
    assert items.snapshot() == Items().snapshot()
