"""How long this site's appends take to be ordered, measured while a page is open."""

from collections import deque
from collections.abc import Callable
from statistics import median
from time import monotonic, time_ns

from reconvene.errors import ReconveneError
from reconvene.runtime.log.interface import SiteLog

__all__ = ["OrderDelays"]

_KEPT = 64
_KEPT_S = 5.0
_EVERY_S = 0.05
"""At most one append is measured in this time."""
_REST_S = 10.0
"""After this time without a request, nothing is measured until the next one."""


class OrderDelays:
    def __init__(self, log: SiteLog) -> None:
        self._log = log
        self._found: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """(when, delay in ms)"""
        self._asked_at = 0.0
        self._looked_at = 0.0
        self._end: Callable[[], None] | None = None

    def median_ms(self) -> float | None:
        """The median of the last seconds; None if nothing was ordered."""
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
            if last and last[0].author == self._log.name:  # otherwise the two times are of different clocks
                self._found.append((now, max(time_ns() - last[0].time, 0) / 1e6))
