"""What a replica asks of its site: messages to send in the present configuration, and a new configuration."""

from collections import deque

from msgspec import Struct

from reconvene.corel.messages import encode
from reconvene.ids import Service

__all__ = ["Outgoing"]


class Outgoing:
    def __init__(self) -> None:
        self.messages: deque[tuple[Service, bytes]] = deque()
        """In order; the site takes them from the left."""
        self.wants_renewal = False
        """A configuration with the same members is wanted, so that all of them recover again."""

    def send(self, kind: int, content: Struct) -> None:
        """In the agreed order."""
        self.messages.append((Service.AGREED, encode(kind, content)))

    def renew(self) -> None:
        self.wants_renewal = True

    def close(self) -> None:
        """The configuration ends: what was not sent in it is not sent at all."""
        self.messages.clear()
