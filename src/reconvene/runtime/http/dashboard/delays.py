"""How long this site's appends wait for their place, measured while someone looks."""

from collections import deque
from collections.abc import Callable
from statistics import median
from time import monotonic, time_ns

from reconvene.errors import ReconveneError
from reconvene.runtime.log.interface import LogPort

__all__ = ["OrderDelays"]

_KEPT = 64
_KEPT_S = 5.0
_EVERY_S = 0.05
"""No more than one is looked at in this time."""
_REST_S = 10.0
"""Nobody has asked for so long: nothing is measured until somebody does."""


class OrderDelays:
    def __init__(self, log: LogPort) -> None:
        self._log = log
        self._found: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """(when, delay in ms)"""
        self._asked_at = 0.0
        self._looked_at = 0.0
        self._end: Callable[[], None] | None = None

    def median_ms(self) -> float | None:
        """Of the last seconds; None where nothing was ordered."""
        now = self._asked_at = monotonic()
        if self._end is None:
            self._end = self._log.watch(self._moved)
        recent = [delay for at, delay in self._found if at > now - _KEPT_S]
        return median(recent) if recent else None

    def close(self) -> None:
        if self._end is not None:
            self._end()
            self._end = None

    def _moved(self, green: int) -> None:
        now = monotonic()
        if now - self._asked_at > _REST_S:
            self.close()
        elif now - self._looked_at >= _EVERY_S:
            self._looked_at = now
            try:
                last = self._log.headings(green - 1, 1)
            except ReconveneError:
                return
            if last and last[0].author == self._log.name:  # only then both times are of one clock
                self._found.append((now, max(time_ns() - last[0].time, 0) / 1e6))
