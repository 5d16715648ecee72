"""Objects that are used where they can't work: in another event loop, or after their block. An error, at once."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.client.places import cluster, short_dir
from tests.client.test_arguments import Machine
from tests.client.test_log import place

import reconvene
from reconvene import Follow, Group, Receipt, Receipts, Runner, Site, Unavailable, blocking

AT_ONCE_S = 2.0


class Objects:
    """One of each kind."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.group: Group
        self.receipt: Receipt
        self.receipts: Receipts
        self.follow: Follow
        self.runner: Runner

    async def make(self) -> None:
        log = self.site.log
        self.group = await self.site.join("x")
        await self.group.next()
        self.receipt = await log.append(b"x")
        await self.receipt.ordered()
        self.receipts = await log.append_many([b"y"])
        await self.receipts.ordered()
        self.follow = log.follow(2)
        self.runner = log.run(Machine())
        self.staging = log.staging()


async def listed(items: AsyncIterator[object]) -> list[object]:
    return [item async for item in items]


CALLS: dict[str, Callable[[Objects], Coroutine[Any, Any, object]]] = {
    "join": lambda one: one.site.join("y"),
    "status": lambda one: one.site.status(),
    "health": lambda one: one.site.health(),
    "block": lambda one: one.site.block(),
    "send": lambda one: one.group.send(b"x"),
    "send_many": lambda one: one.group.send_many([b"x"]),
    "append": lambda one: one.site.log.append(b"x"),
    "append under a session": lambda one: one.site.log.append(b"x", session=b"s", number=1),
    "append_many": lambda one: one.site.log.append_many([b"x"]),
    "append_many under a session": lambda one: one.site.log.append_many([b"x"], session=b"s", number=1),
    "receipt": lambda one: one.receipt.ordered(),
    "receipts": lambda one: one.receipts.ordered(),
    "follow": lambda one: one.follow.next_batch(),
    "read": lambda one: one.site.log.read(),
    "headings": lambda one: listed(one.site.log.headings()),
    "staged": lambda one: listed(one.site.log.staged(5, [(0, 1)])),
    "pending": lambda one: one.site.log.pending(),
    "colors": lambda one: listed(one.site.log.colors()),
    "barrier": lambda one: one.site.log.barrier(),
    "log status": lambda one: one.site.log.status(),
    "staging": lambda one: one.staging.put([b"x"]),
    "commit": lambda one: one.site.log.commit([]),
    "last_commit": lambda one: one.site.log.last_commit("t"),
    "snapshot": lambda one: one.site.log.snapshot(),
    "read_snapshot": lambda one: one.site.log.read_snapshot(),
    "save_snapshot": lambda one: one.site.log.save_snapshot(0, b""),
    "change_replicas": lambda one: one.site.log.change_replicas(add="b"),
    "losses": lambda one: one.site.log.losses(["b"]),
    "init": lambda one: one.site.log.init(),
    "force_lost": lambda one: one.site.log.force_lost(["b"]),
    "applied": lambda one: one.runner.applied(1_000),
    "caught_up": lambda one: one.runner.caught_up(),
    "optimistic": lambda one: one.runner.optimistic(),
}
READING = {"events": lambda one: one.group.next()}


@asynccontextmanager
async def site_of(kind: str) -> AsyncIterator[Site]:
    if kind == "connect":
        async with place() as here, reconvene.connect(here.serves.unix, timeout=60) as site:
            yield site
        return
    with short_dir() as directory:
        async with reconvene.open(cluster(directory)[0]) as site:
            yield site


async def failure(call: Callable[[Objects], Coroutine[Any, Any, object]], objects: Objects) -> BaseException | None:
    try:
        async with asyncio.timeout(AT_ONCE_S):
            await call(objects)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("kind", ["open", "connect"])
def test_another_event_loop(kind: str) -> None:
    async def scenario() -> None:
        async with site_of(kind) as site:
            objects = Objects(site)
            await objects.make()
            found: dict[str, BaseException | None] = {}

            async def elsewhere() -> None:
                for name, call in {**CALLS, **READING}.items():
                    found[name] = await failure(call, objects)

            async with objects.runner:
                thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
                thread.start()
                while thread.is_alive():
                    await asyncio.sleep(0.01)
                for name, error in found.items():
                    assert isinstance(error, RuntimeError), (name, error)
                    assert "belongs to another event loop" in str(error), (name, error)
                assert await site.log.append(b"here it works")
            assert len(found) == len(CALLS) + 1

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["open", "connect"])
def test_after_the_block(kind: str) -> None:
    async def scenario() -> None:
        async with site_of(kind) as site:
            objects = Objects(site)
            await objects.make()
        for name, call in {**CALLS, **READING}.items():
            error = await failure(call, objects)
            assert isinstance(error, Unavailable), (name, error)

    asyncio.run(scenario())


def test_what_waits_when_the_block_ends_is_told_at_once() -> None:
    async def scenario() -> None:
        async with place() as here, reconvene.connect(here.serves.unix, timeout=60) as site:
            here.fake.sync = False
            waiting = asyncio.create_task(site.log.append(b"x"))
            boarding = asyncio.create_task(_when(asyncio.sleep(0.2), site.log.append(b"y")))
            await asyncio.sleep(0.1)
        async with asyncio.timeout(AT_ONCE_S):
            await asyncio.wait([waiting, boarding])
        assert isinstance(waiting.exception(), reconvene.OutcomeUnknown)
        assert isinstance(boarding.exception(), Unavailable)

    async def _when(first: Coroutine[Any, Any, object], then: Coroutine[Any, Any, object]) -> None:
        await first
        await then

    asyncio.run(scenario())


def test_without_asyncio() -> None:
    with short_dir() as directory:
        with blocking.open(cluster(directory)[0]) as site:
            log, group = site.log, site.join("x")
            follow = log.follow()
            receipt = log.append(b"x")
        for call in (log.status, group.leave, receipt.ordered, follow.next_batch, site.health, log.staging().ordered):
            with pytest.raises(Unavailable):
                call()
