"""A site's trace where it keeps the log: rows of layer `corel` among those of `evs`, under one numbering.

Given: the replica's events, in their order. Promised: one row for each message and change of colour, as in the
contract; no position twice, though a restarted replica may learn again that something is green. At a restart, what
storage holds and the file lacks is recorded first (`catch_up`).
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import UNSET

from reconvene.corel.batch import Heading, Timestamp
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
    RequestStored,
    Restored,
    SnapshotKept,
)
from reconvene.corel.replica import Replica
from reconvene.ids import message_id
from reconvene.trace.events import Row
from reconvene.trace.forwarded_rows import ForwardedRows
from reconvene.trace.log_past import LogPast
from reconvene.trace.recorder import Recorder

__all__ = ["LogRecorder"]

_PHASES = {Attempted: "attempt", Committed: "commit", Established: "establish"}


class LogRecorder:
    """Writes through the node's recorder. `author` returns the name of an author by its number in the log."""

    def __init__(self, recorder: Recorder, author: Callable[[int], str], green: int = 0) -> None:
        self._recorder = recorder
        self._author = author
        self.green = green
        """Positions below it are recorded already."""
        self._forwarded: ForwardedRows | None = None
        """Of outposts' messages. Known from `catch_up` on."""

    def events(self, t: int, events: Sequence[LogEvent]) -> None:
        for event in events:
            self._event(t, event)

    def catch_up(self, t: int, past: LogPast, replica: Replica) -> None:
        """Records what stable storage holds and the file lacks, as events of the incarnation that has not ended yet.

        Given a replica that is loaded and has done nothing. All of it was synced in the last moments before the end,
        and told to nobody. Messages are accepted before others are logged: no one can say that they were accepted
        knowing those. They are logged in the order of timestamps, which preserves causality.
        """
        self.green = past.green
        forwarded = self._forwarded = ForwardedRows(replica, past.shown)
        queue, record = replica.queue, replica.record
        if queue.base.position > self.green:
            self._event(t, Restored(queue.base.position))
        had = [*_green_batches(replica, self.green), *((entry.heading, entry.timestamp) for entry in queue.pending())]
        own = [heading for heading, _ in had if heading.author == queue.own]
        own += [waiting.heading for waiting in queue.accepted]
        done = self._recorded_green(replica)
        for heading in sorted(own, key=lambda heading: heading.first):
            for msg in self._ids(heading):
                if msg not in past.accepted and msg not in done:
                    self._message(t, "offer" if forwarded.has(heading) else "accept", msg)
        for heading, timestamp in sorted(had, key=lambda batch: batch[1]):
            for index, (shown, msg) in enumerate(self._shown(heading)):
                if msg not in past.logged and msg not in done:
                    self._message(t, "log", shown, msg, index, timestamp)
        for entry in queue.red:
            for shown, msg in self._shown(entry.heading):
                if past.logged.get(msg):
                    self._message(t, "red", shown, msg)
        attempt = Attempted(record.last_attempted_primary, record.attempt_conf, record.attempt_members)
        if past.attempted < attempt.primary <= record.committed_here:
            self._event(t, attempt)
        if record.committed_here > past.known:
            self._event(t, Committed(record.committed_here, record.commit_conf, record.commit_members))
        if record.last_committed_primary > max(past.known, record.committed_here):
            self._event(t, Adopted(record.last_committed_primary))
        for entry in queue.yellow:
            for shown, msg in self._shown(entry.heading):
                if not past.logged.get(msg) and msg not in done:
                    self._message(t, "yellow", shown, msg)
        if attempt.primary > max(past.attempted, record.committed_here):
            self._event(t, attempt)
        if self.green < queue.green:
            for position, heading in list(replica.read(self.green)):
                self._green(t, heading, position)

    def catch_up_green(self, t: int, past: LogPast, follower: Replica) -> None:
        """The same of a follower, which has nothing but the green prefix, and records what is on stable storage. Rows
        beyond what its storage holds would be wrong: they are not taken for recorded."""
        self.green = past.green
        self._forwarded = ForwardedRows(follower, past.shown)
        if follower.base > self.green:
            self._event(t, Restored(follower.base))
        if self.green < follower.green:
            for position, heading in list(follower.read(self.green)):
                self._green(t, heading, position)
        self.green = follower.green

    def _recorded_green(self, replica: Replica) -> set[str]:
        """Messages that the file has green, of batches that storage has yellow, or green beyond that."""
        recorded: set[str] = set()
        position = replica.green
        if self.green < position:
            start, heading = next(replica.read(self.green))
            return set(self._ids(heading)[: self.green - start])
        for entry in replica.queue.yellow:
            if position >= self.green:
                break
            recorded.update(self._ids(entry.heading)[: self.green - position])
            position += entry.heading.count
        return recorded

    def _event(self, t: int, event: LogEvent) -> None:
        forwarded = self._forwarded
        match event:
            case Accepted(batch=batch):
                took_over = forwarded is not None and forwarded.has(batch)  # it is the outpost that accepted it
                for msg in self._ids(batch):
                    self._message(t, "offer" if took_over else "accept", msg)
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
                if position > self.green:  # else an earlier incarnation recorded all of it as green
                    row = self._row(t, "snapshot")
                    row.pos = position
                    self._recorder.add(row)
                    self.green = position
            case PrimaryLost() | BarrierPassed() | SnapshotKept() | RequestStored():
                pass  # no event of the contract

    def _green(self, t: int, batch: Heading, position: int) -> None:
        for index, (shown, msg) in enumerate(self._shown(batch, position)):
            if position + index >= self.green:
                self._message(t, "green", shown, msg, position=position + index)
        self.green = max(self.green, position + batch.count)

    def _messages(self, t: int, kind: str, batch: Heading, timestamp: Timestamp | None = None) -> None:
        for index, (shown, msg) in enumerate(self._shown(batch)):
            self._message(t, kind, shown, msg, index, timestamp)

    def _message(
        self,
        t: int,
        kind: str,
        shown: str,
        msg: str | None = None,
        index: int = 0,
        timestamp: Timestamp | None = None,
        position: int | None = None,
    ) -> None:
        """`msg`: what its author calls it, if that may be another id than the row shows."""
        row = self._row(t, kind)
        row.msg = shown
        row.ts = UNSET if timestamp is None else [*timestamp, index]
        row.pos = UNSET if position is None else position
        row.label = UNSET if msg is None or msg == shown else msg
        self._recorder.add(row)

    def _shown(self, batch: Heading, position: int | None = None) -> list[tuple[str, str]]:
        """Of each message: the id that rows show, and the one that its author gave it. `position`: of a batch that
        is green."""
        ids = self._ids(batch)
        forwarded = self._forwarded
        if forwarded is None or not forwarded.has(batch):
            return list(zip(ids, ids, strict=True))
        found = forwarded.named(batch, ids) if position is None else forwarded.green(batch, position, ids)
        names = dict(zip(ids, ids, strict=True)) | {copy: shown for shown, copy in found}
        return [(names[msg], msg) for msg in ids]

    def _ids(self, batch: Heading) -> list[str]:
        prefix = message_id(self._author(batch.author), batch.incarnation, 0)[:-1]
        return [f"{prefix}{counter}" for counter in range(batch.first, batch.last + 1)]

    def _row(self, t: int, kind: str) -> Row:
        recorder = self._recorder
        return Row(
            node=recorder.node, inc=recorder.incarnation, n=recorder.next_number(), t=t, layer="corel", kind=kind
        )


def _green_batches(replica: Replica, position: int) -> Iterator[tuple[Heading, Timestamp]]:
    """From the one that holds `position` on."""
    first = next(replica.read(position), None) if position < replica.green else None
    if first is not None:
        for place in replica.places(first[0], replica.green):
            yield replica.queue.bodies.heading(place.id), place.timestamp
