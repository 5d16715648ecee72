"""Dropped datagrams: all are counted, some are logged.

Promised: one line for the first datagram of a reason and a source, then at most one per minute; at most `SOURCES`
lines per minute in all, however many source addresses a flood forges.
"""

import logging
import time
from collections.abc import Callable

from reconvene.runtime.diagnostics.structured_logging import INFO, WARNING, event
from reconvene.wire.seal import Reason

__all__ = ["EVERY_S", "SOURCES", "Refusals", "Source", "written"]

EVERY_S = 60.0
SOURCES = 256
"""How many pairs of (reason, source) are remembered."""

Source = tuple[str, int] | tuple[str, int, int, int]
"""An address as a socket returns it, of IPv4 or IPv6."""


def written(source: Source) -> str:
    host, port = source[0], source[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_EXPECTED = {Reason.UNVERIFIED, Reason.BLOCKED}
"""Expected reasons: a site that starts, an injected fault."""


class Refusals:
    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[tuple[Reason, Source], float] = {}
        """When each was last logged, the oldest first."""
        self._counts = dict.fromkeys(Reason, 0)

    def counters(self) -> dict[str, int]:
        return {reason.value: count for reason, count in self._counts.items()}

    def note(self, reason: Reason, source: Source, why: str, outgoing: bool = False) -> None:
        """Counts one more. `source`: where the datagram came from, or was to be sent."""
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
