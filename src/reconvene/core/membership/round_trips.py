"""Round-trip times, from stamps that beacons carry and return."""

from reconvene.wire.messages import Beacon

__all__ = ["RoundTrips"]

_MOST_NS = 5_000_000_000
"""A longer round trip is a stamp gone wrong."""


class RoundTrips:
    def __init__(self, sites: int) -> None:
        self.smoothed_ns = [0] * sites
        """0: not known yet."""
        self.spreads: list[int | None] = [None] * sites
        """Each site's own variance of round-trip times in µs², as it reported."""
        self._stamps: dict[int, tuple[int, int]] = {}
        """By site that is owed an echo: its stamp, and when it came."""
        self._valid_from = 0

    def grow(self, sites: int) -> None:
        """There are so many numbers now."""
        more = sites - len(self.smoothed_ns)
        self.smoothed_ns += [0] * more
        self.spreads += [None] * more

    def beacon(self, beacon: Beacon, site: int, now: int) -> None:
        self._stamps[beacon.site] = (beacon.stamp, now)
        self.spreads[beacon.site] = beacon.spread
        echoes = beacon.echoes
        for i in range(0, len(echoes) - 2, 3):
            if echoes[i] == site and echoes[i + 1] >= self._valid_from:
                self._sample(beacon.site, now - echoes[i + 1] - echoes[i + 2])

    def slept(self, now: int) -> None:
        """Forgets pending stamps: their round trips would include this site's pause."""
        self._valid_from = now
        self._stamps.clear()

    def _sample(self, site: int, took_ns: int) -> None:
        if not 0 <= took_ns < _MOST_NS:
            return
        old = self.smoothed_ns[site]
        self.smoothed_ns[site] = took_ns if old == 0 else old + (took_ns - old) // 8

    def echoes(self, now: int, only: int | None = None) -> list[int]:
        """The echoes that are owed to all, or to one site; each is returned once."""
        out: list[int] = []
        for site in sorted(self._stamps) if only is None else [only]:
            if site in self._stamps:
                stamp, came = self._stamps.pop(site)
                out += (site, stamp, now - came)
        return out

    def longest_ns(self, mask: int) -> int:
        """The longest round trip to any of these sites."""
        return max((trip for site, trip in enumerate(self.smoothed_ns) if mask >> site & 1), default=0)

    def spread(self) -> int:
        """Variance of this site's round trips to the others, in µs²."""
        trips = [trip // 1000 for trip in self.smoothed_ns if trip]
        if len(trips) < 2:
            return 0
        mean = sum(trips) // len(trips)
        return sum((trip - mean) ** 2 for trip in trips) // len(trips)
