"""A reader that remembers: its position in the log is kept in the log itself, under a name.

Promised: one reader holds a cursor at a time. It gets the entries from the committed position on, in order. What was
committed is never read again through the cursor, and what was not committed is read again by the next holder.

A holder has a *lease*. Each of its records, a commit or a renewal, extends it. The holder hands out nothing later
than `lease` seconds after it sent its last record that counts, by its own clock. Another reader takes the cursor when
it has seen no new record for more than that. Clocks only decide when a reader tries: whether a record counts is
decided by its place in the order (`cursor_record`). So a commit of a reader that lost the cursor never counts,
however wrong the clocks are.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from reconvene.client.arguments import check_position, check_seconds, check_text, check_timeout
from reconvene.client.cursor_record import (
    HOLDER_BYTES,
    LONGEST_LEASE_S,
    MOST_LETTERS,
    SHORTEST_LEASE_S,
    Note,
    cursor_session,
    decode_note,
    encode_record,
    next_number,
)
from reconvene.client.follow import Follow
from reconvene.client.log_link import LogLink
from reconvene.client.pending_append import PendingAppend
from reconvene.client.staging import told
from reconvene.client.time_limits import in_time, within
from reconvene.client.transactions import heed
from reconvene.corel.batch import Kind
from reconvene.corel.clients.session_table import MOST_CURSORS
from reconvene.entries import Entry
from reconvene.errors import CursorLost, InvalidArgument, ReconveneError, Rejected, TimedOut, Unavailable
from reconvene.world import world

if TYPE_CHECKING:
    from reconvene.client.log import Log

__all__ = ["Cursor", "check_cursor_name"]

_log = logging.getLogger("reconvene.client")

_PATIENCE = 1.1
"""Another reader waits this many times the lease: clocks may run at rates that differ by a tenth."""
_RENEWALS = 3
"""In the time of a lease."""
_STALL_S = 1.0
"""Without an answer, for another look at where the connection is."""
_AGAIN_S = 0.1
"""Between two tries to take a cursor that others take too."""
_RELEASE_S = 5.0
"""How long the end of the block waits until the cursor is released."""


def check_cursor_name(value: object) -> str:
    return check_text(value, "name", MOST_LETTERS)


class Cursor:
    """From `log.cursor`. Use it from one task, inside its `async with` block: the block holds the cursor.

    Entries come at least once: those after the last commit come again, here or at the next holder. At the end of the
    block the cursor is released; nothing is committed by that.
    """

    def __init__(
        self, log: "Log", link: LogLink, name: str, start: int, lease: float, who: str | None, timeout: float | None
    ) -> None:
        self._log = log
        self._link = link
        self._name = check_cursor_name(name)
        self._session = cursor_session(name)
        self._start = check_position(start, "start")
        seconds = check_seconds(lease, "lease")
        if not SHORTEST_LEASE_S <= seconds <= LONGEST_LEASE_S:
            raise InvalidArgument(f"lease: {SHORTEST_LEASE_S} to {LONGEST_LEASE_S} seconds expected, not {lease}")
        self._lease_ms = int(seconds * 1_000)
        self._who = _here() if who is None else check_text(who, "who", MOST_LETTERS)
        self._timeout = check_timeout(timeout)
        self._note: Note | None = None
        """Of its last record that counts …"""
        self._last = 0
        """… and where that is."""
        self._sure_until = 0.0
        """By the loop's clock: until then no other reader holds the cursor."""
        self._lost: Rejected | None = None
        self._news = asyncio.Event()
        """A record of this holder was decided."""
        self._writing = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None
        self._follow: Follow | None = None
        self._ready: Entry | None = None
        """Read, and not handed out yet."""
        self._read = 0
        self._closed = False

    # -- holding it

    async def __aenter__(self) -> Self:
        """Waits until this reader holds the cursor. Raises TimedOut after `timeout` s, Rejected where there are too
        many cursors or this client may not append."""
        if self._note is not None or self._closed:
            raise Unavailable(f"cursor {self._name!r}: this object was used before: make another one")
        limit = self._timeout
        why = "" if limit is None else f"cursor {self._name!r} was not free within {limit:g} s"
        note = await in_time(limit, self._take(), why)
        self._read = note.position
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        if self._follow is not None:
            await self._follow.__aexit__(kind, error, traceback)
        if self._lost is None and self._note is not None:
            with suppress(ReconveneError):  # otherwise the lease runs out
                await within(_RELEASE_S, self._write(_released), "released")

    @property
    def name(self) -> str:
        return self._name

    @property
    def committed(self) -> int:
        """All below this position is committed."""
        return 0 if self._note is None else self._note.position

    @property
    def position(self) -> int:
        """All below this position was handed out: what `commit` commits."""
        return self._read

    @property
    def term(self) -> int:
        """Rises with each hand-over: what was written elsewhere under a lower one is of an earlier holder."""
        return 0 if self._note is None else self._note.term

    @property
    def held(self) -> bool:
        """Whether it is sure now that no other reader holds the cursor."""
        return self._lost is None and not self._closed and asyncio.get_running_loop().time() < self._sure_until

    async def _take(self) -> Note:
        holder = world().random_bytes(HOLDER_BYTES)
        while True:
            found = await self._link.cursor(self._session)
            last = None if found is None else found[0]
            note = None if found is None else decode_note(found[1])
            if note is not None and note.holder and not await self._over(found, note):
                continue
            position = self._start if note is None else note.position
            number = next_number(last)
            wanted = Note(self._name, position, number, holder, self._who, self._lease_ms)
            if await self._record(wanted, last):
                return wanted
            found = await self._link.cursor(self._session)
            if found is None:
                raise Rejected(
                    f"cursor {self._name!r} would be one more than the {MOST_CURSORS} that a log has: drop one that "
                    "is not used any more (reconvene log cursors --drop NAME)"
                )
            await asyncio.sleep(_AGAIN_S)

    async def _over(self, found: tuple[int, bytes] | None, note: Note) -> bool:
        """Whether the holder made no record for longer than its lease."""
        assert found is not None, "there is a note"
        try:
            await in_time(note.lease_s * _PATIENCE, self._link.cursor(self._session, found[0]), "")
        except TimedOut:
            return True
        return False

    # -- records

    async def _write(self, change: Callable[[Note], Note | None]) -> None:
        """As the holder: a record that changes the last one in this way. Raises CursorLost where this reader is not
        the holder any more."""
        async with self._writing:
            while True:
                before = self._note
                assert before is not None, "it is the holder"
                if await self._record(change(before), self._last):
                    return
                if self._lost is not None:
                    raise self._lost
                found = await self._link.cursor(self._session)
                there = None if found is None else decode_note(found[1])
                if found is None or there is None or (there.term, there.holder) != (before.term, before.holder):
                    raise self._lose(there)
                # An earlier record of this holder counts, whose outcome it did not wait for.
                self._last, self._note = found[0], there

    def _lose(self, there: Note | None) -> CursorLost:
        if there is None:
            now = "it was dropped"
        else:
            now = f"{there.who or 'nobody'} holds it now, from position {there.position} on"
        self._lost = CursorLost(f"cursor {self._name!r} is not held here any more: {now}")
        self._news.set()
        return self._lost

    async def _record(self, note: Note | None, last: int | None) -> bool:
        """Appends a record after the one at position `last`, and waits until it is decided. Whether it counts."""
        number = next_number(last)
        data = encode_record(self._name, number, last, note)
        sent = asyncio.get_running_loop().time()
        position = await self._placed(data, number)
        if position is None:
            return False
        if (await told(self._link, data, position)).duplicate:
            return False
        self._last, self._note = position, note or self._note
        if note is not None and note.holder:
            self._sure_until = sent + note.lease_s
        self._news.set()
        return True

    async def _placed(self, data: bytes, number: int) -> int | None:
        """Where the record with this number stands that counts: this one or another. None: the log has a later one,
        and no longer knows where this one is."""
        while True:
            self._link.here.check()
            pending = PendingAppend([data], self._session, number, Kind.COMMIT)
            self._link.appends.append(pending)
            appended = await pending.accepted()
            finding = asyncio.ensure_future(self._link.ordered(pending))
            finding.add_done_callback(heed)
            try:
                while not finding.done():
                    await asyncio.wait([finding], timeout=_STALL_S)
                    # The site that took it may be gone for long, while the site of the present connection works.
                    if not finding.done() and any(part.author != self._link.name for part in appended.parts):
                        break
                else:
                    return finding.result()[0][0]
            finally:
                finding.cancel()

    async def _renew(self) -> None:
        before = self._lease_ms / 1_000 * (1 - 1 / _RENEWALS)
        loop = asyncio.get_running_loop()
        while self._lost is None:
            until = self._sure_until
            await asyncio.sleep(max(0.0, until - before - loop.time()))
            if self._sure_until > until:
                continue  # a commit came meanwhile
            try:
                await self._write(_renewed)
            except CursorLost:
                return
            except Rejected as error:
                self._lost = error
                self._news.set()
                return
            except ReconveneError as error:
                _log.info("cursor %s is not renewed: %s", self._name, error)
                self._news.set()
                await asyncio.sleep(_AGAIN_S)

    async def _sure(self) -> None:
        """Waits until it is sure that this reader holds the cursor. Raises CursorLost."""
        while not self.held:
            if self._lost is not None:
                raise self._lost
            if self._note is None or self._closed:
                raise Unavailable(f"cursor {self._name!r}: read it inside its block: async with log.cursor(…)")
            self._link.here.check()
            self._news.clear()
            await self._news.wait()

    # -- reading

    def __aiter__(self) -> AsyncIterator[Entry]:
        """From the committed position on, as entries are ordered, for ever. While it is not sure that no other reader
        holds the cursor, as in a component that can't order, it waits. Raises CursorLost where another reader has
        taken it, Truncated where the log no longer has what comes next: `commit(error.first)` passes over the gap."""
        return self

    async def __anext__(self) -> Entry:
        await self._sure()
        if self._follow is None:
            self._follow = self._log.follow(self._read)
        if self._ready is None:
            self._ready = await self._interruptible(self._follow.__anext__())
        await self._sure()
        entry, self._ready = self._ready, None
        self._read = self._follow.position
        return entry

    async def entries(self, timeout: float | None = None) -> AsyncIterator[Entry]:
        """As `async for entry in cursor`; with `timeout`, it also ends when nothing comes for so many s."""
        check_timeout(timeout)
        while True:
            try:
                entry = await in_time(timeout, self.__anext__(), "nothing came")
            except TimedOut:
                return
            yield entry

    async def _interruptible(self, reading: Coroutine[Any, Any, Entry]) -> Entry:
        """The next entry, unless the cursor is lost before."""
        task = asyncio.ensure_future(reading)
        try:
            while not task.done():
                self._news.clear()
                news = asyncio.ensure_future(self._news.wait())
                try:
                    await asyncio.wait([task, news], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                if self._lost is not None:
                    raise self._lost
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError, ReconveneError):
                    await task

    # -- committing

    async def commit(self, position: int | None = None, *, timeout: float | None = None) -> None:
        """All that was handed out so far is done: it does not come again. Returns when that is ordered, and so
        survives whatever fails. Until then it waits, as in a component that can't order.

        position: all below it instead, also below what was handed out, but not below what is committed.
        Raises CursorLost where another reader holds the cursor: nothing was committed. OutcomeTimedOut where it is
        not ordered within `timeout` s: it may yet be.
        """
        check_timeout(timeout)
        if self._lost is not None:
            raise self._lost
        if self._note is None or self._closed:
            raise Unavailable(f"cursor {self._name!r}: commit inside its block: async with log.cursor(…)")
        until = self._read if position is None else check_position(position, "position")
        if until < self.committed:
            raise InvalidArgument(f"position: {self.committed} is committed already, {until} is below it")
        await within(timeout, self._commit(until), "committed")

    async def _commit(self, until: int) -> None:
        if until > self._read:
            green = (await self._link.fetch(until, 1, 1, False)).green
            if until > green:
                raise InvalidArgument(f"position: the log ends at {green} here, {until} is beyond it")
        if until > self.committed:
            await self._write(lambda note: replace(note, position=max(note.position, until)))
        if until > self._read:
            if self._follow is not None:
                await self._follow.__aexit__(None, None, None)
            self._follow, self._ready, self._read = None, None, until

    async def drop(self) -> None:
        """The cursor is no more; a later one of its name begins anew. The block ends with that."""
        await self._write(_dropped)
        self._lose(None)


def _renewed(note: Note) -> Note:
    return note


def _released(note: Note) -> Note:
    return replace(note, holder=b"", who="")


def _dropped(note: Note) -> None:
    return None


def _here() -> str:
    return f"{socket.gethostname()[: MOST_LETTERS - 12]}:{os.getpid()}"
