"""Watches of processes of other clusters (4.6).

A process that watches one of another cluster learns of its failure from there: that cluster is told who is watched,
and says when the process is over. Its own site says so, behind all that it sent; if that site is lost, the oldest
site of the site view does, which only a majority adopts. Every site of the cluster knows who is watched, so whichever
is the oldest can say it. A domain that is out of reach is reported as that, and nobody there has failed.
"""

from collections.abc import Callable, Sequence

from reconvene.core.groups.events import Process
from reconvene.errors import Unavailable
from reconvene.isis.delivery import Delivery
from reconvene.isis.far_events import FarFailed, FarProcess, FarUnreachable
from reconvene.isis.far_messages import FarOver, FarWatch
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits

__all__ = ["FarWatches"]

_MOST_WATCHED = 4_096
"""Processes of this cluster that others watch; the oldest watches are forgotten."""


class FarWatches:
    def __init__(
        self,
        here: Here,
        delivery: Delivery,
        domain: str,
        sites: Sequence[str],
        has_begun: Callable[[Process], bool],
        limits: IsisLimits,
    ) -> None:
        """`domain`, `sites`: this cluster, and its sites by number. `has_begun`: a process of this site lives, or has
        lived."""
        self._here = here
        self._delivery = delivery
        self._domain = domain
        self._sites = sites
        self._has_begun = has_begun
        self._limits = limits
        self._watchers: dict[FarProcess, list[Process]] = {}
        """By process of another cluster: the processes of this site that watch it."""
        self._unasked: dict[FarProcess, None] = {}
        """Of these: those whose cluster is to be told that they are watched, for the first time or again."""
        self._watched: dict[FarProcess, None] = {}
        """Processes of this cluster that others watch."""

    # -- at the watcher's site

    def watch(self, process: Process, watched: FarProcess) -> None:
        """Raises Unavailable at the limit. A second watch of the same process changes nothing."""
        if process in self._watchers.get(watched, ()):
            return
        if sum(map(len, self._watchers.values())) >= self._limits.watches:
            raise Unavailable(f"{self._limits.watches} processes of other clusters are watched: no room for more")
        self._watchers.setdefault(watched, []).append(process)
        self._unasked[watched] = None

    def ask_again(self, domain: str) -> None:
        """What the domain said may have been missed, or those that knew who is watched there may be lost."""
        self._unasked.update(dict.fromkeys(one for one in self._watchers if one.domain == domain))

    def unreachable(self, domain: str) -> None:
        """Each process that watches one of this domain is told so, once."""
        concerned = sorted(one for one in self._watchers if one.domain == domain)
        for process in dict.fromkeys(watcher for one in concerned for watcher in self._watchers[one]):
            if self._delivery.living(process) is not None:
                self._here.events.append(FarUnreachable(process, domain))

    def take_over(self, failed: FarProcess) -> None:
        """Its cluster says that it is over."""
        self._unasked.pop(failed, None)
        for process in self._watchers.pop(failed, ()):
            if self._delivery.living(process) is not None:
                self._here.events.append(FarFailed(process, failed))

    # -- at the watched process's cluster

    def take_watch(self, process: FarProcess) -> None:
        if process.domain == self._domain and process.site in self._sites:
            self._watched[process] = None
            while len(self._watched) > _MOST_WATCHED:
                del self._watched[next(iter(self._watched))]

    def _is_over(self, process: FarProcess) -> bool:
        """It is over, and this site is the one that says so."""
        here = self._here
        own = Process(self._sites.index(process.site), process.incarnation, process.number)
        if here.has(own):
            return own.site == here.site and own not in self._delivery.locals and self._has_begun(own)
        return here.view is not None and here.view.oldest(here.view.members) == here.site

    # -- the end of a turn

    def next(self, number: int) -> FarWatch | FarOver | None:
        """What is to be said next, under this number."""
        if self._unasked:
            watched = next(iter(self._unasked))
            del self._unasked[watched]
            return FarWatch(number, watched)
        over = next((one for one in self._watched if self._is_over(one)), None)
        if over is None:
            return None
        del self._watched[over]
        return FarOver(number, over)

    def forget_dead(self) -> None:
        """Watchers that are over watch nobody."""
        for watched, watchers in list(self._watchers.items()):
            watchers[:] = [process for process in watchers if self._delivery.living(process) is not None]
            if not watchers:
                del self._watchers[watched]
                self._unasked.pop(watched, None)

    def reset(self) -> None:
        """This site was killed: what it knew of its cluster is out of date."""
        self._watched.clear()
