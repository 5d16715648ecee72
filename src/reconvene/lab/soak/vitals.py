"""The sites' memory and queues, and what they refused, during a soak.

A restarted site begins anew, so memory is compared within one life of a site: from when it was warm, after some work,
to the last look at it.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconvene.local.cluster import LocalCluster

__all__ = ["WARM_S", "Life", "Vitals", "private_bytes"]

WARM_S = 15.0
"""After so long a site is warm: it has allocated its buffers, tables and the allocator's reserve."""

_REFUSED = ("malformed", "stale", "dropped_")
"""Prefixes of the counters of what was not taken in."""

_QUEUES = ("open_casts", "open_bytes", "waiting_casts", "pool", "pool_bytes", "open_gbcasts", "open_calls")
"""Of the ISIS layer, as a status names them; `queues` has more."""


class Life(Struct, kw_only=True):
    """One process of one site."""

    site: str
    pid: int
    age_s: float = 0.0
    """At the last look."""
    born_bytes: int = 0
    """Private memory at the first look."""
    warm_bytes: int | None = None
    """Private memory when it was first warm; None if it was not."""
    last_bytes: int = 0
    """Private memory at the last look."""
    peak_bytes: int = 0

    @property
    def warm_for_s(self) -> float:
        return max(0.0, self.age_s - WARM_S)


def private_bytes(pid: int) -> int:
    """Resident memory without mapped files, such as the store's, which the system can drop at any time. 0 if the
    process has ended."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


class Vitals:
    def __init__(self) -> None:
        self.lives: dict[int, Life] = {}
        self.peaks: dict[str, int] = {}
        """The most that was seen in each queue of the ISIS layer, at any site."""
        self._counters: dict[int, dict[str, int]] = {}

    def look(self, cluster: LocalCluster) -> None:
        """Looks at all sites that answer."""
        for status in cluster.statuses().values():
            pid, resident = status["pid"], private_bytes(status["pid"])
            if not resident:
                continue
            life = self.lives.setdefault(pid, Life(site=status["name"], pid=pid, born_bytes=resident))
            life.age_s = status["uptime_s"]
            life.last_bytes = resident
            life.peak_bytes = max(life.peak_bytes, resident)
            if life.warm_bytes is None and life.age_s >= WARM_S:
                life.warm_bytes = resident
            self._counters[pid] = status["counters"]
            self._look_at_queues(status.get("isis"))

    def _look_at_queues(self, isis: dict[str, Any] | None) -> None:
        if isis is None:
            return
        for name, size in {**{name: isis[name] for name in _QUEUES}, **isis["queues"]}.items():
            self.peaks[name] = max(size, self.peaks.get(name, 0))

    def refused(self) -> dict[str, int]:
        """The counters of all lives added up, without zeros."""
        total: Counter[str] = Counter()
        for counters in self._counters.values():
            total.update({name: count for name, count in counters.items() if name.startswith(_REFUSED)})
        return {name: count for name, count in sorted(total.items()) if count}

    def longest(self) -> list[Life]:
        """The longest life of each site, the longest first."""
        by_site: dict[str, Life] = {}
        for life in self.lives.values():
            if life.site not in by_site or life.age_s > by_site[life.site].age_s:
                by_site[life.site] = life
        return sorted(by_site.values(), key=lambda life: -life.age_s)
