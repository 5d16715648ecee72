"""Whatever a program asks of its site: nothing of it costs the connection, or what others send over it."""

import asyncio
from itertools import repeat
from typing import Any

import pytest
from tests.client.fake_engine import FakeAccess, FakeEngine
from tests.client.places import cluster, serving, short_dir

import reconvene
from reconvene import Process, Rejected, Unavailable, View, blocking
from reconvene.core.groups.events import Process as ProcessNumber
from reconvene.runtime.config.settings import Limits
from reconvene.runtime.site.interface import Receiver


@pytest.mark.parametrize(
    ("name", "error"),
    [("", ValueError), ("x" * 5_000, ValueError), ("\udcff", ValueError), (None, TypeError), (b"x", TypeError)],
)
def test_a_name_that_no_group_can_have(name: Any, error: type[Exception]) -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            other = await site.join("other")
            sending = asyncio.create_task(other.send(b"at the same time"))
            with pytest.raises(error):
                await site.join(name)
            async with asyncio.timeout(5):
                await sending
            assert not serves.log.of("client refused")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("to", "error"),
    [
        ([Process("a", 1 << 70, 1)], ValueError),
        ([Process("a", 1, -1)], ValueError),
        (["a:1:1"] * 5_000, ValueError),
        ([("a", 1, 1)], TypeError),
        ([None], TypeError),
    ],
)
def test_processes_that_cannot_be(to: list[Any], error: type[Exception]) -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            with pytest.raises(error):
                await group.send(b"x", to=to)
            await group.send(b"goes on")
            assert not serves.log.of("client refused")

    asyncio.run(scenario())


def test_sites_that_are_not_there_cannot_be_blocked() -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            with pytest.raises(ValueError, match="a lone surrogate"):
                await site.block(["\udcff"])
            with pytest.raises(ValueError, match="no site 'z' in this cluster: a, b expected"):
                await site.block([], ["z"])
            assert await site.health() == "primary"

    asyncio.run(scenario())


def test_truth_in_other_words() -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            asked: Any = 0
            await site.join("x", primary=asked, receive=asked)
            assert not serves.log.of("client refused")

    asyncio.run(scenario())


def test_much_at_once_goes_into_several_records() -> None:
    async def scenario() -> None:
        limits = Limits(message_bytes=1 << 20)
        async with serving(limits=limits) as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x", receive=False)
            small = [group.send(b"s" * 30_000) for _ in range(100)]
            await asyncio.gather(*small, group.send(b"l" * ((1 << 20) - 5)))
            assert [len(data) for _, _, data, _ in serves.engine.sent] == [30_000] * 100 + [(1 << 20) - 5]
            joined = await asyncio.gather(*(site.join(f"{'n' * 250}{n}", receive=False) for n in range(5_000)))
            assert len(joined) == 5_000

    asyncio.run(scenario())


@pytest.mark.parametrize("message_bytes", [4 << 10, 64 << 10])
def test_many_where_messages_are_short(message_bytes: int) -> None:
    async def scenario() -> None:
        limits = Limits(message_bytes=message_bytes)
        async with serving(limits=limits) as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            assert await group.send_many([b"x" * 1_000] * 5_000) == 5_000
            got = 0
            async for batch in group.batches():
                got += len(batch.payloads) if isinstance(batch, reconvene.Batch) else 0
                if got == 5_000:
                    break
            assert not serves.log.of("client refused")

    asyncio.run(scenario())


class OneOfEach(FakeEngine):
    """A process is in a group once, as with a real site."""

    def open(self, receiver: Receiver) -> FakeAccess:
        access = Once(self, receiver, ProcessNumber(0, 1, len(self.accesses) + 1))
        self.accesses.append(access)
        return access


class Once(FakeAccess):
    def join(self, group: str, primary: bool, wide: bool = False) -> int:
        if group in self.groups.values():
            raise Rejected(f"in group {group!r} already")
        return super().join(group, primary, wide)


def test_a_join_that_was_given_up_is_not_in_the_way_of_the_next() -> None:
    async def scenario() -> None:
        async with serving(engine=OneOfEach()) as serves, reconvene.connect(serves.unix) as site:
            for ticks in range(10):
                joining = asyncio.create_task(site.join("x"))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                joining.cancel()
                await asyncio.wait([joining])
                async with asyncio.timeout(5):
                    group = joining.result() if not joining.cancelled() else await site.join("x")
                assert isinstance(await group.next(), View)
                await group.leave()

    asyncio.run(scenario())


def test_a_refusal_tells_how_many_were_taken_before_it() -> None:
    async def scenario() -> None:
        limits = Limits(message_bytes=1 << 20)
        async with serving(limits=limits) as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x", receive=False)
            with pytest.raises(Rejected) as refusal:
                await group.send_many([*[b"x" * 100_000] * 5, bytes((1 << 20) + 1)])
            assert refusal.value.taken == len(serves.engine.sent) == 5
            sending = asyncio.create_task(group.send_many(repeat(b"x" * 1_000, 1_000_000)))
            await asyncio.sleep(0.2)
            await group.leave()
            await asyncio.wait([sending])
            left = sending.exception()
            assert isinstance(left, Unavailable)
            assert 0 < left.taken <= serves.engine.counter

    asyncio.run(scenario())


def test_without_asyncio_too() -> None:
    with short_dir() as directory:
        (config,) = cluster(directory)
        with blocking.open(config) as site:
            group = site.join("x", receive=False)
            with pytest.raises(Rejected) as refusal:
                group.send_many([*[b"x"] * 5_000, bytes(17 << 20)])
            # The last slice is refused as a whole.
            assert refusal.value.taken == 4_096


def test_timeouts_without_asyncio() -> None:
    with short_dir() as directory:
        (config,) = cluster(directory)
        with blocking.open(config) as site:
            follow, group = site.log.follow(), site.join("x")
            wrong: list[Any] = [[], "1", True, -1, 10**400]
            for bad in wrong:
                with pytest.raises((TypeError, ValueError), match="timeout: "):
                    follow.next_batch(bad)
                with pytest.raises((TypeError, ValueError), match="timeout: "):
                    site.log.colors(bad)
                for events in (follow.entries(bad), follow.batches(bad), group.events(bad)):
                    with pytest.raises((TypeError, ValueError), match="timeout: "):
                        next(iter(events))
            assert site.health()
