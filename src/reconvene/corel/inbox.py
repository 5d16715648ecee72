"""What the site delivered and the replica has not handled yet, in order."""

from collections import deque

from reconvene.core.effects import Changed, Delivered
from reconvene.corel.turn_share import BATCH_BYTES

__all__ = ["Inbox"]


class Inbox:
    def __init__(self) -> None:
        self.bytes = 0
        """Of the messages, each with what handling it costs besides."""
        self.changes = 0
        """How many changes of configuration are among them."""
        self.events: deque[Delivered | Changed] = deque()

    def put(self, event: Delivered | Changed) -> int:
        """Returns how many bytes of work it is."""
        self.events.append(event)
        if type(event) is Delivered:
            weight = _weight(event)
            self.bytes += weight
            return weight
        self.changes += 1
        return 0

    def pop(self) -> Delivered | Changed:
        """The next one."""
        event = self.events.popleft()
        if type(event) is Delivered:
            self.bytes -= _weight(event)
        else:
            self.changes -= 1
        return event


def _weight(event: Delivered) -> int:
    return BATCH_BYTES + sum(map(len, event.payloads))
