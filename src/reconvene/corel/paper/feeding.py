"""What is green, for replicas that are too far behind to take part, beside all other work.

Given: a configuration's followers that this replica feeds. Promised: each gets everything from its green line on, in
order, a few messages at a time, as fast as it makes them durable, and is told how far there is to go.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from reconvene.corel.home import Home
from reconvene.corel.keeping.layout import Place
from reconvene.corel.messages import BASE, FEED, Feed, Item

__all__ = ["Feeding"]

_AHEAD = 4
"""Messages that a follower has not answered."""
_BYTES = 64 << 10
"""Of one message, as far as batches are small."""


class Feeding:
    """One follower's."""

    def __init__(self, home: Home, to: str, green: int) -> None:
        self.home = home
        self.to = to
        self._position = green
        self._unanswered = 0
        self._told = -1
        self._source: Iterator[Place] = iter(())
        if green <= home.queue.base.position:
            for message in home.base_messages():
                home.send(BASE, replace(message, primary=home.record.last_committed_primary))
            self._position = max(green, home.queue.base.position)

    def answered(self) -> None:
        self._unanswered -= 1

    def pump(self) -> None:
        while self._unanswered < _AHEAD and not self.home.outgoing:
            message = self._next()
            if message is None:
                return
            self._unanswered += 1
            self.home.send(FEED, message)

    def _next(self) -> Feed | None:
        green = self.home.queue.green
        items: list[Item] = []
        start, size = self._position, 0
        while size < _BYTES:
            found = next(self._source, None)
            if found is None:
                if self._position >= green:
                    break
                self._source = self.home.placed(self._position, green)
                continue
            body = self.home.queue.bodies.get(found.id)
            items.append(Item(found.id, found.count, found.timestamp, found.marked, body))
            self._position += found.count
            size += 64 + len(body)
            self.home.pace.spend(len(body))
        if not items and self._told == green:
            return None
        self._told = green
        return Feed(self.to, start, items, green, self.home.record.last_committed_primary)
