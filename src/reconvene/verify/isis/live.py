"""Where a run is settled: GBCASTs and joins get through, and last views hold no process that is gone [3.1, 4.3.3]."""

from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck, Violate, violate_in
from reconvene.verify.isis_history import IsisHistory, Process
from reconvene.verify.report import Tally

__all__ = ["CHECKS"]


def _live(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    _gbcasts(isis, tally, violate)
    for index, process in enumerate(isis.processes):
        if isis.stands(index):
            _joins(isis, process, tally, violate)
            _last_views(isis, process, tally, violate)


def _gbcasts(isis: IsisHistory, tally: Tally, violate: Violate) -> None:
    for message in isis.casts.values():
        if not message.attempts or message.kind != "gbcast" or not isis.stands(message.sender):
            continue
        for member in message.dests:
            if isis.stands(member) and not isis.is_excused(message, member):
                tally.cases += 1
                if member not in message.got:
                    violate(message.last.event, f"{isis.name(member)}, a member that stands, did not receive it")


def _joins(isis: IsisHistory, process: Process, tally: Tally, violate: Violate) -> None:
    for event in process.events:
        if event.kind != "join" or event.group is None:
            continue
        tally.cases += 1
        shown = next((view for view in process.views.get(event.group, ()) if view.event.place > event.place), None)
        if shown is None:
            violate(event, "its process stands, and got no view of the group after it")
            continue
        for member in shown.members:
            other = isis.processes[member]
            if other is process or not isis.stands(member) or other.leaves.get(event.group):
                continue
            tally.cases += 1
            if not any(view.key == shown.key for view in other.views.get(event.group, ())):
                violate(
                    event, f"{other.name}, a member that stands, did not get view {shown.number}, which it led to"
                )


def _last_views(isis: IsisHistory, process: Process, tally: Tally, violate: Violate) -> None:
    for group, views in process.views.items():
        if has_left(process, group):
            continue
        tally.cases += 1
        strange = [
            isis.name(member)
            for member in views[-1].members
            if not isis.stands(member) or has_left(isis.processes[member], group)
        ]
        if strange:
            names = ", ".join(sorted(strange))
            violate(
                views[-1].event, f"it is the process's last view of the group, and has {names}, which is gone or left"
            )


def has_left(process: Process, group: str) -> bool:
    """Did it leave the group, without a view of it after that?"""
    leaves, views = process.leaves.get(group, []), process.views.get(group, [])
    return bool(leaves) and (not views or views[-1].event.place < leaves[-1].event.place)


CHECKS = (
    IsisCheck(
        id="isis.live",
        layer="isis",
        source="section 3.1",
        case="where settled: a GBCAST by a process that stands, and a destination that stands; a `join` by a process"
        " that stands, and another member that stands of the view that it led to; a process's last view of a group",
        violated="the destination did not receive the GBCAST; or the process got no view of the group after its"
        " `join`, or that other member lacks this view; or the last view has a member that does not stand or"
        " has left",
        check=_live,
    ),
)
