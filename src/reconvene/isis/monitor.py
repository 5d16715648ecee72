"""Monitoring: a process asks to be told when another one is over (4.1).

The watched process's own site says so, behind the last message of that process. If that site is lost, each site tells
its own processes, once all casts of the lost site are everywhere. Sites watch for all their processes together, so a
site keeps at most one watch of each other site for each of its processes.

A process whose site has not come to the line yet is neither watched nor over: its watch waits until the site comes.
That goes for the next life of a site that was killed, too: its processes have begun, in the same incarnation, before
the others let it in. So of a site that is away, only processes that this site has heard of are known to be over.
And nobody is asked in a site view that is over when it is adopted: a newcomer that has not adopted it has had no life
in it, and its processes are not over.
"""

from collections.abc import Callable, Iterable

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.isis.events import Failed
from reconvene.isis.here import Here, SiteView
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Local
from reconvene.isis.messages import Over, Watch

__all__ = ["Monitor"]


class Monitor:
    def __init__(
        self,
        here: Here,
        find: Callable[[Process], Local | None],
        has_begun: Callable[[Process], bool],
        limits: IsisLimits,
    ) -> None:
        """`find`: a process of this site, also a dead one whose casts are not everywhere yet. `has_begun`: a process
        of this site lives, or has lived."""
        self._here = here
        self._find = find
        self._has_begun = has_begun
        self._limits = limits
        self._watchers: dict[Process, list[Process]] = {}
        """By watched process: the processes of this site that watch it."""
        self._unasked: dict[Process, None] = {}
        """Of the watched ones: those that are not known to be of the present life of a site in the site view, nor to
        be over."""
        self._sites: dict[Process, set[int]] = {}
        """By process of this site: other sites that watch it."""
        self._over: list[tuple[Process, Process]] = []
        """(watcher, watched) that is over, not reported yet."""
        self._heard: dict[int, int] = {}
        """By site of the site view: processes of its present life have begun below this number."""
        self._left: dict[int, tuple[int, int]] = {}
        """By site that has left the line: its last incarnation there, and that number."""

    def __len__(self) -> int:
        return sum(map(len, self._watchers.values()))

    # -- at the watcher's site

    def watch(self, local: Local, process: Process) -> None:
        """Raises Rejected or Unavailable. A second watch of the same process changes nothing."""
        if process == local.process:
            raise Rejected("a process that watches itself: expected another one")
        if process in local.watching:
            return
        if len(local.watching) >= self._limits.watches:
            raise Unavailable(f"{len(local.watching)} processes are watched by this process: no room for more")
        local.watching.add(process)
        watchers = self._watchers.setdefault(process, [])
        watchers.append(local.process)
        if len(watchers) == 1:
            self._unasked[process] = None
            self.ask()

    def ask(self) -> None:
        """Asks the sites of watched processes, as far as they are in the line. Where the site view is open, all its
        members adopt it: a process that is asked for in it is over when its site's life in it is."""
        here = self._here
        if not here.open:
            return
        for process in list(self._unasked):
            if here.has(process):
                del self._unasked[process]
                if process.site != here.site:
                    here.send(process.site, Watch(process))
                elif self._is_buried(process):
                    self.take_over(process)
            elif self.is_over(process):
                self.take_over(process)

    def is_over(self, process: Process) -> bool:
        """It is of an earlier life of its site than the present one, or than the last one that this site knows."""
        view = self._here.view
        born = None if view is None else view.members.get(process.site)
        if born is not None:
            return (process.incarnation, process.number) < (born.incarnation, born.first_process)
        return (process.incarnation, process.number) < self._left.get(process.site, (0, 0))

    def hear(self, process: Process) -> None:
        """Another site has named a process of its own."""
        if process.number >= self._heard.get(process.site, 0) and self._here.has(process):
            self._heard[process.site] = process.number + 1

    def take_over(self, process: Process) -> None:
        """The process is over, and all that it sent is everywhere, or will be when the site view's change is done."""
        self._unasked.pop(process, None)
        self._over += [(watcher, process) for watcher in self._watchers.pop(process, ())]

    def depart(self, sites: Iterable[int], old: SiteView) -> None:
        """These sites are lost. Their processes' failure is reported when all that they sent is everywhere."""
        left = frozenset(sites)
        for site in left:
            born = old.members[site]
            self._left[site] = (born.incarnation, max(self._heard.pop(site, 0), born.first_process))
        for process in [process for process in self._watchers if process.site in left]:
            if process not in self._unasked:
                self.take_over(process)
        for watching in self._sites.values():
            watching -= left

    def report(self, heard: Callable[[Process, Process], bool]) -> None:
        """No change of the site view is under way. `heard(watcher, process)`: the watcher has received all that the
        process sent to it, replies too."""
        over, self._over = self._over, []
        for watcher, process in over:
            local = self._find(watcher)
            if local is None or local.dead:
                continue
            if heard(watcher, process):
                local.watching.discard(process)
                self._here.events.append(Failed(watcher, process, None))
            else:
                self._over.append((watcher, process))

    def end(self, local: Local) -> None:
        """The watcher is over."""
        for process in local.watching:
            watchers = self._watchers.get(process, [])
            if local.process in watchers:
                watchers.remove(local.process)
                if not watchers:
                    del self._watchers[process]
                    self._unasked.pop(process, None)
        local.watching.clear()

    # -- at the watched process's site

    def take_watch(self, process: Process, site: int) -> None:
        if self._find(process) is not None:
            self._sites.setdefault(process, set()).add(site)
        elif self._is_buried(process):
            self._here.send(site, Over(process))
        # Else it has not begun: no correct site has heard of it.

    def _is_buried(self, process: Process) -> bool:
        return self._find(process) is None and self._has_begun(process)

    def died(self, process: Process) -> None:
        """All that the process sent is everywhere."""
        for site in sorted(self._sites.pop(process, ())):
            self._here.send(site, Over(process))
        self.take_over(process)

    def reset(self) -> None:
        """This site was killed, and all its processes with it."""
        self._watchers.clear()
        self._unasked.clear()
        self._sites.clear()
        self._over.clear()
        self._heard.clear()

    def invariants(self) -> None:
        assert all(self._watchers.values())
        assert all(process in self._watchers for process in self._unasked)
        for process in self._sites:
            assert self._find(process) is not None, "who is buried is over for all"
