"""The network sliding window: how many unstable bytes a member may have under way.

The whole configuration's window fits the smallest receive buffer among its members, less what is left to channels.
Each member that is sending has an equal share; the share of a silent one is used by the others. Where frames take
long to become stable, a queue is building up somewhere on the way, and the share shrinks until it drains.
"""

from collections import deque

from reconvene.core.options import Limits

__all__ = ["Window", "weight"]

_SLACK_NS = 50_000_000
_HEADERS = 400
"""Of a frame and of the datagram that it is in, with room for the kernel's own."""


def weight(size: int) -> int:
    """What a frame with so many bytes of messages takes of a receive buffer: Linux rounds the memory of a datagram
    up to a power of two, and adds its own."""
    return 256 + max(512, 1 << (size + _HEADERS - 1).bit_length())


class Window:
    def __init__(self, size: int, limits: Limits) -> None:
        self._limits = limits
        self._size = size
        self._least = weight(limits.packet_bytes or limits.frame_bytes)
        self._buffers = [limits.window_bytes] * size
        self._own: deque[tuple[int, int, bool, int]] = deque()
        """Own unstable frames: number, weight, whether it was full, when it was sent."""
        self._own_bytes = 0
        self._partials = 0
        self.senders = size
        """How many members share the window at present; kept up to date by the owner."""
        self.proven_at = -(1 << 62)
        """When an own frame last became stable: by then this site had heard which other members are sending."""
        self._least_ns = 1 << 62
        self._backed_off_ns = 0
        self.bytes = self._fitting()
        self._limit = self.bytes

    def _fitting(self) -> int:
        return max(min(self._buffers) * 9 // 10, self._least)

    def _weigh(self, size: int) -> int:
        packet = self._limits.packet_bytes
        if not packet or size <= packet:
            return weight(size)
        whole, rest = divmod(size, packet)
        return whole * weight(packet) + (weight(rest) if rest else 0)

    def report(self, rank: int, buffer: int) -> None:
        if buffer != self._buffers[rank]:
            self._buffers[rank] = max(buffer, 1)
            self.bytes = self._fitting()
            self._limit = min(self._limit, self.bytes)

    def sent(self, seq: int, size: int, full: bool, now: int) -> None:
        weighed = self._weigh(size)
        self._own.append((seq, weighed, full, now))
        self._own_bytes += weighed
        self._partials += not full

    def settled(self, stable: int, now: int) -> None:
        """Own frames up to `stable` are stable."""
        sent_at = -1
        while self._own and self._own[0][0] <= stable:
            _, weighed, full, sent_at = self._own.popleft()
            self._own_bytes -= weighed
            self._partials -= not full
        if sent_at >= 0:
            self._adapt(now - sent_at, now)
            self.proven_at = now

    def _adapt(self, took_ns: int, now: int) -> None:
        self._least_ns = min(self._least_ns, took_ns)
        if took_ns <= 2 * self._least_ns + _SLACK_NS:
            self._limit = min(self._limit + self._weigh(self._limits.frame_bytes) // 4, self.bytes)
        elif now - self._backed_off_ns > took_ns:
            # Once a round trip: what is under way was sent under the old limit.
            self._limit = max(self._limit * 7 // 10, self._least)
            self._backed_off_ns = now

    @property
    def empty(self) -> bool:
        """No own frame is under way."""
        return not self._own

    @property
    def frame_bytes(self) -> int:
        """Messages of the largest frame of which every member can have two under way; at least a packet's."""
        packet = self._limits.packet_bytes
        if not packet:
            return self._limits.frame_bytes
        packets = self.bytes // (2 * self._size * weight(packet))
        return min(self._limits.frame_bytes, max(1, packets) * packet)

    @property
    def share(self) -> int:
        return self._limit // self.senders

    def takes(self, size: int) -> bool:
        """Whether a frame of this size fits this site's share. One frame is always allowed."""
        if not self._own:
            return True
        return self._own_bytes + self._weigh(size) <= self.share and len(self._own) < self._limits.ahead_frames // 2

    def takes_partial(self) -> bool:
        """A frame that is not full may go while fewer than two such frames are unacknowledged."""
        return self._partials < 2

    @property
    def presses(self) -> bool:
        """The sender will soon have to wait for acks."""
        return self._partials >= 2 or self._own_bytes * 2 > self.share
