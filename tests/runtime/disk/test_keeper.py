"""Writes in a separate thread: batched, in order, and tried again if the disk refuses."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

import pytest

from reconvene.runtime.disk import keeper as keeping
from reconvene.runtime.disk.keeper import Keeper
from reconvene.stack.turn import Write
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Clear, Op, Put


class Slow:
    """A store whose disk refuses at first, and writes only when the test permits it."""

    def __init__(self, *refusals: Exception) -> None:
        self.writes: list[list[Op]] = []
        self.go = Event()
        self.begun = Event()
        self.refusals = list(refusals)

    def write(self, ops: Sequence[Op]) -> None:
        self.begun.set()
        assert self.go.wait(10)
        if self.refusals:
            raise self.refusals.pop(0)
        self.writes.append(list(ops))


class Told:
    """The keeper's calls, in order."""

    def __init__(self) -> None:
        self.tokens: list[list[int]] = []
        self.failures: list[str] = []

    def keeper(self, store: Slow | LmdbStore) -> Keeper:
        return Keeper(store, self.tokens.append, self.failures.append)

    def all(self) -> list[int]:
        return [token for tokens in self.tokens for token in tokens]


def site(token: int, value: bytes) -> Write:
    return Write(token, [Put(b"site", value)])


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_RETRY_S", 0.05)


def test_what_arrives_during_a_write_goes_into_the_next_together() -> None:
    async def story() -> None:
        store, told = Slow(), Told()
        keeper = told.keeper(store)
        keeper.write([site(1, b"1")])
        await until(store.begun.is_set)
        keeper.write([site(2, b"2")])
        keeper.write([Write(3, [Put(b"\x01", b"one"), Clear(b"\x02", b"\x03")])])
        keeper.write([site(4, b"3")])
        keeper.write([site(5, b"4"), Write(6, [Put(b"\x01", None)])])
        await asyncio.sleep(0.01)
        assert told.tokens == []
        store.go.set()
        await until(lambda: len(told.tokens) == 2)
        assert told.tokens == [[1], [2, 3, 4, 5, 6]]
        assert store.writes == [
            [Put(b"site", b"1")],
            [
                *(Put(b"site", b"2"), Put(b"\x01", b"one"), Clear(b"\x02", b"\x03"), Put(b"site", b"3")),
                *(Put(b"site", b"4"), Put(b"\x01", None)),
            ],
        ]
        await keeper.close()

    asyncio.run(story())


@pytest.mark.parametrize("refusal", [OSError(28, "No space left on device"), ValueError("a key is empty")])
def test_a_refusal_is_told_once_and_tried_again(refusal: Exception) -> None:
    async def story() -> None:
        store, told = Slow(refusal, refusal), Told()
        store.go.set()
        keeper = told.keeper(store)
        keeper.write([site(1, b"1")])
        await until(lambda: keeper.trouble is not None)
        keeper.write([Write(2, [Put(b"\x01", b"")])])
        assert told.tokens == []
        await until(lambda: len(told.tokens) == 2)
        assert told.tokens == [[1], [2]]
        assert told.failures == [str(refusal)]
        assert keeper.trouble is None
        await keeper.close()

    asyncio.run(story())


def test_what_the_disk_refuses_is_given_up_at_the_end() -> None:
    async def story() -> None:
        store, told = Slow(*[OSError(5, "Input/output error")] * 1000), Told()
        store.go.set()
        keeper = told.keeper(store)
        keeper.write([Write(1, [Put(b"\x01", b"")])])
        await until(lambda: keeper.trouble is not None)
        await asyncio.wait_for(keeper.close(), 5)
        assert (told.tokens, store.writes) == ([], [])

    asyncio.run(story())


def test_what_was_handed_over_is_written_before_the_end() -> None:
    async def story() -> None:
        store, told = Slow(), Told()
        keeper = told.keeper(store)
        for token in range(10):
            keeper.write([Write(token, [Put(b"\x01", b"%d" % token)])])
        closing = asyncio.ensure_future(keeper.close())
        await asyncio.sleep(0.01)
        store.go.set()
        await asyncio.wait_for(closing, 5)
        assert [op for ops in store.writes for op in ops] == [Put(b"\x01", b"%d" % token) for token in range(10)]
        assert told.tokens == []

    asyncio.run(story())


def test_a_loop_that_ended_first_is_no_trouble() -> None:
    store = Slow()

    async def story() -> None:
        Told().keeper(store).write([Write(1, [Put(b"\x01", b"")])])

    asyncio.run(story())
    store.go.set()


def test_a_thousand_of_each_are_durable_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        store, told = LmdbStore(tmp_path), Told()
        keeper = told.keeper(store)
        for token in range(1000):
            keeper.write([site(token, b"%d" % token), Write(token, [Put(b"\x01%04d" % token, b"%d" % token)])])
            if token % 50 == 0:
                await asyncio.sleep(0)
                for number in told.all():
                    assert store.get(b"\x01%04d" % number) == b"%d" % number
        await until(lambda: len(told.all()) == 2000)
        assert told.all() == [token for token in range(1000) for _ in "ab"]
        await keeper.close()
        store.close()
        store = LmdbStore(tmp_path)
        assert store.get("site") == b"999"
        assert sum(1 for _ in store.keys(b"\x01", b"\x02")) == 1000
        store.close()

    asyncio.run(story())


def test_how_long_writes_take_is_measured() -> None:
    async def story() -> None:
        store, told = Slow(OSError("full")), Told()
        keeper = told.keeper(store)
        assert keeper.writing_s() == 0
        keeper.write([site(1, b"1")])
        await until(lambda: keeper.writing_s() > 0.03)
        store.go.set()
        await until(lambda: told.all() == [1])
        assert keeper.writing_s() == 0
        assert keeper.commits.buckets()[-1] == ("+Inf", 1.0), "what was refused took no time that says something"
        assert keeper.commits.sum_s < 10
        await keeper.close()

    asyncio.run(story())
