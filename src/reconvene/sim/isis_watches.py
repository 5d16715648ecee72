"""Which simulated processes watch which, and what they were told. The trace does not show that a process watches.

A process is told once that one which it watches is over. In the end, one that watches, and whose site is in the
primary component, was told of every process that is over and whose site is there; and of none that lives there.
"""

from collections.abc import Collection

from reconvene.core.groups.events import Process

__all__ = ["WatchLedger"]


class WatchLedger:
    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._open: set[tuple[Process, Process]] = set()
        """(watcher, watched), not told yet."""
        self._told: set[tuple[Process, Process]] = set()

    def asked(self, watcher: Process, watched: Process) -> None:
        self._open.add((watcher, watched))

    def told(self, watcher: Process, watched: Process) -> None:
        if (watcher, watched) not in self._open:
            self._problems.append(f"{watcher} was told that {watched} is over, and did not watch it")
        self._open.discard((watcher, watched))
        self._told.add((watcher, watched))

    def judge(self, living: Collection[Process], sites: Collection[int]) -> None:
        """In the end. `living`: at the sites of the primary component, which are `sites`."""
        for watcher, watched in sorted(self._told):
            if watcher in living and watched in living:
                self._problems.append(f"{watcher} was told that {watched} is over, and it lives")
        for watcher, watched in sorted(self._open):
            if watcher in living and watched.site in sites and watched not in living:
                self._problems.append(f"{watcher} watches {watched}, which is over, and was not told")
