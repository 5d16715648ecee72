"""Locks: one writer or many readers, by tokens that grow for ever; judged by an oracle that sees all holders."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import permutations
from typing import Any

import msgspec
import pytest
from tests.objects.storm import ISIS, storm

import reconvene
from reconvene import OutcomeUnknown, Process, Rejected, TimedOut, Unavailable
from reconvene.client.isis import IsisGroup
from reconvene.objects import Lock, Token
from reconvene.objects.lock import _Claim
from reconvene.objects.lock_table import LockTable, Place, Registered, Released, Request, Want, decode
from reconvene.testing import Cluster

Make = Callable[..., Cluster]
ITEMS = ("x", "y")


class Held:
    def __init__(self, name: str, item: str, token: Token, *, write: bool) -> None:
        self.name = name
        self.item = item
        self.token = token
        self.write = write


class Oracle:
    """Sees every lock at the moment at which a program gets it, whatever the network does."""

    def __init__(self) -> None:
        self.unaware: set[str] = set()
        """Sites that were cut off or stood still: a program there may believe that it has a lock, and others have it.
        Then a store would refuse its token, which is lower."""
        self.runs: Callable[[str], bool] = lambda name: True
        self.now: list[Held] = []
        self.tokens: set[tuple[str, int]] = set()
        """Of write locks."""
        self.highest: dict[str, int] = {}
        """By item: of write locks. What a store would know."""
        self.seen: dict[str, int] = {}
        """By item: of all locks."""
        self.found: list[str] = []
        self.got = {"read": 0, "write": 0}
        self.lost = 0
        self.stop = False

    def begin(self, name: str, item: str, token: Token, *, write: bool) -> Held:
        self.got["write" if write else "read"] += 1
        if write and (item, int(token)) in self.tokens:
            self.found.append(f"{name}: write token {token:x} of {item} twice")
        late = token <= self.seen.get(item, 0) if write else token < self.highest.get(item, 0)
        if late and name not in self.unaware:
            kind = "write" if write else "read"
            self.found.append(f"{name}: {kind} token {token:x} of {item} after {self.seen[item]:x}")
        for other in self.now:
            if other.item != item or not (write or other.write) or not self.runs(other.name):
                continue
            if self.unaware.isdisjoint((name, other.name)) or token == other.token:
                self.found.append(f"{name} and {other.name} have {item}")
        self.seen[item] = max(self.seen.get(item, 0), token)
        if write:
            self.tokens.add((item, int(token)))
            self.highest[item] = max(self.highest.get(item, 0), token)
        held = Held(name, item, token, write=write)
        self.now.append(held)
        return held


async def user(address: str, name: str, oracle: Oracle, busy: float = 1) -> None:
    oracle.now = [held for held in oracle.now if held.name != name]  # it was killed
    async with reconvene.connect(address, wait=120) as site, Lock(site.isis, "locks") as lock:
        if busy > 1:
            read_late(site.isis)

        async def work() -> None:
            while not oracle.stop:
                item, write = random.choice(ITEMS), random.random() < 0.5
                kind = lock.write if write else lock.read
                try:
                    async with kind(item, timeout=random.choice([0.05, 1, 20])) as token:
                        held = oracle.begin(name, item, token, write=write)
                        try:
                            await asyncio.sleep(random.expovariate(20 * busy))
                        finally:
                            oracle.now = [other for other in oracle.now if other is not held]
                except TimedOut:
                    pass
                except (OutcomeUnknown, Unavailable):
                    oracle.lost += 1
                await asyncio.sleep(random.expovariate(10 * busy))

        await asyncio.gather(work(), work())
        while lock.table.queues or lock.table.readers:
            await asyncio.sleep(0.1)


def read_late(isis: reconvene.Isis, late_s: Callable[[], float] = lambda: random.expovariate(200)) -> None:
    """The program reads what has come some time after it has come."""
    queue = isis._link.queue
    right = queue.wait

    async def wait() -> bool:
        more = await right()
        await asyncio.sleep(late_s())
        return more

    queue.wait = wait  # type: ignore[method-assign]


def run(cluster: Make, seed: int, rounds: int = 5, kinds: tuple[str, ...] = ("crash", "kill")) -> Oracle:
    async def scenario(net: Cluster) -> Oracle:
        oracle = Oracle()
        programs = [net.spawn(name, user, net.address(name), name, oracle) for name in net.names]
        of = dict(zip(net.names, programs, strict=True))
        oracle.runs = lambda name: of[name].running and net.state(name) == "up"
        await storm(net, programs, rounds, kinds, oracle.unaware)
        await asyncio.sleep(1)
        oracle.stop = True
        for program in programs:
            await program.wait()
        assert oracle.now == []
        return oracle

    return cluster("abc", seed=seed, settings=ISIS).run(scenario)


def contend(cluster: Make, seed: int = 0, for_s: float = 1.5) -> Oracle:
    """All want the same two locks all the time, over a network that delays each datagram as it likes, and read late
    what comes."""

    async def scenario(net: Cluster) -> Oracle:
        oracle = Oracle()
        net.network(latency="1ms", jitter="5ms", loss=0.02)
        programs = [net.spawn(name, user, net.address(name), name, oracle, 10) for name in net.names]
        await asyncio.sleep(for_s)
        oracle.stop = True
        for program in programs:
            await program.wait()
        return oracle

    return cluster("abc", seed=seed, settings=ISIS).run(scenario)


def test_contention(cluster: Make) -> None:
    oracle = contend(cluster)
    assert oracle.found == []
    assert min(oracle.got.values()) > 20


@pytest.mark.parametrize("seed", range(1))
def test_crashes_and_kills(cluster: Make, seed: int) -> None:
    oracle = run(cluster, seed)
    assert oracle.found == []
    assert min(oracle.got.values()) > 20


def test_partitions_and_pauses(cluster: Make) -> None:
    """Two may believe that they have the lock, one of them cut off: then that one's token is lower."""
    oracle = run(cluster, 3, kinds=("part", "pause", "kill"))
    assert oracle.found == []
    assert min(oracle.got.values()) > 20


@pytest.mark.long("test_crashes_and_kills and test_partitions_and_pauses have fewer seeds")
@pytest.mark.parametrize("seed", range(4, 16))
def test_more_faults(cluster: Make, seed: int) -> None:
    assert run(cluster, seed, rounds=10).found == []
    assert run(cluster, seed, rounds=10, kinds=("crash", "kill", "part", "pause")).found == []


def write_beside_a_read(cluster: Make) -> list[str]:
    async def scenario(net: Cluster) -> list[str]:
        oracle = Oracle()
        async with (
            net.connect("a") as a,
            net.connect("b") as b,
            Lock(a.isis, "locks") as one,
            Lock(b.isis, "locks") as other,
            one.read("x") as read,
        ):
            oracle.begin("a", "x", read, write=False)
            with suppress(TimedOut):
                async with other.write("x", timeout=1) as written:
                    oracle.begin("b", "x", written, write=True)
        return oracle.found

    return cluster("abc", settings=ISIS).run(scenario)


def test_a_write_waits_for_a_read(cluster: Make) -> None:
    assert write_beside_a_read(cluster) == []


def test_planted_granted_while_it_is_read(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LockTable.granted

    def granted(self: LockTable, item: str) -> list[Request]:
        read, self._read = self._read, {}
        found = right(self, item)
        self._read = read
        return found

    monkeypatch.setattr(LockTable, "granted", granted)
    assert any(" have " in line for line in write_beside_a_read(cluster))


def test_planted_requests_as_they_come(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members receive them in different orders."""

    def want(self: LockTable, sender: Process, want: Want, clock: int) -> None:
        request = Request(*self.last[:2], clock, sender, want.number, want.write)
        self.queues.setdefault(want.item, []).append(request)

    monkeypatch.setattr(LockTable, "want", want)
    assert contend(cluster).found != []


def test_planted_requests_without_clocks(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their processes alone: a later one may come before one that has the lock."""
    right = LockTable.want
    monkeypatch.setattr(LockTable, "want", lambda self, sender, want, clock: right(self, sender, want, 0))
    assert contend(cluster).found != []


def test_planted_replies_not_waited_for(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    right = _Claim.__init__

    def init(self: _Claim, *arguments: Any, **more: Any) -> None:
        right(self, *arguments, **more)
        self.replied = True

    monkeypatch.setattr(_Claim, "__init__", init)
    assert contend(cluster).found != []


@asynccontextmanager
async def late_readers(net: Cluster) -> AsyncIterator[tuple[Lock, Lock]]:
    """Locks of a and b, whose programs read each event 0.2 s late."""
    async with (
        net.connect("a") as a,
        net.connect("b") as b,
        Lock(a.isis, "locks") as one,
        Lock(b.isis, "locks") as other,
    ):
        read_late(a.isis, lambda: 0.2)
        read_late(b.isis, lambda: 0.2)
        await acquire(one, "y", 30)  # what is being read now is not late
        await asyncio.sleep(5)
        yield one, other


def read_behind_a_write(cluster: Make) -> list[str]:
    """b's site has replied to a's write request; b's program has not read it when it wants to read."""

    async def scenario(net: Cluster) -> list[str]:
        order = []
        async with late_readers(net) as (one, other):

            async def read() -> None:
                async with other.read("x", timeout=30):
                    order.append("read")

            writing = asyncio.create_task(one.write("x", timeout=30).__aenter__())
            await asyncio.sleep(0.05)
            assert other.writers("x") == ()
            reading = asyncio.create_task(read())
            token = await writing
            await asyncio.sleep(1)
            order.append("written")
            await one.release(token._claim)
            await reading
        return order

    return cluster("abc", settings=ISIS).run(scenario)


def test_a_read_behind_a_write_request(cluster: Make) -> None:
    assert read_behind_a_write(cluster) == ["written", "read"]


def test_planted_read_before_its_registration_is_back(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Lock._register

    async def register(self: Lock, claim: _Claim) -> None:
        if not claim.granted.done():
            claim.granted.set_result(self.table.last)
        await right(self, claim)

    monkeypatch.setattr(Lock, "_register", register)
    assert read_behind_a_write(cluster) == ["read", "written"]


def two_at_once(cluster: Make) -> list[str]:
    """Each has the replies to its request before its program has read the other's."""

    async def scenario(net: Cluster) -> list[str]:
        order = []

        async def write(lock: Lock) -> None:
            async with lock.write("x", timeout=30):
                order.append("begin")
                await asyncio.sleep(1)
                order.append("end")

        async with late_readers(net) as locks:
            await asyncio.gather(*map(write, locks))
        return order

    return cluster("abc", jitter=0, settings=ISIS).run(scenario)


def test_two_writers_at_once(cluster: Make) -> None:
    assert two_at_once(cluster) == ["begin", "end"] * 2


def test_planted_replies_overtake_what_is_not_read(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconvene.Isis, "after_read", lambda self, what: what())
    assert two_at_once(cluster) == ["begin", "begin", "end", "end"]


def test_planted_token_from_a_place_alone(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of the request among all that its member knows of: after a failure it begins anew."""
    monkeypatch.setattr(Place, "__int__", lambda place: place.number)
    assert any("write token" in line for line in run(cluster, 0, rounds=2).found)


# -- one by one


async def tokens(net: Cluster, *names: str) -> list[int]:
    """Of one write lock after the other, at these sites."""
    found = []
    for name in names:
        async with (
            net.connect(name, wait=60) as site,
            Lock(site.isis, "locks") as lock,
            lock.write("x") as token,
        ):
            found.append(int(token))
    return found


def tokens_of_lives(cluster: Make) -> list[int]:
    async def scenario(net: Cluster) -> list[int]:
        found = await tokens(net, "a", "b", "a")
        net.crash("a", "b", "c")
        await net.restart("a", "b", "c")
        await net.wait_for()
        found += await tokens(net, "c", "a")
        return found

    return cluster("abc", settings=ISIS).run(scenario)


def test_tokens_grow_for_ever(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the group had no members meanwhile, and if all sites have crashed."""
    found = tokens_of_lives(cluster)
    assert found == sorted(set(found))
    monkeypatch.setattr(Place, "__int__", lambda place: place.view << 32 | place.number)
    found = tokens_of_lives(cluster)
    assert found != sorted(set(found)), "planted: views are counted from 1 again after all sites crashed"


def test_readers_share_and_wait_their_turn(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        order: list[str] = []

        async def hold(lock: Lock, name: str, *, write: bool, for_s: float = 0.5) -> None:
            async with (lock.write if write else lock.read)("x", timeout=30):
                order.append(f"+{name}")
                await asyncio.sleep(for_s)
                order.append(f"-{name}")

        async with net.connect("a") as a, net.connect("b") as b, net.connect("c") as c:
            locks = [Lock(site.isis, "locks") for site in (a, b, c)]
            async with locks[0] as one, locks[1] as two, locks[2] as three:
                tasks = []
                for lock, name, write in (
                    (one, "r1", False), (two, "r2", False), (three, "w1", True), (one, "r3", False),
                    (two, "r4", False), (one, "w2", True), (three, "r5", False),
                ):  # fmt: skip
                    tasks.append(asyncio.create_task(hold(lock, name, write=write)))
                    await asyncio.sleep(0.05)
                assert one.writers("x") == (c.isis.me, a.isis.me)
                assert set(one.readers("x")) == {a.isis.me, b.isis.me, c.isis.me}
                await asyncio.gather(*tasks)
                if order[6:8] == ["+r4", "+r3"]:  # both have heard of w1's release, one sooner than the other
                    order[6:10] = ["+r3", "+r4", *sorted(order[8:10])]
                assert order == [
                    "+r1", "+r2", "-r1", "-r2", "+w1", "-w1", "+r3", "+r4", "-r3", "-r4", "+w2", "-w2", "+r5", "-r5",
                ]  # fmt: skip
                await asyncio.sleep(1)
                for lock in locks:
                    assert (lock.table.queues, lock.table.readers, lock._claims) == ({}, {}, {})

    cluster("abc", settings=ISIS).run(scenario)


def test_nobody_waits_for_itself(cluster: Make) -> None:
    """Upgrades are refused at once, nested reads succeed; what is given up leaves nothing behind."""

    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a, net.connect("b") as b:
            async with Lock(a.isis, "locks") as one, Lock(b.isis, "locks") as other:
                async with one.read("x") as token:
                    with pytest.raises(Rejected, match="wait for itself"):
                        await one.write("x").__aenter__()
                    waiting = asyncio.create_task(acquire(other, "x"))
                    await asyncio.sleep(0.5)
                    assert not waiting.done()
                    async with one.read("x", timeout=1) as again:
                        assert again == token
                    assert token.held
                    with pytest.raises(TimedOut, match=r"no write lock on 'x' within 0\.2 s"):
                        await asyncio.create_task(acquire(one, "x", 0.2))
                assert not token.held
                assert await waiting > token
                async with one.write("x", timeout=1) as token:
                    with pytest.raises(Rejected):
                        await one.write("x").__aenter__()
                    async with one.read("x") as again:
                        assert again == token
                    waiting = asyncio.create_task(acquire(other, "x"))
                    await asyncio.sleep(0.5)
                    waiting.cancel()
                hold = one.write("x", timeout=1)
                async with hold:
                    pass
                with pytest.raises(Rejected, match="used before"):
                    await hold.__aenter__()
                await asyncio.sleep(1.5)  # a lock that was used is kept for a second
                assert (one.table.queues, other.table.queues, one._claims, other._claims) == ({}, {}, {}, {})
                for bad, error in (("", ValueError), ("ä" * 200, ValueError), (3, TypeError)):
                    with pytest.raises(error, match="item"):
                        one.read(bad)
                with pytest.raises(ValueError, match="timeout"):
                    one.write("x", timeout=-1)
                late = one.write("x")
            with pytest.raises(Unavailable, match="left"):
                await late.__aenter__()

    cluster("abc", settings=ISIS).run(scenario)


def test_a_lock_that_nobody_else_wants_is_kept(cluster: Make) -> None:
    """Its process takes it again without a cast, with a higher token. Another one gets it when it asks."""

    async def casts(site: reconvene.Site) -> int:
        return (await site.status()).counters["isis_casts"]

    async def scenario(net: Cluster) -> None:
        async with (
            net.connect("a") as a,
            net.connect("b") as b,
            Lock(a.isis, "locks") as one,
            Lock(b.isis, "locks") as other,
        ):
            found = [await acquire(one, "x")]
            before = await casts(a)
            found += [await acquire(one, "x") for _ in range(20)]
            assert await casts(a) == before
            async with one.write("x") as held:
                found.append(held)
            assert not held.held, "though it is kept"
            async with other.read("x", timeout=0.5) as token:
                assert token >= found[-1]
            found.append(await acquire(other, "x", 0.5))
            found.append(await acquire(one, "x", 0.5))
            found.append(await acquire(one, "x"))
            await asyncio.sleep(1.5)
            assert (one.table.queues, other.table.queues, one._kept, one._claims) == ({}, {}, {}, {})
            before = await casts(b)
            async with other.read("x") as token:
                assert await casts(b) == before + 1, "given out here, and registered"
                assert token >= found[-1], "also than the last time that the write lock was taken again"
            found.append(await acquire(other, "x"))
            assert found == sorted(set(found))
            for number in range(150):
                await acquire(one, f"item {number}")
            assert len(one._kept) <= 100

    cluster("abc", settings=ISIS).run(scenario)


async def acquire(lock: Lock, item: str, timeout: float | None = None) -> int:
    async with lock.write(item, timeout=timeout) as token:
        return token


def test_a_dead_or_lost_holder_gives_way(cluster: Make) -> None:
    """A process that is killed, a site that crashes, a site that is cut off, and a member that leaves."""

    async def holder(address: str) -> None:
        async with reconvene.connect(address) as site, Lock(site.isis, "locks") as lock, lock.write("x"):
            await asyncio.Event().wait()

    async def scenario(net: Cluster) -> None:
        loop = asyncio.get_running_loop()
        async with net.connect("a") as a, net.connect("c") as c, Lock(a.isis, "locks") as lock:
            program = net.spawn("b", holder, net.address("b"))
            for end in (program.kill, lambda: net.crash("b")):
                await asyncio.sleep(3)
                with pytest.raises(TimedOut):
                    await acquire(lock, "x", 1)
                end()
                began = loop.time()
                await acquire(lock, "x", 30)
                print("handed over in", loop.time() - began)
                if not program.running:
                    if net.state("b") == "down":
                        await net.restart("b")
                    else:
                        program.start()
            program.kill()
            cut = Lock(c.isis, "locks")
            async with cut:
                hold = cut.write("x")
                token = await hold.__aenter__()
                net.partition([["a", "b"], ["c"]])
                assert await acquire(lock, "x", 30) > token
                await asyncio.sleep(5)
                assert not token.held
                net.heal()
                await asyncio.sleep(1)
                await cut.ready(timeout=30)
                assert not token.held
                with pytest.raises(OutcomeUnknown, match="was lost"):
                    await hold.__aexit__(None, None, None)
                waiting = asyncio.create_task(acquire(cut, "x", 30))
                async with lock.read("x"):
                    await asyncio.sleep(1)
                await waiting
                leaving = asyncio.create_task(acquire(lock, "x", 30))
            await leaving

    cluster("abc", settings=ISIS).run(scenario)


def registered_before_failure(cluster: Make) -> list[str]:
    """What b knows of a's read lock: a fails when its registration has left for nobody, and a later message of it has
    reached c, which has nothing to do with the lock."""

    async def scenario(net: Cluster) -> list[str]:
        async with net.connect("b") as b, net.connect("c") as c, Watched(b.isis, "locks") as lock:
            other = await c.isis.open()

            async def reader(address: str) -> None:
                async with reconvene.connect(address) as site, Lock(site.isis, "locks") as mine:
                    net.cut("a", "b")
                    async with mine.read("x"):
                        await site.isis.cbcast(b"I have read x", to=[other])
                        await asyncio.Event().wait()

            net.spawn("a", reader, net.address("a"))
            assert isinstance(await c.isis.next(timeout=30), reconvene.Cast)
            net.crash("a")
            net.mend("a", "b")
            while len(lock.members) == 2:
                await asyncio.sleep(0.1)
            assert lock.readers("x") == ()
            return lock.seen

    return cluster("abc", settings=ISIS).run(scenario)


class Watched(Lock):
    def __init__(self, isis: reconvene.Isis, name: str) -> None:
        super().__init__(isis, name)
        self.seen: list[str] = []

    def received(self, cast: reconvene.Cast | reconvene.Action) -> None:
        self.seen.append(type(decode(cast.data)).__name__)
        super().received(cast)

    def viewed(self, view: reconvene.GroupView) -> None:
        self.seen.append(f"{len(view.members)} members")
        super().viewed(view)


def test_a_read_lock_is_known_before_its_holder_fails(cluster: Make) -> None:
    assert registered_before_failure(cluster) == ["1 members", "2 members", "Registered", "1 members"]


def test_planted_registered_under_a_topic_label(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    right = IsisGroup.cbcast
    monkeypatch.setattr(IsisGroup, "cbcast", lambda self, data: right(self, data, label="x"))
    assert registered_before_failure(cluster) == ["1 members", "2 members", "1 members"]


P, Q = Process("a", 1, 1), Process("b", 1, 1)


def test_the_table() -> None:
    """Whichever order the requests come in."""
    wants = [(Q, Want(1, "x", write=False), 5), (P, Want(1, "x", write=True), 5), (Q, Want(2, "x", write=True), 4)]
    found = []
    for order in permutations(wants):
        table = LockTable()
        table.viewed(reconvene.GroupView("locks", 3, (P, Q), {}, (), (), (), primary=7))
        for sender, want, clock in order:
            table.want(sender, want, clock)
        other = LockTable()
        other.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(table.state())))
        assert (other.queues, other.readers) == (table.queues, table.readers)
        found.append(table.queues)
    assert all(queues == found[0] for queues in found)
    assert [(request.owner, request.number) for request in table.queues["x"]] == [(Q, 2), (P, 1), (Q, 1)]
    table.register(P, Registered(2, "x"))
    assert table.granted("x") == []
    table.release(P, Released(2, "x", queued=False, place=Place(7, 3, 4)))
    assert [request.number for request in table.granted("x")] == [2]
    assert (table.last, table.next) == (Place(7, 3, 4), Place(7, 3, 5))
    table.release(Q, Released(2, "x", queued=True, place=Place(7, 3, 5, 8)))
    assert (table.last, table.next) == (Place(7, 3, 5, 8), Place(7, 3, 6))
    assert list(table.viewed(reconvene.GroupView("locks", 4, (Q,), {}, (), (), (), primary=7))) == ["x"]
    assert [(request.owner, request.write) for request in table.granted("x")] == [(Q, False)]
    table.want(Q, Want(3, "x", write=True), 1)
    assert [request.number for request in table.queues["x"]] == [1, 3], "of a later view, though its clock is lower"
    assert int(Place(7, 3, 1, 5)) == 7 << 96 | 3 << 64 | 1 << 32 | 5


def test_what_is_no_message_is_passed_over() -> None:
    for data in (b"", b"\xff", b"text", b"\x91\x01", b"\x93\xa4read\xa11\xa1\xff"):
        assert decode(data) is None
    assert decode(msgspec.msgpack.encode(Registered(1, "x"))) == Registered(1, "x")
