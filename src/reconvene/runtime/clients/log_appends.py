"""Appends of one client: accepted in order, and answered when they are durable.

Given: the site's log. Promised: an append waits while the log has no room for it; a client's unanswered appends are
bounded, and all of them end with the connection.
"""

from collections.abc import Callable
from functools import partial

from reconvene.corel.batch import Kind
from reconvene.errors import OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.room import Waiter
from reconvene.runtime.access.auth import Role
from reconvene.runtime.clients.answers import LogAnswers, Overstepped
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.log.transactions import check_kind
from reconvene.wire.client_log import FORWARD_WINDOW_BYTES, Append, Appended, Forward

__all__ = ["WINDOW_BYTES", "WINDOW_REQUESTS", "ClientAppends"]

WINDOW_REQUESTS = 1_024
WINDOW_BYTES = 4 << 20
"""The bytes of Appends that a client may have unanswered: the same window as for Sends, counted separately."""


class ClientAppends:
    def __init__(
        self,
        port: SiteLog,
        out: LogAnswers,
        need: Callable[[Role, str], None],
        most_messages: int,
        trusted: bool = False,
    ) -> None:
        """`need` raises Rejected if the client lacks a role. `most_messages`: the limit of one append. `trusted`: the
        client is this very program, and has no window."""
        self._port = port
        self._out = out
        self._need = need
        self._most_messages = most_messages
        self._trusted = trusted
        self._open: dict[int, int] = {}
        """By unanswered request: the bytes of its messages; 0 where the client has no window."""
        self._open_bytes = 0
        self._allowed = False
        """The client has the role: it is asked for once, since it does not change."""
        self.waiting: dict[int, Waiter] = {}
        """By request: appends that wait because the log had no room, or has not begun."""
        self.held: dict[int, Waiter] = {}
        """Those of them behind which a client in this program waits too. Appends before the log has begun are not:
        each of them waits for that from when it was made. They are as many as a client may have unanswered."""

    def close(self) -> None:
        self._open.clear()
        waiting = list(self.waiting.values())
        self.waiting.clear()
        self.held.clear()
        for waiter in waiting:
            waiter.leave()

    def forward(self, forward: Forward) -> None:
        """An outpost's messages. Nothing waits for room: the outpost keeps what it can't forward."""
        self._check_window(forward.request, FORWARD_WINDOW_BYTES)
        try:
            self._need(Role.APPEND, "forward messages to the log")
            appended = self._port.forward(forward)
        except ReconveneError as error:
            self._out.fail(forward.request, error)
            return
        size = self._open[forward.request] = sum(map(len, forward.messages))
        self._open_bytes += size
        self._port.durable.when(appended, self._port.author, self._durable)

    def _check_window(self, request: int, most_bytes: int) -> None:
        if len(self._open) > WINDOW_REQUESTS or self._open_bytes > most_bytes or request in self._open:
            raise Overstepped(f"more than {WINDOW_REQUESTS} appends or {most_bytes} bytes were sent unanswered")

    def append(self, append: Append) -> None:
        """Raises Overstepped if the client exceeds its window. Anything else that is wrong is the answer."""
        count, port, size = len(append.messages), self._port, 0
        if not self._trusted:
            self._check_window(append.request, WINDOW_BYTES)
            size = sum(map(len, append.messages))
        self._open[append.request] = size
        self._open_bytes += size
        try:
            if not self._allowed:
                self._need(Role.APPEND, "append to the log")
                self._allowed = True
            if append.kind != Kind.DATA:
                check_kind(append.kind, append.messages)
            if count > self._most_messages:
                raise Rejected(f"{count} messages at once: at most log.red_messages, {self._most_messages}")
            if port.room.waiting:
                self._wait(append, count)
                return
            appended = port.append(append)
        except ReconveneError as error:
            if isinstance(error, Unavailable) and port.room.free() < count:
                self._wait(append, count)  # that was the reason: it has no room, or has not begun
            else:
                self._refuse(append.request, error)
            return
        port.durable.when(appended, port.author, self._durable)

    def _wait(self, append: Append, count: int) -> None:
        waiter = self._port.when_room(count, partial(self._enter, append))
        if waiter.waits:
            self.waiting[append.request] = waiter
            if not self._port.begins or len(self.waiting) >= WINDOW_REQUESTS:
                self.held[append.request] = waiter

    def _enter(self, append: Append) -> None:
        """It waited, and there is room now; or it need not wait any more, since it would be refused."""
        self.waiting.pop(append.request, None)
        self.held.pop(append.request, None)
        try:
            appended = self._port.append(append)
        except ReconveneError as error:
            self._refuse(append.request, error)
            return
        self._port.durable.when(appended, self._port.author, self._durable)

    def _refuse(self, request: int, error: ReconveneError) -> None:
        self._open_bytes -= self._open.pop(request, 0)
        self._out.fail(request, error)

    def _durable(self, appended: Appended, error: ReconveneError | None) -> None:
        size = self._open.pop(appended.request, None)
        if size is None:
            return  # the connection has ended
        self._open_bytes -= size
        if error is None:
            self._out.appended(appended)
        else:
            unknown = OutcomeUnknown(f"site {self._port.name}: not known to be durable: {error}")
            self._out.fail(appended.request, unknown)
