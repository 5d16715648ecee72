"""Casts that go to other clusters: each once it has arrived at its destinations in this one (4.6).

So if its sender's site is lost, someone in its own cluster knows of a cast before anyone elsewhere does. None
overtakes another. A site of another cluster gets what is addressed to it, directly, and nothing else (`isis.pool`).
"""

from collections import deque
from typing import NamedTuple

from reconvene.isis.here import Here
from reconvene.isis.own import OwnCast, OwnCasts
from reconvene.isis.pool import Entry, Pool

__all__ = ["Crossings"]


class _Crossing(NamedTuple):
    cast: OwnCast
    entry: Entry
    near: dict[int, int]
    """By site of this cluster: the record by which it was sent there."""


class Crossings:
    def __init__(self, here: Here, pool: Pool, own: OwnCasts) -> None:
        self._here = here
        self._pool = pool
        self._own = own
        self._waiting: deque[_Crossing] = deque()

    def add(self, cast: OwnCast, entry: Entry) -> None:
        """It has been sent to the sites of this cluster."""
        if not all(map(self._here.is_local, entry.sites)):
            cast.parts.add("crossing")
            self._waiting.append(_Crossing(cast, entry, dict(entry.sent)))

    def work(self) -> bool:
        """Sends what may go. Returns whether that was anything."""
        here, moved = self._here, False
        while self._waiting:
            cast, entry, near = self._waiting[0]
            if any(here.alive(site) and here.channels.arrived(site) < record for site, record in near.items()):
                break
            self._waiting.popleft()
            moved = True
            if entry.disposed:
                continue  # given up, or superseded by the next attempt
            for site in entry.sites:
                if not here.is_local(site):
                    self._own.wait_for(cast, site, self._pool.send(entry, site))
            self._own.done(cast, "crossing")
        return moved

    def reset(self) -> None:
        self._waiting.clear()
