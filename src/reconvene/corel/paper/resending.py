"""What is sent again in recovery: the representative's green and yellow batches (step 5), and red batches that not
everyone has (step 7). Each comes a message at a time, as there is room for it."""

from collections.abc import Iterator

from reconvene.corel.batch import BatchId
from reconvene.corel.messages import BaseSent, Item, Priority, Reds
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.entries import Entry
from reconvene.corel.paper.plan import Plan
from reconvene.corel.paper.queue import Queue
from reconvene.corel.turn_share import TurnShare

__all__ = ["RedExchange", "priority_messages"]

_MESSAGE_BYTES = 32 << 10
"""Of batches that are sent again in one message, as far as they are small."""
_ITEM_BYTES = 64
"""Of a batch besides its body."""


def priority_messages(plan: Plan, queue: Queue, applying: Applying, turn: TurnShare) -> Iterator[Priority | BaseSent]:
    """At the representative: what it has green and yellow, and another participant lacks."""
    start = plan.start
    if plan.sends_base:
        start = max(start, queue.base.position)
        yield from applying.base_messages()
    position, items, size = start, list[Item](), 0
    for place in queue.places(start, plan.yellow):
        stable = place.id.first + place.count - 1 <= plan.stable.get(place.id.author, 0)
        body = None if stable else queue.bodies.get(place.id)
        items.append(Item(place.id, place.count, place.timestamp, place.marked, body))
        size += _ITEM_BYTES + (len(body) if body else 0)
        turn.spend(len(body) if body else 0)
        if size >= _MESSAGE_BYTES:
            yield Priority(position, items, last=False)
            position, items, size = position + sum(item.count for item in items), [], 0
    yield Priority(position, items, last=True)


class RedExchange:
    """Step 7 at one replica."""

    def __init__(self, plan: Plan, name: str, queue: Queue, turn: TurnShare) -> None:
        self._plan = plan
        self._name = name
        self._queue = queue
        self._turn = turn
        self._arrived: set[BatchId] = set()
        """Red batches that were sent again, by any participant."""
        self._walk: list[Entry] = []
        """Red batches of this replica that not everyone has, in order …"""
        self._walked = 0
        """… and how far it has come along them."""

    def begin(self) -> None:
        """The red part is in its final order."""
        stable = self._plan.stable
        self._walk = [entry for entry in self._queue.red if entry.heading.last > stable.get(entry.heading.author, 0)]

    def arrived(self, batch: BatchId) -> None:
        self._arrived.add(batch)

    def next(self) -> Reds | None:
        """What this replica may send now, by the retransmission rule (figure 3.7): batches that others have to send,
        and that are before it in this queue, have to arrive first."""
        if self._walked == len(self._walk):
            return None
        items: list[Item] = []
        size = 0
        while self._walked < len(self._walk) and size < _MESSAGE_BYTES:
            entry = self._walk[self._walked]
            heading = entry.heading
            if self._plan.senders[heading.author] == self._name:
                body = self._queue.bodies.get(heading.id)
                items.append(Item(heading.id, heading.count, entry.timestamp, entry.marked, body))
                size += _ITEM_BYTES + len(body)
                self._turn.spend(len(body))
            elif heading.id not in self._arrived:
                break
            self._walked += 1
        return Reds(items) if items else None
