"""Processes by name and by number: people say "a:1:7", sites say (0, 1, 7)."""

from collections.abc import Iterable

from reconvene.client.events import Process
from reconvene.core.groups import events
from reconvene.errors import Rejected

__all__ = ["Roll"]

_KEPT = 10_000
"""Translations remembered; then it starts anew."""


class Roll:
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._named: dict[events.Process, Process] = {}

    def named(self, process: events.Process) -> Process:
        found = self._named.get(process)
        if found is None:
            if len(self._named) >= _KEPT:
                self._named.clear()
            # A site outside of the list can only come from another cluster's, or a broken, site.
            name = self.names[process.site] if process.site < len(self.names) else f"#{process.site}"
            found = Process(name, process.incarnation, process.number)
            self._named[process] = found
        return found

    def numbered(self, processes: Iterable[Process | str]) -> tuple[events.Process, ...]:
        """Raises Rejected for what names no process of this cluster."""
        if isinstance(processes, str | Process):
            raise Rejected("to: a list of processes expected")
        return tuple(map(self._number, processes))

    def _number(self, process: Process | str) -> events.Process:
        named = Process.parse(process) if isinstance(process, str) else process
        if named.site not in self.names:
            raise Rejected(f"process {named}: no such site in this cluster: {', '.join(self.names)} expected")
        return events.Process(self.names.index(named.site), named.incarnation, named.number)
