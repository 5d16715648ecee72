"""The log through a connection, before a log that does what the test says."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.client.fake_engine import FakeEngine
from tests.client.fake_log import FakeLog, Shared
from tests.client.places import Serving, serving
from tests.client.raw import Raw

import reconvene
from reconvene import Color, Entry, Log, OutcomeUnknown, Rejected, Truncated, Unavailable
from reconvene.client.log_link import LogLink
from reconvene.client.positions import Positions
from reconvene.corel.batch import Kind
from reconvene.entries import EntryBatch
from reconvene.runtime.access.key_files import add_client_key
from reconvene.runtime.clients import log_requests as client_log
from reconvene.runtime.clients.log_appends import WINDOW_REQUESTS
from reconvene.runtime.config.settings import Clients, Limits
from reconvene.runtime.log.interface import SiteLog
from reconvene.wire import client_log as wire
from reconvene.wire.client_log import Append
from reconvene.wire.clients import Failed, Refused, Told


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0.005)


class ServedLog:
    """A site with a made-up log, and a client of it."""

    def __init__(self, serves: Serving, log: FakeLog) -> None:
        self.serves = serves
        self.fake = log

    def abort(self) -> None:
        for connection in list(self.serves.server._state.connections):
            connection.abort()


@asynccontextmanager
async def place(
    fake: FakeLog | None = None, clients: Clients | None = None, limits: Limits | None = None
) -> AsyncIterator[ServedLog]:
    engine = FakeEngine()
    made = FakeLog() if fake is None else fake
    engine.log = made
    async with serving(engine=engine, name=made.name, clients=clients, limits=limits) as serves:
        yield ServedLog(serves, made)


@asynccontextmanager
async def connected(timeout: float = 10.0) -> AsyncIterator[tuple[Log, ServedLog]]:
    async with (
        asyncio.timeout(30),
        place() as here,
        reconvene.connect(here.serves.unix, timeout=timeout) as site,
    ):
        yield site.log, here


def test_the_fake_is_a_port() -> None:
    port: SiteLog = FakeLog()
    assert port.name == "a"


def test_single_appends_of_one_round_travel_together() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            receipts = await asyncio.gather(*(log.append(b"%d" % at) for at in range(100)))
            assert [count for count, _, _ in here.fake.appends] == [100]
            assert [receipt.id for receipt in receipts[:2]] == ["a:1:1", "a:1:2"]
            assert [await receipt.ordered() for receipt in receipts] == list(range(100))
            session, number = here.fake.appends[0][1:]
            assert session is not None
            assert (len(session), number) == (16, 1)
            await log.append(b"later")
            assert here.fake.appends[1] == (1, session, 101)

    asyncio.run(scenario())


def test_one_that_is_refused_does_not_take_others_with_it() -> None:
    async def scenario() -> None:
        async with connected() as (log, _):
            large = log.append(b"x" * 1_100_000)
            done = await asyncio.gather(log.append(b"a"), large, log.append(b"b"), return_exceptions=True)
            assert isinstance(done[1], Rejected)
            # The large one flies alone; here it goes with others that are small.
            here = [receipt for receipt in done if not isinstance(receipt, BaseException)]
            assert [await receipt.ordered() for receipt in here] == [0, 1]
            with pytest.raises(Rejected, match="at most"):
                await log.append(b"x" * (17 << 20))

    asyncio.run(scenario())


def test_many_have_one_receipt() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            receipts = await log.append_many(b"%d" % at for at in range(10_000))
            assert len(receipts) == 10_000
            assert len(here.fake.appends) == 3
            positions = await receipts.ordered()
            assert positions == list(range(10_000))
            assert positions.runs[0][0] == 0
            assert receipts.ids[-1] == "a:1:10000"
            nothing = await log.append_many([])
            assert (len(nothing), list(await nothing.ordered())) == (0, [])

    asyncio.run(scenario())


def test_it_is_durable_before_it_returns_and_waits_for_its_position() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            here.fake.sync = here.fake.order = False
            appending = asyncio.create_task(log.append(b"x"))
            await until(lambda: bool(here.fake.waiting))
            await asyncio.sleep(0.02)
            assert not appending.done()
            here.fake.sync = True
            here.fake.turn()
            receipt = await appending
            with pytest.raises(OutcomeUnknown, match="not ordered within"):
                await receipt.ordered(timeout=0.02)
            waiting = asyncio.create_task(receipt.ordered())
            await asyncio.sleep(0.02)
            assert not waiting.done()
            here.fake.order_all()
            assert await waiting == 0
            here.fake.sync = False
            with pytest.raises(OutcomeUnknown, match="not durable within"):
                await log.append(b"y", timeout=0.02)

    asyncio.run(scenario())


def test_positions_that_do_not_follow_each_other() -> None:
    async def scenario() -> None:
        shared = Shared()
        fake, other = FakeLog("a", shared), FakeLog("b", shared)
        async with (
            asyncio.timeout(30),
            place(fake) as here,
            reconvene.connect(here.serves.unix) as site,
        ):
            fake.order = False
            receipts = await site.log.append_many([b"1", b"2", b"3", b"4", b"5"])
            (first, messages, session, number, kind), fake.waiting = fake.waiting[0], []
            for cut in ((0, 2), (2, 3), (3, 5)):
                fake.waiting = [(first + cut[0], messages[cut[0] : cut[1]], session, number + cut[0], kind)]
                fake.order_all()
                other.append(Append(0, [b"other"]))
                other.order_all()
            positions = await receipts.ordered()
            assert positions.runs == ((0, 2), (3, 1), (5, 2))
            assert [entry.data async for entry in site.log.follow(stop=3)] == [b"1", b"2", b"other"]

    asyncio.run(scenario())


def test_what_was_not_acknowledged_is_tried_again_and_taken_once() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            here.fake.sync = False
            appending = asyncio.create_task(log.append_many([b"1", b"2"]))
            single = asyncio.create_task(log.append(b"3"))
            await until(lambda: len(here.fake.appends) == 2)
            here.abort()
            here.fake.sync = True
            here.fake.turn()
            receipts, receipt = await appending, await single
            assert here.fake.appends[2:] == here.fake.appends[:2]
            assert (receipts.duplicate, receipt.duplicate) == (2, True)
            assert [entry.data for entry in await log.read()] == [b"1", b"2", b"3"]
            with pytest.raises(reconvene.PlaceForgotten, match="2 messages are ordered") as forgotten:
                await receipts.ordered()
            assert forgotten.value.positions == (None, None)

    asyncio.run(scenario())


@asynccontextmanager
async def two(first: FakeLog, second: FakeLog) -> AsyncIterator[tuple[ServedLog, reconvene.Site]]:
    """A client of the first, which may go to the second."""
    async with (
        asyncio.timeout(30),
        place(second) as other,
        place(first) as here,
        reconvene.connect([here.serves.unix, other.serves.unix]) as site,
    ):
        yield here, site


def test_another_site_is_told_the_same_session_and_numbers() -> None:
    """What the first site took, and never acknowledged, becomes void where it comes second."""

    async def scenario() -> None:
        shared = Shared()
        first, second = FakeLog("a", shared), FakeLog("b", shared)
        async with two(first, second) as (here, site):
            kept = await site.log.append(b"acknowledged")
            first.order = False
            unordered = await site.log.append(b"ordered later")
            first.sync = False
            appending = asyncio.create_task(site.log.append(b"twice"))
            await until(lambda: len(first.appends) == 3)
            here.serves.engine.accesses.clear()
            await here.serves.server.close()
            receipt = await appending
            assert (receipt.id, second.appends[0][1:]) == ("b:1:1", first.appends[2][1:])
            assert await receipt.ordered() == 1
            waiting = asyncio.create_task(unordered.ordered())
            await asyncio.sleep(0.02)
            assert not waiting.done()
            first.order_all()
            # The second site finds what the first one ordered.
            assert await waiting == 2
            assert await kept.ordered() == 0
            everything = await site.log.read(control=True)
            assert [(entry.data, entry.kind) for entry in everything] == [
                (b"acknowledged", "data"),
                (b"twice", "data"),
                (b"ordered later", "data"),
                (b"twice", "void"),
            ]
            assert [entry.data for entry in await site.log.read(1)] == [b"twice", b"ordered later"]

    asyncio.run(scenario())


def test_a_session_of_the_programs_own() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await log.append(b"1", session=b"till 7", number=1)
            await log.append_many([b"2", b"3"], session=b"till 7", number=2)
            again = await log.append_many([b"2", b"3", b"4"], session=b"till 7", number=2)
            assert (again.duplicate, again.ids) == (2, [None, None, "a:1:4"])
            assert here.fake.appends[-1] == (3, b"till 7", 2)
            assert [entry.data for entry in await log.read()] == [b"1", b"2", b"3", b"4"]
            with pytest.raises(reconvene.PlaceForgotten) as forgotten:
                await again.ordered()
            assert forgotten.value.positions == (None, None, 3)
            with pytest.raises(reconvene.PlaceForgotten, match="the message is ordered"):
                await (await log.append(b"1", session=b"till 7", number=1)).ordered()
            here.fake.appends.pop()
            for session, number in ((b"", 1), (b"x" * 65, 1), (b"x", 0), (None, 1), (None, 0), (b"x", 1 << 62)):
                with pytest.raises(ValueError, match=r"session|number"):
                    await log.append(b"x", session=session, number=number)
                with pytest.raises(ValueError, match=r"session|number"):
                    await log.append_many([b"x"], session=session, number=number)
            wrong: Any
            for wrong in (("text", 1), (b"x", None), (b"x", "1"), (b"x", True)):
                with pytest.raises(TypeError, match=r"session|number"):
                    await log.append(b"x", session=wrong[0], number=wrong[1])
            assert here.fake.appends[-1] == (3, b"till 7", 2), "nothing was sent"

    asyncio.run(scenario())


def test_messages_that_are_too_large_leave_no_gaps_in_the_session() -> None:
    async def scenario() -> None:
        async with place(limits=Limits(message_bytes=8 << 10)) as here, reconvene.connect(here.serves.unix) as site:
            messages = [bytes(5_000) if at % 2 else b"%d" % at for at in range(200)]
            outcomes = await asyncio.gather(*map(site.log.append, messages), return_exceptions=True)
            assert [isinstance(outcome, Rejected) for outcome in outcomes] == [False, True] * 100
            assert "at most 4096" in str(outcomes[1])
            numbers = [number for _, _, number in here.fake.appends]
            assert numbers == list(range(1, 101))

    asyncio.run(scenario())


def test_a_session_with_many_refusals_is_followed_by_another() -> None:
    """Each refusal may leave a gap in its numbers, and the log remembers a limited number of them."""

    async def scenario() -> None:
        async with connected() as (log, here):
            for _ in range(100):
                here.fake.trouble = "the disk is full"
                with pytest.raises(Unavailable):
                    await log.append(b"refused")
                here.fake.trouble = None
                await log.append(b"taken")
            gaps: dict[bytes | None, int] = {}
            for _, session, _ in here.fake.appends:
                gaps[session] = gaps.get(session, 0) + 1
            assert len(gaps) == 7
            assert max(gaps.values()) <= 16
            assert len(await log.read()) == 100

    asyncio.run(scenario())


def test_giving_up() -> None:
    async def scenario() -> None:
        async with connected(timeout=0.2) as (log, here):
            here.fake.sync = False
            sent = asyncio.create_task(log.append(b"sent"))
            await until(lambda: bool(here.fake.appends))
            await here.serves.server.close()
            with pytest.raises(OutcomeUnknown, match="may or may not"):
                await sent
            with pytest.raises(Unavailable, match="no connection"):
                await log.append(b"never sent")
            with pytest.raises(Unavailable):
                await log.status()

    asyncio.run(scenario())


def test_closing_ends_what_waits() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(30), place() as here:
            here.fake.sync = False
            async with reconvene.connect(here.serves.unix) as site:
                waiting = asyncio.create_task(site.log.append(b"x"))
                await until(lambda: bool(here.fake.appends))
            with pytest.raises(OutcomeUnknown, match="closed here"):
                await waiting

    asyncio.run(scenario())


def test_no_room_is_waited_for_in_order() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            here.fake.order = False
            here.fake.most = 2
            await log.append_many([b"1", b"2"])
            waiting = [asyncio.create_task(log.append_many([b"%d" % at])) for at in (3, 4)]
            await asyncio.sleep(0.03)
            assert not any(task.done() for task in waiting)
            here.fake.order = True
            here.fake.turn()
            await asyncio.gather(*waiting)
            assert [entry.data for entry in await log.read()] == [b"1", b"2", b"3", b"4"]
            here.fake.trouble = "the disk is full"
            with pytest.raises(Unavailable, match="the disk is full"):
                await log.append(b"5")
            with pytest.raises(Unavailable, match="the disk is full") as raised:
                await log.append_many([b"5"] * 10)
            assert raised.value.taken == 0

    asyncio.run(scenario())


def test_the_site_knows_which_position_a_reader_waits_for() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await (await log.append(b"here")).ordered()
            await log.read(at_least=0)
            assert here.fake.expected == [], "it is there: nobody waits"
            reading = asyncio.ensure_future(log.read(at_least=1))
            await until(lambda: here.fake.expected == [1])
            await log.append(b"more")
            assert [entry.data for entry in await reading] == [b"here", b"more"]

    asyncio.run(scenario())


def test_following_waits_and_survives_a_lost_connection() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await log.append_many([b"%d" % at for at in range(20_000)])
            follow = log.follow(start=5)
            assert [(await anext(follow)).data for _ in range(3)] == [b"5", b"6", b"7"]
            batch = await follow.next_batch()
            assert batch is not None
            assert (batch.position, batch.messages[0], follow.position) == (8, b"8", batch.end)
            read = len(batch)
            while follow.position < 20_000:
                more = await follow.next_batch()
                assert more is not None
                read += len(more)
            assert read == 20_000 - 8
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(follow)
            waiting = asyncio.ensure_future(anext(follow))
            await asyncio.sleep(0.02)
            here.abort()
            await log.append(b"new")
            assert (await waiting).position == 20_000

    asyncio.run(scenario())


def test_what_is_not_the_applications_is_shown_to_who_asks() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await log.append(b"1")
            here.fake.change()
            await log.append(b"2")
            assert [entry.data for entry in await log.read()] == [b"1", b"2"]
            assert [entry.kind async for entry in log.follow(stop=3, control=True)] == ["data", "change", "data"]
            assert [batch.position async for batch in log.follow(stop=3).batches()] == [0, 2]
            assert [entry.data async for entry in log.follow(stop=3)] == [b"1", b"2"]

    asyncio.run(scenario())


def test_a_truncated_start_says_where_the_log_begins() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await log.append_many([b"1", b"2", b"3"])
            here.fake.truncate(2)
            for reading in (log.read(1), anext(log.follow()), log.read(0, 1)):
                with pytest.raises(Truncated, match="it begins at 2") as raised:
                    await reading
                assert raised.value.first == 2
            assert [entry.position for entry in await log.read(2)] == [2]
            assert await log.read(7) == []
            for bad in (-1, 1 << 62):
                with pytest.raises(ValueError, match="start"):
                    log.follow(bad)
            with pytest.raises(TypeError):
                await log.read("3")  # type: ignore[arg-type]

    asyncio.run(scenario())


def test_pending_entries_and_changes_of_colour() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            colors = log.colors()
            first = asyncio.ensure_future(anext(colors))
            await until(lambda: bool(here.fake.changed))
            await log.append(b"0")
            here.fake.order = False
            await log.append_many([b"1", b"2"])
            pending = await log.pending()
            assert [(entry.position, entry.id, entry.data, entry.color) for entry in pending] == [
                (1, "a:1:2", b"1", Color.RED),
                (2, "a:1:3", b"2", Color.RED),
            ]
            assert len(await log.pending(1)) == 1
            here.fake.order_all()
            change = await first
            assert (change.color, change.ids) == (Color.RED, ["a:1:1"])
            seen = [await anext(colors) for _ in range(3)]
            assert [(one.color, one.first, one.count) for one in seen] == [
                (Color.GREEN, 1, 1),
                (Color.RED, 2, 2),
                (Color.GREEN, 2, 2),
            ]
            here.abort()
            with pytest.raises(Unavailable, match="may be missing"):
                await anext(colors)
            await until(lambda: not here.fake.changed)

    asyncio.run(scenario())


def test_barrier_status_and_snapshots() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            assert await log.barrier() == 0
            here.fake.order = False
            await log.append(b"x")
            with pytest.raises(Unavailable, match="no barrier within"):
                await log.barrier(timeout=0.02)
            passing = asyncio.create_task(log.barrier())
            await asyncio.sleep(0.02)
            here.fake.order_all()
            assert await passing == 1
            assert (await log.status()).green == 1
            assert await log.snapshot() is None
            assert await log.read_snapshot() is None
            large = bytes(range(256)) * 4_000
            await log.save_snapshot(1, large)
            assert await log.read_snapshot() == (1, large)
            info = await log.snapshot()
            assert info is not None
            assert (info.position, info.size) == (1, len(large))
            await log.save_snapshot(1, b"")
            assert await log.read_snapshot() == (1, b"")
            with pytest.raises(Rejected, match="beyond"):
                await log.save_snapshot(9, b"x")

    asyncio.run(scenario())


def test_administration() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            assert await log.change_replicas(add="d", remove="c") == 0
            await log.change_replicas(quorum={"kind": "majority"})
            assert here.fake.replicas == [("d", "c", None), (None, None, {"kind": "majority"})]
            assert await log.losses(["b", "c"]) == {"lost": ["b", "c"]}
            await log.force_lost(["b", "c"])
            assert here.fake.replicas[-1] == ["b", "c"]
            await log.init(["c"])
            await log.drop_snapshot("till")
            who = f"by=unix:uid:{os.getuid()}:pid:{os.getpid()}"
            lines = here.serves.log
            assert lines.of("replicas changed") == [
                f"replicas changed: {who} add=d remove=c",
                f"replicas changed: {who} quorum={{'kind': 'majority'}}",
            ]
            assert lines.of("replicas given up") == [f"replicas given up: {who} lost=['b', 'c']"]
            assert lines.of("log begun") == [f"log begun: {who} without=['c']"]
            assert lines.of("snapshot dropped") == [f"snapshot dropped: {who} name=till"]
            with pytest.raises(ValueError, match="expected"):
                await log.change_replicas()
            with pytest.raises(TypeError):
                await log.losses("b")

    asyncio.run(scenario())


def test_a_change_that_nobody_waits_for_is_audited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            changes: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            asked = asyncio.Event()

            def change(**_: object) -> "asyncio.Future[int]":
                asked.set()
                return changes

            monkeypatch.setattr(here.fake, "change_replicas", change)
            asking = asyncio.create_task(log.change_replicas(add="d"))
            await asked.wait()
            asking.cancel()
            assert "add=d outcome=unknown: the client did not wait" in await here.serves.until("replicas changed")

    asyncio.run(scenario())


def test_a_site_without_a_log_and_one_that_does_not_know_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(30), serving() as serves, reconvene.connect(serves.unix) as site:
            with pytest.raises(Rejected, match="takes no part in the log"):
                await site.log.append(b"x")
        monkeypatch.setattr("reconvene.runtime.clients.connection.MINOR", 0)
        async with asyncio.timeout(30), place() as here, reconvene.connect(here.serves.unix) as old:
            for asking in (old.log.append(b"x"), old.log.read()):
                with pytest.raises(Rejected, match=r"speaks version 1\.0 .* the log needs 1\.1"):
                    await asking

    asyncio.run(scenario())


def test_roles() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(30), place() as here:
            directory = here.serves.config.dir
            for role in ("read", "append", "admin"):
                add_client_key(directory / "keys", role, role)
            clients = Clients(tcp=("127.0.0.1", 0), keys=directory / "keys")
            async with place(here.fake, clients) as keyed:
                for role in ("read", "append", "admin"):
                    async with reconvene.connect(keyed.serves.tcp, key=directory / "keys", key_name=role) as site:
                        await as_role(role, site.log)

    async def as_role(role: str, log: Log) -> None:
        await log.read()
        await log.pending()
        await log.status()
        await log.barrier()
        for needed, asking in (
            ("append", log.append(b"x")),
            ("admin", log.save_snapshot(0, b"x")),
            ("admin", log.change_replicas(add="d")),
            ("admin", log.force_lost(["b"])),
        ):
            if role in (needed, "admin"):
                await asking
            else:
                with pytest.raises(Rejected, match=f"the role {needed} is needed"):
                    await asking

    asyncio.run(scenario())


def test_a_client_that_oversteps_its_window_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_log, "MOST_WAITING", 100)

    async def scenario() -> None:
        async with asyncio.timeout(30), place() as here:
            here.fake.sync = False
            raw = await Raw.welcome(here.serves.unix)
            raw.send(*(wire.Append(number, [b"x"]) for number in range(WINDOW_REQUESTS + 2)))
            assert "unanswered" in (await raw.expect(Refused)).reason
            raw.close()
            waits = await Raw.welcome(here.serves.unix)
            waits.send(*(wire.Order(number, "b", 1, 1, 0, False) for number in range(client_log.MOST_WAITING + 1)))
            assert "wait for the log" in (await waits.expect(Refused)).reason
            waits.close()

    asyncio.run(scenario())


def test_pieces_of_a_snapshot_out_of_order() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(30), place() as here:
            raw = await Raw.welcome(here.serves.unix)
            for number, (total, offset, data) in enumerate(
                [(4, 2, b"cd"), (4, 0, b"ab"), (4, 1, b"c"), (2, 0, b"abc")]
            ):
                raw.send(wire.SaveSnapshot(number, 0, total, offset, data))
            raw.send(wire.SaveSnapshot(9, 0, 1 << 40, 0, b"x"))
            failed = [await raw.expect(Failed) for _ in range(4)]
            assert [(one.request, one.kind) for one in failed] == [
                (0, "rejected"),
                (2, "rejected"),
                (3, "rejected"),
                (9, "rejected"),
            ]
            raw.send(wire.Snapshot(10))
            assert (await raw.expect(Told)).document is None
            raw.close()

    asyncio.run(scenario())


def test_large_pending_messages_are_not_all_sent() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            here.fake.order = False
            await log.append_many([bytes(100_000)] * 20)
            assert 1 <= len(await log.pending()) < 20

    asyncio.run(scenario())


def test_positions() -> None:
    positions = Positions([(5, 3), (10, 1)])
    assert (list(positions), len(positions), positions[0], positions[-1]) == ([5, 6, 7, 10], 4, 5, 10)
    assert (positions[1:3], repr(positions)) == ([6, 7], "<positions 5–7, 10>")
    assert positions == [5, 6, 7, 10]
    for bad in (4, -5):
        with pytest.raises(IndexError):
            positions[bad]


def test_a_batch_cut_and_counted_one_by_one() -> None:
    batch = EntryBatch(10, "a", 1, 100, 7, Kind.DATA, [b"0", b"1", b"2", b"3"], (1, 3))
    assert [(entry.position, entry.counter, entry.data) for entry in batch.entries()] == [
        (10, 100, b"0"),
        (12, 102, b"2"),
    ]
    assert [entry.kind for entry in batch.entries(control=True)] == ["data", "void", "data", "void"]
    assert batch.cut(11, 13) == EntryBatch(11, "a", 1, 101, 7, Kind.DATA, [b"1", b"2"], (0,))
    assert batch.cut(3, None) is batch
    assert Entry(3, b"x", "a", 2, 9, 0).id == "a:2:9"


def test_a_wrong_answer_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            monkeypatch.setattr(here.fake, "status", lambda: ["no", "document"])
            with pytest.raises(reconvene.Malformed, match="the site's answer"):
                await log.status()
            assert isinstance(log._link, LogLink)

    asyncio.run(scenario())


def test_headings_tell_all_but_the_messages() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await (await log.append_many([b"0", b"1", b"2"])).ordered()
            here.fake.change(b"the replicas")
            await (await log.append_many([b"4", b"5"], session=b"s", number=1)).ordered()
            here.fake.shared.batches[-1] = msgspec.structs.replace(here.fake.shared.batches[-1], void=(1,))
            (found,) = [some async for some in log.headings()]
            assert [(one.position, one.end, one.author, one.first, one.kind) for one in found] == [
                (0, 3, "a", 1, "data"),
                (3, 4, "a", 4, "change"),
                (4, 6, "a", 5, "data"),
            ]
            assert [(one.messages, one.void) for one in found] == [([], ()), ([b"the replicas"], ()), ([], (1,))]
            (cut,) = [some async for some in log.headings(1, 4)]
            assert [(one.position, one.first, one.count) for one in cut] == [(1, 2, 2), (3, 4, 1)]
            assert [some async for some in log.headings(6)] == []
            here.fake.truncate(2)
            with pytest.raises(Truncated, match="begins at 2"):
                [some async for some in log.headings(1)]

    asyncio.run(scenario())


def test_a_site_that_can_not_leave_messages_out_is_understood() -> None:
    full = EntryBatch(7, "a", 1, 8, 9, Kind.DATA, [b"x", b"y"])
    bare = EntryBatch(7, "a", 1, 8, 9, Kind.DATA, [], (), 2)
    assert (full.count, full.end) == (bare.count, bare.end) == (2, 9)
    assert [(cut.position, cut.first, cut.count) for cut in (full.cut(8), bare.cut(8))] == [(8, 9, 1)] * 2


def test_a_batch_travels_as_it_did_before() -> None:
    """The client protocol's bytes: other versions of the program read them."""
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(EntryBatch(7, "a", 1, 8, 9, Kind.STAGED, [b"x"], (0,)))) == [
        7, "a", 1, 8, 9, 2, [b"x"], [0], 0,
    ]  # fmt: skip


def test_a_stop_cuts_off_whole_batches_too() -> None:
    async def scenario() -> None:
        async with connected() as (log, _):
            for at in range(4):
                await (await log.append_many([b"%d %d" % (at, of) for of in range(5)])).ordered()
            for stop in range(21):
                expected = [b"%d %d" % divmod(at, 5) for at in range(stop)]
                assert [entry.data async for entry in log.follow(stop=stop)] == expected
                assert [entry.data for entry in await log.read(0, stop)] == expected

    asyncio.run(scenario())
