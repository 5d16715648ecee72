"""What waits to be read by the application, with a limit.

All groups of one process share the limit. Beyond it the group with the most waiting is cut off: what waited there is
dropped, the process leaves it, and its reader gets an error with the reason. So a reader that is stuck costs no more
than the limit, and no other member waits for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from reconvene.core.groups.events import Arrived, Blocked, Process, ViewChanged
from reconvene.errors import ReconveneError, Unavailable
from reconvene.runtime.domain.events import WideArrived, WideViewed

__all__ = ["Again", "Inbox", "Inboxes", "Waiting"]


class Again:
    """A place in the stream of events: the membership before it was lost with its connection."""

    __slots__ = ("me", "site")

    def __init__(self, me: Process, site: str) -> None:
        self.me = me
        self.site = site


Waiting = Arrived | ViewChanged | Blocked | Again | WideArrived | WideViewed

_VIEW_BYTES = 200
_MEMBER_BYTES = 8


class Inboxes:
    """Those of one process."""

    def __init__(self, limit_bytes: int, limit_messages: int) -> None:
        self.limit_bytes = limit_bytes
        self.limit_messages = limit_messages
        self.bytes = 0
        self.messages = 0
        self.all: dict[Inbox, None] = {}

    def cut_fullest(self) -> None:
        fullest = max(self.all, key=lambda inbox: (inbox.bytes / self.limit_bytes, inbox.messages))
        fullest.cut_off(
            f"group {fullest.group!r}: {fullest.messages} messages of {fullest.bytes} bytes waited unread, beyond "
            f"the limit of {self.limit_messages} messages or {self.limit_bytes} bytes: this process was cut off"
        )


class Inbox:
    """One group's. `put` is the site's side; `wait` and `take` are the reader's."""

    __slots__ = (
        "_all", "_ended", "_error", "_on_cut", "_waiter", "_waiting", "bytes", "group", "listener", "messages",
    )  # fmt: skip

    def __init__(self, inboxes: Inboxes, group: str, on_cut: Callable[[], None]) -> None:
        self.group = group
        self.bytes = 0
        self.messages = 0
        self.listener: Callable[[Waiting], None] | None = None
        """If it is set, events go there, and none wait."""
        self._all = inboxes
        self._on_cut = on_cut
        self._waiting: deque[tuple[Waiting, int, int]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: ReconveneError | None = None
        inboxes.all[self] = None

    def put(self, event: Waiting) -> None:
        if self._ended:
            return
        if self.listener is not None:
            self.listener(event)
            return
        if type(event) is Arrived:
            count = len(event.payloads)
            size = sum(map(len, event.payloads))
        elif type(event) is WideArrived:
            count = 1
            size = len(event.payload)
        else:
            count = 1
            size = _VIEW_BYTES + _MEMBER_BYTES * len(getattr(event, "members", ()))
        self._waiting.append((event, size, count))
        self.bytes += size
        self.messages += count
        every = self._all
        every.bytes += size
        every.messages += count
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if every.bytes > every.limit_bytes or every.messages > every.limit_messages:
            every.cut_fullest()

    @property
    def empty(self) -> bool:
        return not self._waiting

    def take(self) -> Waiting:
        event, size, count = self._waiting.popleft()
        self.bytes -= size
        self.messages -= count
        self._all.bytes -= size
        self._all.messages -= count
        return event

    async def wait(self) -> bool:
        """Waits for the next event. Returns False if there will be none, or raises why."""
        while not self._waiting:
            if self._error is not None:
                raise type(self._error)(str(self._error))
            if self._ended:
                return False
            if self._waiter is not None and not self._waiter.done():
                raise RuntimeError(f"group {self.group!r} is being read already: one reader a group")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return True

    @property
    def ended(self) -> bool:
        return self._ended

    def end(self, error: ReconveneError | None) -> None:
        """Nothing more will be put. What waits can still be read; then the error is raised, or reading ends."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        self._all.all.pop(self, None)
        # It is the reader's own from here on, and no longer counts against the limit of all groups.
        self._all.bytes -= self.bytes
        self._all.messages -= self.messages
        self.bytes = self.messages = 0
        self._waiting = deque((event, 0, 0) for event, _, _ in self._waiting)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def cut_off(self, why: str) -> None:
        self._waiting.clear()
        self.end(Unavailable(why))
        self._on_cut()
