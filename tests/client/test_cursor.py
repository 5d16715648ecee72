"""Cursors: readers that remember, against a naive oracle, in virtual time, under crashes and partitions."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.client.cursor_ledger import Ledger
from tests.sim.chunks import few

import reconvene
from reconvene import CursorLost, InvalidArgument, OutcomeTimedOut, Rejected, TimedOut, Truncated, Unavailable
from reconvene.client import cursor as cursors
from reconvene.client.cursor import Cursor
from reconvene.client.cursor_record import Note, next_number
from reconvene.corel.batch import messages_of
from reconvene.corel.clients import session_table
from reconvene.corel.clients.commits import decode_commit
from reconvene.corel.clients.session_table import SessionTable, Taken
from reconvene.testing import Cluster

LEASE = 3.0
MESSAGES = 60


async def reader(addresses: Any, ledger: Ledger) -> None:
    """A consumer, as it would run beside each site: it holds the cursor when it can, and commits now and then."""
    while True:
        try:
            async with (
                reconvene.connect(addresses, wait=60) as site,
                site.log.cursor("billing", lease=LEASE) as cursor,
            ):
                ledger.take(cursor.term, cursor.committed)
                await read_some(cursor, ledger)
        except CursorLost:
            ledger.lost += 1
        except (reconvene.Unavailable, reconvene.OutcomeUnknown):
            await asyncio.sleep(0.5)


async def read_some(cursor: Cursor, ledger: Ledger) -> None:
    for _ in range(random.randrange(1, 40)):
        commits = random.random() < 0.4
        try:
            async with asyncio.timeout(5):
                entry = await anext(cursor)
        except TimeoutError:
            commits = True
        else:
            ledger.hand(cursor.term, entry.position)
            if random.random() < 0.3:
                await asyncio.sleep(random.uniform(0, 1))
        if commits:
            position = cursor.position
            await cursor.commit(timeout=random.choice([None, 2]))
            ledger.commit(position)


async def writer(addresses: Any, tag: str) -> None:
    async with reconvene.connect(addresses, wait=60) as site:
        session = site.log.session(f"writer {tag}".encode())
        for number in range(MESSAGES // 3):
            while True:
                try:
                    await session.append(f"{tag} {number}".encode(), number=number + 1)
                    break
                except (reconvene.Unavailable, reconvene.OutcomeUnknown):
                    await asyncio.sleep(1)
            await asyncio.sleep(random.uniform(0, 2))


async def break_something(net: Cluster) -> None:
    name = random.choice(net.names)
    match random.randrange(6):
        case 0:
            net.partition([[name], [other for other in net.names if other != name]])
        case 1:
            net.partition([[other] for other in net.names])
        case 2:
            net.crash(name)
        case 3:
            net.pause(name)
        case 4:
            net.network(latency="200ms", jitter="100ms", loss=0.05)
        case _:
            net.fill_disk(name)
    await asyncio.sleep(random.uniform(0.1, 15))
    await net.repair()
    net.network(latency="1ms", jitter="200us", loss=0)
    await asyncio.sleep(random.uniform(0.1, 3))


def run(seed: int) -> Ledger:
    """Three readers and three writers while things break; then until everything is committed."""
    ledger = Ledger()

    async def scenario(net: Cluster) -> list[int]:
        for name in net.names:
            others = [name, *(other for other in net.names if other != name)]
            net.spawn(name, reader, [net.address(one) for one in others], ledger)
        writers = [asyncio.create_task(writer(list(net.addresses.values()), name)) for name in net.names]
        for _ in range(4):
            await break_something(net)
        await asyncio.gather(*writers)
        async with net.connect() as site:
            end = await site.log.barrier()
            positions = [entry.position for entry in await site.log.read(0, end)]
            limit = asyncio.get_running_loop().time() + 240
            while ledger.committed <= positions[-1] and asyncio.get_running_loop().time() < limit:
                await asyncio.sleep(1)
            return positions

    positions = Cluster("abc", seed=seed).run(scenario, settle=False)
    ledger.judge(positions)
    return ledger


@pytest.mark.parametrize("seed", few(range(40), 4))
def test_readers_do_what_the_oracle_allows(seed: int) -> None:
    ledger = run(seed)
    assert ledger.problems == []
    assert ledger.begun, "somebody held it"


# -- planted bugs: each breaks one rule, and the oracle names it


def stale_records_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record counts also where another one came between."""

    def take(self: SessionTable, source: Any, body: bytes, position: int) -> bool:
        note = decode_commit(messages_of(body)[source.start]).note
        taken = self._cursors.pop(source.session, None)
        highest = max(source.number, taken.ranges[-1][1] if taken else 0)
        at = position + source.start
        self._cursors[source.session] = Taken(at, [(0, highest)], at, note)
        self._changed[source.session] = None
        return True

    monkeypatch.setattr(SessionTable, "_take_cursor", take)


def lease_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def over(self: Cursor, found: Any, note: Note) -> bool:
        await asyncio.sleep(0.5)
        return True

    monkeypatch.setattr(Cursor, "_over", over)


def holder_ignores_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cursor, "held", property(lambda self: self._lost is None and not self._closed))


def begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next holder begins at the start."""
    take = Cursor._take

    async def forgetful(self: Cursor) -> Note:
        note = await take(self)
        self._note = Note(note.name, 0, note.term, note.holder, note.who, note.lease_ms)
        return self._note

    monkeypatch.setattr(Cursor, "_take", forgetful)


def renewal_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal has the position that the cursor had before the last commit."""
    monkeypatch.setattr(cursors, "_renewed", lambda note: replace(note, position=max(0, note.position - 5)))


def skips_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lease had run out while it waited, what was read is forgotten."""
    read = Cursor.__anext__

    async def careless(self: Cursor) -> reconvene.Entry:
        if random.random() < 0.05:
            await read(self)
        return await read(self)

    monkeypatch.setattr(Cursor, "__anext__", careless)


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], set[str]]] = [
    (stale_records_count, {"cursor.one-holder", "cursor.position"}),
    (lease_not_waited_for, {"cursor.one-holder"}),
    (holder_ignores_its_lease, {"cursor.one-holder"}),
    (begins_anew, {"cursor.position"}),
    (renewal_goes_back, {"cursor.position"}),
    (skips_an_entry, {"cursor.complete"}),
]


@pytest.mark.parametrize(("plant", "names"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_bug_is_caught_by_name(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], names: set[str]
) -> None:
    plant(monkeypatch)
    for seed in range(50):
        found = {problem.split(":")[0] for problem in run(seed).problems}
        if found & names:
            return
    pytest.fail(f"not caught in 50 seeds by {sorted(names)}")


# -- one by one


def quietly(scenario: Callable[[Cluster, reconvene.Log], Any], **options: Any) -> Any:
    async def whole(net: Cluster) -> Any:
        async with net.connect("a") as site:
            return await scenario(net, site.log)

    return Cluster("abc", seed=1, **options).run(whole)


async def appended(log: reconvene.Log, count: int) -> None:
    await (await log.append_many([b"%d" % number for number in range(count)])).ordered()


def test_a_cursor_goes_on_where_it_was_committed_and_no_reader_sees_its_records() -> None:
    async def scenario(net: Cluster, log: reconvene.Log) -> None:
        await appended(log, 10)
        async with log.cursor("billing", who="me") as cursor:
            assert (cursor.committed, cursor.position, cursor.name, cursor.held) == (0, 0, "billing", True)
            got = [(await anext(cursor)).data for _ in range(4)]
            assert got == [b"0", b"1", b"2", b"3"]
            await cursor.commit()
            await anext(cursor)
            (info,) = await log.cursors()
            assert (info.name, info.position, info.holder, info.lease) == ("billing", 4, "me", 10)
        assert (await log.cursors())[0].holder is None
        async with net.connect("b") as other, other.log.cursor("billing") as cursor:
            assert cursor.term > info.term
            assert (await anext(cursor)).data == b"4", "it was not committed"
        assert [entry.data for entry in await log.read()] == [b"%d" % number for number in range(10)]
        record = (await log.read(10, 11, control=True))[0]
        transaction = record.transaction()
        assert record.kind == "commit"
        assert transaction is not None
        assert transaction["name"] == "cursor billing"

    quietly(scenario)


def test_a_cursor_survives_the_truncation_of_its_records_and_a_new_replica_gets_it() -> None:
    async def scenario(net: Cluster, log: reconvene.Log) -> None:
        await appended(log, 10)
        async with log.cursor("billing") as cursor:
            await anext(cursor)
            await cursor.commit()
        net.crash("c")
        for _ in range(8):
            await (await log.append_many([b"x" * 100_000] * 20)).ordered()
        while (await log.status()).base < 30:
            await (await log.append(b"x" * 1_000_000)).ordered()
            await asyncio.sleep(1)
        await net.restart("c")
        async with net.connect("c") as other:
            await other.log.barrier()
            assert (await other.log.status()).base >= 30, "it got the base of another one"
            (info,) = await other.log.cursors()
            assert (info.name, info.position) == ("billing", 1)
            async with other.log.cursor("billing") as cursor:
                with pytest.raises(Truncated) as gone:
                    await anext(cursor)
                await cursor.commit(gone.value.first)
                assert (await anext(cursor)).position >= gone.value.first

    quietly(scenario, settings={"log": {"retain_bytes": "2MiB"}})


def test_a_dead_holder_is_followed_after_its_lease_and_can_not_commit() -> None:
    async def scenario(net: Cluster, log: reconvene.Log) -> None:
        await appended(log, 5)
        now = asyncio.get_running_loop().time

        async def hold(address: str) -> str:
            async with reconvene.connect(address) as site, site.log.cursor("billing", lease=5) as cursor:
                await anext(cursor)
                try:
                    await cursor.commit()
                    await asyncio.sleep(30)
                    await cursor.commit(3)
                except CursorLost as error:
                    return str(error)
            return "it went through"

        program = net.spawn("b", hold, net.address("b"))
        await asyncio.sleep(2)
        with pytest.raises(TimedOut, match="was not free within 1 s"):
            async with log.cursor("billing", timeout=1):
                pass
        net.pause("b")
        started = now()
        async with log.cursor("billing", lease=5, who="the next one") as cursor:
            assert 3 < now() - started < 7
            assert cursor.committed == 1
            net.resume("b")
            await asyncio.sleep(60)
            assert cursor.held
            said = await program.wait()
            assert "is not held here any more: the next one holds it now, from position 1 on" in said

    quietly(scenario)


def test_a_holder_in_a_minority_hands_out_nothing_and_goes_on_if_nobody_took_it() -> None:
    async def scenario(net: Cluster, log: reconvene.Log) -> None:
        await appended(log, 5)
        async with log.cursor("billing", lease=5) as cursor:
            await anext(cursor)
            net.partition([["a"], ["b", "c"]])
            await asyncio.sleep(10)
            assert not cursor.held
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(cursor), 5)
            with pytest.raises(OutcomeTimedOut):
                await cursor.commit(timeout=1)
            net.heal()
            assert (await anext(cursor)).data == b"1", "the read that was cancelled lost nothing"
            await cursor.commit()
            assert cursor.committed == 2

    quietly(scenario)


def test_a_dropped_cursor_begins_anew() -> None:
    async def scenario(net: Cluster, log: reconvene.Log) -> None:
        await appended(log, 5)
        with pytest.raises(Rejected, match="there is no cursor 'billing'"):
            await log.drop_cursor("billing")
        async with log.cursor("billing", start=2) as cursor:
            term = cursor.term
            assert (await anext(cursor)).data == b"2"
            await cursor.commit()
        await log.drop_cursor("billing")
        assert await log.cursors() == []
        with pytest.raises(Rejected, match="there is no cursor"):
            await log.drop_cursor("billing")
        async with log.cursor("billing") as cursor:
            assert cursor.committed == 0
            assert cursor.term > term

    quietly(scenario)


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_table, "MOST_CURSORS", 3)
    monkeypatch.setattr(cursors, "MOST_CURSORS", 3)

    async def scenario(net: Cluster, log: reconvene.Log) -> None:
        for name in "xyz":
            async with log.cursor(name):
                pass
        with pytest.raises(Rejected, match="one more than the 3 that a log has"):
            async with log.cursor("w"):
                pass
        await log.drop_cursor("y")
        async with log.cursor("w"):
            pass
        assert [one.name for one in await log.cursors()] == ["w", "x", "z"]

    quietly(scenario)


def test_what_a_program_passes_is_checked() -> None:
    async def scenario(net: Cluster, log: reconvene.Log) -> None:
        await appended(log, 5)
        for lease in (0, 0.5, 86_401):
            with pytest.raises(InvalidArgument, match="lease: 1 to 86400 seconds expected"):
                log.cursor("billing", lease=lease)
        for name in ("", "n" * 129):
            with pytest.raises(InvalidArgument, match="name: 1 to 128 characters expected"):
                log.cursor(name)
        with pytest.raises(TypeError, match="name: text expected"):
            log.cursor(b"billing")  # type: ignore[arg-type]
        cursor = log.cursor("billing")
        with pytest.raises(Unavailable, match="read it inside its block"):
            await anext(cursor)
        with pytest.raises(Unavailable, match="commit inside its block"):
            await cursor.commit()
        async with cursor:
            await cursor.commit(3)
            with pytest.raises(InvalidArgument, match="3 is committed already, 2 is below it"):
                await cursor.commit(2)
            with pytest.raises(InvalidArgument, match=r"the log ends at \d+ here, 100 is beyond it"):
                await cursor.commit(100)
            assert (await anext(cursor)).data == b"3"
        with pytest.raises(Unavailable, match="was used before"):
            await cursor.__aenter__()
        with pytest.raises(Rejected, match="are for the records of cursors"):
            await log.append(b"x", session=session_table.CURSOR + b"x", number=1)

    quietly(scenario)


def test_numbers_make_a_record_count_only_after_the_one_that_its_writer_saw() -> None:
    rng = random.Random(5)
    for _ in range(200):
        last: int | None = None
        highest, position = 0, 0
        old: list[int | None] = [None]
        for _ in range(20):
            position += rng.randrange(1, 4)
            seen = rng.choice([last, *old])
            number = next_number(seen)
            assert (number > highest) == (seen == last)
            if number > highest:
                highest, last = number, position
                old.append(last)
