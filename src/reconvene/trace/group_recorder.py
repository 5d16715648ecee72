"""A site's trace where it has groups with the virtual-synchrony filter: rows of layer `vs` among those of `evs`.

Given: each turn's events of the site, and the groups layer's notes. Promised: one numbering for both; what happens in
a group stands after the row of the site's event from which it follows. Groups without the filter leave no rows of
their own, nor do messages to some members only: what they promise is not virtual synchrony's.

    view      a process has a new view: group, view, process, members, primary, conf
    cast      a message to the whole group was sent: group, view, process, msg, service
    deliver   group, view, process, msg, sender, service, ts
    stop      the process's identity is over: group, view, process

`process` is written as SITE:INCARNATION:NUMBER; `view` is a number that grows, the same wherever the view is had.
"""

from collections.abc import Sequence

from msgspec import UNSET

from reconvene.core.effects import Event
from reconvene.core.groups.events import Arrived, Process, ViewChanged, ViewId
from reconvene.core.groups.notes import Cast, Note
from reconvene.ids import message_id
from reconvene.trace.events import Row
from reconvene.trace.recorder import Recorder

__all__ = ["GroupRecorder", "view_number"]

_CHANGES = 1 << 20


def view_number(view: ViewId) -> int:
    """Configurations' numbers lie so far apart that views never meet."""
    return view.configuration * _CHANGES + view.change


class GroupRecorder:
    """Writes through the node's recorder. `Groups.record` makes the groups layer keep notes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def turn(self, t: int, events: Sequence[Event], notes: Sequence[Note]) -> None:
        """Records what one turn brought, at clock `t`."""
        recorder = self._recorder
        done = 0
        for note in notes:
            if note.after > done:
                recorder.events(t, events[done : note.after])
                done = note.after
            self._note(t, note)
        recorder.events(t, events[done:] if done else events)

    def _note(self, t: int, note: Note) -> None:
        event = note.event
        if isinstance(event, ViewChanged):
            row = self._row(t, note, "view")
            row.members = sorted(map(self._name, event.members))
            row.primary = note.view.configuration
            row.conf = event.conf
            self._recorder.add(row)
        elif isinstance(event, Cast):
            for counter in range(event.first, event.first + event.count):
                row = self._row(t, note, "cast")
                row.msg = message_id(self._recorder.node, note.process.incarnation, counter)
                row.service = event.service.label
                self._recorder.add(row)
        elif isinstance(event, Arrived):
            self._delivered(t, note, event)
        else:
            self._recorder.add(self._row(t, note, "stop"))

    def _delivered(self, t: int, note: Note, event: Arrived) -> None:
        sender = event.sender
        site = self._recorder.names[sender.site]
        name = self._name(sender)
        for place in range(len(event.payloads)):
            row = self._row(t, note, "deliver")
            row.msg = message_id(site, sender.incarnation, event.first + place)
            row.sender = name
            row.service = event.service.label
            row.ts = UNSET if event.timestamp is None else [*event.timestamp, event.index + place]
            self._recorder.add(row)

    def _row(self, t: int, note: Note, kind: str) -> Row:
        recorder = self._recorder
        return Row(
            node=recorder.node,
            inc=note.process.incarnation,
            n=recorder.next_number(),
            t=t,
            layer="vs",
            kind=kind,
            group=note.group,
            view=view_number(note.view),
            process=self._name(note.process),
        )

    def _name(self, process: Process) -> str:
        return f"{self._recorder.names[process.site]}:{process.incarnation}:{process.number}"
