"""A book-keeper whose place is chosen by the least variance of round-trip times (section 7).

Every member keeps the window, since any may become the book-keeper. The book-keeper is the
member that introduced the last distribution (at first the lowest rank), so all members know it without a message.
Another member takes over, by introducing the next distribution, once it has had the least variance by a clear margin
for some time. Until then the old book-keeper continues. Two members that both act for a moment do no harm.
"""

from typing import ClassVar

from reconvene.core.order.policies.book_keeper import BookKeeper, Tuning

__all__ = ["RoundTrip"]


class RoundTrip(BookKeeper):
    MARGIN_PERCENT: ClassVar[int] = 70
    """A candidate's variance must be below this part of the book-keeper's."""
    STREAK: ClassVar[int] = 3
    """In how many reports in a row a candidate's variance must be that low."""

    def __init__(self, members: int, rank: int, tuning: Tuning | None = None) -> None:
        super().__init__(members, rank, tuning)
        self.keeper = 0
        self._streak = 0

    @property
    def watches(self) -> bool:
        return self.members > 1

    def adopted(self, issuer: int, weights: list[int], now: int) -> None:
        super().adopted(issuer, weights, now)
        if issuer != self.keeper:
            self.keeper = issuer
            self._streak = 0

    def round_trips(self, spreads: list[int | None]) -> None:
        self._streak = self._streak + 1 if self._better(spreads) else 0

    def _better(self, spreads: list[int | None]) -> bool:
        known = [(spread, rank) for rank, spread in enumerate(spreads) if spread is not None]
        if not known or min(known)[1] != self.rank:
            return False
        kept = spreads[self.keeper]
        return kept is not None and min(known)[0] * 100 < kept * self.MARGIN_PERCENT

    def _decides(self) -> bool:
        return self.watches and (self.rank == self.keeper or self._streak >= self.STREAK)
