"""What an append gives: proof that it is durable, and a way to learn its place in the order."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from reconvene.client.arguments import check_timeout
from reconvene.client.flight import Flight
from reconvene.client.positions import Positions
from reconvene.errors import InvalidArgument, OutcomeUnknown
from reconvene.ids import message_id
from reconvene.wire.client_log import Part

__all__ = ["Receipt", "Receipts", "within"]

T = TypeVar("T")
FindOrder = Callable[[Flight], Coroutine[Any, Any, list[tuple[int, int]]]]


class Receipts:
    """Of many messages that were appended together; in their order."""

    __slots__ = ("_find", "_flights")

    def __init__(self, flights: Sequence[Flight], find: FindOrder) -> None:
        self._flights = flights
        self._find = find

    def __len__(self) -> int:
        return sum(flight.count for flight in self._flights)

    @property
    def ids(self) -> list[str | None]:
        """Of each message. Where the log had it before, the id that it got then; None where that is not known."""
        return [
            _id_of(part, at)
            for flight in self._flights
            for part in flight.landed.result().parts
            for at in range(part.count)
        ]

    @property
    def again(self) -> int:
        """How many of them the log had before, as earlier attempts of the same session and numbers."""
        parts = (part for flight in self._flights for part in flight.landed.result().parts)
        return sum(part.count for part in parts if not part.new)

    async def ordered(self, timeout: float | None = None) -> Positions:
        """Waits until all of them are ordered: their positions. Of what the log had before, where it has it; if that
        is not known any more, a position that is not below.

        Raises OutcomeUnknown where that is not so within `timeout` s, and where the log no longer knows.
        """
        runs: list[tuple[int, int]] = []
        for flight in self._flights:
            runs += await within(timeout, self._find(flight), "ordered")
        return Positions(runs)


class Receipt:
    """Of one message."""

    __slots__ = ("_at", "_find", "_flight")

    def __init__(self, flight: Flight, at: int, find: FindOrder) -> None:
        self._flight = flight
        self._at = at
        self._find = find

    @property
    def id(self) -> str | None:
        """AUTHOR:INCARNATION:COUNTER, as in the log. Where the log had it before, the one that it got then; None
        where that is not known any more: the log was truncated, or the site remembers later messages only."""
        return _id_of(*self._part())

    @property
    def again(self) -> bool:
        """The log had it before, as an earlier attempt of the same session and number."""
        return not self._part()[0].new

    def _part(self) -> tuple[Part, int]:
        at = self._at
        for part in self._flight.landed.result().parts:
            if at < part.count:
                return part, at
            at -= part.count
        raise OutcomeUnknown("the site did not tell what became of the message")

    async def ordered(self, timeout: float | None = None) -> int:
        """Waits until it is ordered: its position. Of what the log had before, where it has it; if that is not known
        any more, a position that is not below.

        Raises OutcomeUnknown where that is not so within `timeout` s, and where the log no longer knows.
        """
        at = self._at
        for position, count in await within(timeout, self._find(self._flight), "ordered"):
            if at < count:
                return position + at
            at -= count
        raise OutcomeUnknown("the site did not tell where the message is")

    def __repr__(self) -> str:
        return f"<receipt {self.id or 'of an earlier append'}>"


def _id_of(part: Part, at: int) -> str | None:
    return message_id(part.author, part.incarnation, part.first + at) if part.incarnation else None


async def within(timeout: float | None, work: Coroutine[Any, Any, T], what: str) -> T:
    """Raises OutcomeUnknown where it takes longer."""
    if timeout is None:
        return await work
    try:
        check_timeout(timeout)
    except (TypeError, InvalidArgument):
        work.close()
        raise
    try:
        async with asyncio.timeout(timeout):
            return await work
    except TimeoutError:
        raise OutcomeUnknown(f"not {what} within {timeout:g} s: it may yet be") from None
