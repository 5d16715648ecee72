"""What every part of the ISIS layer shares: this site, the adopted site view, the clock, the way to other sites."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from reconvene.core.groups.events import Process
from reconvene.core.intersite.channels import Channels
from reconvene.errors import Unavailable
from reconvene.isis.events import CastId, IsisEvent
from reconvene.isis.messages import Copy, Priority, Record, encode_record

__all__ = ["Born", "Here", "SiteView"]

_MOST_AHEAD = 1 << 40
"""No correct site's clock is so far ahead. A false one must not use up the numbers that a message can hold."""


class Born(NamedTuple):
    """An incarnation of a site in the line of site views."""

    number: int
    """Of the configuration in which it entered the line."""
    incarnation: int
    """Of the node."""
    first_cast: int
    """The lowest counter of its casts: a site that was killed goes on counting where it was."""
    first_process: int

    def began(self, process: Process) -> bool:
        return self.incarnation == process.incarnation and process.number >= self.first_process


class SiteView(NamedTuple):
    number: int
    """Of the configuration."""
    conf: str
    members: dict[int, Born]

    def oldest(self, sites: Iterable[int]) -> int:
        """Of these members, the one that entered the line first."""
        return min(sites, key=lambda site: (self.members[site].number, site))

    def has(self, process: Process) -> bool:
        """The process is not over with its site: it began at this incarnation of the site."""
        born = self.members.get(process.site)
        return born is not None and born.began(process)


class Here:
    def __init__(self, site: int, incarnation: int, channels: Channels) -> None:
        self.site = site
        self.incarnation = incarnation
        self.channels = channels
        self.view: SiteView | None = None
        """The adopted site view."""
        self.mark: Callable[[int], Record | None] | None = None
        """What a site has to be told before the next CBCAST that is sent to it, where there are several clusters."""
        self.open = False
        """This site is in the configuration of its adopted site view: it may send and deliver."""
        self.blocked = True
        """The site is not in the primary component, as far as it knows."""
        self.events: list[IsisEvent] = []
        self.clock = 0
        """Lamport's, and at the same time the counter of priorities: above all that this site has seen."""
        self.barrier: Priority = (0, 0)
        """The highest of a GBCAST that is concluded."""
        self.broken: set[int] = set()
        """Sites for which more waits than the channel holds."""
        self.malformed = 0
        """Records and control messages that no correct site sends."""

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def seen(self, clock: int) -> None:
        if clock > self.clock:
            if clock - self.clock > _MOST_AHEAD:
                self.malformed += 1
            else:
                self.clock = clock

    def pass_barrier(self, barrier: Priority) -> None:
        self.seen(barrier[0])
        self.barrier = max(self.barrier, barrier)

    def priority(self) -> Priority:
        """One above all that was seen, which no other site makes."""
        return (self.tick(), self.site)

    def send(self, site: int, record: Record) -> int:
        """Returns the record's number on the channel to that site."""
        if self.mark is not None and type(record) is Copy:
            mark = self.mark(site)
            if mark is not None:
                self.send(site, mark)
        data = encode_record(record)
        try:
            return self.channels.send(site, data)
        except Unavailable:
            # Nothing that it lacks can be made up for: it has to go, and to come back as another incarnation.
            self.broken.add(site)
            self.channels.give_up(site)
            return self.channels.send(site, data)

    def alive(self, site: int) -> bool:
        return self.view is not None and site in self.view.members

    def knows(self, cast_id: CastId) -> bool:
        """The cast's origin is in the site view, in the incarnation that made it."""
        born = self._born(cast_id.site)
        return born is not None and born.incarnation == cast_id.incarnation and cast_id.counter >= born.first_cast

    def _born(self, site: int) -> Born | None:
        return None if self.view is None else self.view.members.get(site)

    def has(self, process: Process) -> bool:
        """The process is not over with its site."""
        born = self._born(process.site)
        return born is not None and born.began(process)

    def local(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """Those of this site, in its present life."""
        view = self.view
        return () if view is None else tuple([p for p in processes if p.site == self.site and view.has(p)])

    def sites(self, processes: Iterable[Process]) -> tuple[int, ...]:
        """Of those that are not over with their sites."""
        return tuple(sorted({process.site for process in processes if self.has(process)}))
