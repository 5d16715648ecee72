"""Every site's configurations over time, from the histories that the sites report.

Promised: at most `history.KEPT` bands of a site are kept, and only configurations that a band names.
"""

from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct

from reconvene.runtime.http.dashboard.samples import SiteSample
from reconvene.runtime.site.history import KEPT

__all__ = ["Band", "News", "Timelines"]


class Band(NamedTuple):
    """A time span of a site, until its next one begins."""

    at: int
    """ms since 1970, by that site's clock; of a `gone` band, by the clock of this site."""
    state: str
    """in: in the configuration; forming: another one is being formed; gone: the site does not answer"""
    number: str
    incarnation: int


class News(Struct, frozen=True):
    configurations: dict[str, tuple[str, ...]]
    """The members of each configuration that the bands name, by its number."""
    bands: dict[str, list[Band]]
    """The bands by site, in order."""


class Timelines:
    def __init__(self, names: Iterable[str]) -> None:
        self.serial = 0
        """Serial number of the last band of any site."""
        self._bands: dict[str, deque[tuple[int, Band]]] = {name: deque(maxlen=KEPT) for name in names}
        self._members: dict[str, tuple[str, ...]] = {}
        self._cursors: dict[str, tuple[int, int]] = {}

    def cursor(self, name: str) -> tuple[int, int]:
        """(incarnation, number) of the last known stay of this site."""
        return self._cursors.get(name, (0, 0))

    def take(self, sample: SiteSample) -> None:
        """Adds the stays of a site's answer to a request for those after its `cursor`."""
        for stay in sample.history:
            self._members[stay.number] = stay.members
            state = "forming" if stay.forming else "in"
            self._add(sample.name, Band(stay.at, state, stay.number, sample.incarnation))
            self._cursors[sample.name] = (sample.incarnation, stay.n)
        last = self._last(sample.name)
        if last is not None and last.state == "gone":
            state = "in" if sample.phase == "operational" else "forming"
            self._members[sample.configuration] = tuple(sample.members)
            self._add(sample.name, Band(sample.at, state, sample.configuration, sample.incarnation))

    def gone(self, name: str, at: int) -> None:
        """Notes that the site has not answered since then."""
        last = self._last(name)
        if last is not None and last.state != "gone":
            self._add(name, Band(max(at, last.at), "gone", last.number, last.incarnation))

    def last_together(self, name: str, other: str, now: int) -> int | None:
        """When `name` was last in a configuration with `other`, if known."""
        until = now
        for _, band in reversed(self._bands[name]):
            if other in self._members.get(band.number, ()):
                return until
            until = band.at
        return None

    def since(self, serial: int) -> News:
        """The bands after this serial number; after 0: all that are kept."""
        bands: dict[str, list[Band]] = {}
        for name, kept in self._bands.items():
            fresh = list(takewhile(lambda one: one[0] > serial, reversed(kept)))
            if fresh:
                bands[name] = [band for _, band in reversed(fresh)]
        numbers = sorted({band.number for told in bands.values() for band in told})
        return News({number: self._members[number] for number in numbers}, bands)

    def _last(self, name: str) -> Band | None:
        bands = self._bands[name]
        return bands[-1][1] if bands else None

    def _add(self, name: str, band: Band) -> None:
        self.serial += 1
        self._bands[name].append((self.serial, band))
        if len(self._members) > 2 * KEPT * len(self._bands):
            named = {band.number for bands in self._bands.values() for _, band in bands}
            self._members = {number: members for number, members in self._members.items() if number in named}
