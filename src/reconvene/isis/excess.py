"""Sites that have more casts under way than any correct site: they are counted and suspected.

A site stops at its own limit (`isis.own`). Another site may hold a little more of its casts than that, since it hears
late that some are everywhere. So only a site with more than twice the limit is in excess. A peer that takes nothing
until too much waits for it is in excess too.
"""

from collections import Counter

from reconvene.isis.abcast import Abcasts
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits
from reconvene.isis.pool import Pool

__all__ = ["Excess"]

_LEAST = 64
"""So many casts more, or an eighth more, and they are counted again."""


class Excess:
    def __init__(self, here: Here, pool: Pool, abcasts: Abcasts, limits: IsisLimits) -> None:
        self._here = here
        self._pool = pool
        self._abcasts = abcasts
        self._limits = limits
        self.counted = 0
        """How often a site was found in excess."""
        self._size = 0
        """When they were last counted."""

    def sites(self) -> list[int]:
        found = self._here.broken
        size = len(self._pool) + len(self._abcasts.items)
        if size < self._size:
            self._size = size
        elif size - self._size >= max(_LEAST, self._size // 8):
            self._size = size
            found = found | self._beyond()
        if not found:
            return []
        alive = sorted(site for site in found if site != self._here.site and self._here.alive(site))
        self.counted += len(alive)
        return alive

    def _beyond(self) -> set[int]:
        count: Counter[int] = Counter()
        size: Counter[int] = Counter()
        for entry in self._pool.entries.values():
            count[entry.id.site] += 1
            size[entry.id.site] += entry.size
        for item in self._abcasts.items.values():
            if item.entry is None:
                count[item.id.site] += 1
                size[item.id.site] += len(item.ask.payload)
        limits = self._limits
        return {
            site
            for site in count
            if count[site] > 2 * limits.open_casts or size[site] > 2 * limits.open_bytes + limits.payload_bytes
        }
