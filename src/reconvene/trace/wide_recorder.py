"""The rows of layer `wide` of one site: what happens to it as part of a tree of clusters.

They are in a file of their own, beside that of the site's cluster, and under the same numbering: so the rows of both
files have one order.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

from msgspec import UNSET

from reconvene.core.groups.events import Process
from reconvene.domains.events import (
    BroughtIn,
    Crossed,
    Lost,
    Represents,
    Unreachable,
    WideChanged,
    WideDelivered,
    WideEvent,
    WideSent,
    WideView,
)
from reconvene.ids import MessageId, Service, message_id
from reconvene.isis.far_events import FarFailed, FarReceived, FarSent
from reconvene.trace.events import Row
from reconvene.trace.recorder import Recorder

__all__ = ["WideRecorder"]


class WideRecorder:
    """Takes its numbers from the recorder of the site's cluster."""

    def __init__(self, domain: str, recorder: Recorder, sink: Callable[[Row], None]) -> None:
        self._domain = domain
        self._recorder = recorder
        self._node = f"{domain}/{recorder.node}"
        self._sink = sink
        self._conf: str | None = None

    def events(self, t: int, events: Iterable[WideEvent]) -> None:
        """Records what one turn brought, at clock `t`."""
        for event in events:
            match event:
                case WideChanged():
                    row = self._row(t, "conf", event.conf)
                    row.conf_kind = "regular" if event.regular else "transitional"
                    row.members = sorted(event.domains)
                    row.reg = UNSET if event.reg is None else event.reg
                    row.ts = list(event.place)
                    self._conf = event.conf
                case WideSent():
                    row = self._row(t, "send", event.conf)
                    row.msg = str(event.id)
                    row.service, row.group = event.service.label, event.group
                    row.scope = "wide" if event.wide else "cluster"
                case WideDelivered():
                    row = self._row(t, "deliver", event.conf)
                    row.msg = str(event.id)
                    row.sender = f"{event.id.domain}/{event.id.site}"
                    row.service, row.group = event.service.label, event.group
                    row.ts = UNSET if event.place is None else list(event.place)
                case Represents():
                    row = self._row(t, "rep", event.conf)
                    row.view, row.sender = event.term, f"{self._domain}/{event.site}"
                case Crossed():
                    row = self._row(t, "cross", event.conf)
                    row.view, row.msg, row.pos = event.term, message_id(*event.cross), event.pos
                    row.members = [str(each) for each in event.ids]
                case BroughtIn():
                    row = self._row(t, "in", event.conf)
                    row.view, row.msg, row.ts = event.term, message_id(*event.crossing), list(event.place)
                    row.sender = event.domain
                    row.reg, row.pos = event.name
                    row.members = [str(each) for each in event.ids]
                case Unreachable():
                    row = self._row(t, "unreachable", event.conf)
                    row.sender = event.domain
                case WideView():
                    row = self._row(t, "view", event.conf)
                    row.group, row.ts, row.members = event.group, list(event.place), list(event.members)
                case Lost():
                    row = self._row(t, "lost", event.conf)
                    row.sender, row.reg = f"{event.domain}/{event.site}", event.reg
                case _:
                    assert_never(event)
            self._sink(row)

    def far(self, t: int, event: FarSent | FarReceived | FarFailed) -> None:
        """A cast between clusters, or the failure of a process of another one."""
        conf = self._conf or ""
        match event:
            case FarSent():
                row = self._row(t, event.kind, conf)
                row.msg, row.label = str(event.id), event.label
                row.dests = [str(one) for one in event.to]
                row.service = (Service.CAUSAL if event.kind == "cbcast" else Service.AGREED).label
                row.group = UNSET if event.group is None else event.group
            case FarReceived():
                row = self._row(t, "receive", event.conf)
                row.msg, row.sender = str(event.id), str(event.sender)
                row.reg = str(MessageId(*event.sender.origin, event.counter))
                row.group = UNSET if event.group is None else event.group
            case FarFailed():
                row = self._row(t, "failed", conf)
                row.sender = str(event.failed)
            case _:
                assert_never(event)
        row.process = self._name(event.process)
        self._sink(row)

    def _name(self, process: Process) -> str:
        return f"{self._domain}/{self._recorder.names[process.site]}:{process.incarnation}:{process.number}"

    def resume(self, conf: str | None) -> None:
        """The file holds an incarnation that has not ended, in this wide configuration; its end can be recorded."""
        self._conf = conf

    def end(self, t: int, kind: str) -> None:
        """`fail` or `stop`: this incarnation is over. One that never was in a wide configuration leaves no row."""
        if self._conf is not None:
            self._sink(self._row(t, kind, self._conf))
        self._conf = None

    def _row(self, t: int, kind: str, conf: str) -> Row:
        recorder = self._recorder
        n = recorder.next_number()
        return Row(node=self._node, inc=recorder.incarnation, n=n, t=t, layer="wide", kind=kind, conf=conf)
