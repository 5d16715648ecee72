"""The ids of messages that an outpost accepted and a replica took over, in the rows of a replica or follower.

Such a message has one id everywhere, the outpost's own (OUTPOST:INCARNATION:COUNTER). Two replicas may have taken it,
where the outpost could not know of the first. Then there are two *copies*: the first one in the order counts, and has
the outpost's id. The other is void, and has the id that its replica gave it, for which that replica has an `offer`.

Which one is first is certain once a copy is green, or both are yellow in a primary component that is established
here. Until then a node records the message once, under the outpost's id: a copy that was recorded under the id of its
replica, and counts in the end, would be a message that never becomes green.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from reconvene.corel.batch import BatchId, Heading, Source, Timestamp
from reconvene.corel.events import Color
from reconvene.corel.paper.entries import Entry
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
    session: bytes
    number: int
    """The outpost's."""
    name: str = ""
    """Empty: it is not recorded, for another copy is, and which one counts is not certain."""


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

    def logged_batch(self, batch: Heading, own_ids: list[str], timestamp: Timestamp) -> list[Named]:
        found: list[Named] = []
        copies = self._batches[batch.id] = []
        for at, msg, source, number in self._messages(batch):
            copy = _Copy(batch.id, at, own_ids[at], timestamp, source.session, number)
            copies.append((msg, copy))
            self._copies.setdefault(msg, []).append(copy)
            found += self._assign(msg, source.session, number)
        return found

    def turns_yellow(self, batch: Heading) -> list[Named]:
        found: list[Named] = []
        for _, msg, source, number in self._messages(batch):
            found += self._assign(msg, source.session, number)
        self._yellow[batch.id] = self.names(batch)
        return found

    def established(self) -> list[Named]:
        """A primary component is established here."""
        found: list[Named] = []
        for msg, copies in self._copies.items():
            if len(copies) > 1:
                found += self._assign(msg, copies[0].session, copies[0].number)
        return found

    def turns_red(self, batch: Heading) -> list[str]:
        """Returns the ids under which it was yellow, unless they are green."""
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
                found += self._assign(msg, source.session, number)
        return found

    def names(self, batch: Heading) -> list[str]:
        """Its messages' ids now, of those that are recorded."""
        return [copy.name for _, copy in self._batches.get(batch.id, ()) if copy.name]

    def timestamp(self, batch: Heading) -> Timestamp:
        return self._batches[batch.id][0][1].timestamp

    # -- which copy has the outpost's id

    def _assign(self, msg: str, session: bytes, number: int) -> list[Named]:
        copies = self._copies[msg]
        winner, certain = self._winner(msg, copies, session, number)
        found: list[Named] = []
        for copy in copies:
            if copy is winner:
                copy.name = msg
            else:
                copy.name = copy.own if certain or copy.own in self.logged else ""
            if copy.name and copy.name not in self.logged:
                self.logged.add(copy.name)
                found.append(Named(copy.name, copy.at, copy.timestamp))
        return found

    def _winner(self, msg: str, copies: list[_Copy], session: bytes, number: int) -> tuple[_Copy | None, bool]:
        """The copy that comes first, and whether that is certain. None: an earlier one is green."""
        replica = self._replica
        if self._is_green(msg):
            return None, True
        place = replica.place_of(session, number)
        if place is not None:
            # The replica may know of a green that its events have still to report.
            if place < replica.base:
                return None, True
            batch = next(replica.read(place))[1].id
            return next((copy for copy in copies if copy.batch == batch), None), True
        if replica.sessions.green.has(session, number):
            return None, True
        if len(copies) == 1:
            return copies[0], True
        entries = replica.queue.entries
        if not all(copy.batch in entries for copy in copies):
            return copies[0], False  # one is green, which the session's table does not know yet
        yellow = all(entries[copy.batch].color is Color.YELLOW for copy in copies)
        return min(copies, key=lambda copy: _order(entries[copy.batch], copy.at)), yellow and replica.primary > 0

    def _is_green(self, msg: str) -> bool:
        outpost, _, counter = msg.split(":")
        return int(counter) <= self._through.get(outpost, 0)


def _order(entry: Entry, at: int) -> tuple[bool, int, Timestamp, int]:
    """What is yellow comes first, in its order; then what is red, by timestamp."""
    yellow = entry.color is Color.YELLOW
    return not yellow, entry.number if yellow else 0, entry.timestamp, at
