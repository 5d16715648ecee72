"""The rows of layer `isis` of one node's trace: what happens to its process groups.

Given: what the ISIS layer reports in a turn, in order, after the rows of the site's own events. Promised: one row for
each event that docs/traces.md names, under the node's numbering. What a process sees besides (state that it gives or
takes, that it is blocked, its new identity) leaves no row.
"""

from collections.abc import Iterable
from typing import assert_never

from msgspec import UNSET, structs

from reconvene.core.groups.events import Process
from reconvene.ids import Service, message_id
from reconvene.isis.events import (
    Answered,
    Begun,
    Blocked,
    CallOver,
    Cast,
    CastId,
    Ended,
    Failed,
    Flushed,
    IsisEvent,
    JoinAsked,
    Killed,
    LeftGroup,
    Received,
    Rejection,
    SiteAdopted,
    StateChunk,
    StateDone,
    StateTaken,
    StateWanted,
    ViewShown,
)  # fmt: skip
from reconvene.isis.far_events import (
    FarCallOver,
    FarFailed,
    FarReachable,
    FarReceived,
    FarSent,
    FarUnreachable,
    FarUnwatched,
)
from reconvene.trace.events import Row
from reconvene.trace.recorder import Recorder
from reconvene.trace.wide_recorder import WideRecorder

__all__ = ["IsisRecorder"]


class IsisRecorder:
    """Writes through the node's recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.wide: WideRecorder | None = None
        """Where the site's cluster is one of several: casts between them are recorded there, in their place."""

    def events(self, t: int, events: Iterable[IsisEvent]) -> None:
        """Records what one turn brought, at clock `t`."""
        for event in events:
            match event:
                case StateWanted() | StateTaken() | StateChunk() | CallOver() | Blocked() | Killed():
                    continue
                case FarUnreachable() | FarReachable() | FarUnwatched() | FarCallOver():
                    continue  # of a domain out of reach there is the site's own row
                case FarSent() | FarReceived() | FarFailed():
                    if self.wide is not None:
                        self.wide.far(t, event)
                    continue
                case SiteAdopted():
                    row = self._site(t, event)
                case Begun():
                    row = self._row(t, "begin", event.process)
                    row.label = event.name or UNSET
                case Ended():
                    row = self._row(t, "end", event.process)
                case JoinAsked():
                    row = self._row(t, "join", event.process, event.group)
                case LeftGroup():
                    row = self._row(t, "leave", event.process, event.group)
                case ViewShown():
                    row = self._view(t, event)
                case Cast():
                    row = self._cast(t, event)
                case Received():
                    row = self._received(t, event)
                case Rejection():
                    row = self._row(t, "reject", event.process, event.group, event.view)
                    self._say(row, event.sender, event.id, event.attempt)
                case Answered():
                    row = self._row(t, "answer", event.process)
                    self._say(row, event.sender, event.id)
                case Failed():
                    row = self._row(t, "failed", event.process)
                    self._say(row, event.sender, event.id)
                case Flushed():
                    row = self._row(t, "flush", event.process)
                    self._say(row, None, event.id)
                case StateDone():
                    row = self._row(t, "state", event.process, event.group, event.view)
                case _:
                    assert_never(event)
            self._recorder.add(row)
            if isinstance(event, Cast | Received | Rejection):
                self._add_more(row, event)

    def _add_more(self, row: Row, event: Cast | Received | Rejection) -> None:
        """The same for messages that go with it as one."""
        more = len(event.more) if isinstance(event, Received) else event.count - 1
        for place in range(1, more + 1):
            of = event.id._replace(counter=event.id.counter + place)
            self._recorder.add(
                structs.replace(
                    row,
                    n=self._recorder.next_number(),
                    msg=message_id(self._recorder.names[of.site], of.incarnation, of.counter),
                )
            )

    def _site(self, t: int, event: SiteAdopted) -> Row:
        row = self._row(t, "site")
        row.conf, row.primary = event.conf, event.number
        row.members = sorted(f"{self._recorder.names[site]}:{born}" for site, born in event.members)
        return row

    def _view(self, t: int, event: ViewShown) -> Row:
        row = self._row(t, "view", event.process, event.group, event.view)
        row.dests = [self._name(process) for process in event.ranked]
        row.members = sorted(row.dests)
        row.conf, row.primary = event.conf, event.number
        return row

    def _cast(self, t: int, event: Cast) -> Row:
        row = self._row(t, event.kind, event.process, event.group, event.view)
        self._say(row, None, event.id, event.attempt)
        row.dests = [self._name(process) for process in event.to]
        row.replies = event.replies
        if event.kind == "cbcast":
            row.label, row.service = event.label, Service.CAUSAL.label
        elif event.kind == "abcast":
            row.label, row.service = event.label, (Service.SAFE if event.causal else Service.AGREED).label
        return row

    def _received(self, t: int, event: Received) -> Row:
        row = self._row(t, "receive", event.process, event.group, event.view)
        self._say(row, event.sender, event.id, event.attempt)
        row.ts = UNSET if event.priority is None else list(event.priority)
        return row

    def _say(self, row: Row, sender: Process | None, cast: CastId | None, attempt: int | None = None) -> None:
        if sender is not None:
            row.sender = self._name(sender)
        if cast is not None:
            row.msg = message_id(self._recorder.names[cast.site], cast.incarnation, cast.counter)
        if attempt is not None:
            row.attempt = attempt

    def _row(
        self, t: int, kind: str, process: Process | None = None, group: str | None = None, view: int | None = None
    ) -> Row:
        """`view` counts where there is a group."""
        recorder = self._recorder
        return Row(
            node=recorder.node,
            inc=recorder.incarnation,
            n=recorder.next_number(),
            t=t,
            layer="isis",
            kind=kind,
            process=UNSET if process is None else self._name(process),
            group=UNSET if group is None else group,
            view=UNSET if group is None or view is None else view,
        )

    def _name(self, process: Process) -> str:
        return f"{self._recorder.names[process.site]}:{process.incarnation}:{process.number}"
