"""Transactions: what was staged is seen at its commit's place, all of it or nothing, once."""

import asyncio

import pytest
from tests.client.fake_log import FakeLog, Shared
from tests.client.test_cluster import three
from tests.client.test_log import connected, place
from tests.client.test_log_cluster import cut_off, healths, mend
from tests.client.test_log_machines import Words
from tests.durable import durable

import reconvene
from reconvene import Entry, Log, OutcomeUnknown, Rejected, Truncated, blocking
from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import MOST_RANGES, Commit, encode_commit
from reconvene.wire.client_log import Append


async def staged(log: Log, *texts: str) -> list[tuple[int, int]]:
    staging = log.staging(timeout=10)
    await staging.put([text.encode() for text in texts])
    return list((await staging.ordered()).runs)


def seen(entries: list[Entry]) -> list[tuple[int, str, int | None]]:
    return [(entry.position, entry.data.decode(), entry.commit) for entry in entries]


EXPECTED = [(0, "first", None), (4, "between", None), (3, "z", 5), (1, "x", 5), (2, "y", 5), (6, "last", None)]


async def told(log: Log) -> None:
    """A log of seven positions, with a transaction in it."""
    await log.append(b"first")
    ((position, count),) = await staged(log, "x", "y", "z")
    assert (position, count) == (1, 3)
    await (await log.append(b"between")).ordered()
    assert seen(await log.read()) == [(0, "first", None), (4, "between", None)]
    committed = await log.commit([(3, 1), (1, 2)], name="table", version=7)
    assert (committed.position, committed.duplicate) == (5, False)
    await (await log.append(b"last")).ordered()


def test_what_was_staged_is_seen_at_its_commits_place() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await told(log)
            assert seen(await log.read()) == EXPECTED
            assert [entry.id for entry in await log.read(1, 6)] == ["a:1:5", "a:1:4", "a:1:2", "a:1:3"]
            assert await log.read(6) == (await log.read())[-1:]
            raw = await log.read(control=True)
            assert [entry.kind for entry in raw] == ["data", *["staged"] * 3, "data", "commit", "data"]
            assert raw[5].transaction() == {"name": "table", "version": 7, "rows": 3, "ranges": 2}
            assert raw[4].transaction() is None
            # What repeats it, or comes too late, counts for nothing.
            for version in (7, 3):
                assert (await log.commit([(1, 1)], name="table", version=version)).duplicate is (version == 7)
            assert await log.last_commit("table") == (7, 5)
            assert await log.last_commit("another") is None
            assert here.fake.appends[1] == (3, None, 0), "who stages needs no session"

    asyncio.run(scenario())


def test_a_reader_goes_on_after_the_whole_or_before_it() -> None:
    async def scenario() -> None:
        async with connected() as (log, _):
            await told(log)
            follow = log.follow(stop=7)
            places = [(entry.data, follow.position) async for entry in follow]
            assert places == [(b"first", 1), (b"between", 5), (b"z", 5), (b"x", 5), (b"y", 6), (b"last", 7)]
            for taken in range(6):
                follow = log.follow(stop=7)
                for _ in range(taken):
                    await anext(follow)
                rest = [entry async for batch in follow.batches() for entry in batch.entries()]
                assert seen(rest) == EXPECTED[taken:]
                again = log.follow(places[taken - 1][1] if taken else 0, stop=7)
                assert seen([entry async for entry in again]) == EXPECTED[2 if 2 <= taken < 5 else taken :]
            batches = [(batch.position, batch.next, batch.more) async for batch in log.follow(stop=7).batches()]
            assert batches == [(0, 1, False), (4, 5, False), (3, 5, True), (1, 6, False), (6, 7, False)]

    asyncio.run(scenario())


def test_a_cancelled_read_loses_nothing() -> None:
    async def scenario() -> None:
        async with connected() as (log, _):
            places = []
            for each in range(40):
                places += await staged(log, *(f"{each} {at} {'x' * 20_000}" for at in range(3)))
            await log.commit(places)
            await log.append(b"end")
            follow = log.follow(stop=122)
            found: list[str] = []
            while True:
                reading = asyncio.ensure_future(anext(follow))
                for _ in range(len(found) % 4):
                    await asyncio.sleep(0)
                reading.cancel()
                try:
                    found.append((await reading).data.decode()[:5].strip("x "))
                except asyncio.CancelledError:
                    pass
                except StopAsyncIteration:
                    break
                try:
                    found.append((await anext(follow)).data.decode()[:5].strip("x "))
                except StopAsyncIteration:
                    break
            assert found == [*(f"{each} {at}" for each in range(40) for at in range(3)), "end"]

    asyncio.run(scenario())


def test_many_ranges_large_messages_and_none_at_all() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await log.append_many([b"%d" % at for at in range(700)])
            staging = log.staging(timeout=10)
            for at in range(700):
                await staging.put([b"row %d" % at])
                if at % 2:
                    await log.append(b"other")
            places = list((await staging.ordered()).runs)
            large = await staged(log, *(str(at) * 900_000 for at in range(4)))
            await log.commit(large[::-1])
            await log.commit([(position, 1) for position, _ in places[::-1]])
            await log.commit([])
            found = await log.read(here.fake.green - 3)
            assert [len(entry.data) for entry in found[:4]] == [900_000] * 4
            assert [entry.data for entry in found[4:]] == [b"row %d" % (at * 2) for at in reversed(range(350))]
            follow = log.follow(here.fake.green - 1, stop=here.fake.green)
            assert [entry async for entry in follow] == []
            assert follow.position == here.fake.green

    asyncio.run(scenario())


def test_a_commit_that_makes_no_sense_shows_nothing() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await log.append_many([b"a", b"b"])
            await staged(log, "x", "y")
            for ranges in ([(0, 2)], [(2, 1), (9, 1)], [(1, 1), (4, 1)]):
                here.fake.append(Append(0, [encode_commit(Commit("", 0, ranges))], kind=Kind.COMMIT))
            for nonsense in (b"nonsense", encode_commit(Commit("", 0, [(2, 2), (3, 1)]))):
                with pytest.raises(Rejected, match="a commit"):
                    await _append_raw(log, nonsense)
                here.fake.append(Append(0, [nonsense], kind=Kind.COMMIT))
            await log.append(b"end")
            assert [entry.data for entry in await log.read()] == [b"a", b"b", b"end"]
            assert [entry.data async for entry in log.follow(stop=10)] == [b"a", b"b", b"end"]

    async def _append_raw(log: Log, data: bytes) -> None:
        await log._start([data], kind=Kind.COMMIT).accepted()

    asyncio.run(scenario())


def test_what_is_refused() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            with pytest.raises(ValueError, match="name: 1 to 1024 characters expected"):
                await log.commit([], name="")
            with pytest.raises(ValueError, match="version: a number from 0 on"):
                await log.commit([], name="t", version=-1)
            with pytest.raises(ValueError, match=f"at most {MOST_RANGES}"):
                await log.commit([(2 * at, 1) for at in range(MOST_RANGES + 1)])
            with pytest.raises(Rejected, match="can't be appended: use change_replicas"):
                await log._start([b"change"], kind=Kind.CHANGE).accepted()
            places = await staged(log, "x", "y")
            await log.commit(places)
            await log.append(b"end")
            here.fake.truncate(1)
            with pytest.raises(Truncated, match="staged messages are not in the log any more") as late:
                await log.commit(places)
            assert late.value.first == 1
            with pytest.raises(Truncated, match="committed at 2 has lost messages") as lost:
                await log.read(2)
            assert lost.value.first == 3
            assert [entry.data for entry in await log.read(lost.value.first)] == [b"end"]

    asyncio.run(scenario())


def test_a_site_that_knows_no_transactions_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("reconvene.runtime.clients.connection.MINOR", 1)
        async with connected() as (log, _):
            with pytest.raises(Rejected, match=r"transactions need 1\.2"):
                await staged(log, "x")

    asyncio.run(scenario())


def test_a_client_that_knows_no_transactions_misses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await told(log)
            monkeypatch.setattr("reconvene.client.channel.MINOR", 1)
            async with reconvene.connect(here.serves.unix) as site:
                assert [entry.data for entry in await site.log.read(6)] == [b"last"]
                with pytest.raises(
                    Rejected, match=r"a transaction at position 5: a client of protocol 1\.2 or later"
                ):
                    await site.log.read()

    asyncio.run(scenario())


def test_a_reader_waits_for_a_site_that_is_behind() -> None:
    """It has failed over to one that does not have all of what the commit names."""

    async def scenario() -> None:
        async with connected() as (log, here):
            await told(log)
            green, here.fake.shared.green = here.fake.green, 2
            link = log._link
            asked = asyncio.create_task(link.collect([(1, 3)], 1_000))
            assert [batch.messages for batch in (await asked).batches] == [[b"x", b"y", b"z"]]  # whole batches
            assert (await link.collect([(3, 1)], 1_000)).batches == []
            here.fake.shared.green = green
            assert seen(await log.read()) == EXPECTED

    asyncio.run(scenario())


def test_a_state_machine_takes_a_transaction_as_a_whole() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await told(log)
            async with log.run(Words(), snapshot_every=1) as runner:
                await runner.applied(6)
                assert isinstance(runner.machine, Words)
                assert runner.machine.words == [text for _, text, _ in EXPECTED]
                places = await staged(log, "tentative")
                view = await runner.optimistic()
                assert isinstance(view, Words)
                assert view.words == runner.machine.words, "what is staged is not pending"
                committed = await log.commit(places)
                await runner.applied(committed.position)
                assert runner.machine.words[-1] == "tentative"
            kept = here.fake.shared.snapshots["Words"]
            assert kept[0] != 5, "not amid the transaction"

    asyncio.run(scenario())


def test_a_site_inside_the_program_and_the_blocking_twin() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), three() as sites:
            own = sites.sites[0].log
            await healths(sites, dict.fromkeys("abc", "primary"))
            await told(own)
            assert seen(await own.read()) == EXPECTED
            assert await sites.sites[2].log.barrier(10) == 7
            for site in sites.sites:
                assert seen([entry async for entry in site.log.follow(stop=7)]) == EXPECTED
                assert await site.log.last_commit("table") == (7, 5)
            await asyncio.to_thread(read_without_asyncio, sites.socket("b"))
            # A lower version counts for nothing, whoever takes it.
            assert (await sites.sites[1].log.commit([(1, 1)], name="table", version=3)).duplicate
            assert (await sites.sites[1].log.commit([(1, 1)], name="table", version=7)).duplicate
            # The same commit once more is a duplicate too, wherever it is made.
            for site in sites.sites:
                again = await site.log.commit([(3, 1), (1, 2)], name="table", version=7)
                assert (again.position, again.duplicate) == (5, True)
            assert (await sites.sites[2].log.last_commit("table")) == (7, 5)

    def read_without_asyncio(socket: str) -> None:
        with blocking.connect(socket) as site:
            follow = site.log.follow(stop=7)
            places = [(entry.data, follow.position) for entry in follow]
            assert places == [(b"first", 1), (b"between", 5), (b"z", 5), (b"x", 5), (b"y", 6), (b"last", 7)]
            staging = site.log.staging(timeout=10)
            staging.put([b"1", b"2"])
            again = site.log.commit(staging.ordered().runs, name="other", timeout=10)
            assert (again.duplicate, site.log.last_commit("other")) == (False, (0, again.position))
            assert [batch.next for batch in site.log.follow(5, stop=again.position + 1).batches()][-1] == (
                again.position + 1
            )

    asyncio.run(scenario())


def test_two_commits_of_a_version_on_two_sides_of_a_partition() -> None:
    """A writer that is cut off does not know whether it has committed, and does it again elsewhere."""

    async def scenario() -> None:
        async with asyncio.timeout(60), three() as sites:
            await healths(sites, dict.fromkeys("abc", "primary"))
            alone, other = sites.sites[2].log, sites.sites[0].log
            places = await staged(alone, "once")
            await other.barrier(10)
            await cut_off(sites, "c")
            with pytest.raises(OutcomeUnknown, match="not ordered within"):
                await alone.commit(places, name="query", version=4, timeout=0.2)
            staging = alone.staging(timeout=0.2)
            await staging.put([b"never"])
            with pytest.raises(OutcomeUnknown, match="not ordered within"):
                await staging.ordered()
            again = await other.commit(await staged(other, "once"), name="query", version=4)
            assert not again.duplicate
            await mend(sites)
            await healths(sites, dict.fromkeys("abc", "primary"))
            end = await other.commit(await staged(other, "next"), name="query", version=5)
            for site in sites.sites:
                await site.log.barrier(20)
                # The one that was cut off comes late, before or after the next version: it counts for nothing.
                texts = [entry.data async for entry in site.log.follow(stop=end.position + 1)]
                assert texts == [b"once", b"next"]

    asyncio.run(scenario())


def test_what_a_lost_site_has_not_ordered_is_staged_again() -> None:
    async def scenario() -> None:
        shared = Shared()
        first, second = FakeLog("a", shared), FakeLog("b", shared)
        async with (
            asyncio.timeout(30),
            place(first) as here,
            place(second) as there,
            reconvene.connect([here.serves.unix, there.serves.unix]) as site,
        ):
            first.order = False
            staging = site.log.staging(timeout=10)
            await staging.put([b"x", b"y"])
            ordering = asyncio.create_task(staging.ordered())
            while not first.waiting or not durable(first, 2).done():
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            here.abort()
            places = await ordering
            assert places.runs == ((0, 2),)
            first.order_all()  # it comes back after all: what it has is never named
            await site.log.commit(places.runs)
            assert [(entry.data, entry.author) for entry in await site.log.read()] == [(b"x", "b"), (b"y", "b")]

    asyncio.run(scenario())


def test_a_commit_is_tried_again_at_another_site() -> None:
    async def scenario() -> None:
        shared = Shared()
        first, second = FakeLog("a", shared), FakeLog("b", shared)
        async with (
            asyncio.timeout(30),
            place(first) as here,
            place(second) as there,
            reconvene.connect([here.serves.unix, there.serves.unix]) as site,
        ):
            places = await staged(site.log, "x")
            first.sync = False
            committing = asyncio.create_task(site.log.commit(places, name="t"))
            while not first.waiting and len(first.appends) < 2:
                await asyncio.sleep(0.005)
            here.abort()
            committed = await committing
            assert not committed.duplicate or committed.known_position is None
            assert [entry.data for entry in await site.log.read()] == [b"x"]

    asyncio.run(scenario())
