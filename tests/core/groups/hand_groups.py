"""Groups on the network of a test's own: tests/core/hand.py, with a groups layer above each site."""

from collections import defaultdict
from dataclasses import replace
from typing import TypeVar

from tests.core.hand import Hand

from reconvene.core.effects import ConfKind, Effects
from reconvene.core.groups.events import Arrived, GroupEvent, Process, ViewChanged
from reconvene.core.groups.groups import GroupLimits, Groups
from reconvene.core.options import Options
from reconvene.core.site import Site
from reconvene.ids import Service

__all__ = ["HandGroups"]

E = TypeVar("E")


class _Driven:
    """A site whose turns are ended through its groups layer."""

    def __init__(self, site: Site, groups: Groups, told: dict[Process, list[GroupEvent]]) -> None:
        self._site = site
        self._groups = groups
        self._told = told

    def __getattr__(self, name: str) -> object:
        return getattr(self._site, name)

    def flush(self, now: int) -> Effects:
        effects = Effects()
        self._groups.flush(now, effects)
        for process, events in self._groups.take():
            self._told[process] += events
        self._groups.invariants()
        return effects


class HandGroups(Hand):
    def __init__(self, names: str, limits: GroupLimits | None = None, options: Options | None = None) -> None:
        self.groups: dict[str, Groups] = {}
        self.told: dict[Process, list[GroupEvent]] = defaultdict(list)
        self.limits = limits
        super().__init__(names, replace(options or Options(), return_unsent=True))

    def flush(self, name: str) -> None:
        site = self.sites[name]
        if not isinstance(site, _Driven):
            groups = self.groups[name] = Groups(site, len(self.names), self.limits)
            self.sites[name] = _Driven(site, groups, self.told)  # type: ignore[assignment]
        super().flush(name)

    # -- processes

    def open(self, name: str) -> Process:
        return self.groups[name].open()

    def join(self, process: Process, group: str, primary: bool = False) -> int:
        name = self.names[process.site]
        number = self.groups[name].join(process, group, primary, self.now)
        self.flush(name)
        return number

    def leave(self, process: Process, membership: int) -> None:
        name = self.names[process.site]
        self.groups[name].leave(membership, self.now)
        self.flush(name)

    def close(self, process: Process) -> None:
        name = self.names[process.site]
        self.groups[name].close(process, self.now)
        self.flush(name)

    def send(
        self,
        process: Process,
        membership: int,
        *payloads: bytes,
        service: Service = Service.AGREED,
        to: tuple[Process, ...] | None = None,
    ) -> int:
        name = self.names[process.site]
        taken = self.groups[name].send(membership, service, payloads, to, self.now)
        self.flush(name)
        return taken

    # -- what they were told

    def of(self, process: Process, kind: type[E]) -> list[E]:
        return [event for event in self.told[process] if isinstance(event, kind)]

    def got(self, process: Process) -> list[bytes]:
        return [payload for event in self.of(process, Arrived) for payload in event.payloads]

    def views(self, process: Process, kind: ConfKind = ConfKind.REGULAR) -> list[set[Process]]:
        return [set(view.members) for view in self.of(process, ViewChanged) if view.kind is kind]

    def settle(self, names: str | None = None) -> None:
        """Until these sites are together, know each other's groups and take messages."""
        names = names or self.names
        self.wait_together(names)
        self.until(lambda: all(self.groups[name].room() > 0 for name in names))
