"""A client that went on at another site goes back to the first one, where nobody notices."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.fake_log import FakeLog, Shared
from tests.client.test_log import ServedLog, place, until

import reconvene
from reconvene import Log, Site, Unavailable
from reconvene.client import returning

NEVER_S = 0.5


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returning, "_LOOK_S", (0.05, 0.05))
    monkeypatch.setattr(returning, "_QUIET_S", 0.1)


@asynccontextmanager
async def two(returns: bool = True) -> AsyncIterator[tuple[ServedLog, ServedLog, Site]]:
    """Two sites with one log, and a client that is at the second, since it was sent away from the first."""
    shared = Shared()
    first, second = FakeLog("a", shared), FakeLog("b", shared)
    async with asyncio.timeout(30), place(first) as here, place(second) as there:
        both = [here.serves.unix, there.serves.unix]
        async with reconvene.connect(both, return_to_first=returns) as site:
            assert site.name == "a"
            yield here, there, site


async def send_away(here: ServedLog, site: Site) -> None:
    here.abort()
    await until(lambda: site.name == "b" and site.connected)


async def stays(site: Site) -> None:
    await asyncio.sleep(NEVER_S)
    assert site.name == "b"


def test_an_idle_client_returns_and_its_readers_go_on() -> None:
    async def scenario() -> None:
        async with two() as (here, there, site):
            log: Log = site.log
            follow = log.follow()
            await log.append(b"at a")
            assert (await anext(follow)).data == b"at a"
            reading = asyncio.create_task(anext(follow))
            await asyncio.sleep(0)
            await send_away(here, site)
            assert (await log.append(b"at b")).id == "b:1:1"
            assert (await reading).data == b"at b"
            reading = asyncio.create_task(anext(follow))
            await until(lambda: site.name == "a")
            assert site.connected
            await until(lambda: not there.serves.server._state.connections)
            assert (await log.append(b"at a again")).id == "a:1:2"
            assert (await reading).data == b"at a again"
            # And if the first is lost once more, the next one is taken at once.
            await send_away(here, site)
            await until(lambda: site.name == "a")

    asyncio.run(scenario())


def test_not_where_it_is_not_wanted() -> None:
    async def scenario() -> None:
        async with two(returns=False) as (here, _, site):
            await send_away(here, site)
            await stays(site)
            assert len(here.serves.server._state.connections) == 0

    asyncio.run(scenario())


def test_not_before_the_first_site_is_well() -> None:
    async def scenario() -> None:
        async with two() as (here, there, site):
            here.serves.engine.health = lambda: "minority"  # type: ignore[method-assign]
            await send_away(here, site)
            await stays(site)
            here.serves.engine.health = lambda: "primary"  # type: ignore[method-assign]
            await until(lambda: site.name == "a")
            # It has to have what this client has seen of the log.
            await send_away(here, site)
            await (await site.log.append(b"x")).ordered()
            here.fake.status = lambda: {"green": 0}  # type: ignore[method-assign]
            await stays(site)
            del here.fake.status
            await until(lambda: site.name == "a")
            assert there.fake.green == 1

    asyncio.run(scenario())


def test_not_while_it_is_in_a_group() -> None:
    async def scenario() -> None:
        async with two() as (here, _, site):
            await send_away(here, site)
            group = await site.join("x")
            await stays(site)
            await group.send(b"still here")
            await group.leave()
            await until(lambda: site.name == "a")

    asyncio.run(scenario())


def test_not_while_something_is_under_way() -> None:
    async def scenario() -> None:
        async with two() as (here, there, site):
            await send_away(here, site)
            log = site.log
            there.fake.sync = there.fake.order = False
            appending = asyncio.create_task(log.append(b"slow"))
            await stays(site)
            there.fake.sync = True
            there.fake.turn()
            receipt = await appending
            assert receipt.id == "b:1:1"
            await until(lambda: site.name == "a")
            await send_away(here, site)
            asking = asyncio.create_task(receipt.ordered())
            await stays(site)
            there.fake.order = True
            there.fake.turn()
            assert await asking == 0
            await until(lambda: site.name == "a")

    asyncio.run(scenario())


def test_not_while_colours_are_watched_or_a_transaction_is_open() -> None:
    async def scenario() -> None:
        async with two() as (here, _, site):
            await send_away(here, site)
            colors = site.log.colors()
            watching = asyncio.create_task(anext(colors))
            await stays(site)
            watching.cancel()
            await asyncio.wait([watching])
            await colors.__aexit__(None, None, None)
            await until(lambda: site.name == "a")
            await send_away(here, site)
            staging = site.log.staging()
            await staging.put([b"x"])
            await stays(site)
            places = await staging.ordered()
            await until(lambda: site.name == "a")
            await site.log.commit(places.runs)
            assert [entry.data for entry in await site.log.read()] == [b"x"]

    asyncio.run(scenario())


def test_a_busy_client_loses_nothing() -> None:
    """One append after the other: between two of them is a quiet moment."""

    async def scenario() -> None:
        async with two() as (here, _, site):
            await send_away(here, site)
            count = 0
            while site.name == "b":
                await (await site.log.append(b"%d" % count)).ordered()
                count += 1
            for _ in range(10):
                await site.log.append(b"%d" % count)
                count += 1
            await until(lambda: here.fake.green == count)
            assert [int(entry.data) for entry in await site.log.read()] == list(range(count))

    asyncio.run(scenario())


def test_the_block_ends_in_the_midst_of_it() -> None:
    async def scenario() -> None:
        async with two() as (here, there, site):
            await send_away(here, site)
            await site.join("x")
            await until(lambda: bool(here.serves.server._state.connections))
        with pytest.raises(Unavailable):
            await site.health()
        assert not there.serves.server._state.connections

    asyncio.run(scenario())
