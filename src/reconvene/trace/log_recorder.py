"""A site's trace where it keeps the log: rows of layer `corel` among those of `evs`, under one numbering.

Given: the replica's events, in their order. Promised: one row for each message and change of colour, as in the
contract; no position twice, though a restarted replica may learn again that something is green.
"""

from collections.abc import Callable, Sequence

from msgspec import UNSET

from reconvene.corel.batch import Heading
from reconvene.corel.events import (
    Accepted,
    Adopted,
    Attempted,
    BarrierPassed,
    Committed,
    Established,
    Green,
    LogEvent,
    Logged,
    PrimaryLost,
    Recolored,
    Restored,
)
from reconvene.ids import message_id
from reconvene.trace.events import Row
from reconvene.trace.recorder import Recorder

__all__ = ["LogRecorder"]

_PHASES = {Attempted: "attempt", Committed: "commit", Established: "establish"}


class LogRecorder:
    """Writes through the node's recorder. `author` gives the name of an author by its number in the log."""

    def __init__(self, recorder: Recorder, author: Callable[[int], str], green: int = 0) -> None:
        self._recorder = recorder
        self._author = author
        self.green = green
        """Positions below it are recorded already."""

    def events(self, t: int, events: Sequence[LogEvent]) -> None:
        for event in events:
            self._event(t, event)

    def _event(self, t: int, event: LogEvent) -> None:
        match event:
            case Accepted(batch=batch):
                self._messages(t, "accept", batch)
            case Logged(batch=batch, timestamp=timestamp):
                self._messages(t, "log", batch, timestamp)
            case Recolored(batch=batch, color=color):
                self._messages(t, color.value, batch)
            case Green(batch=batch, position=position):
                self._green(t, batch, position)
            case Attempted() | Committed() | Established():
                row = self._row(t, _PHASES[type(event)])
                row.primary, row.conf, row.members = event.primary, event.conf, sorted(event.members)
                self._recorder.add(row)
            case Adopted(primary=primary):
                row = self._row(t, "adopt")
                row.primary = primary
                self._recorder.add(row)
            case Restored(position=position):
                row = self._row(t, "snapshot")
                row.pos = position
                self._recorder.add(row)
                self.green = max(self.green, position)
            case PrimaryLost() | BarrierPassed():
                pass  # no event of the contract

    def _green(self, t: int, batch: Heading, position: int) -> None:
        if position < self.green:
            return
        prefix = self._prefix(batch)
        for index in range(batch.count):
            row = self._row(t, "green")
            row.msg = f"{prefix}{batch.first + index}"
            row.pos = position + index
            self._recorder.add(row)
        self.green = position + batch.count

    def _messages(self, t: int, kind: str, batch: Heading, timestamp: tuple[int, ...] | None = None) -> None:
        prefix = self._prefix(batch)
        for index in range(batch.count):
            row = self._row(t, kind)
            row.msg = f"{prefix}{batch.first + index}"
            row.ts = UNSET if timestamp is None else [*timestamp, index]
            self._recorder.add(row)

    def _prefix(self, batch: Heading) -> str:
        return message_id(self._author(batch.author), batch.incarnation, 0)[:-1]

    def _row(self, t: int, kind: str) -> Row:
        recorder = self._recorder
        return Row(
            node=recorder.node, inc=recorder.incarnation, n=recorder.next_number(), t=t, layer="corel", kind=kind
        )
