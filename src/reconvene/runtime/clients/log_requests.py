"""Carries out one client's requests about the log, and answers them.

Given: the site's log. Promised: a client's unanswered requests are bounded, and all of them end with its connection.
A program with an embedded site is such a client too, without a socket between.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, assert_never

from reconvene.corel.following.messages import Answer, Pulled
from reconvene.entries import EntryBatch
from reconvene.errors import ReconveneError, Unavailable
from reconvene.room import UNBOUNDED
from reconvene.runtime.access.auth import Role
from reconvene.runtime.clients.answers import LogAnswers, Overstepped
from reconvene.runtime.clients.log_appends import ClientAppends
from reconvene.runtime.clients.snapshot_uploads import SnapshotUploads
from reconvene.runtime.diagnostics.structured_logging import audit
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.log.pending import bytes_of, pending_within
from reconvene.runtime.log.transactions import collected, refuse_commits
from reconvene.wire import client_log as wire
from reconvene.wire.clients import STAGING_MINOR, Told

__all__ = ["MOST_WAITING", "ClientLog"]

MOST_WAITING = 16_384
"""The most requests of one client that may wait for the log at once, appends not counted."""
_BATCH_BYTES = 64
_FOLLOWER_S = 1.0
"""A follower that waits is answered after so long, also if there is nothing to tell."""
_PIECE_BYTES = 64 << 10

T = TypeVar("T")


class ClientLog:
    def __init__(
        self,
        port: SiteLog,
        out: LogAnswers,
        need: Callable[[Role, str], None],
        red_messages: int,
        snapshot_bytes: int,
        minor: int,
        trusted: bool = False,
        *,
        who: str,
    ) -> None:
        """`need` raises Rejected if the client lacks a role. `minor`: the client's minor version of the protocol.
        `trusted`: the client is this very program, so neither a window nor MOST_WAITING applies. `who`: the client,
        for the log lines about what it changes."""
        self._port = port
        self._minor = minor
        self._out = out
        self._need = need
        self._who = who
        self._most_waiting = UNBOUNDED if trusted else MOST_WAITING
        self.appends = ClientAppends(port, out, need, red_messages, trusted)
        self._ends: dict[int, Callable[[], object]] = {}
        """By request that waits: the function that ends its wait."""
        self._fetches: dict[int, wire.Fetch] = {}
        """Fetches that wait for the log to grow …"""
        self._follows: dict[int, wire.Follow] = {}
        """… followers' requests …"""
        self._confirms: dict[int, wire.Confirm] = {}
        """… outposts' …"""
        self._cursors: dict[int, wire.Cursor] = {}
        """… and those of readers that wait for a cursor."""
        self._unwatch: Callable[[], None] | None = None
        self._uploads = SnapshotUploads(snapshot_bytes)

    def receive(self, message: wire.LogRequest) -> None:
        """Raises Overstepped if a client exceeds its limits: the caller ends its connection."""
        try:
            self._carry_out(message)
        except Overstepped:
            raise
        except ReconveneError as error:
            self._out.fail(message.request, error)

    def close(self) -> None:
        self.appends.close()
        self.close_questions()

    def close_questions(self) -> None:
        """Ends all requests but appends, which are still answered."""
        ends, self._ends = self._ends, {}
        for end in ends.values():
            end()
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        self._uploads.clear()

    def _carry_out(self, message: wire.LogRequest) -> None:
        match message:
            case wire.Append():
                self.appends.append(message)
            case wire.Forward():
                self.appends.forward(message)
            case wire.Confirm():
                self._confirm(message)
            case wire.Order():
                self._order(message)
            case wire.Fetch():
                self._fetch(message)
            case wire.Follow():
                self._follow(message)
            case wire.Collect(request=request):
                self._push(request, collected(self._port, message.ranges, message.size))
            case wire.LastCommit(request=request, session=session):
                self._tell(request, self._port.committed(session))
            case wire.Cursor():
                self._cursor(message)
            case wire.Cursors(request=request, after=after):
                listed = self._port.cursors(after, wire.MOST_LISTED)
                self._tell(request, listed, sum(_BATCH_BYTES + len(note) for _, _, note in listed))
            case wire.Forget(request=request):
                self._forget(request)
            case wire.Pending():
                self._tell(message.request, *_listed(self._port, message.messages))
            case wire.WatchColors():
                self._watch_colors(message.request)
            case wire.Barrier(request=request):
                passed = self._port.barrier()
                self._await(request, passed, lambda _: self._tell(request, self._port.green))
            case wire.LogStatus(request=request):
                self._tell(request, self._port.status(), 16 << 10)
            case wire.Snapshot(request=request, name=name):
                self._tell(request, self._port.snapshot(name))
            case wire.ReadSnapshot():
                self._read_snapshot(message)
            case wire.SaveSnapshot():
                self._save_snapshot(message)
            case wire.UseSnapshot(request=request, name=name):
                self._need(Role.ADMIN, "keep what a state machine needs of the log")
                self._await(
                    request, self._port.use_snapshot(name, message.start), lambda _: self._out.answer(request)
                )
            case wire.DropSnapshot(request=request, name=name):
                self._need(Role.ADMIN, "drop a snapshot of the log")
                dropped = self._port.drop_snapshot(name)
                self._audit_when_done(dropped, "snapshot dropped", name=name)
                self._await(request, dropped, lambda _: self._out.answer(request))
            case wire.ChangeReplicas(request=request):
                self._need(Role.ADMIN, "change the log's replicas")
                changed = self._port.change_replicas(add=message.add, remove=message.remove, quorum=message.quorum)
                quorum = None if message.quorum is None else str(message.quorum)
                self._audit_when_done(
                    changed, "replicas changed", add=message.add, remove=message.remove, quorum=quorum
                )
                self._await(request, changed, lambda position: self._tell(request, position))
            case wire.Losses(request=request, lost=lost):
                self._tell(request, self._port.losses(lost), 16 << 10)
            case wire.WhatIf(request=request, lost=lost):
                self._tell(request, self._port.whatif(lost), 16 << 10)
            case wire.Init(request=request, without=without):
                self._need(Role.ADMIN, "begin a log")
                self._port.init(without)
                self._answer_change(request, "log begun", without=without)
            case wire.ForceLost(request=request, lost=lost):
                self._need(Role.ADMIN, "give up replicas of the log")
                self._port.force_lost(lost)
                self._answer_change(request, "replicas given up", lost=lost)
            case _:
                assert_never(message)

    def _tell(self, request: int, document: object, size: int = _BATCH_BYTES) -> None:
        self._out.push(Told(request, document), size)

    def _answer_change(self, request: int, what: str, **fields: object) -> None:
        """An operator's change has succeeded."""
        audit(what, self._who, **fields)
        self._out.answer(request)

    def _audit_when_done(self, future: "asyncio.Future[T]", what: str, **fields: object) -> None:
        """A client that has gone does not wait for the end of its change, which may happen all the same."""

        def note(done: "asyncio.Future[T]") -> None:
            if done.cancelled():
                audit(what, self._who, **fields, outcome="unknown: the client did not wait for it")
            elif done.exception() is None:
                audit(what, self._who, **fields)

        future.add_done_callback(note)

    # -- waiting

    def _await(self, request: int, future: "asyncio.Future[T]", then: Callable[[T], None]) -> None:
        """Answers the request when the future is done, unless the client forgets the request before."""
        self._wait(request, future.cancel)
        future.add_done_callback(partial(self._done, request, then))

    def _wait(self, request: int, end: Callable[[], object]) -> None:
        if len(self._ends) >= self._most_waiting or request in self._ends:
            end()
            raise Overstepped(f"more than {self._most_waiting} requests wait for the log, or two of one number")
        self._ends[request] = end

    def _forget(self, request: int) -> None:
        end = self._ends.pop(request, None)
        if end is not None:
            end()

    def _done(self, request: int, then: Callable[[T], None], future: "asyncio.Future[T]") -> None:
        if self._ends.pop(request, None) is None:
            if not future.cancelled():
                future.exception()  # marks it as retrieved: the client has given up
            return
        if future.cancelled():
            self._out.fail(request, Unavailable(f"site {self._port.name}: the request was cancelled"))
            return
        error = future.exception()
        if error is None:
            then(future.result())
        elif isinstance(error, ReconveneError):
            self._out.fail(request, error)
        else:
            raise error

    def _order(self, order: wire.Order) -> None:
        future = self._port.find(order)
        self._await(order.request, future, partial(self._ordered, order))

    def _ordered(self, order: wire.Order, places: list[tuple[int, int]] | None) -> None:
        if places is None:
            self._order(order)
        else:
            self._out.push(wire.Ordered(order.request, places))

    def _confirm(self, confirm: wire.Confirm) -> None:
        if not self._confirmed(confirm):
            self._wait(confirm.request, lambda: self._confirms.pop(confirm.request, None))
            self._confirms[confirm.request] = confirm
            if self._unwatch is None:
                self._unwatch = self._port.watch(self._moved)

    def _confirmed(self, confirm: wire.Confirm) -> bool:
        places = self._port.confirmed(confirm.session, confirm.first)
        if places:
            self._out.push(wire.Confirmed(confirm.request, places), _BATCH_BYTES * len(places))
        return bool(places)

    def _cursor(self, cursor: wire.Cursor) -> None:
        if not self._told_cursor(cursor):
            self._wait(cursor.request, lambda: self._cursors.pop(cursor.request, None))
            self._cursors[cursor.request] = cursor
            if self._unwatch is None:
                self._unwatch = self._port.watch(self._moved)

    def _told_cursor(self, cursor: wire.Cursor) -> bool:
        """Whether it is answered now."""
        found = self._port.cursor(cursor.session)
        if cursor.unlike is not None and found is not None and found[0] == cursor.unlike:
            return False
        self._tell(cursor.request, found, _BATCH_BYTES if found is None else _BATCH_BYTES + len(found[1]))
        return True

    # -- reading

    def _fetch(self, fetch: wire.Fetch) -> None:
        port = self._port
        port.check_readable()
        if not fetch.wait or fetch.start < port.green or fetch.start < port.base:
            self._fetched(fetch)
            return

        self._wait(fetch.request, lambda: self._fetches.pop(fetch.request, None))
        self._fetches[fetch.request] = fetch
        port.expect(fetch.start)
        if self._unwatch is None:
            self._unwatch = port.watch(self._moved)

    # -- followers

    def _follow(self, follow: wire.Follow) -> None:
        answer = self._port.answer_follower(follow.ask)
        if answer is not None:
            self._answer(follow.request, answer)
            return
        late = asyncio.get_running_loop().call_later(_FOLLOWER_S, self._late, follow)

        def end() -> None:
            late.cancel()
            self._follows.pop(follow.request, None)

        self._wait(follow.request, end)
        self._follows[follow.request] = follow
        if self._unwatch is None:
            self._unwatch = self._port.watch(self._moved)

    def _late(self, follow: wire.Follow) -> None:
        self._answer_waiting(follow, late=True)

    def _answer_waiting(self, follow: wire.Follow, late: bool = False) -> None:
        try:
            answer = self._port.answer_follower(follow.ask, late)
        except ReconveneError as error:
            self._forget(follow.request)
            self._out.fail(follow.request, error)
            return
        if answer is not None:
            self._forget(follow.request)
            self._answer(follow.request, answer)

    def _answer(self, request: int, answer: Answer) -> None:
        size = sum(len(batch.body) for batch in answer.batches) if isinstance(answer, Pulled) else _PIECE_BYTES
        self._out.push(wire.Followed(request, answer), _BATCH_BYTES + size)

    def _moved(self, green: int) -> None:
        for follow in list(self._follows.values()):
            self._answer_waiting(follow)
        for confirm in list(self._confirms.values()):
            if self._confirmed(confirm):
                del self._confirms[confirm.request], self._ends[confirm.request]
        for cursor in list(self._cursors.values()):
            try:
                done = self._told_cursor(cursor)
            except ReconveneError as error:
                self._out.fail(cursor.request, error)
                done = True
            if done:
                del self._cursors[cursor.request], self._ends[cursor.request]
        ready = [fetch for fetch in self._fetches.values() if fetch.start < green]
        for fetch in ready:
            del self._fetches[fetch.request], self._ends[fetch.request]
            try:
                self._fetched(fetch)
            except ReconveneError as error:
                self._out.fail(fetch.request, error)

    def _fetched(self, fetch: wire.Fetch) -> None:
        port = self._port
        batches: Sequence[EntryBatch] = []
        if port.base <= fetch.start < port.green:
            if fetch.bare:
                batches = port.headings(fetch.start, fetch.messages)
            else:
                batches = port.read(fetch.start, fetch.messages, fetch.size)
        if self._minor < STAGING_MINOR:
            refuse_commits(batches)
        self._push(fetch.request, batches)

    def _push(self, request: int, batches: Sequence[EntryBatch]) -> None:
        size = sum(map(bytes_of, batches))
        self._out.push(wire.Fetched(request, self._port.base, self._port.green, list(batches)), size)

    def _watch_colors(self, request: int) -> None:
        def changed(changes: "list[tuple[object, str, int, int, int]]") -> None:
            told = [(str(getattr(color, "value", color)), *rest) for color, *rest in changes]
            self._out.push(wire.Colored(request, told), 48 * len(told))  # type: ignore[arg-type]

        self._wait(request, self._port.watch_colors(changed))  # type: ignore[arg-type]
        self._out.push(wire.Colored(request, []))  # from here on

    # -- snapshots

    def _read_snapshot(self, read: wire.ReadSnapshot) -> None:
        newest = self._port.snapshot(read.name)
        if newest is None or newest[0] != read.position:
            self._tell(read.request, None)
        else:
            piece = self._port.read_snapshot(read.offset, read.size, read.name)
            self._tell(read.request, piece, len(piece))

    def _save_snapshot(self, save: wire.SaveSnapshot) -> None:
        self._need(Role.ADMIN, "save a snapshot of the log")
        data = self._uploads.take(save)
        if data is None:
            self._out.answer(save.request)
        else:
            saved = self._port.save_snapshot(save.position, data, save.name)
            self._await(save.request, saved, lambda _: self._out.answer(save.request))


_Listed = tuple[str, str, int, int, int, list[bytes]]


def _listed(port: SiteLog, messages: int) -> "tuple[tuple[int, list[_Listed]], int]":
    """((green line, messages that are not green …), about how many bytes they take)."""
    found, size = pending_within(port, messages)
    listed = [
        (color.value, batch.author, batch.incarnation, batch.first, batch.time, batch.messages)
        for color, batch in found
    ]
    return (port.green, listed), size
