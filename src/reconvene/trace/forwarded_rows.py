"""The ids of messages that an outpost accepted and a replica took over, in the rows of a replica or follower.

Such a message has one id everywhere, the outpost's own (OUTPOST:INCARNATION:COUNTER). Two replicas may have taken it,
where the outpost could not know of the first. Then there are two *copies*: the first one in the order counts, and has
the outpost's id. The other is void, and has the id that its replica gave it, for which that replica has an `offer`.

While neither is green, a node gives the outpost's id to the copy that it would order first: the yellow one, or the
one with the lower timestamp. When a copy is logged, or changes its colour, that may change: then the node also has
the message under the other id.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from reconvene.corel.batch import BatchId, Heading, Source, Timestamp
from reconvene.corel.replica import Replica
from reconvene.ids import message_id

__all__ = ["ForwardedRows", "Named"]


class Named(NamedTuple):
    """A message under an id."""

    msg: str
    at: int
    """Its index in the batch."""
    timestamp: Timestamp


@dataclass(slots=True)
class _Copy:
    """A message of a forwarded batch that is here and not green."""

    batch: BatchId
    at: int
    own: str
    """The id that the replica gave it."""
    timestamp: Timestamp
    yellow: bool
    name: str = ""


class ForwardedRows:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.logged: set[str] = set()
        """Ids with a `log` row and no `green`."""
        self._copies: dict[str, list[_Copy]] = {}
        """By the outpost's id …"""
        self._batches: dict[BatchId, list[tuple[str, _Copy]]] = {}
        """… and by batch, with that id."""
        self._yellow: dict[BatchId, list[str]] = {}
        """The ids under which a batch was recorded as yellow."""
        self._through: dict[str, int] = {}
        """By outpost: the highest counter that was recorded as green."""

    def has(self, batch: Heading) -> bool:
        """Whether the batch's messages are an outpost's."""
        return batch.sourced and bool(self._replica.forwarded(batch))

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

    # -- what happens to a batch; each returns what the node has to be recorded as having, under which id

    def logged_batch(
        self, batch: Heading, own_ids: list[str], timestamp: Timestamp, yellow: bool = False
    ) -> list[Named]:
        found: list[Named] = []
        copies = self._batches[batch.id] = []
        for at, msg, source, number in self._messages(batch):
            copy = _Copy(batch.id, at, own_ids[at], timestamp, yellow)
            copies.append((msg, copy))
            self._copies.setdefault(msg, []).append(copy)
            found += self._assign(msg, source, number)
        return found

    def turns_yellow(self, batch: Heading) -> list[Named]:
        found: list[Named] = []
        for _, copy in self._batches.get(batch.id, ()):
            copy.yellow = True
        for _, msg, source, number in self._messages(batch):
            found += self._assign(msg, source, number)
        self._yellow[batch.id] = self.names(batch)
        return found

    def turns_red(self, batch: Heading) -> list[str]:
        """Returns the ids under which it was yellow, unless they are green."""
        for _, copy in self._batches.get(batch.id, ()):
            copy.yellow = False
        return [msg for msg in self._yellow.pop(batch.id, []) if not self._is_green(msg)]

    def turns_green(self, batch: Heading, position: int, own_ids: list[str], timestamp: Timestamp) -> list[Named]:
        """Returns all its messages, under the ids that they have for ever. Then the other copies are asked for."""
        found: list[Named] = []
        voids = self._replica.voids(position, batch)
        for at, msg, source, number in self._messages(batch):
            place = self._replica.place_of(source.session, number)
            counts = place == position + at or (place is None and at not in voids)
            found.append(Named(msg if counts else own_ids[at], at, timestamp))
            if counts:
                outpost = msg.split(":", 1)[0]
                self._through[outpost] = max(self._through.get(outpost, 0), number)
        self._yellow.pop(batch.id, None)
        for msg, copy in self._batches.pop(batch.id, []):
            copies = self._copies[msg]
            copies.remove(copy)
            if not copies:
                del self._copies[msg]
        return found

    def others(self, batch: Heading) -> list[Named]:
        """Of a batch that became green: other copies of its messages, which are void now."""
        found: list[Named] = []
        for _, msg, source, number in self._messages(batch):
            if msg in self._copies:
                found += self._assign(msg, source, number)
        return found

    def names(self, batch: Heading) -> list[str]:
        """Its messages' ids now."""
        return [copy.name for _, copy in self._batches.get(batch.id, ())]

    def timestamp(self, batch: Heading) -> Timestamp:
        return self._batches[batch.id][0][1].timestamp

    # -- which copy has the outpost's id

    def _assign(self, msg: str, source: Source, number: int) -> list[Named]:
        copies = self._copies[msg]
        winner = self._winner(msg, copies, source.session, number)
        found: list[Named] = []
        for copy in copies:
            copy.name = msg if copy is winner else copy.own
            if copy.name not in self.logged:
                self.logged.add(copy.name)
                found.append(Named(copy.name, copy.at, copy.timestamp))
        return found

    def _winner(self, msg: str, copies: list[_Copy], session: bytes, number: int) -> _Copy | None:
        if self._is_green(msg):
            return None
        place = self._replica.place_of(session, number)
        if place is not None:
            # The replica may know of a green that its events have still to report.
            if place < self._replica.base:
                return None
            batch = next(self._replica.read(place))[1].id
            return next((copy for copy in copies if copy.batch == batch), None)
        if self._replica.sessions.green.has(session, number):
            return None
        return min(copies, key=lambda copy: (not copy.yellow, copy.timestamp, copy.at))

    def _is_green(self, msg: str) -> bool:
        outpost, _, counter = msg.split(":")
        return int(counter) <= self._through.get(outpost, 0)
