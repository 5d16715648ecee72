"""From what one site's core reports to its rows in the trace.

Given: the core's events in the order in which they happened, and when the site began, failed or stopped.
Promised: one row for each configuration change and for each message sent or delivered, numbered without gaps
across the site's incarnations.
"""

from collections.abc import Callable, Sequence

from msgspec import UNSET, UnsetType

from reconvene.core.effects import Changed, Delivered, Event, Sent
from reconvene.ids import Service
from reconvene.trace.events import Row

__all__ = ["Recorder"]

_LABELS = {service: service.label for service in Service}


class Recorder:
    """Turns one node's core events into rows. `names` are the cluster's, by number; it may grow."""

    __slots__ = ("_conf", "_emit", "_inc", "_n", "_open", "names", "node")

    def __init__(
        self, node: str, names: Sequence[str], sink: list[Row] | Callable[[Row], None], next_n: int = 0
    ) -> None:
        self.node = node
        self.names = names
        """By number."""
        self._emit = sink.append if isinstance(sink, list) else sink
        self._n = next_n
        self._inc = 0
        self._conf: str | None = None
        self._open = False

    def begin(self, incarnation: int) -> None:
        """The node (re)starts. What it records from now on belongs to this incarnation."""
        assert incarnation > self._inc, "incarnations grow"
        self._inc = incarnation
        self._conf = None
        self._open = True

    def resume(self, incarnation: int, conf: str | None) -> None:
        """The file holds an incarnation that has not ended, in this configuration; its `fail` can now be recorded."""
        self.begin(incarnation)
        self._conf = conf

    def events(self, t: int, events: Sequence[Event]) -> None:
        """Records what one turn of the core brought, at clock `t`."""
        assert self._open or not events, "only a node that has begun has events"
        for event in events:
            if type(event) is Delivered:
                self._delivered(t, event)
            elif type(event) is Sent:
                self._sent(t, event)
            else:
                assert type(event) is Changed
                self._changed(t, event)

    @property
    def incarnation(self) -> int:
        return self._inc

    def next_number(self) -> int:
        """For a row that another layer's recorder makes; every number has to be used."""
        n = self._n
        self._n += 1
        return n

    def add(self, row: Row) -> None:
        """Such a row; not every layer's events come from the core."""
        self._emit(row)

    def fail(self, t: int) -> None:
        """The node crashed: its incarnation is over."""
        self._end(t, "fail")

    def stop(self, t: int) -> None:
        """The node left in good order."""
        self._end(t, "stop")

    def _end(self, t: int, kind: str) -> None:
        # An incarnation that never reached its first configuration left no trace, so nothing of it failed.
        if self._open and self._conf is not None:
            self._emit(Row(node=self.node, inc=self._inc, n=self._n, t=t, layer="evs", kind=kind, conf=self._conf))
            self._n += 1
        self._open = False

    def _changed(self, t: int, event: Changed) -> None:
        names = self.names
        self._emit(
            Row(
                node=self.node,
                inc=self._inc,
                n=self._n,
                t=t,
                layer="evs",
                kind="conf",
                conf=event.conf,
                conf_kind=event.kind.value,
                members=sorted([names[ordinal] for ordinal in event.members]),
                reg=UNSET if event.reg is None else event.reg,
            )
        )
        self._n += 1
        if event.kind.value != "hidden":
            self._conf = event.conf

    def _sent(self, t: int, event: Sent) -> None:
        node, inc, conf, n, emit = self.node, self._inc, event.conf, self._n, self._emit
        service = _LABELS[event.service]
        prefix = f"{node}:{inc}:"
        for counter in range(event.first, event.first + event.count):
            emit(
                Row(
                    node=node,
                    inc=inc,
                    n=n,
                    t=t,
                    layer="evs",
                    kind="send",
                    conf=conf,
                    msg=f"{prefix}{counter}",
                    service=service,
                )
            )
            n += 1
        self._n = n

    def _delivered(self, t: int, event: Delivered) -> None:
        node, inc, conf, n, emit = self.node, self._inc, event.conf, self._n, self._emit
        sender = self.names[event.sender]
        service = _LABELS[event.service]
        # As reconvene.ids.message_id writes it; its unchanging part is made once a frame.
        prefix = f"{sender}:{event.incarnation}:"
        counter = event.first
        timestamp = event.timestamp
        ts: list[int] | UnsetType = UNSET
        for index in range(len(event.payloads)):
            if timestamp is not None:
                ts = [*timestamp, index]
            emit(
                Row(
                    node=node,
                    inc=inc,
                    n=n,
                    t=t,
                    layer="evs",
                    kind="deliver",
                    conf=conf,
                    msg=f"{prefix}{counter + index}",
                    sender=sender,
                    service=service,
                    ts=ts,
                )
            )
            n += 1
        self._n = n
