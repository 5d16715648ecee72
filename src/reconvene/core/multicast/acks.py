"""When a site sends acks without a frame, and when it asks others for theirs.

Frames carry acks. Without a frame, acks are sent at once if a safe message waits for them or if a member asks, and
after a delay otherwise. A site with frames that are not stable asks for acks, with back-off: acks may be lost, and
so may a last frame that nothing follows.
"""

from reconvene.core.options import Timing

__all__ = ["Acks"]


class Acks:
    def __init__(self, timing: Timing, now: int) -> None:
        self.owes = False
        """Something was accepted that this site has not acknowledged."""
        self.urgent = False
        """All members wait for this site's acks: a safe message came."""
        self.askers: set[int] = set()
        """Members that asked for them."""
        self._timing = timing
        self._told_at = now
        self._tell_at: int | None = None
        self._ask_at: int | None = None
        self._ask_interval = 0

    def told(self, now: int) -> None:
        """This site's acks were sent to all members."""
        self.owes = self.urgent = False
        self.askers.clear()
        self._told_at = now
        self._tell_at = None

    def due(self, now: int) -> bool:
        """It is time to send acks to all members."""
        if self.owes and self._tell_at is None:
            self._tell_at = now + self._timing.ack_after_ns
        if self.urgent or (self._tell_at is not None and now >= self._tell_at):
            return True
        # The answer to the first that asks goes to all members, since others would ask next.
        return bool(self.askers) and now - self._told_at >= self._timing.ack_after_ns

    def take_askers(self) -> list[int]:
        askers = sorted(self.askers)
        self.askers.clear()
        return askers

    def asks(self, now: int, longest_trip_ns: int) -> bool:
        """Something is not stable: whether to ask now."""
        if self._ask_at is None:
            self._ask_interval = 2 * self._timing.ack_after_ns + 2 * longest_trip_ns
            self._ask_at = now + self._ask_interval
        if now < self._ask_at:
            return False
        ceiling = self._timing.nack_most_ns + 2 * longest_trip_ns
        self._ask_interval = min(self._ask_interval * 2, ceiling)
        self._ask_at = now + self._ask_interval
        return True

    def progressed(self) -> None:
        """Something became stable: the back-off starts again."""
        self._ask_at = None

    def deadline(self) -> int | None:
        tell, ask = self._tell_at, self._ask_at
        return tell if ask is None else ask if tell is None else min(tell, ask)
