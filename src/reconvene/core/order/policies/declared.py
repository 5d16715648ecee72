"""Patterns declared by the application, recognized early or set by the time of day (section 7).

Given: patterns as weights by ordinal, the same at every member; a schedule of (ns since midnight, index of the
pattern that begins then), and what to add to `now` to have ns since some midnight. No clock is read.
Promised: at a scheduled time its pattern is proposed at once. Otherwise a short window is enough to recognize a
pattern that the traffic comes close to; where it comes close to none, the shares of the long window are taken as
by the plain book-keeper.
"""

from collections import deque
from typing import ClassVar

from reconvene.core.order.distributions import MAX_TOTAL
from reconvene.core.order.policies.book_keeper import BookKeeper, Tuning, to_weights, variation

__all__ = ["DAY_NS", "Declared", "Patterns", "Schedule"]

DAY_NS = 86_400 * 1_000_000_000

Patterns = tuple[tuple[int, ...], ...]
Schedule = tuple[tuple[int, int], ...]


class Declared(BookKeeper):
    SHORT: ClassVar[int] = 4
    """The short window is this part of the long one."""
    MATCH: ClassVar[int] = 2_500
    """How far, in ten-thousandths of total variation, the traffic may be from a pattern that it is taken for."""

    def __init__(
        self,
        members: tuple[int, ...],
        rank: int,
        patterns: Patterns,
        schedule: Schedule = (),
        day_offset_ns: int = 0,
        tuning: Tuning | None = None,
    ) -> None:
        super().__init__(len(members), rank, tuning)
        self.patterns = [self._weights_of(pattern, members) for pattern in patterns]
        self.schedule = sorted((start % DAY_NS, index) for start, index in schedule)
        if any(not 0 <= index < len(patterns) for _, index in self.schedule):
            raise ValueError("the schedule names a pattern that is not declared")
        self.day_offset_ns = day_offset_ns
        self._recent: deque[int] = deque(maxlen=max(1, self._size // self.SHORT))
        self._scheduled: int | None = None
        self._next_start: int | None = None

    def _weights_of(self, pattern: tuple[int, ...], members: tuple[int, ...]) -> list[int]:
        shares = [pattern[ordinal] if ordinal < len(pattern) else 0 for ordinal in members]
        if min(shares) < 0:
            raise ValueError("a pattern's weights are not negative")
        if min(shares) > 0 and sum(shares) <= MAX_TOTAL:
            return shares
        return to_weights(shares, self.tuning.steps)

    def observe(self, rank: int, messages: int, now: int) -> None:
        super().observe(rank, messages, now)
        self._recent.append(rank)

    def propose(self, now: int) -> list[int] | None:
        if self._decides() and self.schedule:
            weights = self._by_time(now)
            if weights is not None:
                return weights
        return super().propose(now)

    def _by_time(self, now: int) -> list[int] | None:
        """The weights of a pattern that has just begun."""
        time_of_day_ns = (now + self.day_offset_ns) % DAY_NS
        begun = sum(start <= time_of_day_ns for start, _ in self.schedule)
        until_next = (self.schedule[begun % len(self.schedule)][0] - time_of_day_ns - 1) % DAY_NS + 1
        self._next_start = now + until_next
        if self._scheduled == (begun - 1) % len(self.schedule):
            return None
        self._scheduled = (begun - 1) % len(self.schedule)
        self._recent.clear()  # what was observed before it began does not count against it
        weights = self.patterns[self.schedule[self._scheduled][1]]
        return weights if variation(weights, self._weights) else None

    def _due(self, now: int) -> bool:
        full = len(self._recent) == self._recent.maxlen
        return full and self._fresh * 8 >= self._size and now >= self._compare_after

    def _target(self, now: int) -> list[int] | None:
        counts = [0] * self.members
        for rank in self._recent:
            counts[rank] += 1
        near = [(variation(pattern, counts), index) for index, pattern in enumerate(self.patterns)]
        if near and min(near)[0] <= self.MATCH:
            weights = self.patterns[min(near)[1]]
            # Between two patterns that lie close to each other it stays with the one it has.
            closer = min(near)[0] < variation(self._weights, counts)
            return weights if closer and variation(weights, self._weights) else None
        return super()._target(now) if len(self._window) == self._size else None

    def deadline(self) -> int | None:
        return self._next_start if self._decides() else None
