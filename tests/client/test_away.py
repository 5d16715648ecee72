"""Readers of the log whose site is away for longer than the connection's timeout: they wait, and go on."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.client.fake_engine import FakeEngine
from tests.client.fake_log import FakeLog
from tests.client.places import Serving, cluster, serving, short_dir

import reconvene
from reconvene import Entry, Rejected, Site, StateMachine, Unavailable, blocking
from reconvene.client.state_machine import wrap
from reconvene.entries import EntryBatch
from reconvene.ids import UNNAMED
from reconvene.objects.replicated_map import ReplicatedMap
from reconvene.runtime.clients.server import ClientServer

TIMEOUT_S = 0.1
"""Of the connection."""
AWAY_S = 4 * TIMEOUT_S
COUNT = 40_000
"""Messages: several chunks of them."""


class Leaving(FakeLog):
    """Its site is gone the first time that someone reads from `at` or beyond."""

    def __init__(self, at: int | None = None) -> None:
        super().__init__()
        self.at = at
        self.at_snapshot = False
        """It is gone when someone asks for the snapshot."""
        self.leave: Callable[[], None] = lambda: None

    def read(self, start: int, messages: int, size: int) -> list[EntryBatch]:
        if self.at is not None and start >= self.at:
            self.at = None
            self.leave()
        return super().read(start, messages, size)

    def snapshot(self, name: str = UNNAMED) -> tuple[int, int] | None:
        if self.at_snapshot:
            self.at_snapshot = False
            self.leave()
        return super().snapshot(name)


class Gone:
    """A site that goes and comes back, with the same log."""

    def __init__(self, serves: Serving, log: Leaving) -> None:
        self.serves = serves
        self.log = log
        self.left = asyncio.Event()
        self._going: asyncio.Task[None] | None = None
        log.leave = self.leave

    def leave(self) -> None:
        for connection in list(self.serves.server._state.connections):
            connection.abort()
        self._going = asyncio.get_running_loop().create_task(self.serves.server.close())
        self.left.set()

    async def be_away(self, seconds: float = AWAY_S) -> None:
        if not self.left.is_set():
            self.leave()
        assert self._going is not None
        await self._going
        await asyncio.sleep(seconds)
        self.left.clear()

    async def come_back(self) -> None:
        server = self.serves.server
        self.serves.server = ClientServer(self.serves.engine, self.serves.config, lambda: None, server._state.log)
        await self.serves.server.start()


@asynccontextmanager
async def leaving(at: int | None = None) -> AsyncIterator[tuple[Gone, Site]]:
    engine, log = FakeEngine(), Leaving(at)
    engine.log = log
    async with asyncio.timeout(30), serving(engine=engine) as serves:
        gone = Gone(serves, log)
        async with reconvene.connect(serves.unix, timeout=TIMEOUT_S) as site:
            await site.log.append_many(b"%d" % number for number in range(COUNT))
            try:
                yield gone, site
            finally:
                await gone.serves.server.close()


class Numbers(StateMachine):
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def apply(self, entry: Entry) -> None:
        self.numbers.append(int(entry.data))

    def snapshot(self) -> bytes:
        return b"%d" % len(self.numbers)

    def restore(self, data: bytes) -> None:
        self.numbers = list(range(int(data)))


def state(count: int) -> Numbers:
    machine = Numbers()
    machine.restore(b"%d" % count)
    return machine


def test_following_goes_on_where_it_was() -> None:
    async def scenario(at: int) -> None:
        async with leaving(at) as (gone, site):

            async def read_all() -> list[bytes]:
                return [entry.data async for entry in site.log.follow(stop=COUNT)]

            reading = asyncio.create_task(read_all())
            await gone.left.wait()
            await gone.be_away()
            assert (reading.done(), site.connected) == (False, False)
            await gone.come_back()
            assert await reading == [b"%d" % number for number in range(COUNT)]

    for at in (0, 1, 10_000, 20_000):  # the first chunk, and chunks that are read ahead
        asyncio.run(scenario(at))


def test_what_is_read_ahead_may_fail_and_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with leaving() as (gone, site):
            follow = site.log.follow(stop=COUNT)
            first = await follow.next_batch()
            assert first is not None
            real, failed = gone.log.read, 0

            def read(start: int, messages: int, size: int) -> list[EntryBatch]:
                nonlocal failed
                failed += 1
                if failed == 1:
                    raise Unavailable("the disk can't be read")
                return real(start, messages, size)

            monkeypatch.setattr(gone.log, "read", read)
            told: list[str] = []
            at = first.end
            while at < COUNT:
                try:
                    batch = await follow.next_batch()
                except Unavailable as error:
                    assert not told
                    told.append(str(error))
                    continue
                assert batch is not None
                assert batch.position == at
                at = batch.end
            assert told == ["the disk can't be read"]

    asyncio.run(scenario())


def test_a_state_machine_goes_on_where_it_was() -> None:
    async def scenario(at: int) -> None:
        async with leaving(at) as (gone, site):
            machine = Numbers()
            async with site.log.run(machine) as runner:
                await gone.left.wait()
                await gone.be_away()
                assert (runner.failed, runner.position < COUNT) == (None, True)
                # What asks with a timeout is told in time; what asks without one waits.
                with pytest.raises(TimeoutError):
                    await runner.applied(COUNT - 1, timeout=0.01)
                with pytest.raises(Unavailable):
                    await runner.caught_up(timeout=0.01)
                with pytest.raises(Unavailable):
                    await runner.optimistic(timeout=0.01)
                waiting = asyncio.create_task(runner.applied(COUNT - 1))
                await gone.come_back()
                await waiting
                assert machine.numbers == list(range(COUNT))
                await site.log.append(b"%d" % COUNT)
                await runner.caught_up(10)
                assert machine.numbers[-1] == COUNT

    for at in (1, 20_000):
        asyncio.run(scenario(at))


def test_a_state_machine_fetches_a_snapshot_when_its_site_is_back() -> None:
    async def scenario() -> None:
        async with leaving(1) as (gone, site):
            machine = Numbers()
            async with site.log.run(machine) as runner:
                await gone.left.wait()
                await gone.be_away(0)
                gone.log.shared.snapshots["Numbers"] = (COUNT - 5, wrap(state(COUNT - 5)))
                gone.log.truncate(COUNT - 5)
                # The machine learns that the log was truncated, and the site is gone before it has the snapshot.
                gone.log.at_snapshot = True
                await gone.come_back()
                await gone.left.wait()
                await gone.be_away()
                assert runner.failed is None
                await gone.come_back()
                await runner.applied(COUNT - 1, timeout=10)
                assert machine.numbers == list(range(COUNT))

    asyncio.run(scenario())


def test_the_blocking_twins_go_on_too() -> None:
    async def scenario() -> None:
        async with leaving(20_000) as (gone, _):
            read: list[Entry] = []
            applied = threading.Event()

            def program() -> None:
                with (
                    blocking.connect(gone.serves.unix, timeout=TIMEOUT_S) as site,
                    site.log.run(Numbers()) as runner,
                ):
                    read.extend(site.log.follow(stop=COUNT))
                    runner.applied(COUNT - 1, timeout=10)
                    applied.set()

            running = asyncio.create_task(asyncio.to_thread(program))
            await gone.left.wait()
            await gone.be_away()
            assert not running.done()
            await gone.come_back()
            await running
            assert [int(entry.data) for entry in read] == list(range(COUNT))
            assert applied.is_set()

    asyncio.run(scenario())


def test_a_map_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        async with leaving() as (gone, site), ReplicatedMap(site.log, "prices") as prices:
            await prices.set("coffee", 300, ordered=True)
            reading = asyncio.create_task(prices.get("coffee", ordered=True))
            await gone.be_away()
            assert (await prices.get("coffee"), reading.done()) == (300, False)
            await gone.come_back()
            assert await reading == 300
            await prices.set("coffee", 320, ordered=True)
            assert await prices.get("coffee", ordered=True) == 320

    asyncio.run(scenario())


def test_a_definite_error_still_ends_it() -> None:
    async def scenario() -> None:
        async with leaving(1) as (gone, site), site.log.run(Numbers()) as runner:
            await gone.left.wait()
            await gone.be_away()
            gone.serves.engine.log = None
            await gone.come_back()
            with pytest.raises(Unavailable, match="takes no part in the log"):
                await runner.applied(COUNT - 1)
            assert runner.failed is not None
            assert isinstance(runner.failed.error, Rejected)

    asyncio.run(scenario())


def test_what_nobody_waits_for_any_more_is_not_kept() -> None:
    async def scenario() -> None:
        async with leaving() as (_, site), site.log.run(Numbers()) as runner:
            for _ in range(200):
                with pytest.raises(TimeoutError):
                    await runner.applied(COUNT + 1, timeout=0)
            assert len(runner._waiting) < 100

    asyncio.run(scenario())


def test_changes_of_colour_end_with_the_site_in_this_program() -> None:
    async def scenario() -> None:
        with short_dir() as directory:
            (config,) = cluster(directory)
            async with asyncio.timeout(30):
                async with reconvene.open(config) as site:
                    watching = asyncio.create_task(anext(site.log.colors()))
                    await asyncio.sleep(0)
                with pytest.raises(Unavailable, match="closed"):
                    await watching

    asyncio.run(scenario())


def test_leaving_the_block_while_waiting_ends_at_once() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        engine.log = Leaving(1)
        async with asyncio.timeout(10), serving(engine=engine) as serves:
            gone = Gone(serves, engine.log)
            async with reconvene.connect(serves.unix, timeout=60) as site:
                await site.log.append_many(b"%d" % number for number in range(COUNT))
                runner = site.log.run(Numbers())
                await runner.__aenter__()
                follow = site.log.follow(COUNT)
                reading = asyncio.create_task(anext(follow))
                await gone.left.wait()
                applied = asyncio.create_task(runner.applied(COUNT - 1))
                await gone.be_away(0)
                await runner.__aexit__(None, None, None)
                with pytest.raises(Unavailable, match="not any more"):
                    await applied
                colors = asyncio.create_task(anext(site.log.colors()))
                await asyncio.sleep(0)
            for waited in (reading, colors):
                with pytest.raises(Unavailable, match="closed"):
                    await waited

    asyncio.run(scenario())
