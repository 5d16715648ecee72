"""What a site's own applications send: in order, and kept until it has come back.

Given: requests; what has come back from above. Promised: each message has one counter, and none is given up before
it has come back or can get no place any more.
"""

from collections import deque
from collections.abc import Set

from msgspec import Struct
from msgspec.structs import replace

from reconvene.domains.messages import Placed, Wide
from reconvene.errors import Unavailable
from reconvene.ids import Service

__all__ = ["Author", "Limits"]


class Limits(Struct, frozen=True):
    messages: int = 4_096
    """Of this site's own that have not come back from above: then `send` waits."""
    size: int = 4 << 20
    message_bytes: int = 16 << 20
    """The most of a message in the cluster."""
    confirm_ns: int = 4_000_000_000
    """Nothing has come back for so long: then a standby votes the representative out. Longer than a change of the
    configuration above takes."""


class Request(Struct, frozen=True):
    service: Service
    group: str
    crosses: bool
    data: bytes


class Author:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._requests: deque[Request] = deque()
        self._own: dict[int, Wide] = {}
        """By counter: sent, and not come back."""
        self._bytes = 0
        self._again: deque[int] = deque()
        """Counters of those that are sent again in this configuration: nobody else has brought them into it."""
        self._counter = 0

    @property
    def message_bytes(self) -> int:
        """The most of a message in the cluster."""
        return self._limits.message_bytes

    # -- requests

    def room(self) -> int:
        """How many messages `send` would take now."""
        if self._bytes >= self._limits.size:
            return 0
        return max(0, self._limits.messages - len(self._own) - len(self._requests))

    def send(self, service: Service, group: str, crosses: bool, data: bytes) -> None:
        """Raises Unavailable where there is no room."""
        if self.room() <= 0:
            raise Unavailable("too many messages have not crossed yet")
        self._requests.append(Request(service, group, crosses, data))

    def withdraw(self) -> int:
        """Takes back what is not sent; returns how many."""
        count = len(self._requests)
        self._requests.clear()
        return count

    # -- sending

    def restart(self, known: Set[int]) -> None:
        """Messages flow in a local configuration. All its members know those with these counters."""
        self._again = deque(counter for counter in sorted(self._own) if counter not in known)

    def next(self) -> tuple[Wide, bool] | None:
        """What is to be sent next, and whether for the first time; `sent` follows, if it is taken."""
        while self._again and self._again[0] not in self._own:
            self._again.popleft()
        if self._again:
            return replace(self._own[self._again[0]], again=True), False
        if not self._requests:
            return None
        request = self._requests[0]
        return Wide(self._counter + 1, request.service, request.group, request.crosses, request.data), True

    def sent(self) -> None:
        if self._again:
            self._again.popleft()
            return
        request = self._requests.popleft()
        self._counter += 1
        wide = Wide(self._counter, request.service, request.group, request.crosses, request.data)
        self._own[self._counter] = wide
        self._bytes += len(request.data)

    # -- what becomes of it

    def done(self, counter: int) -> None:
        """It has come back, or is delivered here for good."""
        own = self._own.pop(counter, None)
        if own is not None:
            self._bytes -= len(own.data)

    def fifo(self) -> list[Wide]:
        """The fifo messages that have not come back, in order."""
        return [own for _, own in sorted(self._own.items()) if own.service == Service.FIFO]

    def passed_over(self, placed: Placed) -> list[Wide]:
        """Those that can get no place any more, in order."""
        return [
            own
            for counter, own in sorted(self._own.items())
            if counter <= (placed.fifo if own.service == Service.FIFO else placed.ordered)
        ]

    def invariants(self) -> None:
        assert self._bytes == sum(len(own.data) for own in self._own.values())
