"""Waiting for room: in order, without polling."""

import asyncio

from reconvene.room import Room


class Bounded:
    def __init__(self, free: int) -> None:
        self.free = free
        self.entered: list[int] = []
        self.room = Room(lambda: self.free)

    def take(self, many: int) -> None:
        self.free -= many
        self.entered.append(many)

    def ask(self, *wanted: int) -> None:
        for many in wanted:
            self.room.when(many, lambda many=many: self.take(many))  # type: ignore[misc]


def test_each_enters_in_its_turn_when_there_is_room_for_it() -> None:
    bounded = Bounded(3)
    bounded.ask(2, 2, 1)
    assert bounded.entered == [2]  # the last would fit, but has to wait for its turn
    bounded.free += 1
    bounded.room.wake()
    assert (bounded.entered, bounded.free) == ([2, 2], 0)
    bounded.free += 5
    bounded.room.wake()
    assert (bounded.entered, bounded.room.waiting) == ([2, 2, 1], {})


def test_one_that_leaves_lets_the_next_in() -> None:
    bounded = Bounded(1)
    large = bounded.room.when(5, lambda: bounded.take(5))
    bounded.ask(1)
    assert (bounded.entered, large.waits) == ([], True)
    large.leave()
    large.leave()
    assert (bounded.entered, large.waits) == ([1], False)


def test_one_may_ask_again_when_it_enters_and_waits_behind_the_others() -> None:
    bounded = Bounded(0)

    def twice() -> None:
        bounded.take(1)
        bounded.ask(1)

    bounded.room.when(1, twice)
    bounded.ask(2)
    bounded.free = 3
    bounded.room.wake()
    assert (bounded.entered, len(bounded.room.waiting)) == ([1, 2], 1)
    bounded.room.wake_all()
    assert (bounded.entered, bounded.free) == ([1, 2, 1], -1)


def test_tasks_wait_too_and_one_that_is_cancelled_is_forgotten() -> None:
    async def scenario() -> None:
        bounded = Bounded(0)
        first, second = (asyncio.create_task(bounded.room.wait()) for _ in range(2))
        await asyncio.sleep(0)
        assert len(bounded.room.waiting) == 2
        first.cancel()
        await asyncio.sleep(0)
        assert len(bounded.room.waiting) == 1
        bounded.free = 1
        bounded.room.wake()
        await second
        await bounded.room.wait()
        assert not bounded.room.waiting

    asyncio.run(scenario())
