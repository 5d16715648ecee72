"""Waiting for at most so long: every timeout of the client raises an error of ours that is also a TimeoutError."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from reconvene.client.arguments import check_timeout
from reconvene.errors import InvalidArgument, OutcomeTimedOut, ReconveneError, TimedOut

__all__ = ["check_limit", "in_time", "within"]

T = TypeVar("T")


async def in_time(
    timeout: float | None,
    work: Coroutine[Any, Any, T],
    why: str,
    late: type[TimedOut | OutcomeTimedOut] = TimedOut,
) -> T:
    """Raises `late`, with `why` in its text, where the work takes longer than `timeout` s. A wrong `timeout` raises
    before the work begins."""
    if timeout is None:
        return await work
    check_limit(timeout, work)
    try:
        async with asyncio.timeout(timeout):
            return await work
    except TimeoutError as error:
        if isinstance(error, ReconveneError):
            raise  # a time limit within the work came first, and says more
        raise late(why) from None


async def within(timeout: float | None, work: Coroutine[Any, Any, T], what: str) -> T:
    """For what may happen later all the same: raises OutcomeTimedOut."""
    if timeout is None:
        return await work
    check_limit(timeout, work)
    why = f"not {what} within {timeout:g} s: it may yet be"
    return await in_time(timeout, work, why, OutcomeTimedOut)


def check_limit(timeout: float | None, work: Coroutine[Any, Any, T]) -> None:
    """As `check_timeout`; work that is never begun is closed."""
    try:
        check_timeout(timeout)
    except (TypeError, InvalidArgument):
        work.close()
        raise
