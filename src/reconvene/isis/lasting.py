"""What this site stores of groups whose members want to know who failed last: which views, and when.

Each view before a member here sees it; who is about to join before this site agrees to that (`isis.last_to_fail`).
"""

from collections.abc import Mapping

from reconvene.core.groups.events import Process
from reconvene.isis.last_to_fail import StoredViews
from reconvene.isis.local import Local, Outcome
from reconvene.isis.messages import StoredView
from reconvene.isis.table import Table

__all__ = ["Lasting"]


class Lasting:
    def __init__(self, table: Table, locals_: Mapping[Process, Local], stored: StoredViews) -> None:
        self._table = table
        self._locals = locals_
        self._stored = stored

    def store(self, local: Local, group: str, outcome: Outcome) -> bool:
        """Whether the process may see this. If not, it is written first."""
        if outcome.leaver == local.process or outcome.deleted:
            local.lasting.discard(group)
            if not any(group in other.lasting for other in self._locals.values() if not other.dead):
                self._stored.forget(group)
            return True
        if not any(member.process == local.process for member in outcome.ranked):
            return True
        # Also those of later views that are decided already: they may be the last before this site fails.
        coming = self._table.groups[group].prospective()
        sites = {*(member.process.site for member in outcome.ranked), *(process.site for process in coming)}
        return self._stored.is_stored(group, StoredView(outcome.number, outcome.view, sorted(sites)))

    def may_grow(self, group: str) -> bool:
        """Whether this site is ready to let processes into the group. If not, that they come is written first."""
        processes = self._table.groups[group].prospective()
        here = [local for process in processes if (local := self._locals.get(process)) is not None and not local.dead]
        if not any(group in local.lasting for local in here):
            return True
        return self._stored.may_grow(group, {process.site for process in processes})

    def deleted(self, group: str) -> None:
        """Nobody has to know who of it failed last."""
        self._stored.forget(group)
