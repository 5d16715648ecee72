"""A process that was observed to fail is never heard from again [3.1]."""

from collections.abc import Iterator

from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck, violate_in
from reconvene.verify.isis_history import Event, IsisHistory, Shown
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _failures(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    shown = {view.event: view for view in isis.shown}
    for process in isis.processes:
        told: dict[int, Event] = {}
        """Processes that failed, by a `failed`; …"""
        missed: dict[int, Event] = {}
        """… and by a view."""
        current: dict[str, Shown] = {}
        for event in process.events:
            if event.kind == "failed":
                told.setdefault(event.sender, event)
            elif event.kind == "view":
                view = current[shown[event].group] = shown[event]
                if event.inside is not None:
                    for member in _dead(isis, event.inside, view):
                        missed.setdefault(member, event)
            elif event.kind == "leave" and event.group is not None:
                current.pop(event.group, None)
            elif event.kind == "receive" and (told or missed):
                tally.cases += 1
                knew = told.get(event.sender) or missed.get(event.sender)
                is_there = any(event.sender in view.members for view in current.values())
                if knew is not None and (event.sender in told or not is_there):
                    violate(event, f"the process knew that its sender had failed, by {isis.describe(knew)}")


def _dead(isis: IsisHistory, before: Shown, view: Shown) -> Iterator[int]:
    """Those that the view lacks as dead: they are gone, and did not leave the group."""
    for member in before.members:
        if member not in view.members and isis.is_gone(member):
            leaves = isis.processes[member].leaves.get(view.group, ())
            left = any(leave.view >= before.number for leave in leaves)
            if not left and not _may_have_left(isis, member, view):
                yield member


def _may_have_left(isis: IsisHistory, member: int, view: Shown) -> bool:
    """A leave that took effect elsewhere has no row if the process's site was lost before. It was one if the process
    did not die by itself, and its site was still there: in the site view, or by another member of this view."""
    process = isis.processes[member]
    if isis.died_alone(process):
        return False
    at_site = (isis.processes[other] for other in view.members)
    if any(
        (other.site, other.inc) == (process.site, process.inc) and other.over >= process.over for other in at_site
    ):
        return True
    return isis.born_of(process) in isis.site_view_at(view.primary)


CHECKS = (
    IsisCheck(
        id="isis.failure",
        layer="isis",
        source="section 3.1",
        case="a `receive` after a `failed`, or after a view that lacks a member of the one before as dead",
        violated="it is from a process that the receiver knew in this way to have failed; if by a view: and that is"
        " in none of its present views of other groups",
        check=_failures,
    ),
)
