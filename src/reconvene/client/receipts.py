"""What an append returns: proof that the messages are durable, and a way to learn their positions."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct

from reconvene.client.pending_append import PendingAppend, Runs
from reconvene.client.positions import Positions
from reconvene.errors import OutcomeUnknown, PlaceForgotten
from reconvene.ids import message_id
from reconvene.wire.client_log import Part

__all__ = ["Receipt", "Receipts", "known_runs"]

Ordered = Callable[[PendingAppend, float | None], Coroutine[Any, Any, Runs]]
"""Waits until an append is ordered, for so many s at most: `LogLink.ordered`."""


class Receipts:
    """Of many messages that were appended together, in their order."""

    __slots__ = ("_appends", "_ordered")

    def __init__(self, appends: Sequence[PendingAppend], ordered: Ordered) -> None:
        self._appends = appends
        self._ordered = ordered

    def __len__(self) -> int:
        return sum(pending.count for pending in self._appends)

    @property
    def ids(self) -> list[str | None]:
        """Of each message. If the log had it before, the id that it got then; None where that is not known."""
        return [
            _id_of(part, at)
            for pending in self._appends
            for part in pending.result().parts
            for at in range(part.count)
        ]

    @property
    def duplicate(self) -> int:
        """How many of them the log had before, from an earlier append under the same session and numbers."""
        parts = (part for pending in self._appends for part in pending.result().parts)
        return sum(part.count for part in parts if not part.new)

    async def ordered(self, timeout: float | None = None) -> Positions:
        """Waits until all of them are ordered. Returns their positions; of a duplicate, that of the first copy.

        Raises PlaceForgotten where all are ordered, and the log no longer knows the position of one that it had
        before; OutcomeUnknown where they are not ordered within `timeout` s (then also a TimeoutError), and where
        the log no longer knows whether they are.
        """
        runs: Runs = []
        for pending in self._appends:
            runs += await self._ordered(pending, timeout)
        return Positions(known_runs(runs))


class Receipt(Struct, eq=False):
    """Of one message."""

    _append: PendingAppend
    _at: int
    _ordered: Ordered

    @property
    def id(self) -> str | None:
        """AUTHOR:INCARNATION:COUNTER, as in the log. If the log had it before, the id that it got then; None where
        that is not known any more: the log was truncated, or the site remembers later messages only."""
        return _id_of(*self._part())

    @property
    def duplicate(self) -> bool:
        """The log had it before, from an earlier append under the same session and number."""
        return not self._part()[0].new

    def _part(self) -> tuple[Part, int]:
        at = self._at
        for part in self._append.result().parts:
            if at < part.count:
                return part, at
            at -= part.count
        raise OutcomeUnknown("the site did not report what became of the message")

    async def ordered(self, timeout: float | None = None) -> int:
        """Waits until it is ordered. Returns its position; of a duplicate, that of the first copy.

        Raises PlaceForgotten where it is a duplicate and the log no longer knows the position of the first copy;
        OutcomeUnknown where it is not ordered within `timeout` s (then also a TimeoutError), and where the log no
        longer knows whether it is.
        """
        at = self._at
        for position, count in await self._ordered(self._append, timeout):
            if at < count:
                return known_runs([(None, 1)])[0][0] if position is None else position + at
            at -= count
        raise OutcomeUnknown("the site did not report where the message is")

    def __repr__(self) -> str:
        return f"<receipt {self.id or 'of an earlier append'}>"


def _id_of(part: Part, at: int) -> str | None:
    return message_id(part.author, part.incarnation, part.first + at) if part.incarnation else None


def known_runs(runs: Runs) -> list[tuple[int, int]]:
    """The same, where every position is known. Raises PlaceForgotten where one is not."""
    known = [(position, count) for position, count in runs if position is not None]
    if len(known) == len(runs):
        return known
    lost = sum(count for position, count in runs if position is None)
    messages = "the message is" if lost == 1 else f"{lost} messages are"
    error = PlaceForgotten(f"{messages} ordered, and the log no longer knows where")
    error.positions = tuple(
        None if position is None else position + at for position, count in runs for at in range(count)
    )
    raise error
