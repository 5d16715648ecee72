"""Messages of a cluster's own sites in one local configuration: what waits to cross, and what waits behind it.

Given: the messages in the cluster's order. Promised: at every site the same ones wait for the same ones.

An agreed or safe message that crosses is delivered at home when it comes back from above, at its place there. What
its sender sent after it, but for fifo, waits for it, or it would overtake it.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from reconvene.domains.messages import Carried, Message, Wide
from reconvene.domains.seen import Seen, SenderId
from reconvene.ids import Service

__all__ = ["Home", "Kept", "Key", "Waiting"]

_KEPT_SENDERS = 256

Key = tuple[int, int, int]
"""The sender's number and incarnation, and the counter. An author that has crashed leaves messages behind."""


class Waiting(Struct):
    key: Key
    wide: Wide
    place: tuple[int, ...] | None
    """In the cluster's own order, of agreed and safe ones."""
    crosses: bool
    again: bool = False
    """It was sent in an earlier local configuration."""

    @property
    def holds(self) -> bool:
        """Its sender's later ones, but for fifo, wait until it has come back."""
        return self.crosses and self.wide.service >= Service.AGREED


class Home:
    """Made anew for each local configuration."""

    def __init__(self) -> None:
        self.crossing: dict[Key, Waiting] = {}
        """Those that cross and have not come back, in this site's order."""
        self.crossings: dict[int, list[Key]] = {}
        """By number: what each CROSS of this configuration has named, as far as it has not come back."""
        self.fresh: dict[Key, Waiting] = {}
        """Those of `crossing` that no CROSS has named."""
        self.crosses = 0
        """How many were decided."""
        self._open: dict[Key, Waiting] = {}
        """All of `crossing`, and what waits behind it and does not cross, in this site's order."""
        self._queues: dict[tuple[int, int], deque[Waiting]] = {}
        """By sender, in its order: messages that wait for their place above, and those that wait behind them."""
        self._back = Seen()
        """What has come back in this configuration."""

    def take(self, waiting: Waiting) -> bool:
        """Takes a message that was delivered in the cluster. Returns whether it is delivered to applications now."""
        service = Service(waiting.wide.service)
        ordinal, incarnation, counter = waiting.key
        sender = ordinal, incarnation
        if self._back.has(_sender(ordinal), incarnation, service, counter):
            return True  # it came back already, in a crossing of an earlier configuration
        if waiting.key in self._open:
            return False  # it was there before: two parts of the cluster have brought it
        if waiting.crosses:
            self.crossing[waiting.key] = self.fresh[waiting.key] = self._open[waiting.key] = waiting
        if service is Service.FIFO:
            return True
        queue = self._queues.get(sender)
        if not queue and not waiting.holds:
            return True
        self._queues.setdefault(sender, deque()).append(waiting)
        self._open[waiting.key] = waiting
        return False

    def blocked(self) -> Iterator[tuple[int, Waiting]]:
        """Those that do not cross, and wait behind some that do, each with the counter of the last of these; each
        sender's in its order."""
        for sender in sorted(self._queues):
            behind = 0
            for waiting in self._queues[sender]:
                if waiting.crosses:
                    behind = waiting.key[2]
                else:
                    yield behind, waiting

    def cross(self, keys: list[Key]) -> int:
        """A CROSS has named these. Returns its number."""
        self.crosses += 1
        self.crossings[self.crosses] = [key for key in keys if self.fresh.pop(key, None) is not None]
        return self.crosses

    def unconfirmed(self, number: int) -> list[Waiting]:
        """What of this crossing has not come back."""
        return [self.crossing[key] for key in self.crossings[number] if key in self.crossing]

    def carried(self) -> list[Carried]:
        """What has not come back, and what waits for it, for the next configuration."""
        return [Carried(key[0], key[1], waiting.wide) for key, waiting in self._open.items()]

    def counters(self, sender: int, incarnation: int) -> set[int]:
        """Of this sender's messages that have not come back, or wait for one that has not."""
        return {key[2] for key in self._open if key[:2] == (sender, incarnation)}

    def back(self, key: Key, service: Service) -> list[Waiting]:
        """A message has come back. Returns those that waited only for it, and are delivered before they come back
        themselves, in order."""
        ordinal, incarnation, counter = key
        self._back.add(_sender(ordinal), incarnation, service, counter)
        for those in (self.crossing, self.fresh, self._open):
            those.pop(key, None)
        queue = self._queues.get((ordinal, incarnation))
        released: list[Waiting] = []
        while queue:
            head = queue[0]
            is_back = head.crosses and self._back.has(_sender(ordinal), incarnation, Service.CAUSAL, head.key[2])
            if head.holds and not is_back:
                break
            queue.popleft()
            if not is_back:
                released.append(head)
            if not head.crosses:
                self._open.pop(head.key, None)
        return released

    def skip(self, sender: int, incarnation: int, fifo: int, ordered: int) -> list[Waiting]:
        """Messages of this sender up to these counters get no place any more. Returns as `back` does."""
        released: list[Waiting] = []
        for key, waiting in [*self.crossing.items()]:
            service = Service(waiting.wide.service)
            last = fifo if service is Service.FIFO else ordered
            if key[:2] == (sender, incarnation) and key[2] <= last:
                released += self.back(key, service)
        return released


class Kept:
    """Messages for this cluster alone that waited behind one that crosses when a local configuration ended: they come
    after that one, and before what their sender sent after them. Of so many senders at most; the oldest are
    dropped."""

    def __init__(self) -> None:
        self._by_sender: dict[tuple[str, int], deque[tuple[int, Waiting]]] = {}
        """By site and incarnation: the counter of the one that it waits behind, and the message."""

    def add(self, site: str, behind: int, waiting: Waiting) -> None:
        kept = self._by_sender.setdefault((site, waiting.key[1]), deque())
        if not kept or kept[-1][1].wide.counter < waiting.wide.counter:
            kept.append((behind, waiting))
        while len(self._by_sender) > _KEPT_SENDERS:
            del self._by_sender[next(iter(self._by_sender))]

    def before(self, message: Message) -> Iterator[Waiting]:
        """Removes and returns those that come before this message of their sender, in order."""
        kept = self._by_sender.get((message.site, message.incarnation))
        while kept and message.service != Service.FIFO and kept[0][1].wide.counter < message.counter:
            yield kept.popleft()[1]

    def behind(self, message: Message) -> Iterator[Waiting]:
        """Removes and returns those that waited for this message, in order."""
        kept = self._by_sender.get((message.site, message.incarnation))
        while kept and message.service != Service.FIFO and kept[0][0] <= message.counter:
            yield kept.popleft()[1]


def _sender(ordinal: int) -> SenderId:
    return SenderId("", str(ordinal))
