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
    Color,
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
from reconvene.trace.forwarded_rows import ForwardedRows, Named
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
        self._only_green = False
        """A follower's: it records nothing but `green` and `snapshot`."""

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
        forwarded = self._forwarded = ForwardedRows(replica)
        forwarded.logged = set(past.logged)
        queue, record = replica.queue, replica.record
        if queue.base.position > self.green:
            self._event(t, Restored(queue.base.position))
        had = [*_green_batches(replica, self.green), *((entry.heading, entry.timestamp) for entry in queue.pending())]
        batches = {heading.id for heading, _ in had if forwarded.has(heading)}
        own = [heading for heading, _ in had if heading.author == queue.own]
        own += [waiting.heading for waiting in queue.accepted]
        done = self._recorded_green(replica)
        forwarded.logged |= done
        for heading in sorted(own, key=lambda heading: heading.first):
            for msg in self._ids(heading):
                if msg not in past.accepted and msg not in done:
                    self._message(t, "offer" if forwarded.has(heading) else "accept", msg)
        for heading, timestamp in sorted(had, key=lambda batch: batch[1]):
            if heading.id in batches:
                self._have(t, forwarded.logged_batch(heading, self._ids(heading), timestamp))
                continue
            for index, msg in enumerate(self._ids(heading)):
                if msg not in past.logged and msg not in done:
                    self._message(t, "log", msg, index, timestamp)
        for entry in queue.red:
            for msg in forwarded.names(entry.heading) if entry.heading.id in batches else self._ids(entry.heading):
                if past.logged.get(msg):
                    self._message(t, "red", msg)
        attempt = Attempted(record.last_attempted_primary, record.attempt_conf, record.attempt_members)
        if past.attempted < attempt.primary <= record.committed_here:
            self._event(t, attempt)
        if record.committed_here > past.known:
            self._event(t, Committed(record.committed_here, record.commit_conf, record.commit_members))
        if record.last_committed_primary > max(past.known, record.committed_here):
            self._event(t, Adopted(record.last_committed_primary))
        for entry in queue.yellow:
            if entry.heading.id in batches:
                self._have(t, forwarded.turns_yellow(entry.heading))
            for msg in forwarded.names(entry.heading) if entry.heading.id in batches else self._ids(entry.heading):
                if not past.logged.get(msg) and msg not in done:
                    self._message(t, "yellow", msg)
        if attempt.primary > max(past.attempted, record.committed_here):
            self._event(t, attempt)
        if self.green < queue.green:
            for position, heading in list(replica.read(self.green)):
                self._green(t, heading, position)

    def catch_up_green(self, t: int, past: LogPast, follower: Replica) -> None:
        """The same of a follower, which has nothing but the green prefix, and records what is on stable storage. Rows
        beyond what its storage holds would be wrong: they are not taken for recorded."""
        self.green = past.green
        self._forwarded, self._only_green = ForwardedRows(follower), True
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
            return self._first_ids(heading, self.green - start)
        for entry in replica.queue.yellow:
            if position >= self.green:
                break
            recorded |= self._first_ids(entry.heading, self.green - position)
            position += entry.heading.count
        return recorded

    def _first_ids(self, batch: Heading, count: int) -> set[str]:
        """Of the first messages of a batch: all ids under which they may have been recorded."""
        forwarded = self._forwarded
        known = [] if forwarded is None else forwarded.outpost_ids(batch)
        return {*self._ids(batch)[:count], *known[:count]}

    def _event(self, t: int, event: LogEvent) -> None:
        forwarded = self._forwarded
        if forwarded is not None and isinstance(event, Accepted | Logged | Recolored) and forwarded.has(event.batch):
            self._forwarded_event(t, event, forwarded)
            return
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
                if forwarded is not None and type(event) is Established:
                    self._have(t, forwarded.established())
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

    def _forwarded_event(self, t: int, event: Accepted | Logged | Recolored, forwarded: ForwardedRows) -> None:
        match event:
            case Accepted(batch=batch):
                self._messages(t, "offer", batch)  # it is the outpost that accepted it
            case Logged(batch=batch, timestamp=timestamp):
                self._have(t, forwarded.logged_batch(batch, self._ids(batch), timestamp))
            case Recolored(batch=batch, color=Color.YELLOW):
                self._have(t, forwarded.turns_yellow(batch))
                for msg in forwarded.names(batch):
                    self._message(t, "yellow", msg)
            case Recolored(batch=batch):
                for msg in forwarded.turns_red(batch):
                    self._message(t, "red", msg)

    def _have(self, t: int, found: Sequence[Named]) -> None:
        if not self._only_green:
            for named in found:
                self._message(t, "log", named.msg, named.at, named.timestamp)

    def _green_forwarded(self, t: int, batch: Heading, position: int, forwarded: ForwardedRows) -> None:
        timestamp = () if self._only_green else forwarded.timestamp(batch)
        for named in forwarded.turns_green(batch, position, self._ids(batch), timestamp):
            if position + named.at >= self.green:
                if named.msg not in forwarded.logged:
                    self._have(t, [named])
                row = self._row(t, "green")
                row.msg, row.pos = named.msg, position + named.at
                self._recorder.add(row)
            forwarded.logged.discard(named.msg)
        self._have(t, forwarded.others(batch))
        self.green = max(self.green, position + batch.count)

    def _green(self, t: int, batch: Heading, position: int) -> None:
        forwarded = self._forwarded
        if forwarded is not None and forwarded.has(batch):
            self._green_forwarded(t, batch, position, forwarded)
            return
        prefix = self._prefix(batch)
        for index in range(max(self.green - position, 0), batch.count):
            row = self._row(t, "green")
            row.msg = f"{prefix}{batch.first + index}"
            row.pos = position + index
            self._recorder.add(row)
        self.green = max(self.green, position + batch.count)

    def _messages(self, t: int, kind: str, batch: Heading, timestamp: Timestamp | None = None) -> None:
        for index, msg in enumerate(self._ids(batch)):
            self._message(t, kind, msg, index, timestamp)

    def _message(self, t: int, kind: str, msg: str, index: int = 0, timestamp: Timestamp | None = None) -> None:
        row = self._row(t, kind)
        row.msg = msg
        row.ts = UNSET if timestamp is None else [*timestamp, index]
        self._recorder.add(row)

    def _ids(self, batch: Heading) -> list[str]:
        prefix = self._prefix(batch)
        return [f"{prefix}{counter}" for counter in range(batch.first, batch.last + 1)]

    def _prefix(self, batch: Heading) -> str:
        return message_id(self._author(batch.author), batch.incarnation, 0)[:-1]

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
