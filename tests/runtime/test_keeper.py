"""Writes beside the loop: batched, in order, and tried again where the disk refuses."""

import asyncio
from collections.abc import Mapping
from threading import Event

from reconvene.core.effects import Persist
from reconvene.runtime.keeper import Keeper


class Slow:
    """A store whose disk waits for permission, and refuses at first."""

    def __init__(self, refusals: int = 0) -> None:
        self.writes: list[dict[str, bytes]] = []
        self.go = Event()
        self.refusals = refusals

    def get(self, key: str) -> bytes | None:
        return None

    def put(self, values: Mapping[str, bytes]) -> None:
        assert self.go.wait(10)
        if self.refusals:
            self.refusals -= 1
            raise OSError(28, "No space left on device")
        self.writes.append(dict(values))

    def close(self) -> None:
        pass


def test_what_arrives_during_a_write_goes_into_the_next_together() -> None:
    async def story() -> None:
        store, tokens = Slow(), list[int]()
        keeper = Keeper(store, tokens.extend, lambda why: None)
        keeper.persist([Persist(1, "site", b"1")])
        await asyncio.sleep(0)
        keeper.persist([Persist(2, "site", b"2")])
        keeper.persist([Persist(3, "site", b"3")])
        assert tokens == []
        store.go.set()
        while len(tokens) < 3:
            await asyncio.sleep(0.001)
        assert tokens == [1, 2, 3]
        assert len(store.writes) <= 2
        assert store.writes[-1] == {"site": b"3"}
        await keeper.close()

    asyncio.run(story())


def test_a_refusal_is_told_once_and_tried_again() -> None:
    async def story() -> None:
        store, tokens, told = Slow(refusals=1), list[int](), list[str]()
        store.go.set()
        keeper = Keeper(store, tokens.extend, told.append)
        keeper.persist([Persist(1, "site", b"1")])
        while keeper.trouble is None:
            await asyncio.sleep(0.001)
        assert tokens == []
        while not tokens:
            await asyncio.sleep(0.01)
        assert tokens == [1]
        assert len(told) == 1
        trouble: str | None = keeper.trouble
        assert trouble is None
        await keeper.close()

    asyncio.run(story())
