"""Appends on their way to a site: in order, as many at once as the site allows, and sent again until it answers.

Given: a connection, or one after the other. Promised: every append ends, with its answer or an error; one that was
sent over a connection that is lost is sent again over the next, at the same or another site, under the same session
and number, so that the log takes it once.
"""

import asyncio
from collections import deque
from typing import Protocol
from weakref import WeakSet

from reconvene.client.here import Here
from reconvene.client.pending_append import APPEND_BYTES, APPEND_MESSAGES, PendingAppend, Runs
from reconvene.client.requests import RequestChannel, Requests
from reconvene.corel.batch import Kind
from reconvene.errors import OutcomeUnknown, ReconveneError, Rejected, TimedOut, Unavailable
from reconvene.room import Room
from reconvene.wire.client_log import Append, Appended, log_message_bytes
from reconvene.wire.clients import (
    INIT_MINOR,
    ISIS_MINOR,
    LOG_MINOR,
    NAMES_MINOR,
    STAGING_MINOR,
    WATCH_MINOR,
    Welcome,
)
from reconvene.world import world

__all__ = ["Appends", "Connected", "check_minor"]

_SESSION_BYTES = 16
_MOST_REFUSED = 16
"""Of a session's requests, each of which may leave a gap in its numbers: then another session is begun, long before
the log would refuse a number since it can't remember so many gaps."""
_REQUEST_BYTES = 64
_MESSAGE_BYTES = 5
"""About how many bytes an append and each of its messages take in a record, beside the messages."""


class Connected(Protocol):
    """What the log needs of the link that it is a part of: over a socket, or within the program."""

    here: Here
    requests: Requests
    retries: bool
    """A connection may be lost, and what was sent over it is sent again."""

    @property
    def timeout_s(self) -> float | None:
        """How long a request waits for a connection or a brief answer; None: neither has to be waited for."""

    @property
    def name(self) -> str:
        """The site's."""

    @property
    def channel(self) -> RequestChannel | None: ...

    async def connected(self, patient: bool = False) -> RequestChannel:
        """Raises Unavailable where there is none in time, unless `patient`."""


class Appends:
    def __init__(self, link: Connected) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self.session: bytes | None = world().random_bytes(_SESSION_BYTES) if link.retries else None
        """Of this process; None where nothing is ever sent again."""
        self._number = 1
        """Of the session's next message."""
        self._refused = 0
        """The session's requests that a site did not take."""
        self._gathered: PendingAppend | None = None
        """The last one that waits, if it takes all single messages of this round of the loop."""
        self.waiting: deque[PendingAppend] = deque()
        """For a connection, or for room in the window."""
        self._sent: dict[int, PendingAppend] = {}
        """By request, in their order: not answered yet."""
        self._sent_bytes = 0
        self._unchecked_bytes = -1
        """The site takes any plain append up to this size; -1: it may take none."""
        self._give_up: asyncio.TimerHandle | None = None
        self._closed: str | None = None
        self._sending = False
        """`_send` is under way: an answer may come before it returns."""
        self._staged: WeakSet[PendingAppend] = WeakSet()
        """Of open transactions: what is durable at this site, as far as its place is not known."""
        self.room = Room(lambda: 0 if self.waiting else 1)
        """Whether a further append would be sent at once."""
        self.seen = 0
        """The green line, as far as a site has reported it."""

    @property
    def quiet(self) -> bool:
        """Nothing is under way that another connection would disturb."""
        return not (self._sent or self.waiting or self._staged)

    def gather(self, data: bytes) -> tuple[PendingAppend, int]:
        """Adds a message to the append of this round of the loop. Returns that append, and the message's index."""
        pending = self._gathered
        if pending is None or pending.size + len(data) > APPEND_BYTES or pending.count >= APPEND_MESSAGES:
            pending = self._gathered = PendingAppend([], self.session, 0)
            self.waiting.append(pending)
            self._loop.call_soon(self._send)
        pending.messages.append(data)
        pending.count += 1
        pending.size += len(data)
        return pending, pending.count - 1

    def append(self, pending: PendingAppend) -> None:
        """Sends it as soon as it can; `pending` has what becomes of it."""
        if self._closed is not None:
            pending.end(None, Unavailable(self._closed))
            return
        if pending.kind is Kind.STAGED:
            self._staged.add(pending)
        self.waiting.append(pending)
        self._send()

    def found(self, pending: PendingAppend, runs: Runs) -> None:
        """Its messages have their places."""
        self._staged.discard(pending)
        for position, count in runs:
            if position is not None:
                self.seen = max(self.seen, position + count)

    # -- connections

    def connect(self, welcome: Welcome) -> None:
        """There is a connection, or there is one again."""
        self._unchecked_bytes = log_message_bytes(welcome.message_bytes) if welcome.minor >= LOG_MINOR else -1
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        self._send()

    def lose(self) -> None:
        """What was not answered waits for the next connection, before what was not sent."""
        self.waiting.extendleft(reversed(self._sent.values()))
        self._sent.clear()
        self._sent_bytes = 0
        self._send()

    def close(self, why: str) -> None:
        """What was not sent fails. What was sent over a socket may have arrived; a site within the program still
        answers."""
        self._closed = why
        if self._give_up is not None:
            self._give_up.cancel()
        lost = [*self._sent.values(), *self.waiting] if self._link.retries else list(self.waiting)
        self.waiting.clear()
        for pending in lost:
            pending.give_up(Unavailable(why))
        if self._link.retries:
            self._sent.clear()
        self.room.wake_all()

    def _too_late(self) -> None:
        self._give_up = None
        waiting = list(self.waiting)
        self.waiting.clear()
        for pending in waiting:
            pending.give_up(TimedOut(f"no connection in {self._link.timeout_s:g} s"))
        self.room.wake()

    # -- sending

    def _send(self) -> None:
        """What waits, as far as the window allows."""
        channel, waiting, sent = self._link.channel, self.waiting, self._sent
        self._gathered = None
        if channel is None:
            if waiting and self._give_up is None and self._link.timeout_s is not None:
                self._give_up = self._loop.call_later(self._link.timeout_s, self._too_late)
            return
        if self._sending:
            return  # the loop below comes to it
        self._sending = True
        limits, number = channel.welcome, self._link.requests.number
        try:
            while (
                waiting
                and len(sent) < limits.window_requests
                and self._sent_bytes < limits.window_bytes
                and not channel.held
            ):
                pending = waiting.popleft()
                if pending.done:
                    continue
                if pending.size > self._unchecked_bytes or pending.kind is not Kind.DATA:
                    try:
                        _check(channel, pending)
                    except Rejected as error:
                        pending.end(None, error)
                        continue
                if pending.session is not None and not pending.number:
                    self._give_number(pending)
                request = number()
                sent[request] = pending
                self._sent_bytes += pending.size
                pending.retried |= pending.sent
                pending.resent = pending.sent
                pending.sent = True
                channel.send(
                    Append(request, pending.messages, pending.session, pending.number, pending.kind),
                    pending.size + _REQUEST_BYTES + _MESSAGE_BYTES * pending.count,
                )
        finally:
            self._sending = False
        if not waiting and self.room.waiting:
            self.room.wake()

    def _give_number(self, pending: PendingAppend) -> None:
        """Only now, when it is sent: what is never sent leaves no gap."""
        if self._refused >= _MOST_REFUSED:
            self.session, self._number, self._refused = world().random_bytes(_SESSION_BYTES), 1, 0
        pending.session, pending.number = self.session, self._number
        self._number += pending.count

    # -- the site answers

    def answer(self, appended: Appended) -> None:
        """They are durable."""
        pending = self._sent.pop(appended.request, None)
        if pending is not None:
            self._sent_bytes -= pending.size
            self.seen = max(self.seen, appended.green)
            pending.end(appended)
        if self.waiting:
            self._send()

    def fail(self, request: int, error: ReconveneError) -> bool:
        """They are not, as far as the site knows. False: the request is none of these."""
        pending = self._sent.pop(request, None)
        if pending is None:
            return False
        self._sent_bytes -= pending.size
        if pending.session == self.session:
            self._refused += 1
        if isinstance(error, OutcomeUnknown) or (isinstance(error, Rejected | Unavailable) and not pending.resent):
            pending.end(None, error)
        else:
            # A site that was lost before it answered may have accepted it, whatever this one says.
            pending.end(None, OutcomeUnknown(str(error)))
        if self.waiting:
            self._send()
        return True


def _check(channel: RequestChannel, pending: PendingAppend) -> None:
    """Raises Rejected where the site would not take it."""
    check_minor(channel, LOG_MINOR if pending.kind is Kind.DATA else STAGING_MINOR)
    most = log_message_bytes(channel.welcome.message_bytes)
    if pending.size > most and (longest := max(map(len, pending.messages))) > most:
        raise Rejected(f"message of {longest} bytes: at most {most} are taken")


_NEEDS = {
    LOG_MINOR: "the log needs",
    STAGING_MINOR: "transactions need",
    INIT_MINOR: "beginning a log needs",
    NAMES_MINOR: "names of snapshots need",
    ISIS_MINOR: "process groups in the manner of ISIS need",
    WATCH_MINOR: "watching a process needs",
}


def check_minor(channel: RequestChannel, minor: int = LOG_MINOR) -> None:
    """Raises Rejected where the site does not know such requests."""
    welcome = channel.welcome
    if welcome.minor < minor:
        raise Rejected(
            f"{channel.address}: site {welcome.site} speaks version {welcome.major}.{welcome.minor} of the client "
            f"protocol: {_NEEDS[minor]} {welcome.major}.{minor}"
        )
