"""Processes by name and by number: people say "a:1:7", sites say (0, 1, 7)."""

from collections.abc import Iterable

from reconvene.client.events import Process
from reconvene.core.groups import events
from reconvene.errors import InvalidArgument
from reconvene.wire.clients import MOST_NAMED

__all__ = ["Roll"]

_KEPT = 10_000
"""Translations remembered; then it starts anew."""
_NUMBERS = range(1 << 62)
"""What an incarnation or a process's number can be."""


class Roll:
    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._named: dict[events.Process, Process] = {}
        self._numbered: dict[Process | str, events.Process] = {}

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
        """Raises TypeError, and InvalidArgument for what names no process of this cluster."""
        if isinstance(processes, str | Process) or not isinstance(processes, Iterable):
            raise TypeError(f"to: a list of processes expected, not {type(processes).__name__}")
        numbered = tuple(map(self._number, processes))
        if len(numbered) > MOST_NAMED:
            raise InvalidArgument(f"to: {len(numbered)} processes: at most {MOST_NAMED} expected")
        return numbered

    def _number(self, process: Process | str) -> events.Process:
        try:
            found = self._numbered.get(process)
        except TypeError:  # what can't be a key is no process
            found = None
        if found is None:
            if len(self._numbered) >= _KEPT:
                self._numbered.clear()
            found = self._check(process)
            self._numbered[process] = found
        return found

    def _check(self, process: Process | str) -> events.Process:
        named = Process.parse(process) if isinstance(process, str) else process
        if not isinstance(named, Process):
            raise TypeError(f"a process, or text such as a:1:7, expected in `to`, not {type(named).__name__}")
        if named.site not in self.names:
            raise InvalidArgument(f"process {named}: no such site in this cluster: {', '.join(self.names)} expected")
        if named.incarnation not in _NUMBERS or named.number not in _NUMBERS:
            raise InvalidArgument(f"process {named}: numbers from 0 to {_NUMBERS[-1]} expected")
        return events.Process(self.names.index(named.site), named.incarnation, named.number)

    def ordinals(self, sites: Iterable[str]) -> frozenset[int]:
        """Raises InvalidArgument for what is no site of this cluster."""
        named = set(sites)
        unknown = sorted(named - set(self.names))
        if unknown:
            raise InvalidArgument(f"no site {unknown[0]!r} in this cluster: {', '.join(self.names)} expected")
        return frozenset(map(self.names.index, named))
