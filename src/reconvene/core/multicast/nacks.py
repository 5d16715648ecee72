"""When to ask for a missing frame, and when to send one again.

A gap that the sender's own later frame shows is a loss, and is nacked at once; a frame that only others name may
still arrive by a slower path, and gets half a round trip. A nack is repeated with back-off. A frame is not sent
again to the same member within a round trip: the copy is under way.
"""

from reconvene.core.options import Timing

__all__ = ["Nacks"]

_RESENDS_KEPT = 8_192


class Nacks:
    def __init__(self, size: int, timing: Timing) -> None:
        self._timing = timing
        self.round_trip_ns = [0] * size
        """Smoothed, by rank; kept up to date by the owner."""
        self._due_at: list[int | None] = [None] * size
        self._interval = [0] * size
        self._tries = [0] * size
        self._asked_to = [0] * size
        self._resent: dict[tuple[int, int, int], int] = {}
        self.pending = 0

    def gap(self, q: int, received: int, high: int, namer: int, now: int) -> None:
        """q's frames above `received`, up to `high`, were named by `namer`'s frame and are not all here."""
        if high <= received or (high <= self._asked_to[q] and self._due_at[q] is not None):
            return
        due = now if namer == q else now + self.round_trip_ns[q] // 2 + self.round_trip_ns[q] // 4
        self._asked_to[q] = high
        current = self._due_at[q]
        if current is None:
            self.pending += 1
            self._tries[q] = 0
            self._interval[q] = self._timing.nack_base_ns + self.round_trip_ns[q] * 3 // 2
            self._due_at[q] = due
        elif due < current:
            self._due_at[q] = due

    def progress(self, q: int, received: int) -> None:
        if self._due_at[q] is not None and received >= self._asked_to[q]:
            self.settle(q)

    def settle(self, q: int) -> None:
        if self._due_at[q] is not None:
            self._due_at[q] = None
            self.pending -= 1

    def due(self, now: int) -> list[tuple[int, int]]:
        """(member whose frames are missing, times asked before); each is scheduled again."""
        found: list[tuple[int, int]] = []
        for q, due_at in enumerate(self._due_at):
            if due_at is not None and due_at <= now:
                found.append((q, self._tries[q]))
                self._tries[q] += 1
                self._due_at[q] = now + self._interval[q]
                ceiling = self._timing.nack_most_ns + self.round_trip_ns[q] * 2
                self._interval[q] = min(self._interval[q] * 2, ceiling)
        return found

    def deadline(self) -> int | None:
        if not self.pending:
            return None
        return min(due_at for due_at in self._due_at if due_at is not None)

    def may_resend(self, to: int, q: int, seq: int, now: int) -> bool:
        key = (to, q, seq)
        if now - self._resent.get(key, -(1 << 62)) < self.round_trip_ns[to]:
            return False
        if len(self._resent) >= _RESENDS_KEPT:
            self._resent.clear()
        self._resent[key] = now
        return True
