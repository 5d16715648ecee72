"""The groups of a site, as one client uses them: its requests in, what is delivered to it out.

Given: a process of the site. Promised: a client acts for its own memberships only. Its sends are taken in order, and
wait while the site's queue is full; a leave waits for the sends before it. What waits is bounded, and dropped with
the connection.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import assert_never

from msgspec.structs import astuple

from reconvene.core.groups import events
from reconvene.core.groups.events import GroupEvent, Process
from reconvene.errors import ReconveneError, Rejected
from reconvene.ids import Service
from reconvene.room import Waiter
from reconvene.runtime.access.auth import Role
from reconvene.runtime.clients.output import ClientOutput
from reconvene.runtime.domain.events import WideArrived, WideEnded, WideGroupEvent, WideViewed
from reconvene.runtime.site.interface import ProcessHandle
from reconvene.wire import clients as wire
from reconvene.wire.clients import Blocked, Join, Joined, Leave, Left, Send

__all__ = ["WINDOW_BYTES", "WINDOW_REQUESTS", "ClientGroups"]

WINDOW_REQUESTS = 1_024
WINDOW_BYTES = 4 << 20
"""Sends that a client may have unanswered: enough to keep a site busy over a round trip."""


_HEADER_BYTES = 100


class ClientGroups:
    def __init__(
        self,
        process: ProcessHandle,
        out: ClientOutput,
        need: Callable[[Role, str], None],
    ) -> None:
        """`need` raises Rejected where the client lacks a role."""
        self._process = process
        self._out = out
        self._need = need
        self._memberships: set[int] = set()
        """This client's own."""
        self._muted: set[int] = set()
        """Memberships that only send: nothing is pushed for them."""
        self._waiting: deque[Send | Leave] = deque()
        """Sends for which the site had no room, and what must come after them."""
        self._waiting_bytes = 0
        self._taken = 0
        """Payloads that the site has taken of the first send that waits."""
        self._waiter: Waiter | None = None
        """Where something waits for room."""
        self._closed = False

    def close(self) -> None:
        """The process leaves its groups."""
        self._closed = True
        if self._waiter is not None:
            self._waiter.leave()
        self._waiting.clear()
        self._process.close()

    def push(self, batch: list[GroupEvent]) -> None:
        """What a turn delivered to this process."""
        out = self._out
        for happened in batch:
            match happened:
                case events.Arrived():
                    if happened.membership not in self._muted:
                        out.arrived(happened)
                case events.ViewChanged():
                    out.viewed(happened)
                case events.Blocked():
                    out.push(Blocked(happened.membership))
                case events.Left():
                    self._muted.discard(happened.membership)
                    self._memberships.discard(happened.membership)
                    out.push(Left(happened.membership, happened.reason))
                case _:
                    assert_never(happened)
        self._look_again()

    def push_wide(self, batch: list[WideGroupEvent]) -> None:
        """The same of wide groups."""
        for happened in batch:
            match happened:
                case WideArrived():
                    if happened.membership not in self._muted:
                        self._out.push(wire.WideArrived(*astuple(happened)), len(happened.payload) + _HEADER_BYTES)
                case WideViewed(membership, regular, conf, domains, unreachable, members, lost):
                    viewed = wire.WideViewed(
                        membership, regular, conf, list(domains), list(unreachable), list(members), list(lost)
                    )
                    self._out.push(viewed, _HEADER_BYTES * (1 + len(members) + len(lost)))
                case WideEnded(membership, reason):
                    self._muted.discard(membership)
                    self._memberships.discard(membership)
                    self._out.push(Left(membership, reason))
                case _:
                    assert_never(happened)
        self._look_again()

    def _look_again(self) -> None:
        if self._waiting and (self._waiter is None or not self._waiter.waits):
            asyncio.get_running_loop().call_soon(self._send_waiting)  # a membership may have begun

    def join(self, join: Join) -> None:
        """Raises as `ProcessHandle.join` does."""
        membership = self._process.join(join.group, join.primary, join.wide)
        self._memberships.add(membership)
        if not join.receive:
            self._muted.add(membership)
        self._out.push(Joined(join.request, membership))

    def send(self, send: Send) -> None:
        """Raises Rejected where the client exceeds its window."""
        if self._waiting:
            self._enqueue(send)
            return
        taken = self._submit(send, 0)
        if taken < len(send.payloads):
            self._taken = taken
            self._enqueue(send)

    def leave(self, leave: Leave) -> None:
        """Raises Rejected where the client exceeds its window."""
        if self._waiting:
            self._enqueue(leave)
        else:
            self._leave_now(leave)

    def _submit(self, send: Send, start: int) -> int:
        """How many payloads are done with, from the first on. Answers the request when all are."""
        payloads = send.payloads[start:] if start else send.payloads
        try:
            self._need(Role.APPEND, "send")
            self._check_own(send.membership)
            to = None if send.to is None else tuple(Process(*where) for where in send.to)
            taken = start + self._process.send(send.membership, Service(send.service), payloads, to, send.cluster)
        except ReconveneError as error:
            self._out.fail(send.request, error, start)
            return len(send.payloads)
        if taken == len(send.payloads):
            self._out.answer(send.request)
        return taken

    def _leave_now(self, leave: Leave) -> None:
        try:
            self._check_own(leave.membership)
            self._process.leave(leave.membership)
        except ReconveneError as error:
            self._out.fail(leave.request, error, 0)
        else:
            self._out.answer(leave.request)

    def _check_own(self, membership: int) -> None:
        if membership not in self._memberships:
            raise Rejected(f"this client has no membership {membership}")

    def _enqueue(self, request: Send | Leave) -> None:
        if len(self._waiting) > WINDOW_REQUESTS or self._waiting_bytes > WINDOW_BYTES:
            raise Rejected(f"more than {WINDOW_REQUESTS} requests or {WINDOW_BYTES} bytes were sent unanswered")
        self._waiting.append(request)
        self._waiting_bytes += _bytes_of(request)
        if len(self._waiting) == 1:
            self._try_later()

    def _send_waiting(self) -> None:
        """In their order, as far as the site takes them now."""
        while self._waiting and not self._closed:
            first = self._waiting[0]
            if isinstance(first, Send):
                self._taken = self._submit(first, self._taken)
                if self._taken < len(first.payloads):
                    self._try_later()
                    return
            self._taken = 0
            self._waiting.popleft()
            self._waiting_bytes -= _bytes_of(first)
            if isinstance(first, Leave):
                self._leave_now(first)

    def _try_later(self) -> None:
        """When there is room. If there is room, the membership has not begun: then, with what is delivered next."""
        room = self._process.room_of(self._waiting[0].membership)
        if room.free() <= 0 and (self._waiter is None or not self._waiter.waits):
            self._waiter = room.when(1, self._send_waiting)


def _bytes_of(request: Send | Leave) -> int:
    return sum(map(len, request.payloads)) if isinstance(request, Send) else 0
