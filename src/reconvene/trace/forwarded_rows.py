"""The rows of messages that an outpost accepted and a replica took over.

In a trace such a message has one id everywhere, the outpost's own (OUTPOST:INCARNATION:COUNTER): the outpost
accepted it. Two replicas may have taken it, where the outpost could not know of the first; then the first copy
in the order counts, and the other is void. A copy that is red can't be told from the other one. So a replica records
nothing of it until it is yellow, when its place among the others is known, and then that it has it too (`log`). A
void copy has the id that its replica gave it, and that replica records, late, that it accepted it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from reconvene.corel.batch import BatchId, Heading, Source, Timestamp
from reconvene.corel.replica import Replica
from reconvene.ids import message_id

__all__ = ["ForwardedRows", "Named"]


class Named(NamedTuple):
    """A message of a forwarded batch under the id that its rows have."""

    at: int
    """In the batch."""
    msg: str
    void: bool


class ForwardedRows:
    """What is known of the forwarded messages that are not green. `logged`: the ids of those with a `log` row."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.logged: set[str] = set()
        self.stamps: dict[BatchId, Timestamp] = {}
        """Of batches that are not green."""
        self._bound: dict[str, BatchId] = {}
        """By an outpost's id: the copy of the message that has this id here, while it is yellow."""
        self._yellow: dict[BatchId, list[Named]] = {}
        """Under which ids a yellow batch was recorded."""
        self._through: dict[str, int] = {}
        """By outpost: the highest counter that was recorded as green."""

    def has(self, batch: Heading) -> bool:
        """Whether the batch's messages are an outpost's."""
        return batch.sourced and bool(self._replica.forwarded(batch))

    @property
    def own(self) -> int | None:
        return self._replica.own

    def outpost_ids(self, batch: Heading) -> list[str]:
        """The ids that the outpost gave to the batch's messages."""
        return [msg for _, msg, _, _ in self._messages(batch)]

    def _messages(self, batch: Heading) -> Iterator[tuple[int, str, Source, int]]:
        """(index in the batch, the outpost's id, source, number)."""
        for source in self._replica.forwarded(batch):
            assert source.origin is not None, "it is an outpost's"
            for number in range(source.number, source.number + source.count):
                msg = message_id(source.origin.outpost, source.origin.incarnation, number)
                yield source.start + number - source.number, msg, source, number

    def turns_yellow(self, batch: Heading, own_ids: list[str]) -> list[Named]:
        found: list[Named] = []
        for index, msg, source, number in self._messages(batch):
            place = self._replica.place_of(source.session, number)
            counts = place is None or self._is_at(batch, place)
            if counts and self._bound.setdefault(msg, batch.id) == batch.id:
                found.append(Named(index, msg, False))
            else:
                found.append(Named(index, own_ids[index], True))
        self._yellow[batch.id] = found
        return found

    def _is_at(self, batch: Heading, position: int) -> bool:
        if position < self._replica.base:
            return False
        return next(self._replica.read(position))[1].id == batch.id

    def turns_red(self, batch: Heading) -> list[Named]:
        """Of those that were recorded as yellow and are not green under the same id."""
        found: list[Named] = []
        for named in self._yellow.pop(batch.id, []):
            outpost, _, counter = named.msg.split(":")
            if not named.void:
                self._bound.pop(named.msg, None)
                if int(counter) <= self._through.get(outpost, 0):
                    continue
            found.append(named)
        return found

    def turns_green(self, batch: Heading, position: int, own_ids: list[str]) -> list[Named]:
        found: list[Named] = []
        for index, msg, source, number in self._messages(batch):
            place = self._replica.place_of(source.session, number)
            if place is None or place == position + index:
                assert source.origin is not None, "it is an outpost's"
                outpost = source.origin.outpost
                self._through[outpost] = max(self._through.get(outpost, 0), number)
                self._bound.pop(msg, None)
                found.append(Named(index, msg, False))
            else:
                found.append(Named(index, own_ids[index], True))
        self._yellow.pop(batch.id, None)
        return found
