"""A book-keeper that is not thrown off by members that pause and resume (section 7).

A member that was active and then sent nothing for a whole period has paused. Each pause halves the influence of
its activity once more, so that one that keeps pausing soon has a small weight that stays, and the distribution
with it; each longer time without a pause doubles it again.
"""

from typing import ClassVar

from reconvene.core.order.policies.book_keeper import BookKeeper, Tuning, to_weights

__all__ = ["Damped"]


class Damped(BookKeeper):
    PERIODS: ClassVar[int] = 4
    """Periods in a window."""
    MOST: ClassVar[int] = 4
    """How often the influence is halved at most."""
    CALM: ClassVar[int] = 16
    """Active periods in a row that undo the first halving; each further one takes twice as many."""

    def __init__(self, members: int, rank: int, tuning: Tuning | None = None) -> None:
        super().__init__(members, rank, tuning)
        self._period = max(1, self._size // self.PERIODS)
        self._notable = max(1, self._period // (4 * members))
        """A quarter of an equal share: a member that sent that much is active."""
        self._sent = [0] * members
        self._sent_total = 0
        self._active = [False] * members
        self._calm = [0] * members
        self.halvings = [0] * members

    def observe(self, rank: int, messages: int, now: int) -> None:
        super().observe(rank, messages, now)
        self._sent[rank] += 1
        self._sent_total += 1
        if self._sent_total == self._period:
            for member, sent in enumerate(self._sent):
                self._end_period(member, sent)
            self._sent = [0] * self.members
            self._sent_total = 0

    def _end_period(self, member: int, sent: int) -> None:
        if sent >= self._notable:
            self._active[member] = True
        if sent == 0:
            self._calm[member] = 0
            if self._active[member]:
                self._active[member] = False
                self.halvings[member] = min(self.halvings[member] + 1, self.MOST)
        elif self.halvings[member]:
            self._calm[member] += 1
            if self._calm[member] >= self.CALM << (self.halvings[member] - 1):
                self.halvings[member] -= 1
                self._calm[member] = 0

    def _target(self, now: int) -> list[int] | None:
        # Counted in sixteenths, so that a halved count is not rounded off.
        counts = [(count << self.MOST) >> halved for count, halved in zip(self._counts, self.halvings, strict=True)]
        return self._if_new(to_weights(counts, self.tuning.steps))
