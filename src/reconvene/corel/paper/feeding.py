"""What is green, for replicas that are too far behind to take part, beside all other work.

Given: a configuration's followers that this replica feeds. Promised: each gets everything from its green line on, in
order, a few messages at a time, as fast as it makes them durable, and learns how far there is to go.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from reconvene.corel.keeping.layout import Place, Record
from reconvene.corel.messages import BASE, FEED, Feed, Item
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.queue import Queue
from reconvene.corel.turn_share import TurnShare

__all__ = ["Feeding"]

_AHEAD = 4
"""Messages that a follower has not answered."""
_BYTES = 64 << 10
"""Of one message, as far as batches are small."""


class Feeding:
    """One follower's."""

    def __init__(
        self,
        to: str,
        green: int,
        *,
        queue: Queue,
        record: Record,
        outgoing: Outgoing,
        turn: TurnShare,
        applying: Applying,
    ) -> None:
        """`green`: the follower's green line."""
        self.to = to
        self._queue = queue
        self._record = record
        self._outgoing = outgoing
        self._turn = turn
        self._position = green
        self._unanswered = 0
        self._announced = -1
        """The green line that was sent to the follower last."""
        self._source: Iterator[Place] = iter(())
        if green <= queue.base.position:
            for message in applying.base_messages():
                outgoing.send(BASE, replace(message, primary=record.last_committed_primary))
            self._position = max(green, queue.base.position)

    def answered(self) -> None:
        self._unanswered -= 1

    def pump(self) -> None:
        while self._unanswered < _AHEAD and not self._outgoing.messages:
            message = self._next()
            if message is None:
                return
            self._unanswered += 1
            self._outgoing.send(FEED, message)

    def _next(self) -> Feed | None:
        queue, green = self._queue, self._queue.green
        items: list[Item] = []
        start, size = self._position, 0
        while size < _BYTES:
            found = next(self._source, None)
            if found is None:
                if self._position >= green:
                    break
                self._source = queue.places(self._position, green)
                continue
            body = queue.bodies.get(found.id)
            items.append(Item(found.id, found.count, found.timestamp, found.marked, body))
            self._position += found.count
            size += 64 + len(body)
            self._turn.spend(len(body))
        if not items and self._announced == green:
            return None
        self._announced = green
        return Feed(self.to, start, items, green, self._record.last_committed_primary)
