"""What the application has submitted and no frame carries yet, cut into parcels of a frame each.

Promised: messages leave in the order of their submission; a parcel holds messages of one service and fits a
frame; a longer message leaves in fragments, with nothing between them.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from reconvene.core.options import Limits
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service

__all__ = ["FRAGMENT", "LAST", "WHOLE", "Outbox", "Parcel"]

WHOLE, FRAGMENT, LAST = 0, 1, 2
"""Frame.part."""

_OVERHEAD = 5
"""Bytes that msgpack puts before a payload, at most."""


class Parcel(NamedTuple):
    service: Service
    part: int
    payloads: list[bytes]
    size: int
    full: bool


class Outbox:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.frame_bytes = limits.frame_bytes
        """What a parcel holds at most. It may change at any time."""
        self._queue: deque[tuple[Service, bytes]] = deque()
        self._cut = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def room(self) -> int:
        if self.bytes >= self._limits.queue_bytes:
            return 0
        return self._limits.queue_messages - len(self._queue)

    def submit(self, service: Service, payload: bytes) -> None:
        if len(payload) > self._limits.message_bytes:
            raise Rejected(f"message of {len(payload)} bytes: at most {self._limits.message_bytes} are taken")
        if self.room() <= 0:
            raise Unavailable(f"{len(self._queue)} messages of {self.bytes} bytes wait already")
        self._queue.append((service, payload))
        self.bytes += len(payload) + _OVERHEAD

    def submit_many(self, service: Service, payloads: Sequence[bytes]) -> int:
        """Takes as many as there is room for, from the first on. Returns how many, or None if one is too large."""
        longest = max(map(len, payloads), default=0)
        if longest > self._limits.message_bytes:
            raise Rejected(f"message of {longest} bytes: at most {self._limits.message_bytes} are taken")
        room = self.room()
        size = sum(map(len, payloads)) + _OVERHEAD * len(payloads)
        if len(payloads) <= room and self.bytes + size <= self._limits.queue_bytes:
            self._queue.extend([(service, payload) for payload in payloads])
            self.bytes += size
            return len(payloads)
        taken = 0
        while taken < len(payloads) and self.room() > 0:
            self.submit(service, payloads[taken])
            taken += 1
        return taken

    @property
    def full(self) -> bool:
        """There is enough for a whole frame."""
        return self.bytes >= self.frame_bytes

    @property
    def head(self) -> Service | None:
        return self._queue[0][0] if self._queue else None

    def peek_size(self) -> int:
        """What the next parcel weighs, at most."""
        return min(self.bytes, self.frame_bytes)

    def take(self) -> Parcel:
        """The next frame's worth; call only where something is queued."""
        queue = self._queue
        limit = self.frame_bytes
        service, payload = queue[0]
        if self._cut or len(payload) + _OVERHEAD > limit:
            return self._take_fragment(service, payload)
        payloads: list[bytes] = []
        size = 0
        while queue and queue[0][0] is service:
            weight = len(queue[0][1]) + _OVERHEAD
            if size + weight > limit:
                break
            size += weight
            payloads.append(queue.popleft()[1])
        self.bytes -= size
        return Parcel(service, WHOLE, payloads, size, bool(queue) or size * 2 > limit)

    def _take_fragment(self, service: Service, payload: bytes) -> Parcel:
        step = self.frame_bytes - _OVERHEAD
        piece = payload[self._cut : self._cut + step]
        self._cut += len(piece)
        self.bytes -= len(piece)
        if self._cut < len(payload):
            return Parcel(service, FRAGMENT, [piece], len(piece), True)
        self._queue.popleft()
        self._cut = 0
        self.bytes -= _OVERHEAD
        return Parcel(service, LAST, [piece], len(piece), True)

    def withdraw(self) -> int:
        """Drops messages of which nothing was sent; returns how many."""
        begun = self._queue[0] if self._cut else None
        count = len(self._queue) - (begun is not None)
        self._queue.clear()
        self.bytes = 0
        if begun is not None:
            self._queue.append(begun)
            self.bytes = len(begun[1]) + _OVERHEAD - self._cut
        return count

    def give_back(self) -> list[tuple[Service, bytes]]:
        """Removes and returns everything that is not completely sent, in order."""
        unsent = list(self._queue)
        self._queue.clear()
        self._cut = 0
        self.bytes = 0
        return unsent

    def restart(self) -> None:
        """The configuration changed: receivers drop the fragments of an unfinished message, so it starts anew."""
        self.bytes += self._cut
        self._cut = 0
