"""A call's replies, as its program reads them: each as it comes, or all at the end."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from reconvene import OutcomeTimedOut, OutcomeUnknown, Process, Reply
from reconvene.client.isis_call import CallItem, OpenCall

ONE, TWO = Reply(b"1", Process("a", 1, 1)), Reply(b"2", Process("b", 1, 1))


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())


async def rounds(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_each_as_it_comes() -> None:
    async def test() -> None:
        call = OpenCall("a", 1, None)
        got: list[CallItem] = []

        async def read() -> None:
            got.extend([reply async for reply in call])

        first = asyncio.create_task(anext(call))
        await rounds()
        call.put(ONE)
        assert await first == ONE
        rest = asyncio.create_task(read())
        await rounds()
        call.put(TWO)
        call.end()
        await rest
        assert got == [TWO]

    run(test)


def test_who_waits_for_all_is_woken_once() -> None:
    async def test() -> None:
        call = OpenCall("a", 1, None)
        waiting = asyncio.create_task(call.replies())
        await rounds()
        waits_for = waiting.get_coro().cr_await  # type: ignore[union-attr]
        call.put(ONE)
        await rounds()
        assert waiting.get_coro().cr_await is waits_for  # type: ignore[union-attr]
        assert not waiting.done()
        call.put(TWO)
        call.end()
        assert await waiting == [ONE, TWO]
        assert await call.replies() == []

    run(test)


def test_what_came_is_kept_where_the_reader_gives_up() -> None:
    """By itself, or when the time is over."""

    async def test() -> None:
        call = OpenCall("a", 1, asyncio.get_running_loop().time() + 0.2)
        waiting = asyncio.create_task(call.replies())
        await rounds()
        call.put(ONE)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(OutcomeTimedOut, match="not all replies came in time"):
            await call.replies()
        call.put(TWO)
        assert await anext(call) == ONE
        assert await anext(call) == TWO

    run(test)


def test_one_reader_and_an_end_that_is_unknown() -> None:
    async def test() -> None:
        call = OpenCall("a", 1, None)
        waiting = asyncio.create_task(call.replies())
        await rounds()
        with pytest.raises(RuntimeError, match="one reader a call"):
            await call.replies()
        call.put(ONE)
        call.end("killed")
        with pytest.raises(OutcomeUnknown, match="killed"):
            await waiting

    run(test)
