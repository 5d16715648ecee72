"""Applies the log to a state machine.

Promised: entries in order, each once; where the log is truncated, from the newest snapshot on; an `apply` that raises
stops this machine and nothing else, and says at which position. Without a connection the machine keeps its state
and waits; it goes on at the same position as soon as a site answers.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reconvene.client.arguments import check_position, check_timeout
from reconvene.client.log_link import LogLink
from reconvene.client.receipts import Receipt
from reconvene.client.state_machine import Failure, StateMachine, snapshot_name, unwrap, wrap
from reconvene.client.time_limits import in_time
from reconvene.entries import Entry, EntryBatch, Truncated
from reconvene.errors import OutcomeUnknown, PlaceForgotten, ReconveneError, TimedOut, Unavailable
from reconvene.ids import UNNAMED
from reconvene.wire.client_log import FETCH_MESSAGES
from reconvene.world import world

if TYPE_CHECKING:
    from reconvene.client.log import Log

__all__ = ["Runner"]

_log = logging.getLogger("reconvene.client")

_TURN_NS = 5_000_000
"""How long entries are applied without a break: a site in this program needs its turns."""


class Runner:
    """From `log.run`. The end of its `async with` block ends it."""

    def __init__(self, log: "Log", link: LogLink, machine: StateMachine, start: int, snapshot_every: int) -> None:
        self._machine = machine
        self._name = snapshot_name(machine)
        self._snapshot_trouble: str | None = None
        self._log = log
        self._link = link
        self._every = snapshot_every
        self._position = start
        self._last: dict[str, int] = {}
        """By author: the counter of its last message that was applied since the last restore."""
        self._amid = False
        """Some of a transaction's messages are applied, and some are not."""
        self._restores = 0
        self._unsaved = 0
        """Entries since the last snapshot."""
        self._saving: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._given_up = 0
        """Of those: about how many are not waited for any more."""
        self._numbers = count()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        """From a snapshot, where that is further than `start`. Raises Unavailable where the site can't be asked,
        Truncated where neither the log nor a snapshot begins low enough, Rejected where the snapshot of this name is
        another machine's, or of a version that this one can't read."""
        await self._restore(self._position)
        if self._every:
            await self._register()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        tasks = [task for task in (self._task, self._saving) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end_waiting(None)

    # -- what is asked

    @property
    def machine(self) -> StateMachine:
        return self._machine

    @property
    def snapshot_trouble(self) -> str | None:
        """Why the last snapshot could not be saved. None: it was, or there was none yet."""
        return self._snapshot_trouble

    @property
    def position(self) -> int:
        """Everything below it is applied."""
        return self._position

    @property
    def failed(self) -> Failure | None:
        return self._machine.failed

    async def applied(self, position: int, timeout: float | None = None) -> None:
        """Waits until the entry at `position` is applied, also while the site is away.

        Raises TimeoutError where that is not so within `timeout` s, Unavailable where the machine has stopped before.
        """
        check_timeout(timeout)
        await self._reached(check_position(position, "position"), timeout)

    async def append(
        self, command: bytes, *, ordered: bool, session: bytes | None = None, number: int | None = None
    ) -> Receipt:
        """For the machine's own commands. With `ordered`: waits until it is applied here.

        Raises as `Log.append`: Unavailable where nothing was appended, OutcomeUnknown where the machine stops, or
        the site does not answer, after it was.
        """
        if ordered:
            self._check()
        receipt = await self._log.append(command, session=session, number=number)
        if ordered:
            try:
                await self._reached(await self._position_of(receipt), None)
            except Unavailable as error:
                why = f"{receipt.id} is in the log, and what came of it is not known: {error}"
                raise OutcomeUnknown(why) from error
        return receipt

    async def _position_of(self, receipt: Receipt) -> int:
        """Or one that is not below it."""
        try:
            return await receipt.ordered()
        except PlaceForgotten:
            # It is truncated, so it is below the first position that the log has now.
            return max((await self._link.fetch(0, 1, 1, False)).base - 1, 0)

    async def _reached(self, position: int, timeout: float | None) -> None:
        if position < self._position:
            return
        self._check()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (position, next(self._numbers), future))
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            raise TimedOut(
                f"position {position} is not applied within {timeout:g} s: the machine is at {self._position}"
            ) from None
        finally:
            if future.cancelled():
                self._forget()

    async def caught_up(self, timeout: float | None = None) -> None:
        """An ordered read: waits until everything that was ordered anywhere is applied. As `Log.barrier`:
        TimeoutError after `timeout` s."""
        check_timeout(timeout)
        now = asyncio.get_running_loop().time
        started = now()
        position = await self._log.barrier(timeout) - 1
        left = None if timeout is None else max(0.0, timeout - (now() - started))
        try:
            await self._reached(position, left)
        except TimedOut as error:
            raise TimedOut(f"not caught up within {timeout:g} s: {error}") from None

    async def optimistic(self, timeout: float | None = None) -> StateMachine:
        """The state as it would be if all that is pending at the site were ordered as it stands: a copy. An entry
        that makes its `apply` raise is left out of it. Raises TimeoutError where the site does not answer in the
        connection's timeout, and where the machine has not applied what the site has within `timeout` s."""
        why = f"no optimistic state within {timeout} s: the machine is at {self._position}"
        pending = await in_time(timeout, self._pending(), why)
        view = self._machine.copy()
        for entry in pending:
            if entry.counter > self._last.get(entry.author, 0):
                try:
                    view.apply(entry)
                except Exception as error:
                    _log.info("pending entry %s does not apply: %r", entry.id, error)
        return view

    async def _pending(self) -> list[Entry]:
        """What is pending at the site, where everything before it is applied."""
        while True:
            restores = self._restores
            green, pending = await self._link.pending(FETCH_MESSAGES)
            await self._reached(green - 1, None)
            while self._amid:
                await self._reached(self._position, None)
            if restores == self._restores:
                return pending

    # -- applying

    async def _run(self) -> None:
        follow = self._log.follow(self._position)
        while not self._closed:
            try:
                batch = await follow.next_of_any_kind()
                assert batch is not None, "it has no end"
                if not await self._apply(batch):
                    return
            except Truncated as error:
                try:
                    await self._restore(error.first, patient=True)
                except ReconveneError as why:
                    self._stop(self._position, why)
                    return
                follow = self._log.follow(self._position)
            except ReconveneError as error:
                self._stop(self._position, error)
                return
            self._snapshot_if_due()

    async def _apply(self, batch: EntryBatch) -> bool:
        """False: the machine has stopped."""
        apply: Callable[..., None] = self._machine.apply
        now = world().monotonic_ns
        until = now() + _TURN_NS
        self._amid = batch.commit is not None
        for entry in batch.entries():
            try:
                apply(entry)
            except Exception as error:
                self._stop(entry.position, error)
                return False
            self._position = batch.passed(entry.position + 1)
            self._applied(entry.author, entry.counter)
            self._unsaved += 1
            if now() > until:
                self._wake()
                await asyncio.sleep(0)
                until = now() + _TURN_NS
        self._position = batch.next
        self._amid = batch.more
        self._applied(batch.author, batch.first + len(batch) - 1)
        self._wake()
        return True

    def _applied(self, author: str, counter: int) -> None:
        """What was staged comes later than its author's messages after it."""
        self._last[author] = max(counter, self._last.get(author, 0))

    def _wake(self) -> None:
        while self._waiting and self._waiting[0][0] < self._position:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def _forget(self) -> None:
        """Of those that wait for a position, drops the ones that were given up, once they are half of all."""
        self._given_up += 1
        if 2 * self._given_up > len(self._waiting):
            self._waiting = [waits for waits in self._waiting if not waits[2].done()]
            heapq.heapify(self._waiting)
            self._given_up = 0

    def _stop(self, position: int, error: Exception) -> None:
        self._machine.failed = Failure(position, error)
        _log.error("state machine %s stopped at position %d: %r", self._machine.kind, position, error)
        self._end_waiting(error)

    def _end_waiting(self, cause: Exception | None) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                error = self._over()
                error.__cause__ = cause
                future.set_exception(error)
                future.exception()

    def _check(self) -> None:
        self._link.here.check()
        if self.failed is not None or self._closed or self._task is None:
            raise self._over() from (None if self.failed is None else self.failed.error)

    def _over(self) -> Unavailable:
        if self.failed is None:
            return Unavailable("the state machine is not run, or not any more")
        return Unavailable(
            f"state machine {self._machine.kind} stopped at position {self.failed.position}: {self.failed.error!r}"
        )

    # -- snapshots

    async def _restore(self, need: int, patient: bool = False) -> None:
        """From the newest snapshot, where it is further on; which must be so if the log begins after the position.
        With `patient`, a site that is away is waited for."""
        found = await self._found(patient)
        if found is None or found[0] <= self._position:
            if self._position < need:
                raise Truncated(
                    f"the log begins at {need}, and no snapshot {self._name!r} covers what is below", need
                )
            return
        position, data = found
        try:
            self._machine.restore(data)
        except Exception as error:
            self._stop(position, error)
            raise Unavailable(f"the snapshot at position {position} can't be restored: {error!r}") from error
        self._position = position
        self._amid = False
        self._last.clear()
        self._restores += 1
        self._unsaved = 0
        self._wake()

    async def _found(self, patient: bool) -> tuple[int, bytes] | None:
        """(position, data) of the newest snapshot of this machine."""
        found = await self._link.read_snapshot(self._name, patient)
        if found is not None:
            return found[0], unwrap(self._machine, found[1])
        # One that was saved before snapshots had names may be this machine's.
        found = await self._link.read_snapshot(UNNAMED, patient)
        if found is None:
            return None
        try:
            return found[0], unwrap(self._machine, found[1])
        except ReconveneError as error:
            _log.info("snapshot %s is not one of %s: %s", UNNAMED, self._machine.kind, error)
            return None

    async def _register(self) -> None:
        """The site keeps what this machine needs to start, until there is a snapshot of it."""
        try:
            await self._link.use_snapshot(self._name, self._position)
        except ReconveneError as error:
            self._note_trouble(str(error))

    def _snapshot_if_due(self) -> None:
        if not self._every or self._unsaved < self._every or (self._saving and not self._saving.done()):
            return
        if self._amid:
            return  # a snapshot is of all below a position, and nothing above it
        self._unsaved = 0
        try:
            data = wrap(self._machine)
        except Exception as error:
            self._note_trouble(repr(error))
            return
        self._saving = asyncio.create_task(self._save(self._position, data))

    async def _save(self, position: int, data: bytes) -> None:
        try:
            await self._link.save_snapshot(position, data, self._name)
            self._snapshot_trouble = None
        except ReconveneError as error:
            self._note_trouble(str(error))

    def _note_trouble(self, why: str) -> None:
        if self._snapshot_trouble != why:
            _log.warning("no snapshot of %s: %s", self._machine.kind, why)
        self._snapshot_trouble = why
