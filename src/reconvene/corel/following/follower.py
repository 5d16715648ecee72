"""A follower's storage: that of a replica which is none, and of which only the green part is used.

Given: green batches of the log in their order, or what was truncated before them. Promised: it reports, reads and
passes on only what is on its stable storage; its layout, sessions, snapshots and truncation are a replica's.
"""

from collections.abc import Iterator, Sequence

from msgspec import DecodeError, msgpack

from reconvene.corel.after_sync import Report
from reconvene.corel.batch import Heading, decode_heading
from reconvene.corel.events import Green, LogEvent, Restored
from reconvene.corel.following.messages import PulledBatch
from reconvene.corel.keeping.layout import FOLLOWING, Following, decode_base
from reconvene.corel.keeping.load import create, exists, start
from reconvene.corel.limits import LogLimits
from reconvene.corel.replica import LogEffects, Replica
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.storage.tables import Op, Put, Reader

__all__ = ["Follower", "first_follower_ops", "is_followers"]

_NOBODY = ReplicaSet.first(("-",))
"""The replicas of a log of which nothing is known yet."""


def is_followers(tables: Reader) -> bool:
    """Whether this storage was made by a follower."""
    return tables.get(FOLLOWING) is not None


def first_follower_ops(tables: Reader, identity: bytes, incarnation: int, token: int) -> list[Op]:
    """What is to be synced before a follower starts. Raises Unavailable where the storage is a replica's."""
    if not exists(tables):
        made = create(identity, _NOBODY, admitted=False, boots={incarnation: token})
        return [*made, Put(FOLLOWING, msgpack.encode(Following()))]
    if not is_followers(tables):
        raise Unavailable("a replica of the log is kept here: a follower needs a directory of its own")
    return start(tables, incarnation, token)


class Follower(Replica):
    """`name`: of this site, which may be that of a replica too, in another cluster."""

    def __init__(self, name: str, incarnation: int, tables: Reader, limits: LogLimits | None = None) -> None:
        """Raises Malformed where the tables make no sense, Unavailable where a newer program wrote them."""
        # No replica has an empty name: whoever the log's replicas are, this is none of them.
        super().__init__("", (), incarnation, tables, limits, keeps=False)
        self.name = name
        self._served = self.queue.green
        stored = tables.get(FOLLOWING)
        try:
            self._following = Following() if stored is None else msgpack.decode(stored, type=Following)
        except (DecodeError, ValueError) as error:
            raise Malformed(f"what is known of the log that is followed: {error}") from None

    # -- what others may ask

    @property
    def origin(self) -> str:
        """The cluster whose log it follows; empty: it knows of none yet."""
        return self._following.origin

    @property
    def green(self) -> int:
        """Everything below it is on stable storage, and was reported."""
        return self._served

    @property
    def received(self) -> int:
        """How far it has come, synced or not."""
        return self.queue.green

    def read(self, position: int) -> Iterator[tuple[int, Heading]]:
        for at, heading in super().read(position):
            if at >= self.green:
                return
            yield at, heading

    def committed(self, session: bytes) -> tuple[int, int] | None:
        found = super().committed(session)
        if found is not None and found[1] >= self.green:
            raise Unavailable(f"site {self.name}: the last commit is not on stable storage here yet")
        return found

    def cursor(self, session: bytes) -> tuple[int, bytes] | None:
        found = super().cursor(session)
        if found is not None and found[0] >= self.green:
            raise Unavailable(f"site {self.name}: the cursor's last record is not on stable storage here yet")
        return found

    def cursors(self) -> list[tuple[bytes, int, bytes]]:
        found = super().cursors()
        if any(position >= self.green for _, position, _ in found):
            raise Unavailable(f"site {self.name}: a cursor's last record is not on stable storage here yet")
        return found

    @property
    def is_replica(self) -> bool:
        return False

    @property
    def left_out(self) -> str | None:
        return None

    @property
    def waits(self) -> str | None:
        return None if self.origin else "it has not reached the log that it follows yet"

    @property
    def why(self) -> str:
        return self.waits or f"site {self.name} follows the log of {self.origin}: it orders nothing"

    def check_accepts(self) -> None:
        raise Rejected(f"site {self.name} follows the log, and takes no appends: append at a replica or an outpost")

    # -- what comes from a source

    def take_batches(self, batches: Sequence[PulledBatch]) -> None:
        """The next ones. Raises Malformed at one that can't be next, and takes those before it."""
        for batch in batches:
            heading = decode_heading(batch.body)
            last = self.queue.last_green.get(heading.author, 0)
            if heading.first != last + 1:
                raise Malformed(
                    f"message {heading.first} of author {heading.author} at position {self.queue.green}: expected"
                    f" {last + 1}"
                )
            position = self.queue.append_green(heading, batch.body, batch.timestamp, batch.marked)
            self._applying.apply(heading, position)
            self._report(Green(heading, position))

    def take_base(self, origin: str, base: bytes, sessions: Sequence[tuple[bytes, bytes]]) -> None:
        """What a source has truncated takes the place of all that is here. Raises Malformed, and changes nothing."""
        decoded = decode_base(base)
        if decoded.position < self.queue.green:
            raise Malformed(f"a base at {decoded.position}: this follower is at {self.queue.green}")
        if not self._following.origin:
            self.record.names.clear()
        self._applying.restore(decoded, sessions)
        if origin != self._following.origin:
            self._following.origin = origin
            self._writes.ops.append(Put(FOLLOWING, msgpack.encode(self._following)))
        self._report(Restored(decoded.position))

    def _report(self, event: LogEvent) -> None:
        self._writes.after(Report((event,)))

    # -- turns

    def flush(self, now: int) -> LogEffects:
        effects = super().flush(now)
        for event in effects.events:
            if type(event) is Green:
                self._served = event.position + event.batch.count
            elif type(event) is Restored:
                self._served = event.position
        return effects

    def _clean_up(self, now: int) -> None:
        more = self.snapshots.step()
        # No replica gets from here what it lacks, so nobody's green line holds anything back.
        durable = self._writes.green
        self.green_lines.update(dict.fromkeys(self.replicas.names(), durable))
        more |= self._truncation.step(self.snapshots.floor, self._time)
        if self.snapshots.could_fetch and self._truncation.held(self._time):
            self.snapshots.hold_up()
        if more:
            self._want_turn(now)
