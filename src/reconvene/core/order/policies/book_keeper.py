"""The book-keeper of section 6.1: one member watches a sliding window of frames, and injects its shares as the new
weights when they differ enough from the last ones.

The window counts frames, since a slot is a frame here; each frame counts once, whatever its messages.
"""

from collections import deque
from dataclasses import dataclass

__all__ = ["BookKeeper", "Tuning", "to_weights", "variation"]


@dataclass(frozen=True, slots=True)
class Tuning:
    factor: int = 32
    """The window holds factor · members frames (the paper's N)."""
    steps: int = 16
    """Weights are counted in steps of 1 / (steps · members); everyone gets one step more, which is ε."""
    threshold_percent: int = 20
    """Shares that differ by more than this in total variation are a new distribution."""
    every_ns: int = 100_000_000
    """How often they are compared, at most; and never before an eighth of the window is new."""


def to_weights(counts: list[int], steps: int) -> list[int]:
    """Integer weights in proportion to the counts, none of them zero, their total at most (steps + 1) · members."""
    total = sum(counts) or 1
    return [1 + count * steps * len(counts) // total for count in counts]


def variation(these: list[int], those: list[int]) -> int:
    """The total variation between two distributions, each given by its weights, in ten-thousandths."""
    this_total, that_total = sum(these), sum(those)
    difference = sum(abs(a * that_total - b * this_total) for a, b in zip(these, those, strict=True))
    return difference * 5_000 // (this_total * that_total)


class BookKeeper:
    """The book-keeper is the member with the lowest rank."""

    def __init__(self, members: int, rank: int, tuning: Tuning | None = None) -> None:
        self.members = members
        self.rank = rank
        self.tuning = tuning or Tuning()
        self._size = self.tuning.factor * members
        self._window: deque[int] = deque()
        self._counts = [0] * members
        self._fresh = 0
        self._compare_after = 0
        self._weights = [1] * members
        """The last ones adopted."""

    @property
    def watches(self) -> bool:
        return self.members > 1 and self.rank == 0

    def observe(self, rank: int, messages: int, now: int) -> None:
        window = self._window
        window.append(rank)
        self._counts[rank] += 1
        self._fresh += 1
        if len(window) > self._size:
            self._counts[window.popleft()] -= 1

    def adopted(self, issuer: int, weights: list[int], now: int) -> None:
        self._weights = weights

    def round_trips(self, spreads: list[int | None]) -> None:
        pass

    def propose(self, now: int) -> list[int] | None:
        if not self._decides() or not self._due(now):
            return None
        self._fresh = 0
        self._compare_after = now + self.tuning.every_ns
        return self._target(now)

    def _decides(self) -> bool:
        return self.watches

    def _due(self, now: int) -> bool:
        return len(self._window) == self._size and self._fresh * 8 >= self._size and now >= self._compare_after

    def _target(self, now: int) -> list[int] | None:
        return self._if_new(to_weights(self._counts, self.tuning.steps))

    def _if_new(self, weights: list[int]) -> list[int] | None:
        return weights if variation(weights, self._weights) > self.tuning.threshold_percent * 100 else None

    def deadline(self) -> int | None:
        return None
