"""Bugs to plant in the groups layer; the oracle, an assertion or an invariant has to find each of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from reconvene.core.groups import groups, roster
from reconvene.core.groups.early import Early
from reconvene.core.groups.filter import Filter
from reconvene.core.groups.lineage import Lineage
from reconvene.core.groups.processes import Membership, Processes
from reconvene.core.groups.table import Group, Table
from reconvene.core.groups.waiting import Waiting
from reconvene.ids import Service

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    name: str
    owner: Any
    """Whose function it replaces."""
    function: str
    mutate: Callable[[Any], Any]
    seed: int
    """Where it is known to be caught: the search begins there."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        original = self.owner.__dict__[self.function]
        setattr(self.owner, self.function, self.mutate(original))
        try:
            yield
        finally:
            setattr(self.owner, self.function, original)


MUTANTS: list[Mutant] = []


def plant(name: str, owner: Any, function: str, seed: int) -> Callable[[Callable[[Any], Any]], None]:
    def register(mutate: Callable[[Any], Any]) -> None:
        MUTANTS.append(Mutant(name, owner, function, mutate, seed))

    return register


@plant("tables are exchanged by agreed messages", groups.Groups, "_speak", 264)
def _agreed_tables(original: Any) -> Any:
    def speak(self: Any, now: int) -> bool:
        due, self._roster.due = self._roster.due, None
        if due is not None:
            self._waiting.submit(Service.AGREED, due, now)
            return True
        return bool(original(self, now))

    return speak


@plant("a view is given before all tables are there", roster.Roster, "_take_table", 0)
def _view_before_tables(original: Any) -> Any:
    def take_table(self: Any, site: int, incarnation: int, payload: bytes) -> None:
        members = self._members
        self._members = members[:1]
        try:
            original(self, site, incarnation, payload)
        finally:
            self._members = members

    return take_table


@plant("fifo messages that came early are forgotten", Early, "take", 11)
def _forget_early(original: Any) -> Any:
    return lambda self, site, number: original(self, site, number)[:0]


@plant("fifo messages that came early are not held", Early, "hold", 11)
def _hold_nothing(original: Any) -> Any:
    return lambda self, run: True


@plant("a process comes back under its old identity", Processes, "renew", 0)
def _same_identity(original: Any) -> Any:
    return lambda self, membership: membership.identity


@plant("a process that left comes back under its old identity", Processes, "_spend", 0)
def _never_spent(original: Any) -> Any:
    return lambda self, membership: None


@plant("the filter forgets to block", Filter, "_block", 0)
def _never_block(original: Any) -> Any:
    return lambda self, table: None


@plant("the filter shows what a transitional configuration brings", Filter, "begin_transitional", 11)
def _never_hold(original: Any) -> Any:
    return lambda self: None


@plant("everyone goes on, whatever it missed", Lineage, "_heirs", 0)
def _everyone_inherits(original: Any) -> Any:
    return lambda self, claims: tuple(sorted(claims))


@plant("all are merged in one view", Filter, "_merge", 0)
def _merge_at_once(original: Any) -> Any:
    def merge(self: Any, group: Group) -> None:
        for member in group.members:
            member.live = True
        original(self, group)

    return merge


@plant("joins of a group with the filter are agreed", groups.Groups, "_request", 143)
def _agreed_joins(original: Any) -> Any:
    return lambda self, primary, payload, now: original(self, False, payload, now)


@plant("the departed stay in the table", Table, "keep", 0)
def _keep_everyone(original: Any) -> Any:
    return lambda self, sites: None


@plant("tables are taken for exchanged", roster.Roster, "_install", 0)
def _never_exchange(original: Any) -> Any:
    def install(self: Any, event: Any) -> None:
        if self._transitional is not None:
            self._transitional = event.members
            self.settled = True
        original(self, event)

    return install


@plant("what came back is lost", Waiting, "come_back", 0)
def _lose_unsent(original: Any) -> Any:
    def come_back(self: Any, unsent: Any) -> Any:
        before = self._queue.copy()
        others = original(self, unsent)
        self._queue = before
        return others

    return come_back


@plant("messages to some go to all", roster.Roster, "_take_run", 0)
def _to_all(original: Any) -> Any:
    def take_run(self: Any, run: Any) -> None:
        run.to = None
        original(self, run)

    return take_run


@plant("messages are sent while tables are exchanged", groups.Groups, "_open", 1)
def _always_open(original: Any) -> Any:
    return lambda self: self._current is self.site.current


@plant("fifo messages in a group with the filter stay fifo", groups.Groups, "send", 0)
def _fifo_in_filter(original: Any) -> Any:
    def send(self: Any, membership: int, service: Any, payloads: Any, to: Any, now: int) -> int:
        found: Membership | None = self._processes.memberships.get(membership)
        if found is None or not found.primary:
            return int(original(self, membership, service, payloads, to, now))
        found.primary = False
        try:
            return int(original(self, membership, service, payloads, to, now))
        finally:
            found.primary = True

    return send


@plant("a view does not wait until all have the last one's messages", Filter, "_change", 160)
def _no_sync(original: Any) -> Any:
    def change(self: Any, group: Group) -> None:
        group.agreed = False
        original(self, group)

    return change
