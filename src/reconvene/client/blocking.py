"""The same without asyncio: for scripts, threads, and executors of a data pipeline.

Made by scripts/blocking_api.py from the asynchronous classes: change those, then run it.
"""

import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from reconvene.client import colors as async_colors
from reconvene.client import connecting as async_connecting
from reconvene.client import cursor as async_cursor
from reconvene.client import isis as async_isis
from reconvene.client import isis_call as async_isis_call
from reconvene.client import log as async_log
from reconvene.client import receipts as async_receipts
from reconvene.client import runner as async_runner
from reconvene.client import session as async_session
from reconvene.client import site as async_site
from reconvene.client import staging as async_staging
from reconvene.client.addresses import Addresses
from reconvene.client.blocking_readers import FollowReader, GroupReader, IsisReader
from reconvene.client.connecting import INBOX_BYTES, INBOX_MESSAGES, TIMEOUT_S
from reconvene.client.cursor_record import CursorInfo
from reconvene.client.events import Process, View
from reconvene.client.group import Data
from reconvene.client.isis_events import GroupView, ProcessFailed, Reply, Unreachable
from reconvene.client.isis_state import Pair, StateProvider, VectorPair, VectorProvider
from reconvene.client.loop_thread import Opened, Twin, background, walked
from reconvene.client.positions import Positions
from reconvene.client.staging import Committed
from reconvene.client.state_machine import Failure, StateMachine
from reconvene.client.status import Health, IsisGroupStatus, LogStatus, SiteStatus
from reconvene.corel.clients.commits import Range
from reconvene.entries import ColorChange, Entry, EntryBatch, SnapshotInfo
from reconvene.ids import UNNAMED, Service
from reconvene.runtime.access.key_files import ClientKey
from reconvene.runtime.config.settings import Config
from reconvene.wire.client_log import FETCH_MESSAGES

__all__ = [
    "Call",
    "ColorChanges",
    "Cursor",
    "Follow",
    "Group",
    "Isis",
    "IsisGroup",
    "Log",
    "Receipt",
    "Receipts",
    "Runner",
    "Session",
    "Site",
    "Staging",
    "connect",
    "open",
]


@contextmanager
def open(config: Config | str | Path) -> Iterator["Site"]:  # noqa: A001
    """Runs a site in the background thread, from its configuration or the file that holds it.

    The site leaves its cluster when the block ends. Raises Malformed for a bad file, Unavailable where an address
    or the directory is in use.
    """
    from reconvene.client import local as async_local

    with background(lambda: async_local.open(config)) as (thread, site):
        yield Site(thread, site)


@contextmanager
def connect(
    addresses: Addresses,
    *,
    key: ClientKey | str | Path | None = None,
    key_name: str | None = None,
    tls: ssl.SSLContext | str | Path | bool = False,
    timeout: float = TIMEOUT_S,
    wait: float = 0.0,
    inbox_bytes: int = INBOX_BYTES,
    inbox_messages: int = INBOX_MESSAGES,
    return_to_first: bool = True,
) -> Iterator["Site"]:
    """A process of the first site of `addresses` that answers; of another one when that is lost.

    addresses: "unix:/run/site.sock" or its path, "tcp://host:port" or "host:port", one or several.
    key: for TCP, a client key, or the file that holds it, with its name there (`key_name`) unless it is the only
      one. It is never sent; without TLS it also encrypts the connection.
    tls: for TCP, True for the system's authorities, the file of the authority that signed the sites' certificates,
      or a context, which may present a certificate of its own.
    timeout: s. To connect to one address; for a request to find a connection; for every answer except a send's.
    wait: s. How long to try again at the start while no site answers; 0 tries each address once.
    inbox_bytes, inbox_messages: how much may wait here unread, for all groups together. Beyond that the fullest
      group is left.
    return_to_first: a client that is at another site than the first one of `addresses` goes back there, at a quiet
      moment, once that site works again. False: it stays where it is until that connection is lost.
    Raises Rejected where a site refuses, Unavailable where none answers (after a timeout also a TimeoutError).
    """
    with background(
        lambda: async_connecting.connect(
            addresses,
            key=key,
            key_name=key_name,
            tls=tls,
            timeout=timeout,
            wait=wait,
            inbox_bytes=inbox_bytes,
            inbox_messages=inbox_messages,
            return_to_first=return_to_first,
        )
    ) as (thread, site):
        yield Site(thread, site)


class Receipt(Twin[async_receipts.Receipt]):
    """Of one message."""

    @property
    def id(self) -> str | None:
        """AUTHOR:INCARNATION:COUNTER, as in the log. If the log had it before, the id that it got then; None where
        that is not known any more: the log was truncated, or the site remembers later messages only.
        """
        return self._inner.id

    @property
    def duplicate(self) -> bool:
        """The log had it before, from an earlier append under the same session and number."""
        return self._inner.duplicate

    def ordered(self, timeout: float | None = None) -> int:
        """Waits until it is ordered. Returns its position; of a duplicate, that of the first copy.

        Raises PlaceForgotten where it is a duplicate and the log no longer knows the position of the first copy;
        OutcomeUnknown where it is not ordered within `timeout` s (then also a TimeoutError), and where the log no
        longer knows whether it is.
        """
        return self._thread.run(self._inner.ordered(timeout))


class Receipts(Twin[async_receipts.Receipts]):
    """Of many messages that were appended together, in their order."""

    def __len__(self) -> int:
        return len(self._inner)

    @property
    def ids(self) -> list[str | None]:
        """Of each message. If the log had it before, the id that it got then; None where that is not known."""
        return self._inner.ids

    @property
    def duplicate(self) -> int:
        """How many of them the log had before, from an earlier append under the same session and numbers."""
        return self._inner.duplicate

    def ordered(self, timeout: float | None = None) -> Positions:
        """Waits until all of them are ordered. Returns their positions; of a duplicate, that of the first copy.

        Raises PlaceForgotten where all are ordered, and the log no longer knows the position of one that it had
        before; OutcomeUnknown where they are not ordered within `timeout` s (then also a TimeoutError), and where
        the log no longer knows whether they are.
        """
        return self._thread.run(self._inner.ordered(timeout))


class Session(Twin[async_session.Session]):
    """From `log.session`. Any number of threads may append.

    Each message has a number in the session, from 1 on. What the log has under a number it does not take again, from
    whichever program and at whichever site.

    With `after`, the session numbers by itself, from `after + 1` on. It remembers its numbers in memory only. A
    program that goes on with the same name after a restart has to know the last number that it used, as from its own
    storage; or it takes a new name for each run.
    """

    @property
    def name(self) -> bytes:
        return self._inner.name

    @property
    def last(self) -> int | None:
        """The highest number that the session gave to a message by itself, `after` at first. None without `after`."""
        return self._inner.last

    @property
    def unknown(self) -> list[int]:
        """Numbers of messages whose append ended without an answer. Append the same messages again under the same
        numbers: the log takes each once.
        """
        return self._inner.unknown

    def append(self, data: Data, *, number: int | None = None, timeout: float | None = None) -> "Receipt":
        """As `Log.append`. Without a number it is the next one.

        Where this raises OutcomeUnknown, `unknown` has the number. After any other error the number is used for the
        next message.
        """
        return Receipt(self._thread, self._thread.run(self._inner.append(data, number=number, timeout=timeout)))

    def append_many(
        self, payloads: Iterable[Data], *, number: int | None = None, timeout: float | None = None
    ) -> "Receipts":
        """As `Log.append_many`. Without a number the messages get the next ones; then `payloads` must have an end.

        Where this fails, `unknown` has the numbers of the messages that are not known to be taken.
        """
        return Receipts(
            self._thread, self._thread.run(self._inner.append_many(walked(payloads), number=number, timeout=timeout))
        )


class Follow(FollowReader):
    """An iterator over entries. Read it from one thread; a read that is cancelled loses nothing. The end of an
    `with` block drops what was read ahead.

    It reads ahead one chunk, of about half a megabyte. If the connection is lost, the next read waits until a site
    answers again, however long that takes. It goes on at the same position, at the same or another site: positions
    are the same everywhere. `Site.connected` says whether there is a connection now.
    """

    @property
    def control(self) -> bool:
        """Whether it also returns what is not the application's."""
        return self._inner.control

    def ready(self) -> bool:
        """Whether the next read need not wait."""
        return self._inner.ready()


class ColorChanges(Opened[async_colors.ColorChanges]):
    """From `log.colors`. Read it from one thread. The end of an `with` block ends the watch at the site."""

    def __iter__(self) -> Iterator[ColorChange]:
        return self._thread.iterate(self._inner)


class Staging(Opened[async_staging.Staging]):
    """From `log.staging`: one writer's part of a transaction. Use it from one thread. After the end of an `with`
    block nothing more can be staged; what no commit has named by then is never seen.
    """

    def put(self, payloads: Iterable[Data]) -> None:
        """Appends messages that nobody sees yet, in their order. Returns when they are on their way, and all but the
        last few megabytes are ordered. What a lost site may have is appended again at the next one: it may be in the
        log twice, and one of the two is committed.

        Raises OutcomeUnknown where for `timeout` s there is no room, or nothing is ordered; further as `append`.
        """
        self._thread.run(self._inner.put(walked(payloads)))

    def ordered(self) -> Positions:
        """Waits until all of them are ordered: where they are, for the commit.

        Raises Unavailable after the block if not all of them were ordered within it.
        """
        return self._thread.run(self._inner.ordered())


class Cursor(Opened[async_cursor.Cursor]):
    """From `log.cursor`. Use it from one thread, inside its `with` block: the block holds the cursor.

    Entries come at least once: those after the last commit come again, here or at the next holder. At the end of the
    block the cursor is released; nothing is committed by that.
    """

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def committed(self) -> int:
        """All below this position is committed."""
        return self._inner.committed

    @property
    def position(self) -> int:
        """All below this position was handed out: what `commit` commits."""
        return self._inner.position

    @property
    def term(self) -> int:
        """Rises with each hand-over: what was written elsewhere under a lower one is of an earlier holder."""
        return self._inner.term

    @property
    def held(self) -> bool:
        """Whether it is sure now that no other reader holds the cursor."""
        return self._inner.held

    def __iter__(self) -> Iterator[Entry]:
        return self._thread.iterate(self._inner)

    def entries(self, timeout: float | None = None) -> Iterator[Entry]:
        """As `for entry in cursor`; with `timeout`, it also ends when nothing comes for so many s."""
        return self._thread.iterate(self._inner.entries(timeout))

    def commit(self, position: int | None = None, *, timeout: float | None = None) -> None:
        """All that was handed out so far is done: it does not come again. Returns when that is ordered, and so
        survives whatever fails. Until then it waits, as in a component that can't order.

        position: all below it instead, also below what was handed out, but not below what is committed.
        Raises CursorLost where another reader holds the cursor: nothing was committed. OutcomeTimedOut where it is
        not ordered within `timeout` s: it may yet be.
        """
        self._thread.run(self._inner.commit(position, timeout=timeout))

    def drop(self) -> None:
        """The cursor is no more; a later one of its name begins anew. The block ends with that."""
        self._thread.run(self._inner.drop())


class Runner(Opened[async_runner.Runner]):
    """From `log.run`. The end of its `with` block ends it.

    The state machine is called in the background thread: read its state between calls of `applied` and
    `caught_up`, or guard it by a lock of its own.
    """

    @property
    def machine(self) -> StateMachine:
        return self._inner.machine

    @property
    def snapshot_trouble(self) -> str | None:
        """Why the last snapshot could not be saved. None: it was, or there was none yet."""
        return self._inner.snapshot_trouble

    @property
    def position(self) -> int:
        """Everything below it is applied."""
        return self._inner.position

    @property
    def failed(self) -> Failure | None:
        return self._inner.failed

    def applied(self, position: int, timeout: float | None = None) -> None:
        """Waits until the entry at `position` is applied, also while the site is away.

        Raises TimeoutError where that is not so within `timeout` s, Unavailable where the machine has stopped before.
        """
        self._thread.run(self._inner.applied(position, timeout))

    def append(
        self, command: bytes, *, ordered: bool, session: bytes | None = None, number: int | None = None
    ) -> "Receipt":
        """For the machine's own commands. With `ordered`: waits until it is applied here.

        Raises as `Log.append`: Unavailable where nothing was appended, OutcomeUnknown where the machine stops, or
        the site does not answer, after it was.
        """
        return Receipt(
            self._thread,
            self._thread.run(self._inner.append(command, ordered=ordered, session=session, number=number)),
        )

    def caught_up(self, timeout: float | None = None) -> None:
        """An ordered read: waits until everything that was ordered anywhere is applied. As `Log.barrier`:
        TimeoutError after `timeout` s.
        """
        self._thread.run(self._inner.caught_up(timeout))

    def optimistic(self, timeout: float | None = None) -> StateMachine:
        """The state as it would be if all that is pending at the site were ordered as it stands: a copy. An entry
        that makes its `apply` raise is left out of it. Raises TimeoutError where the site does not answer in the
        connection's timeout, and where the machine has not applied what the site has within `timeout` s.
        """
        return self._thread.run(self._inner.optimistic(timeout))


class Log(Twin[async_log.Log]):
    """Of `Site.log`. Any number of threads may append and read."""

    def append(
        self, data: Data, *, session: bytes | None = None, number: int | None = None, timeout: float | None = None
    ) -> "Receipt":
        """Appends one message. Returns when it is durable at the site. `receipt.ordered()` gets its position.

        It is accepted in any component, at any time. While the site has no room, or the connection is lost, this
        waits and tries again, at other sites too; the message is taken once.
        session, number: the program's own name for a sequence of messages, up to 64 bytes, and this one's number in
        it, from 1 on. What the log has under them it does not take again, even after a restart of the program.
        timeout: s. Raises OutcomeUnknown if the message is not durable by then. Also raises Rejected (too large, not
        this client's role, no replica at the site; the number was taken with other data, or would leave too many
        gaps), Unavailable (nothing happened: the disk, no connection in time), OutcomeUnknown (the connection was
        lost, and there was no other in time).
        """
        return Receipt(
            self._thread, self._thread.run(self._inner.append(data, session=session, number=number, timeout=timeout))
        )

    def session(self, name: bytes, *, after: int | None = None) -> "Session":
        """For messages that are taken once, however often and at however many sites they are appended:
        `log.session(b"till 7").append(data, number=8)`.

        name: the program's own, up to 64 bytes.
        after: the last number that was used under this name, 0 for none: then the session numbers by itself.
        """
        return Session(self._thread, self._inner.session(name, after=after))

    def append_many(
        self,
        payloads: Iterable[Data],
        *,
        session: bytes | None = None,
        number: int | None = None,
        timeout: float | None = None,
    ) -> "Receipts":
        """The same for many, in their order. Returns one receipt for all of them, with no object for each.

        `payloads` may be lazy: no more of it is taken than there is room for. Where it fails, those before the
        failure may have been appended: the error's `taken` says how many are known to be.
        """
        return Receipts(
            self._thread,
            self._thread.run(
                self._inner.append_many(walked(payloads), session=session, number=number, timeout=timeout)
            ),
        )

    def staging(self, timeout: float | None = None) -> "Staging":
        """For messages that no reader sees until a commit names them. timeout: s, for each step."""
        return Staging(self._thread, self._inner.staging(timeout))

    def commit(
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
        return self._thread.run(
            self._inner.commit(
                walked(places), name=name, version=version, index=walked(index), previous=previous, timeout=timeout
            )
        )

    def last_commit(self, name: str) -> tuple[int, int] | None:
        """(version, position) of a transaction's last commit that counts, as far as this site knows; after a
        `barrier`, of all commits. None: there is none.
        """
        return self._thread.run(self._inner.last_commit(name))

    def follow(self, start: int = 0, *, stop: int | None = None, control: bool = False) -> "Follow":
        """Entries in order, from position `start` on, as they are ordered; up to `stop`, if it is given.

        control: also returns what is not the application's: changes of the replicas, void messages, and transactions
        as they are stored in the log.
        """
        return Follow(self._thread, self._inner.follow(start, stop=stop, control=control))

    def read(
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
        return self._thread.run(self._inner.read(start, stop, control=control, at_least=at_least, timeout=timeout))

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[list[EntryBatch]]:
        """What is ordered now, from position `start` on and before `stop`, without the application's messages: for
        each batch, of any kind, its author, time and number of messages. The last one may go on beyond `stop`.

        For readers that need only the order and the authors' clocks. Raises Truncated as `read` does.
        """
        return self._thread.iterate(self._inner.headings(start, stop))

    def staged(self, commit: int, ranges: Iterable[tuple[int, int]]) -> Iterator[EntryBatch]:
        """Messages that the commit at position `commit` makes visible: of its ranges, (position, count) …, those that
        are given here. For readers of parts of a transaction; `follow` reads all of it in its place.
        """
        return self._thread.iterate(self._inner.staged(commit, walked(ranges)))

    def pending(self, most: int = FETCH_MESSAGES) -> list[Entry]:
        """What the site has that is not ordered yet: first the yellow messages, then the red ones, in their present
        order, which may change. At most the first 8,192, and about half a megabyte of them.
        """
        return self._thread.run(self._inner.pending(most))

    def colors(self, timeout: float | None = None) -> "ColorChanges":
        """Changes of colour at the site, from now on: `for`, or `with` around it to end it at once.
        With `timeout`, it also ends when nothing changes for so many s. Raises Unavailable where the connection is
        lost, or the reader is too slow: then begin again with what `pending` returns.
        """
        return ColorChanges(self._thread, self._inner.colors(timeout))

    def barrier(self, timeout: float | None = None) -> int:
        """Waits until everything that was ordered anywhere when it was called is ordered here. Returns the position
        after it. In a component that can't order it waits: TimeoutError after `timeout` s.
        """
        return self._thread.run(self._inner.barrier(timeout))

    def status(self) -> LogStatus:
        """What the site knows of the log."""
        return self._thread.run(self._inner.status())

    def cursor(
        self, name: str, *, start: int = 0, lease: float = 10.0, who: str | None = None, timeout: float | None = None
    ) -> "Cursor":
        """`with log.cursor("billing") as cursor:` reads the log from where the last reader of this name has
        committed. The position is kept in the log. One reader holds the cursor at a time; others wait.

        start: where a new cursor begins.
        lease: s, from 1 to 86,400. If its holder dies, another reader gets the cursor after this time and a tenth.
        who: the holder's name, for people; by default the host and the process.
        timeout: s to wait until the cursor is free. A name has up to 128 characters, a log up to 1,024 cursors.
        """
        return Cursor(self._thread, self._inner.cursor(name, start=start, lease=lease, who=who, timeout=timeout))

    def cursors(self) -> list[CursorInfo]:
        """The cursors of the log, by name, as far as this site knows."""
        return self._thread.run(self._inner.cursors())

    def drop_cursor(self, name: str, *, timeout: float | None = None) -> None:
        """Ends a cursor. If a reader holds it, this waits until that one releases it, or until its lease is over.
        Raises Rejected if there is no such cursor, TimedOut after `timeout` s: then it is still there.
        """
        self._thread.run(self._inner.drop_cursor(name, timeout=timeout))

    def run(self, machine: StateMachine, *, start: int = 0, snapshot_every: int = 0) -> "Runner":
        """`with log.run(machine) as runner:` applies the log to the state machine, in the background.

        start: the machine already has everything below this position.
        snapshot_every: after so many entries the machine makes a snapshot, which the site keeps under the machine's
        name, so that the log may be truncated and other sites need not begin at 0. From now on the log keeps what a
        machine of this name needs to start (`drop_snapshot` ends that). For admins. 0: never.
        """
        return Runner(self._thread, self._inner.run(machine, start=start, snapshot_every=snapshot_every))

    def snapshot(self, name: str = UNNAMED) -> SnapshotInfo | None:
        """The newest snapshot of this name that the site keeps. None: there is none."""
        return self._thread.run(self._inner.snapshot(name))

    def snapshots(self) -> dict[str, SnapshotInfo | None]:
        """The newest snapshot of each name in use at the site; None: it has none yet."""
        return self._thread.run(self._inner.snapshots())

    def read_snapshot(self, name: str = UNNAMED) -> tuple[int, bytes] | None:
        """(position, data) of the newest snapshot of this name: the state after everything below the position."""
        return self._thread.run(self._inner.read_snapshot(name))

    def save_snapshot(self, position: int, data: Data, *, name: str = UNNAMED) -> None:
        """Hands the site the state of the machine of this name after everything below `position`; returns when it is
        durable. What the snapshots of all names cover may be truncated then. Raises Rejected (too large, too many
        names, beyond the green line, no admin).
        """
        self._thread.run(self._inner.save_snapshot(position, data, name=name))

    def drop_snapshot(self, name: str) -> None:
        """Says that no machine of this name is run any more, at any site. Its snapshot is deleted, at this site
        and all that are connected to it, and truncation does not wait for it. Raises Rejected (no such name, no
        admin).
        """
        self._thread.run(self._inner.drop_snapshot(name))

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> int:
        """Changes the set of replicas, through the log itself. Returns the position of the change, once it is
        ordered. `add` with `remove` replaces one by the other. Each change makes a new configuration; the next one
        waits for that, up to 5 s. For admins. Raises Rejected if the new set is not possible, Unavailable if the
        site is in no primary component.
        """
        return self._thread.run(self._inner.change_replicas(add=add, remove=remove, quorum=quorum))

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        """What may be lost if these replicas are given up."""
        return self._thread.run(self._inner.losses(lost))

    def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        """What losing these replicas would stop: whether the rest of this component could order (`orders`), and
        whether all other replicas together could (`orders_with_all`), each with a sentence.
        """
        return self._thread.run(self._inner.whatif(lost))

    def init(self, without: Sequence[str] = ()) -> None:
        """Begins a new log. The sites that keep it are empty until then, and accept nothing. All of its replicas have
        to be connected, except those in `without`, of which you know that they hold no log. It begins a moment
        later: then `status().primary` is above 0. For admins.
        """
        self._thread.run(self._inner.init(without))

    def force_lost(self, lost: Sequence[str]) -> None:
        """Gives up replicas that are gone for good, if the others are no quorum. Look at `losses` first. A replica
        that was given up and comes back is a stranger. For admins.
        """
        self._thread.run(self._inner.force_lost(lost))


class Group(GroupReader):
    """From `Site.join`. Read it from one thread; send from as many as you like. The end of an `with` block leaves
    the group.

    Several threads may read: each event goes to one of them.
    """

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def me(self) -> Process:
        """This process, as other members see it."""
        return self._inner.me

    @property
    def view(self) -> View:
        """The last view that was read here; after `join`, the first one. Raises Unavailable before the first view:
        a group with `primary=True` that is joined outside of the primary component has none.
        """
        return self._inner.view

    @property
    def blocked(self) -> bool:
        """Outside of the primary component, in a group with `primary=True`."""
        return self._inner.blocked

    def send(
        self,
        data: Data,
        service: Service | str = Service.AGREED,
        to: Iterable[Process | str] | None = None,
        *,
        scope: str | None = None,
    ) -> None:
        """Hands one message to the site, and waits only if the site has no room or is far away.

        To every member of the group, or to those in `to`. In a wide group, scope="cluster" keeps it in this cluster.
        When it returns the site has the message; it was delivered when it comes back here. Raises Rejected (too
        large), Unavailable (blocked, left, no site), OutcomeUnknown (the connection broke before the answer).
        """
        self._thread.run(self._inner.send(data, service, walked(to), scope=scope))

    def leave(self) -> None:
        """The others get a view without this process; here the iteration ends where that is delivered."""
        self._thread.run(self._inner.leave())


class Call(Twin[async_isis_call.Call]):
    """From `cbcast`, `abcast` and `gbcast`. `for reply in call` yields a Reply of each destination that
    answers, and a ProcessFailed of each that fails before it does, as they come; an Unreachable of each whose cluster
    is out of reach. It ends when as many have come as were asked for. A cast that asks for no replies has none.
    """

    @property
    def id(self) -> str:
        """SITE:INCARNATION:COUNTER of the cast, unique in the cluster; the same in traces. Of a cast to several
        clusters: CLUSTER/SITE:INCARNATION:COUNTER.
        """
        return self._inner.id

    def __iter__(self) -> Iterator[Reply | ProcessFailed | Unreachable]:
        return self._thread.iterate(self._inner)

    def replies(self) -> list[Reply | ProcessFailed | Unreachable]:
        """All that come, in a list."""
        return self._thread.run(self._inner.replies())

    def first(self) -> Reply:
        """The first reply. Raises OutcomeUnknown where every destination failed, or got out of reach, before it
        answered.
        """
        return self._thread.run(self._inner.first())


class IsisGroup(Opened[async_isis.IsisGroup]):
    """From `Isis.join`. The end of an `with` block leaves the group."""

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def view(self) -> GroupView:
        """The last view that was read; after `join`, the first one. Raises Unavailable once this process is not in
        the group any more.
        """
        return self._inner.view

    def cbcast(
        self,
        data: Data,
        *,
        label: str | Mapping[str, int] | None = None,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> "Call":
        """`Isis.cbcast` to the members of this group, this process included."""
        return Call(
            self._thread,
            self._thread.run(self._inner.cbcast(data, label=label, replies=replies, wide=wide, timeout=timeout)),
        )

    def cbcast_many(self, payloads: Iterable[Data], *, label: str | Mapping[str, int] | None = None) -> int:
        """`Isis.cbcast_many` to the members of this group."""
        return self._thread.run(self._inner.cbcast_many(walked(payloads), label=label))

    def abcast(
        self,
        data: Data,
        *,
        label: str = "",
        causal: bool = False,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> "Call":
        """`Isis.abcast` to the members of this group."""
        return Call(
            self._thread,
            self._thread.run(
                self._inner.abcast(data, label=label, causal=causal, replies=replies, wide=wide, timeout=timeout)
            ),
        )

    def gbcast(self, data: Data, *, timeout: float | None = None) -> "Call":
        """`Isis.gbcast` to the members of this group."""
        return Call(self._thread, self._thread.run(self._inner.gbcast(data, timeout=timeout)))

    def rank(self, order: Iterable[Process | str], timeout: float | None = None) -> None:
        """Gives the members other ranks, the first the lowest: the next view shows it. Raises Rejected where this is
        no permutation of the members. One that is none when its turn comes is ignored by all.
        """
        self._thread.run(self._inner.rank(walked(order), timeout))

    def set(self, **properties: Data) -> None:
        """Sets properties of the group, which come with its views."""
        self._thread.run(self._inner.set(**properties))

    def delete(self) -> None:
        """All members leave the group, at the same place of the order; each reads GroupLeft."""
        self._thread.run(self._inner.delete())

    def leave(self, timeout: float | None = None) -> None:
        """Returns when this process has left: all that it cast to the group was received before. The program still
        reads what came before that; GroupLeft follows it.
        """
        self._thread.run(self._inner.leave(timeout))


class Isis(IsisReader):
    """From `Site.isis`. Cast from as many tasks as you like; read events from one.

    The process begins with the first request. What it receives waits until it is read, up to a limit; beyond that it
    is cut off.

    Several threads may read: each event goes to one of them. Where state is given and taken, one thread reads:
    `give` and `take` are called in the background thread, `give` while that one waits for its next event.
    """

    def open(self, name: str = "") -> Process:
        """Begins the process, if it has not begun. Returns its identity. `name` is for traces."""
        return self._thread.run(self._inner.open(name))

    @property
    def me(self) -> Process:
        """This process, as others see it; another one after `Killed`. Raises Unavailable before it has begun."""
        return self._inner.me

    @property
    def wide_me(self) -> Process:
        """This process as other clusters know it, written as "berlin/a:1:7". Raises Unavailable before it has
        begun.
        """
        return self._inner.wide_me

    def site_number(self, process: Process | str) -> int:
        """The place of a process's site in the list of the cluster's sites, from 0: the same at all sites."""
        return self._inner.site_number(process)

    def join(
        self,
        group: str,
        *,
        state: StateProvider | Pair | None = None,
        vector: VectorProvider | VectorPair | None = None,
        answers: bool = True,
        last_to_fail: bool = False,
        wide: bool = False,
        timeout: float | None = None,
    ) -> "IsisGroup":
        """Joins a group, and waits for the first view with this process in it, and for the group's state. `with
        isis.join("bank") as bank:` leaves it at the end of the block.

        state: gives this member's state to newcomers, and takes the group's: an object with `give()` and
        `take(chunks)`, or a pair of functions. What is received meanwhile is held back.
        vector: the same, but `take` gets a contribution of every member.
        answers: False for one that only listens: where all are asked to reply, its site does, with nothing. Where one
        or some replies are asked for, they come from others.
        last_to_fail: views are on stable storage before they are seen. Where all members have failed, this waits for
        those that failed last.
        wide: processes of other clusters can cast to this one by the group's name, with `wide=True` (see domains.md).
        Views are those of this cluster all the same.
        timeout: s. Raises TimeoutError where it is not joined by then; then it is not joined.
        Also raises Rejected for a group that this process is in, and for a wide one that does not leave the cluster;
        Unavailable at a limit, and where the process is killed meanwhile. Outside of the primary component it waits.
        """
        return IsisGroup(
            self._thread,
            self._thread.run(
                self._inner.join(
                    group,
                    state=state,
                    vector=vector,
                    answers=answers,
                    last_to_fail=last_to_fail,
                    wide=wide,
                    timeout=timeout,
                )
            ),
        )

    def groups(self, *, wide: bool = False) -> list[IsisGroupStatus]:
        """All groups that have members, with their members and properties. `wide`: those that were joined with
        `wide=True`, with their members in all connected clusters, as far as the site knows; they have no views.
        """
        return self._thread.run(self._inner.groups(wide=wide))

    def set_properties(self, group: str, properties: Mapping[str, Data]) -> None:
        """Sets properties of a group, which come with its views. This process need not be in it. Returns when that is
        announced. Raises Rejected where there is no such group.
        """
        self._thread.run(self._inner.set_properties(group, properties))

    def delete(self, group: str) -> None:
        """All members leave the group, at the same place of the order; each reads GroupLeft. This process need not be
        one of them. Returns when that is announced. Raises Rejected where there is no such group.
        """
        self._thread.run(self._inner.delete(group))

    def cbcast(
        self,
        data: Data,
        to: str | Iterable[Process | str],
        *,
        label: str | Mapping[str, int] | None = None,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> "Call":
        """Sends one message, which every destination receives after all that precedes it.

        to: a group, or processes. Those of other clusters are named with their cluster: "paris/b:1:7".
        wide: to the members of the group in all connected clusters that have joined it with `wide=True`.
        label: what it is ordered after: of None, everything that this process has sent and received without a label;
        of a text, everything with the same one; UNORDERED: nothing. Or numbers by component: see docs/isis.md.
        replies: how many replies are asked for, ALL for one of each destination. A destination that fails counts as
        one, and so does one whose cluster is out of reach.
        timeout: s, for all of it: until it is sent, and until the replies have come.

        Returns when the site has taken it: at once, unless the group is just gaining a member, or as much is under
        way as may be. Raises Rejected (no such group, nobody to send to, too large), Unavailable (not in the primary
        component, all destinations out of reach, or killed before it was sent), OutcomeUnknown (the connection broke,
        or the time is over).
        """
        return Call(
            self._thread,
            self._thread.run(
                self._inner.cbcast(data, walked(to), label=label, replies=replies, wide=wide, timeout=timeout)
            ),
        )

    def cbcast_many(
        self,
        payloads: Iterable[Data],
        to: str | Iterable[Process | str],
        *,
        label: str | Mapping[str, int] | None = None,
    ) -> int:
        """The same for many, within the cluster, in their order, without replies: many of them go together, which
        costs far less. Waits for room as it goes. Returns how many were sent.

        `payloads` may be endless or lazy: no more of it is taken than there is room for. Where it fails, those before
        the failure may have been sent: the error's `taken` says how many are known to be.
        """
        return self._thread.run(self._inner.cbcast_many(walked(payloads), walked(to), label=label))

    def abcast(
        self,
        data: Data,
        to: str | Iterable[Process | str],
        *,
        label: str = "",
        causal: bool = False,
        replies: int = 0,
        wide: bool = False,
        timeout: float | None = None,
    ) -> "Call":
        """As `cbcast`, but all destinations receive the ABCASTs of one label in one order. `causal`: also after all
        that precedes it; not to other clusters. Those to other clusters and those within the cluster have no common
        order.
        """
        return Call(
            self._thread,
            self._thread.run(
                self._inner.abcast(
                    data, walked(to), label=label, causal=causal, replies=replies, wide=wide, timeout=timeout
                )
            ),
        )

    def gbcast(self, data: Data, to: str, *, wide: bool = False, timeout: float | None = None) -> "Call":
        """Sends one message to a group, which all members receive at the same place among all other casts and views:
        as an Action. `wide` is refused: a GBCAST stays in its cluster.
        """
        return Call(self._thread, self._thread.run(self._inner.gbcast(data, to, wide=wide, timeout=timeout)))

    def flush(self, timeout: float | None = None) -> None:
        """Returns when all that this process has cast, and all that it has received, has reached all its
        destinations. Raises OutcomeTimedOut after `timeout` s, Unavailable where the process is blocked, or killed
        meanwhile.
        """
        self._thread.run(self._inner.flush(timeout))

    def watch(self, process: Process | str) -> None:
        """Has this process read a ProcessFailed when the other one is over: when it or its site has failed, or when
        it was closed. At once, where it is over by now. Nothing of it is read after that. Returns when the site has
        taken it. A watch ends with this process, also where it is killed. Watching it twice changes nothing.

        Of a process of another cluster ("paris/b:1:7"), it reads what that cluster says; Unreachable while that is
        out of reach, Reachable when it is back; WatchRefused where that cluster has no such site, or no room.

        Raises Rejected where the site can't watch processes, Unavailable where this process is blocked, or watches
        1,024 others; or where the other cluster is out of reach.
        """
        self._thread.run(self._inner.watch(process))


class Site(Twin[async_site.Site]):
    """One process of a site. From `reconvene.open` or `reconvene.connect`."""

    @property
    def name(self) -> str:
        """Of the site; another one after a client has failed over."""
        return self._inner.name

    @property
    def connected(self) -> bool:
        """False while a client whose connection was lost looks for another."""
        return self._inner.connected

    @property
    def cluster(self) -> str:
        return self._inner.cluster

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of all sites of the cluster, whether they can be reached or not."""
        return self._inner.sites

    @cached_property
    def log(self) -> "Log":
        """The durable, totally ordered log. Raises Rejected where the site takes no part in it."""
        return Log(self._thread, self._inner.log)

    @cached_property
    def isis(self) -> "Isis":
        """Process groups in the manner of ISIS, as one process. Raises Rejected where the site takes no part in
        them; a client behind a socket gets that with its first request.
        """
        return Isis(self._thread, self._inner.isis)

    def join(
        self,
        name: str,
        *,
        primary: bool = False,
        receive: bool = True,
        wide: bool = False,
        timeout: float | None = None,
    ) -> "Group":
        """Joins a group, and waits for the first view with this process in it. `with site.join("x") as
        group:` leaves it at the end of the block.

        primary: with the virtual-synchrony filter: the group exists in the primary component only, and a process
        outside of it gets Blocked. All members of a group have to agree on this.
        wide: the group spans all joined clusters (see domains.md): its views are WideViews, and only messages sent to
        it as a wide group reach it. Can't be combined with primary.
        receive: False for a process that only sends: messages are not kept for it, and it need not read.
        timeout: s. Raises TimeoutError if there is no view by then; the group is not joined.
        Also raises Rejected for a group that this process is in, and Unavailable at a limit.
        """
        return Group(
            self._thread,
            self._thread.run(self._inner.join(name, primary=primary, receive=receive, wide=wide, timeout=timeout)),
        )

    def status(self) -> SiteStatus:
        """What the site is doing."""
        return self._thread.run(self._inner.status())

    def health(self) -> Health:
        """Whether the site is together with a majority of the sites."""
        return self._thread.run(self._inner.health())

    def block(self, incoming: Iterable[str] = (), outgoing: Iterable[str] = ()) -> None:
        """Fault injection: from now on the site drops datagrams from, and to, these sites, and no others.

        Raises Rejected where the configuration does not allow it, or the client is no admin.
        """
        self._thread.run(self._inner.block(walked(incoming), walked(outgoing)))

    def stop(self) -> None:
        """Asks the site to leave its cluster and end. Raises Rejected where the client is no admin."""
        self._thread.run(self._inner.stop())
