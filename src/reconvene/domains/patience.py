"""How long a standby waits before it votes the representative out, while nothing comes back from above.

A wrong vote costs a hand-over and nothing else. So that two gateways do not replace each other for as long as the
cluster above stands still, each waits twice as long after each vote of the same local configuration.
"""

__all__ = ["Patience"]

_DOUBLED = 5
"""So many times at most."""


class Patience:
    def __init__(self, after_ns: int) -> None:
        self._after_ns = after_ns
        self._since: int | None = None
        self._progress: tuple[object, ...] = ()
        self._votes = 0

    def is_over(self, waits: bool, votes: int, progress: tuple[object, ...], now: int) -> bool:
        """`waits`: something should come back; `votes`: that were there in this local configuration; `progress`:
        changes with whatever comes back."""
        if not waits:
            self._since = None
            return False
        self._votes = votes
        if self._since is None or progress != self._progress:
            self._since, self._progress = now, progress
            return False
        if now - self._since < self._span_ns():
            return False
        self._since = now
        return True

    def deadline(self) -> int | None:
        return None if self._since is None else self._since + self._span_ns()

    def _span_ns(self) -> int:
        return self._after_ns << min(self._votes, _DOUBLED)
