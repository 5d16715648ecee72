"""Green batches and a base that come from another replica: in step 5 of recovery, or while this one follows.

Given: batches in their order, from a replica that has them green. Promised: the green line here only grows, without a
gap, and each batch is reported once it is on stable storage.
"""

from reconvene.corel.after_sync import Report
from reconvene.corel.batch import Heading, decode_heading
from reconvene.corel.events import Green, LogEvent, Logged, Restored
from reconvene.corel.keeping.layout import decode_base
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.messages import BaseSent, Item
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.queue import Queue
from reconvene.errors import Malformed

__all__ = ["CatchingUp", "heading_of"]


class CatchingUp:
    def __init__(self, queue: Queue, writes: Writes, applying: Applying) -> None:
        self._queue = queue
        self._writes = writes
        self._applying = applying
        self._sessions: list[tuple[bytes, bytes]] = []
        """Of another replica's base, as they arrive."""

    def hear(self, primary: int) -> None:
        """What is green for a replica that knows of this primary component becomes green here. Until step 6 this
        replica does not know of the component, and says so: its green line says nothing about its yellow zone, nor
        about the zones of others that know no more than it does."""
        record = self._writes.record
        if primary > record.heard_primary:
            record.heard_primary = primary
            self._writes.touch()

    def take_base(self, message: BaseSent, primary: int) -> None:
        """`primary`: the last primary component that its sender knows of."""
        self._sessions += message.sessions
        if not message.last:
            return
        sessions, self._sessions = self._sessions, []
        base, green = decode_base(message.base), self._queue.green
        if base.position < green or base.position == green > 0:
            return
        self.hear(primary)
        self._applying.restore(base, sessions)
        if base.position > green:
            self._writes.after(Report((Restored(base.position),)))

    def take_green(self, item: Item, position: int, primary: int) -> None:
        """A batch that is green at this position for the replica that sent it, which knows of this primary
        component."""
        queue = self._queue
        heading = heading_of(queue, item)
        self.hear(primary)
        if position != queue.green:
            raise Malformed(f"a green batch at {position}, where {queue.green} was expected")
        new = heading.id not in queue.entries
        queue.append_green(heading, item.body, item.timestamp, item.marked)
        self._applying.apply(heading, position)
        green: LogEvent = Green(heading, position)
        self._writes.after(Report((Logged(heading, item.timestamp), green) if new else (green,)))


def heading_of(queue: Queue, item: Item) -> Heading:
    """Raises Malformed where the batch is not here, and not in the item either."""
    entry = queue.entries.get(item.id)
    if entry is not None:
        return entry.heading
    if item.body is None:
        raise Malformed(f"batch {item.id} without its body, which is not here")
    heading = decode_heading(item.body)
    if heading.id != item.id or heading.count != item.count:
        raise Malformed(f"batch {heading.id} that claims to be {item.id}")
    return heading
