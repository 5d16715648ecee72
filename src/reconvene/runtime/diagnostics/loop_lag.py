"""How late the event loop runs its timers. Everything in a site waits that long.

A late timer was delayed by a long turn, by the machine, or because the process was paused. The worst lag of the last
minute is kept; a long one is logged.
"""

import asyncio
import logging
from collections import deque

from reconvene.runtime.diagnostics.structured_logging import WARNING, event

__all__ = ["LoopLag"]

EVERY_S = 0.25
KEPT_S = 60.0
TOLD_S = 0.5
"""A lag of at least this is logged."""


class LoopLag:
    def __init__(self, log: logging.Logger) -> None:
        self.last_s = 0.0
        self._log = log
        self._kept: deque[tuple[float, float]] = deque()
        """(when, lag), with falling lags: one that is smaller than a later one can never be the worst again."""
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def worst_s(self) -> float:
        """The worst lag of the last minute."""
        return self._kept[0][1] if self._kept else 0.0

    def note(self, lag_s: float, now: float) -> None:
        self.last_s = lag_s
        while self._kept and self._kept[-1][1] <= lag_s:
            self._kept.pop()
        self._kept.append((now, lag_s))
        while self._kept[0][0] < now - KEPT_S:
            self._kept.popleft()
        if lag_s >= TOLD_S:
            event(self._log, WARNING, "stood still", seconds=round(lag_s, 3))

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + EVERY_S
        self._timer = loop.call_at(self._due, self._fire, loop)

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self.note(max(now - self._due, 0.0), now)
        self._arm(loop)
