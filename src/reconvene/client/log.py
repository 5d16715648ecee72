"""The durable, totally ordered log, as an application has it.

Promised: a message for which `append` has returned is on stable storage at a site. It gets one position in the total
order; if the network is partitioned, perhaps only when the partition heals. All readers get the same entries at the
same positions.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress

from reconvene.client import follow as following
from reconvene.client.arguments import (
    check_count,
    check_machine_name,
    check_name,
    check_names,
    check_position,
    check_quorum,
    check_ranges,
    check_text,
    check_timeout,
)
from reconvene.client.colors import ColorChanges
from reconvene.client.cursor import Cursor, check_cursor_name
from reconvene.client.cursor_record import CursorInfo, cursor_session, decode_note
from reconvene.client.follow import Follow
from reconvene.client.group import Data, as_bytes
from reconvene.client.log_link import LogLink
from reconvene.client.pending_append import PendingAppend
from reconvene.client.pieces import pieces
from reconvene.client.positions import Positions
from reconvene.client.receipts import Receipt, Receipts, known_runs
from reconvene.client.runner import Runner
from reconvene.client.session import Session, check_session
from reconvene.client.staging import NAME_LENGTH, Committed, Staging, made_commit, still_there, told
from reconvene.client.state_machine import StateMachine
from reconvene.client.status import LogStatus, log_status
from reconvene.client.time_limits import in_time, within
from reconvene.client.transactions import session_of
from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import Range, encode_commit
from reconvene.entries import Entry, EntryBatch, SnapshotInfo
from reconvene.errors import InvalidArgument, OutcomeUnknown, ReconveneError, Rejected
from reconvene.ids import UNNAMED
from reconvene.wire.client_log import FETCH_MESSAGES

__all__ = ["Log", "check_log"]


class Log:
    """Of `Site.log`. Any number of tasks may append and read."""

    def __init__(self, link: LogLink) -> None:
        self._link = link
        self._appends = link.appends

    # -- appending

    async def append(
        self, data: Data, *, session: bytes | None = None, number: int | None = None, timeout: float | None = None
    ) -> Receipt:
        """Appends one message. Returns when it is durable at the site. `await receipt.ordered()` gets its position.

        It is accepted in any component, at any time. While the site has no room, or the connection is lost, this
        waits and tries again, at other sites too; the message is taken once.
        session, number: the program's own name for a sequence of messages, up to 64 bytes, and this one's number in
        it, from 1 on. What the log has under them it does not take again, even after a restart of the program.
        timeout: s. Raises OutcomeUnknown if the message is not durable by then. Also raises Rejected (too large, not
        this client's role, no replica at the site; the number was taken with other data, or would leave too many
        gaps), Unavailable (nothing happened: the disk, no connection in time), OutcomeUnknown (the connection was
        lost, and there was no other in time).
        """
        message = data if type(data) is bytes else as_bytes(data)
        own = None if session is None and number is None else check_session(session, number)
        if timeout is not None:
            check_timeout(timeout)
        self._link.here.check()
        if own is not None:
            pending, at = self._start([message], own), 0
        else:
            pending, at = self._appends.gather(message)
        try:
            await pending.accepted(timeout)
        except Rejected:
            if pending.count == 1:
                raise
            # Perhaps because of another one that went with it: nothing of them was taken.
            pending, at = self._start([message]), 0
            await pending.accepted(timeout)
        return Receipt(pending, at, self._link.ordered)

    def session(self, name: bytes, *, after: int | None = None) -> Session:
        """For messages that are taken once, however often and at however many sites they are appended:
        `log.session(b"till 7").append(data, number=8)`.

        name: the program's own, up to 64 bytes.
        after: the last number that was used under this name, 0 for none: then the session numbers by itself.
        """
        return Session(self, name, after)

    async def append_many(
        self,
        payloads: Iterable[Data],
        *,
        session: bytes | None = None,
        number: int | None = None,
        timeout: float | None = None,
    ) -> Receipts:
        """The same for many, in their order. Returns one receipt for all of them, with no object for each.

        `payloads` may be lazy: no more of it is taken than there is room for. Where it fails, those before the
        failure may have been appended: the error's `taken` says how many are known to be.
        """
        own = check_session(session, number)
        self._link.here.check()
        appends: list[PendingAppend] = []
        await within(timeout, self._append_all(pieces(payloads), own, appends), "durable")
        return Receipts(appends, self._link.ordered)

    async def _append_all(
        self, pieces: Iterator[list[bytes]], own: tuple[bytes, int] | None, appends: list[PendingAppend]
    ) -> None:
        settled = 0
        try:
            for piece in pieces:
                if self._appends.waiting:
                    await self._link.room()
                appends.append(self._start(piece, own))
                if own is not None:
                    own = own[0], own[1] + len(piece)
                while settled < len(appends) and appends[settled].done:
                    appends[settled].result()  # where one has failed it is no use to go on
                    settled += 1
            for pending in appends[settled:]:
                await pending.accepted()
        except ReconveneError as error:
            raise await _failure(error, appends) from None

    def _start(
        self, messages: list[bytes], own: tuple[bytes, int] | None = None, kind: Kind = Kind.DATA
    ) -> PendingAppend:
        """`own`: the program's session, and the first message's number in it."""
        session, number = own or (self._appends.session, 0)
        pending = PendingAppend(messages, session, number, kind)
        self._appends.append(pending)
        return pending

    # -- transactions

    def staging(self, timeout: float | None = None) -> Staging:
        """For messages that no reader sees until a commit names them. timeout: s, for each step."""
        return Staging(self._link, timeout)

    async def commit(
        self,
        places: Positions | Iterable[Range],
        *,
        name: str | None = None,
        version: int = 0,
        index: Iterable[Range] = (),
        previous: int | None = None,
        timeout: float | None = None,
    ) -> Committed:
        """Makes staged messages visible, all at once, at the commit's place in the order. Returns when it is ordered.

        places: where they are, in the order in which readers get them: what `Staging.ordered` returns, or
        (position, count) pairs, as of several writers.

        name, version: of the transaction. Of a name the log takes each version once, and none that is lower than one
        that it has: a program that does not know whether it has committed stages and commits again. Without a name
        it is another transaction each time.
        index: staged messages that belong to it and that no reader sees; previous: the commit before it. For writers.
        Raises Truncated where what was staged is not in the log any more; OutcomeUnknown where it is not ordered
        within `timeout` s; otherwise as `append`.
        """
        check_timeout(timeout)
        ranges = places.runs if isinstance(places, Positions) else places
        commit = made_commit(name, version, ranges, index, previous)
        self._link.here.check()
        await still_there(self._link, commit)
        data = encode_commit(commit)
        pending = self._start([data], None if name is None else (session_of(name), version + 1), Kind.COMMIT)
        appended = await pending.accepted(timeout)
        runs = await self._link.ordered(pending, timeout)
        new = appended.parts[0].new
        if runs[0][0] is None and not new:
            return Committed(None, duplicate=True)
        ((position, _), *_) = known_runs(runs)
        if not new and not pending.resent:
            return Committed(position, duplicate=True)
        return await within(timeout, told(self._link, data, position), "known")

    async def last_commit(self, name: str) -> tuple[int, int] | None:
        """(version, position) of a transaction's last commit that counts, as far as this site knows; after a
        `barrier`, of all commits. None: there is none."""
        last = await self._link.last_commit(session_of(check_text(name, "name", NAME_LENGTH)))
        return None if last is None else (last[0] - 1, last[1])

    # -- reading

    def follow(self, start: int = 0, *, stop: int | None = None, control: bool = False) -> Follow:
        """Entries in order, from position `start` on, as they are ordered; up to `stop`, if it is given.

        control: also returns what is not the application's: changes of the replicas, void messages, and transactions
        as they are stored in the log.
        """
        check_position(start, "start")
        if stop is not None:
            check_position(stop, "stop")
        return Follow(self._link, start, stop, bool(control))

    async def read(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        control: bool = False,
        at_least: int | None = None,
        timeout: float | None = None,
    ) -> list[Entry]:
        """What is ordered now, from position `start` on and before `stop`, all at once.

        For more than memory should hold, `follow`. Raises Truncated where the log begins after `start`.
        at_least: waits until the message at this position can be read at this site. A program that appended at one
        site, and reads at another or at a follower, so reads its own message. TimeoutError after `timeout` s.
        """
        check_position(start, "start")
        if at_least is not None:
            await self._reach(check_position(at_least, "at_least"), timeout)
        if stop is not None:
            check_position(stop, "stop")
        return await following.read(self._link, start, stop, bool(control))

    async def _reach(self, position: int, timeout: float | None) -> None:
        why = "" if timeout is None else f"position {position} can't be read here within {timeout} s"
        await in_time(check_timeout(timeout), self._link.fetch(position, 1, 1, wait=True), why)

    def headings(self, start: int = 0, stop: int | None = None) -> AsyncIterator[list[EntryBatch]]:
        """What is ordered now, from position `start` on and before `stop`, without the application's messages: for
        each batch, of any kind, its author, time and number of messages. The last one may go on beyond `stop`.

        For readers that need only the order and the authors' clocks. Raises Truncated as `read` does.
        """
        check_position(start, "start")
        if stop is not None:
            check_position(stop, "stop")
        return following.headings(self._link, start, stop)

    def staged(self, commit: int, ranges: Iterable[tuple[int, int]]) -> AsyncIterator[EntryBatch]:
        """Messages that the commit at position `commit` makes visible: of its ranges, (position, count) …, those that
        are given here. For readers of parts of a transaction; `follow` reads all of it in its place."""
        return following.staged(self._link, check_position(commit, "commit"), list(check_ranges(ranges, "ranges")))

    async def pending(self, most: int = FETCH_MESSAGES) -> list[Entry]:
        """What the site has that is not ordered yet: first the yellow messages, then the red ones, in their present
        order, which may change. At most the first 8,192, and about half a megabyte of them."""
        return (await self._link.pending(min(check_count(most, "most", 1), FETCH_MESSAGES)))[1]

    def colors(self, timeout: float | None = None) -> ColorChanges:
        """Changes of colour at the site, from now on: `async for`, or `async with` around it to end it at once.
        With `timeout`, it also ends when nothing changes for so many s. Raises Unavailable where the connection is
        lost, or the reader is too slow: then begin again with what `pending` returns."""
        return ColorChanges(self._link.colors(), timeout)

    async def barrier(self, timeout: float | None = None) -> int:
        """Waits until everything that was ordered anywhere when it was called is ordered here. Returns the position
        after it. In a component that can't order it waits: TimeoutError after `timeout` s."""
        why = "" if timeout is None else f"no barrier within {timeout} s: this component may not be able to order"
        return await in_time(timeout, self._link.barrier(), why)

    async def status(self) -> LogStatus:
        """What the site knows of the log."""
        return log_status(await self._link.status())

    # -- readers that remember

    def cursor(
        self,
        name: str,
        *,
        start: int = 0,
        lease: float = 10.0,
        who: str | None = None,
        timeout: float | None = None,
    ) -> Cursor:
        """`async with log.cursor("billing") as cursor:` reads the log from where the last reader of this name has
        committed. The position is kept in the log. One reader holds the cursor at a time; others wait.

        start: where a new cursor begins.
        lease: s, from 1 to 86,400. If its holder dies, another reader gets the cursor after this time and a tenth.
        who: the holder's name, for people; by default the host and the process.
        timeout: s to wait until the cursor is free. A name has up to 128 characters, a log up to 1,024 cursors.
        """
        return Cursor(self, self._link, name, start, lease, who, timeout)

    async def cursors(self) -> list[CursorInfo]:
        """The cursors of the log, by name, as far as this site knows."""
        found: list[CursorInfo] = []
        after = b""
        while rows := await self._link.cursors(after):
            after = rows[-1][0]
            for _, _, data in rows:
                note = decode_note(data)
                if note is not None:
                    found.append(CursorInfo(note.name, note.position, note.who or None, note.lease_s, note.term))
        return sorted(found, key=lambda cursor: cursor.name)

    async def drop_cursor(self, name: str, *, timeout: float | None = None) -> None:
        """Ends a cursor. If a reader holds it, this waits until that one releases it, or until its lease is over.
        Raises Rejected if there is no such cursor, TimedOut after `timeout` s: then it is still there."""
        session = cursor_session(check_cursor_name(name))
        check_timeout(timeout)
        found = await self._link.cursor(session)
        if found is None or decode_note(found[1]) is None:
            raise Rejected(f"there is no cursor {name!r}: reconvene log cursors lists them")
        async with self.cursor(name, timeout=timeout) as cursor:
            await cursor.drop()

    def run(self, machine: StateMachine, *, start: int = 0, snapshot_every: int = 0) -> Runner:
        """`async with log.run(machine) as runner:` applies the log to the state machine, in the background.

        start: the machine already has everything below this position.
        snapshot_every: after so many entries the machine makes a snapshot, which the site keeps under the machine's
        name, so that the log may be truncated and other sites need not begin at 0. From now on the log keeps what a
        machine of this name needs to start (`drop_snapshot` ends that). For admins. 0: never.
        """
        if not isinstance(machine, StateMachine):
            raise TypeError(f"machine: a reconvene.StateMachine expected, not {type(machine).__name__}")
        every = check_count(snapshot_every, "snapshot_every")
        return Runner(self, self._link, machine, check_position(start, "start"), every)

    # -- snapshots of state machines

    async def snapshot(self, name: str = UNNAMED) -> SnapshotInfo | None:
        """The newest snapshot of this name that the site keeps. None: there is none."""
        found = await self._link.snapshot(check_machine_name(name))
        return None if found is None else SnapshotInfo(*found, name)

    async def snapshots(self) -> dict[str, SnapshotInfo | None]:
        """The newest snapshot of each name in use at the site; None: it has none yet."""
        names = (await self.status()).snapshot.names
        return {
            name: None if one.position is None else SnapshotInfo(one.position, one.bytes, name)
            for name, one in names.items()
        }

    async def read_snapshot(self, name: str = UNNAMED) -> tuple[int, bytes] | None:
        """(position, data) of the newest snapshot of this name: the state after everything below the position."""
        return await self._link.read_snapshot(check_machine_name(name))

    async def save_snapshot(self, position: int, data: Data, *, name: str = UNNAMED) -> None:
        """Hands the site the state of the machine of this name after everything below `position`; returns when it is
        durable. What the snapshots of all names cover may be truncated then. Raises Rejected (too large, too many
        names, beyond the green line, no admin)."""
        check_machine_name(name)
        await self._link.save_snapshot(check_position(position, "position"), as_bytes(data), name)

    async def drop_snapshot(self, name: str) -> None:
        """Says that no machine of this name is run any more, at any site. Its snapshot is deleted, at this site
        and all that are connected to it, and truncation does not wait for it. Raises Rejected (no such name, no
        admin)."""
        await self._link.drop_snapshot(check_machine_name(name))

    # -- administration

    async def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> int:
        """Changes the set of replicas, through the log itself. Returns the position of the change, once it is
        ordered. `add` with `remove` replaces one by the other. Each change makes a new configuration; the next one
        waits for that, up to 5 s. For admins. Raises Rejected if the new set is not possible, Unavailable if the
        site is in no primary component."""
        if add is None and remove is None and quorum is None:
            raise InvalidArgument("add, remove or quorum expected")
        return await self._link.change_replicas(
            None if add is None else check_name(add, "add"),
            None if remove is None else check_name(remove, "remove"),
            None if quorum is None else check_quorum(quorum),
        )

    async def losses(self, lost: Sequence[str]) -> dict[str, object]:
        """What may be lost if these replicas are given up."""
        return await self._link.losses(check_names(lost, "lost"))

    async def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        """What losing these replicas would stop: whether the rest of this component could order (`orders`), and
        whether all other replicas together could (`orders_with_all`), each with a sentence."""
        return await self._link.whatif(check_names(lost, "lost"))

    async def init(self, without: Sequence[str] = ()) -> None:
        """Begins a new log. The sites that keep it are empty until then, and accept nothing. All of its replicas have
        to be connected, except those in `without`, of which you know that they hold no log. It begins a moment
        later: then `status().primary` is above 0. For admins."""
        await self._link.init(check_names(without, "without"))

    async def force_lost(self, lost: Sequence[str]) -> None:
        """Gives up replicas that are gone for good, if the others are no quorum. Look at `losses` first. A replica
        that was given up and comes back is a stranger. For admins."""
        await self._link.force_lost(check_names(lost, "lost"))


async def _failure(error: ReconveneError, appends: list[PendingAppend]) -> ReconveneError:
    """The outcome of the whole is unknown if that of a part is."""
    for pending in appends:
        with suppress(ReconveneError):
            await pending.accepted()
    errors = [pending.error for pending in appends]
    worst = next((other for other in errors if isinstance(other, OutcomeUnknown)), error)
    raised = type(worst)(str(worst))
    for pending, failed in zip(appends, errors, strict=True):
        if failed is not None:
            break
        raised.taken += pending.count
    return raised


def check_log(value: object) -> Log:
    if not isinstance(value, Log):
        raise TypeError(f"log: a site's log expected, as in site.log, not {type(value).__name__}")
    return value
