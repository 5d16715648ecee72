"""The log's own clock: the running maximum of the authors' clocks along the total order.

It is a function of the batches' authors and times in their order, so it is the same at every replica and in every
replay. It never goes back: a message that was accepted in a minority and ordered hours later has the log's time of
when it was ordered, and no window of it is closed by then.

An author whose clock is far ahead would drag the maximum with it for ever. So a batch takes the log's time forward by
at most `BOUND_NS`, and what its author is ahead by from then on is its *shift*, which is taken off its clock, unless

- nobody else has written to the log so far: then there is no other clock to go by;
- another author's last batch has about the same time: then it was the cluster that was silent, and both are right.

While an author writes on and nobody else does, its shift wears off as fast as its own clock runs: a site that works
alone by day is not further behind after every night. Not faster: the log's time, once it is ahead, can't be taken
back, and so it is never ahead by more than such an author has worked alone.
"""

from collections.abc import Iterable

__all__ = ["BOUND_NS", "MOST_AUTHORS", "AuthorState", "Clock", "ClockState"]

BOUND_NS = 3_600_000_000_000
"""How far a single batch may take the log's time forward, and how far two clocks may differ that agree."""
MOST_AUTHORS = 256
"""That are remembered, those who wrote last: a cluster has up to 64 sites at a time."""

AuthorState = tuple[str, int, int]
"""An author, its last batch's time, its shift; ns."""
ClockState = tuple[int | None, tuple[AuthorState, ...]]
"""The log's time, None where nothing was seen; and the authors, who wrote last comes last."""


class Clock:
    def __init__(self, time: int | None = None, authors: Iterable[AuthorState] = ()) -> None:
        self.time = time
        self._authors = {author: (latest, shift) for author, latest, shift in authors}

    @property
    def state(self) -> ClockState:
        """What `Clock(*state)` goes on from."""
        return self.time, tuple((author, *known) for author, known in self._authors.items())

    def see(self, author: str, time: int) -> int:
        """A batch of an author's, in its place in the order; the log's time there. Seeing a part of it again changes
        nothing, so a range may begin within a batch."""
        goes_on = next(reversed(self._authors), None) == author
        latest, shift = self._authors.pop(author, (time, 0))
        if goes_on:
            shift -= min(shift, max(0, time - latest))
        if self.time is not None and self._authors and time - shift > self.time + BOUND_NS:
            agree = [other for other, (theirs, _) in self._authors.items() if abs(theirs - time) <= BOUND_NS]
            for other in agree:
                self._authors[other] = (self._authors[other][0], 0)
            shift = 0 if agree else time - (self.time + BOUND_NS)
        self.time = time - shift if self.time is None else max(self.time, time - shift)
        self._authors[author] = (time, shift)
        if len(self._authors) > MOST_AUTHORS:
            del self._authors[next(iter(self._authors))]
        return self.time
