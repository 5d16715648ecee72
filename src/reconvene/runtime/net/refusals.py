"""What was dropped, and why: counted always, said in one line now and then.

Promised: a line for the first of a reason and a source, then at most one a minute; at most `SOURCES` lines a minute
in all, however many addresses a flood pretends to come from.
"""

import logging
import time
from collections.abc import Callable

from reconvene.runtime.diagnostics.structured_logging import INFO, WARNING, event
from reconvene.wire.seal import Reason

__all__ = ["EVERY_S", "SOURCES", "Refusals", "Source", "written"]

EVERY_S = 60.0
SOURCES = 256
"""How many (reason, source) are remembered."""

Source = tuple[str, int] | tuple[str, int, int, int]
"""As a socket gives it, of IPv4 and IPv6."""


def written(source: Source) -> str:
    host, port = source[0], source[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_EXPECTED = {Reason.UNVERIFIED, Reason.BLOCKED}
"""Nobody's fault: a site that starts, a fault that was asked for."""


class Refusals:
    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[tuple[Reason, Source], float] = {}
        """When each was last told, the oldest first."""
        self._counts = dict.fromkeys(Reason, 0)

    def counters(self) -> dict[str, int]:
        return {reason.value: count for reason, count in self._counts.items()}

    def note(self, reason: Reason, source: Source, why: str, outgoing: bool = False) -> None:
        """One more. `source`: where it came from, or where it did not go."""
        self._counts[reason] += 1
        if reason is Reason.OWN:
            return
        told = self._told
        key = (reason, source)
        now = self._clock()
        if key in told and now - told[key] < EVERY_S:
            return
        if len(told) >= SOURCES and key not in told:
            oldest = next(iter(told))
            if now - told[oldest] < EVERY_S:
                return
            del told[oldest]
        told.pop(key, None)
        told[key] = now
        where = written(source)
        level = INFO if reason in _EXPECTED else WARNING
        event(self._log, level, reason.value, **{"to" if outgoing else "source": where}, why=why)
