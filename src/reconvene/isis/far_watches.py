"""Watches of processes of other clusters (4.6).

A process that watches one of another cluster learns of its failure from there: that cluster is told who is watched,
and says when the process is over. Its own site says so, behind all that it sent; if that site is lost, the oldest
site of the site view does, which only a majority adopts. Every site of the cluster knows who is watched, so whichever
is the oldest can say it. A domain that is out of reach is reported as that, and nobody there has failed.

As within a cluster (`isis.monitor`), a process whose site has not come to the line yet is not over.
"""

from collections.abc import Callable, Iterable, Sequence

from reconvene.core.groups.events import Process
from reconvene.errors import Unavailable
from reconvene.isis.delivery import Delivery
from reconvene.isis.far_calls import FarCalls
from reconvene.isis.far_events import FarFailed, FarProcess, FarReachable, FarUnreachable, FarUnwatched
from reconvene.isis.far_messages import FarOver, FarRefused, FarWatch
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits

__all__ = ["FarWatches"]

_MOST_WATCHED = 4_096
"""Processes of this cluster that others watch; watches of more are refused."""


class FarWatches:
    def __init__(
        self,
        here: Here,
        delivery: Delivery,
        calls: FarCalls,
        domain: str,
        sites: Sequence[str],
        has_begun: Callable[[Process], bool],
        is_over: Callable[[Process], bool],
        limits: IsisLimits,
    ) -> None:
        """`calls`: whose destinations are watched, too. `domain`, `sites`: this cluster, and its sites by number.
        `has_begun`: a process of this site lives, or has lived. `is_over`: a process of this cluster is of an earlier
        life of its site than the last one that is known."""
        self._here = here
        self._delivery = delivery
        self._calls = calls
        self._domain = domain
        self._sites = sites
        self._numbers = {name: number for number, name in enumerate(sites)}
        self._has_begun = has_begun
        self._is_of_earlier_life = is_over
        self._limits = limits
        self._watchers: dict[FarProcess, dict[Process, None]] = {}
        """By process of another cluster: the processes of this site that watch it."""
        self._watching: dict[Process, set[FarProcess]] = {}
        """The same by watcher."""
        self._asked: set[FarProcess] = set()
        """Processes whose cluster was told that they are watched, since it last changed …"""
        self._unasked: dict[FarProcess, None] = {}
        """… and those whose cluster is to be told so."""
        self._away: set[str] = set()
        """Domains of which watchers were told that they are out of reach."""
        self._watched: dict[Process, bool] = {}
        """Processes of this cluster that others watch, and whether it was of the present life of a site while a site
        view was open: then it is over when that life is."""
        self._unsure: dict[Process, None] = {}
        """Of these: those of which something has changed since they were looked at."""
        self._refused: dict[FarProcess, None] = {}
        """Processes of which others are to be told that they are not watched."""

    def __len__(self) -> int:
        """Watches of this site's processes."""
        return sum(map(len, self._watching.values()))

    @property
    def watched(self) -> int:
        """Processes of this cluster that others watch, as far as this site knows."""
        return len(self._watched)

    # -- at the watcher's site

    def watch(self, process: Process, watched: FarProcess) -> None:
        """Raises Unavailable at the limit. A second watch of the same process changes nothing."""
        watching = self._watching.get(process, set())
        if watched in watching:
            return
        if len(watching) >= self._limits.watches:
            raise Unavailable(f"{len(watching)} processes are watched by this process: no room for more")
        watching.add(watched)
        self._watching[process] = watching
        self._watchers.setdefault(watched, {})[process] = None
        self.ask((watched,))

    def ask(self, processes: Iterable[FarProcess]) -> None:
        """Their clusters are told that they are watched, where that was not said yet."""
        self._unasked.update(dict.fromkeys(one for one in processes if one not in self._asked))

    def ask_again(self, domain: str) -> None:
        """What the domain said may have been missed, or those that knew who is watched there may be lost."""
        self._asked = {one for one in self._asked if one.domain != domain}
        self.ask(one for one in (*self._watchers, *self._calls.pending) if one.domain == domain)

    def unreachable(self, domain: str) -> None:
        """Each process that watches one of this domain, or waits for its reply, is told so."""
        self._calls.unreachable(domain)
        self._away.add(domain)
        for process, other in self._concerned(domain):
            self._here.events.append(FarUnreachable(process, other))

    def reachable(self, domain: str) -> None:
        """It is in the wide configuration that begins."""
        if domain in self._away:
            self._away.discard(domain)
            for process, other in self._concerned(domain):
                self._here.events.append(FarReachable(process, other))

    def _concerned(self, domain: str) -> list[tuple[Process, FarProcess]]:
        return [
            (process, one)
            for one in sorted(self._watchers)
            if one.domain == domain
            for process in self._watchers[one]
        ]

    def take_over(self, failed: FarProcess) -> None:
        """Its cluster says that it is over."""
        self.forget(failed)
        self._calls.over(failed)
        for process in self._drop(failed):
            self._here.events.append(FarFailed(process, failed))

    def forget(self, failed: FarProcess) -> None:
        """All who watch it are told that it is over, or will be."""
        if failed.domain == self._domain and failed.site in self._numbers:
            own = self._own(failed)
            self._watched.pop(own, None)
            self._unsure.pop(own, None)

    def take_refused(self, process: FarProcess) -> None:
        """Its cluster does not watch it. A call goes on all the same: its reply may come."""
        for watcher in self._drop(process):
            self._here.events.append(FarUnwatched(watcher, process))

    def _drop(self, watched: FarProcess) -> Iterable[Process]:
        self._asked.discard(watched)
        self._unasked.pop(watched, None)
        watchers = self._watchers.pop(watched, {})
        for process in watchers:
            self._watching[process].discard(watched)
        return watchers

    def end(self, process: Process) -> None:
        """The watcher is over."""
        for watched in self._watching.pop(process, ()):
            watchers = self._watchers[watched]
            del watchers[process]
            if not watchers:
                del self._watchers[watched]
                if watched not in self._calls.pending:
                    self._unasked.pop(watched, None)

    # -- at the watched process's cluster

    def take_watch(self, process: FarProcess) -> None:
        if process.domain != self._domain:
            return
        if process.site in self._numbers:
            own = self._own(process)
            if own in self._watched or len(self._watched) < _MOST_WATCHED:
                self._watched[own] = self._watched.get(own, False) or (self._here.open and self._here.has(own))
                self._unsure[own] = None
                return
            speaks = own.site == self._here.site if self._here.has(own) else self._is_oldest
        else:
            speaks = self._is_oldest
        if speaks and len(self._refused) < _MOST_WATCHED:
            self._refused[process] = None

    def buried(self, process: Process) -> None:
        """A process of this site is over, and all that it sent is everywhere."""
        if process in self._watched:
            self._unsure[process] = None

    def adopt(self) -> None:
        """A site view is adopted."""
        self._unsure.update(dict.fromkeys(self._watched))

    def _own(self, process: FarProcess) -> Process:
        return Process(self._numbers[process.site], process.incarnation, process.number)

    @property
    def _is_oldest(self) -> bool:
        view = self._here.view
        return view is not None and view.oldest(view.members) == self._here.site

    def _is_over(self, process: Process) -> bool:
        """It is over, and this site is the one that says so. The site view is open."""
        here = self._here
        if here.has(process):
            self._watched[process] = True
            return process.site == here.site and process not in self._delivery.locals and self._has_begun(process)
        return self._is_oldest and (self._watched[process] or self._is_of_earlier_life(process))

    # -- the end of a turn

    def next(self, number: int) -> FarWatch | FarOver | FarRefused | None:
        """What is to be said next, under this number."""
        if self._unasked:
            watched = next(iter(self._unasked))
            del self._unasked[watched]
            if len(self._asked) >= _MOST_WATCHED:
                self._asked.clear()  # to ask again costs a message, and changes nothing
            self._asked.add(watched)
            return FarWatch(number, watched)
        while self._unsure:
            process = next(iter(self._unsure))
            del self._unsure[process]
            if self._is_over(process):
                # It stays among the watched until that is delivered here: this site may be killed before it is sent.
                name = FarProcess(self._domain, self._sites[process.site], process.incarnation, process.number)
                return FarOver(number, name)
        if self._refused:
            refused = next(iter(self._refused))
            del self._refused[refused]
            return FarRefused(number, refused)
        return None

    def reset(self) -> None:
        """This site was killed: what it was about to send to other clusters is gone. It goes on to know who is
        watched: where all sites of the cluster are killed, nobody else does."""
        self._asked.clear()

    def invariants(self) -> None:
        assert self._unsure.keys() <= self._watched.keys()
        pairs = {(process, one) for one, watchers in self._watchers.items() for process in watchers}
        assert pairs == {(process, one) for process, watching in self._watching.items() for one in watching}
        self._calls.invariants()
