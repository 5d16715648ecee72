"""The casts of this site that some destination may not be done with: what bounds the site, and what flush waits for.

An own cast is *open* from the moment it has its id until every destination that is alive is done with it. The lowest
open one is the site's *floor*, which every packet tells: below it, everything is everywhere (4.4).
"""

from collections import deque
from collections.abc import Iterable

from reconvene.core.groups.events import Process
from reconvene.isis.events import CastId
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits

__all__ = ["OwnCast", "OwnCasts"]


class OwnCast:
    __slots__ = (
        "accepted",
        "attempt",
        "done",
        "group",
        "id",
        "judged",
        "parts",
        "process",
        "rejected",
        "size",
        "view",
    )

    def __init__(self, cast_id: CastId, process: Process, group: str | None, view: int, size: int) -> None:
        self.id = cast_id
        self.process = process
        self.group = group
        self.view = view
        self.attempt = 0
        self.size = size
        self.judged = False
        """Its destinations may reject it."""
        self.accepted = False
        self.rejected = False
        """Its destinations reject this attempt: the next goes out when this site knows the view that they have."""
        self.parts: set[object] = set()
        """What is still to be done before it is closed: sites that are not done with it, and other steps."""
        self.done = False

    @property
    def may_be_rejected(self) -> bool:
        """Some destination has not said that it accepts it. One that does so, and is lost, says nothing of the
        others: the group may grow before it reaches them."""
        return self.rejected or not self.accepted or any(isinstance(part, tuple) for part in self.parts)


class OwnCasts:
    def __init__(self, here: Here, limits: IsisLimits) -> None:
        self._here = here
        self._limits = limits
        self.open: dict[CastId, OwnCast] = {}
        """In the order of their ids."""
        self.bytes = 0
        self.next = 1
        self.closed: list[OwnCast] = []
        """Since this was last looked at."""
        self._until: dict[int, deque[tuple[int, OwnCast, int]]] = {}
        """By site: (record, cast, attempt) that the site has not released, by record."""

    @property
    def has_room(self) -> bool:
        return len(self.open) < self._limits.open_casts and self.bytes < self._limits.open_bytes

    def begin(self, process: Process, group: str | None, view: int, size: int, count: int = 1) -> OwnCast:
        """`count`: messages that go as one. Each has a number."""
        cast_id = CastId(self._here.site, self._here.incarnation, self.next)
        self.next += count
        cast = OwnCast(cast_id, process, group, view, size)
        self.open[cast_id] = cast
        self.bytes += size
        return cast

    def wait_for(self, cast: OwnCast, site: int, record: int) -> None:
        """The site is done with it when it has released this record."""
        cast.parts.add(site)
        self._until.setdefault(site, deque()).append((record, cast, cast.attempt))

    def done(self, cast: OwnCast, part: object) -> None:
        cast.parts.discard(part)
        if not cast.parts:
            self.close(cast)

    def close(self, cast: OwnCast) -> None:
        if not cast.done:
            cast.done = True
            cast.parts.clear()
            del self.open[cast.id]
            self.bytes -= cast.size
            self.closed.append(cast)

    def hear_released(self) -> None:
        for site, waiting in sorted(self._until.items()):
            if not waiting:
                continue
            released = self._here.channels.released(site)
            while waiting and waiting[0][0] <= released:
                _, cast, attempt = waiting.popleft()
                if cast.attempt == attempt:
                    self.done(cast, site)

    def depart(self, sites: Iterable[int]) -> None:
        """These sites have left the line: they count as done with everything."""
        for site in sorted(sites):
            self._until.pop(site, None)
            for cast in list(self.open.values()):
                if site in cast.parts:
                    self.done(cast, site)

    def tell_floor(self) -> None:
        self._here.channels.floor = next(iter(self.open)).counter if self.open else self.next

    def reset(self) -> None:
        """This site was killed: its casts are nobody's."""
        self.open.clear()
        self.closed.clear()
        self._until.clear()
        self.bytes = 0

    def invariants(self) -> None:
        assert self.bytes == sum(cast.size for cast in self.open.values())
        assert all(cast.parts for cast in self.open.values()), "a cast without parts is closed"
