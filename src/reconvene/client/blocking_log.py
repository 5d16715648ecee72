"""The log without asyncio: the twins of `client.log`, each call of which waits."""

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from reconvene.client import follow as following
from reconvene.client import log as asynchronous
from reconvene.client import receipts
from reconvene.client import runner as running
from reconvene.client import staging as stagings
from reconvene.client.group import Data
from reconvene.client.positions import Positions
from reconvene.client.staging import Committed
from reconvene.client.state_machine import Failure, StateMachine
from reconvene.corel.clients.commits import Range
from reconvene.entries import ColorChange, Entry, EntryBatch, SnapshotInfo
from reconvene.errors import Unavailable
from reconvene.ids import UNNAMED
from reconvene.wire.client_log import FETCH_MESSAGES

__all__ = ["Follow", "Log", "Receipt", "Receipts", "Runner", "Staging", "Thread"]

T = TypeVar("T")


class Thread(Protocol):
    """The event loop in the background."""

    over: bool

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T: ...


class Receipt:
    """As `reconvene.Receipt`."""

    def __init__(self, thread: Thread, receipt: receipts.Receipt) -> None:
        self._thread = thread
        self._receipt = receipt

    @property
    def id(self) -> str | None:
        return self._receipt.id

    @property
    def again(self) -> bool:
        return self._receipt.again

    def ordered(self, timeout: float | None = None) -> int:
        return self._thread.run(self._receipt.ordered(timeout))

    def __repr__(self) -> str:
        return repr(self._receipt)


class Receipts:
    """As `reconvene.Receipts`."""

    def __init__(self, thread: Thread, receipts: receipts.Receipts) -> None:
        self._thread = thread
        self._receipts = receipts

    def __len__(self) -> int:
        return len(self._receipts)

    @property
    def ids(self) -> list[str | None]:
        return self._receipts.ids

    @property
    def again(self) -> int:
        return self._receipts.again

    def ordered(self, timeout: float | None = None) -> Positions:
        return self._thread.run(self._receipts.ordered(timeout))


class Follow:
    """As `reconvene.client.follow.Follow`: read it from one thread."""

    def __init__(self, thread: Thread, follow: following.Follow) -> None:
        self._thread = thread
        self._follow = follow
        self._control = follow.control
        self._entries: Iterator[Entry] = iter(())
        self._begun: EntryBatch | None = None
        """What they come from."""
        self._position = follow.position

    @property
    def position(self) -> int:
        return self._position

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def entries(self, timeout: float | None = None) -> Iterator[Entry]:
        """Until `stop`; with `timeout`, also until nothing comes for so many s."""
        while True:
            for entry in self._entries:
                assert self._begun is not None, "it is where entries come from"
                self._position = self._begun.passed(entry.position + 1)
                yield entry
            if self._begun is not None:
                self._position, self._begun = self._begun.next, None
            batch = self._next(timeout)
            if batch is None:
                return
            self._begun, self._entries = batch, batch.entries(self._control)

    def batches(self, timeout: float | None = None) -> Iterator[EntryBatch]:
        """The same with many entries at a time."""
        while (batch := self._next(timeout)) is not None:
            self._position = batch.next
            yield batch

    def next_batch(self, timeout: float | None = None) -> EntryBatch | None:
        """None at the end. Raises TimeoutError where nothing comes in `timeout` s."""
        return self._passed(self._thread.run(self._follow.next_batch(), timeout))

    def next_of_any_kind(self, timeout: float | None = None) -> EntryBatch | None:
        return self._passed(self._thread.run(self._follow.next_of_any_kind(), timeout))

    def _passed(self, batch: EntryBatch | None) -> EntryBatch | None:
        if batch is not None:
            self._position = batch.next
        return batch

    def ready(self) -> bool:
        return self._follow.ready()

    def _next(self, timeout: float | None) -> EntryBatch | None:
        try:
            return self._thread.run(self._follow.next_batch(), timeout)
        except TimeoutError:
            return None
        except Unavailable:
            if self._thread.over:
                return None
            raise


class Staging:
    """As `reconvene.client.staging.Staging`: use it from one thread."""

    def __init__(self, thread: Thread, staging: stagings.Staging) -> None:
        self._thread = thread
        self._staging = staging

    def put(self, payloads: Iterable[Data]) -> None:
        """`payloads` is walked through first, in this thread; what goes on its way goes on after that."""
        self._thread.run(self._staging.put(list(payloads)))

    def ordered(self) -> Positions:
        return self._thread.run(self._staging.ordered())


class Runner:
    """As `reconvene.Runner`. The state machine is called in the background thread: read its state between calls of
    `applied` and `caught_up`, or guard it by a lock of its own."""

    def __init__(self, thread: Thread, runner: running.Runner) -> None:
        self._thread = thread
        self._runner = runner

    def __enter__(self) -> Self:
        self._thread.run(self._runner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._thread.over:
            self._thread.run(self._runner.__aexit__(None, None, None))

    @property
    def machine(self) -> StateMachine:
        return self._runner.machine

    @property
    def position(self) -> int:
        return self._runner.position

    @property
    def failed(self) -> Failure | None:
        return self._runner.failed

    @property
    def snapshot_trouble(self) -> str | None:
        return self._runner.snapshot_trouble

    def applied(self, position: int, timeout: float | None = None) -> None:
        """Raises TimeoutError where it is not in `timeout` s."""
        self._thread.run(self._runner.applied(position, timeout))

    def append(
        self, command: bytes, *, ordered: bool, session: bytes | None = None, number: int | None = None
    ) -> Receipt:
        """For the machine's own commands. With `ordered`: waits until it is applied here."""
        appending = self._runner.append(command, ordered=ordered, session=session, number=number)
        return Receipt(self._thread, self._thread.run(appending))

    def caught_up(self, timeout: float | None = None) -> None:
        self._thread.run(self._runner.caught_up(timeout))

    def optimistic(self, timeout: float | None = None) -> StateMachine:
        return self._thread.run(self._runner.optimistic(timeout))


class Log:
    """As `reconvene.Log`."""

    def __init__(self, thread: Thread, log: asynchronous.Log) -> None:
        self._thread = thread
        self._log = log

    def append(
        self, data: Data, *, session: bytes | None = None, number: int | None = None, timeout: float | None = None
    ) -> Receipt:
        work = self._log.append(data, session=session, number=number, timeout=timeout)
        return Receipt(self._thread, self._thread.run(work))

    def append_many(
        self,
        payloads: Iterable[Data],
        *,
        session: bytes | None = None,
        number: int | None = None,
        timeout: float | None = None,
    ) -> Receipts:
        """`payloads` is walked through first, in this thread, so it must have an end."""
        work = self._log.append_many(list(payloads), session=session, number=number, timeout=timeout)
        return Receipts(self._thread, self._thread.run(work))

    def staging(self, timeout: float | None = None) -> Staging:
        return Staging(self._thread, self._log.staging(timeout))

    def commit(
        self,
        places: Iterable[Range],
        *,
        name: str | None = None,
        version: int = 0,
        index: Iterable[Range] = (),
        previous: int | None = None,
        timeout: float | None = None,
    ) -> Committed:
        return self._thread.run(
            self._log.commit(
                list(places), name=name, version=version, index=list(index), previous=previous, timeout=timeout
            )
        )

    def last_commit(self, name: str) -> tuple[int, int] | None:
        return self._thread.run(self._log.last_commit(name))

    def follow(self, start: int = 0, *, stop: int | None = None, control: bool = False) -> Follow:
        return Follow(self._thread, self._log.follow(start, stop=stop, control=control))

    def read(self, start: int = 0, stop: int | None = None, *, control: bool = False) -> list[Entry]:
        return self._thread.run(self._log.read(start, stop, control=control))

    def headings(self, start: int = 0, stop: int | None = None) -> Iterator[list[EntryBatch]]:
        found = self._log.headings(start, stop)
        while (some := self._thread.run(_next_some(found))) is not None:
            yield some

    def staged(self, commit: int, ranges: Iterable[tuple[int, int]]) -> Iterator[EntryBatch]:
        found = self._log.staged(commit, ranges)
        while (batch := self._thread.run(_next_some(found))) is not None:
            yield batch

    def pending(self, most: int = FETCH_MESSAGES) -> list[Entry]:
        return self._thread.run(self._log.pending(most))

    def colors(self, timeout: float | None = None) -> Iterator[ColorChange]:
        """With `timeout`, also until nothing comes for so many s."""
        changes = self._log.colors()
        try:
            while True:
                try:
                    change = self._thread.run(_next(changes), timeout)
                except TimeoutError:
                    return
                if change is None:
                    return
                yield change
        finally:
            if not self._thread.over:
                self._thread.run(changes.aclose())

    def barrier(self, timeout: float | None = None) -> int:
        return self._thread.run(self._log.barrier(timeout))

    def status(self) -> dict[str, object]:
        return self._thread.run(self._log.status())

    def run(self, machine: StateMachine, *, start: int = 0, snapshot_every: int = 0) -> Runner:
        return Runner(self._thread, self._log.run(machine, start=start, snapshot_every=snapshot_every))

    def snapshot(self, name: str = UNNAMED) -> SnapshotInfo | None:
        return self._thread.run(self._log.snapshot(name))

    def snapshots(self) -> dict[str, SnapshotInfo | None]:
        return self._thread.run(self._log.snapshots())

    def read_snapshot(self, name: str = UNNAMED) -> tuple[int, bytes] | None:
        return self._thread.run(self._log.read_snapshot(name))

    def save_snapshot(self, position: int, data: Data, *, name: str = UNNAMED) -> None:
        self._thread.run(self._log.save_snapshot(position, data, name=name))

    def drop_snapshot(self, name: str) -> None:
        self._thread.run(self._log.drop_snapshot(name))

    def change_replicas(
        self, *, add: str | None = None, remove: str | None = None, quorum: dict[str, object] | None = None
    ) -> int:
        return self._thread.run(self._log.change_replicas(add=add, remove=remove, quorum=quorum))

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        return self._thread.run(self._log.losses(lost))

    def init(self, without: Sequence[str] = ()) -> None:
        self._thread.run(self._log.init(without))

    def force_lost(self, lost: Sequence[str]) -> None:
        self._thread.run(self._log.force_lost(lost))


async def _next(changes: AsyncGenerator[ColorChange, None]) -> ColorChange | None:
    return await anext(changes, None)


async def _next_some(found: AsyncIterator[T]) -> T | None:
    return await anext(found, None)
