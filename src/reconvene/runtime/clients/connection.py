"""One client at its site: handshake, requests in, answers and pushes out.

Promised: whatever the client does, the site is not held up. One that does not read is cut off at its limit, one that
sends more than its window or not what the protocol says is refused, and in each case its process leaves its groups.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import assert_never, cast

from reconvene.core.groups import events
from reconvene.core.groups.events import GroupEvent, Process
from reconvene.errors import Malformed, OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.ids import Service
from reconvene.runtime.access.auth import Admission, Door, Role
from reconvene.runtime.clients.intake import Intake
from reconvene.runtime.clients.log_requests import ClientLog
from reconvene.runtime.clients.output import ClientOutput
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import event
from reconvene.runtime.site.interface import Engine, ProcessHandle
from reconvene.wire.client_log import LogRequest
from reconvene.wire.clients import (
    MAJOR,
    MINOR,
    SLACK_BYTES,
    Block,
    Blocked,
    Failed,
    Goodbye,
    Health,
    Hello,
    Join,
    Joined,
    Leave,
    Left,
    Ping,
    Proof,
    Proven,
    Refused,
    Send,
    Status,
    Stop,
    Told,
    ToSite,
    Unreadable,
    Welcome,
)
from reconvene.wire.records import SEAL_BYTES

__all__ = ["SILENCE_S", "WINDOW_BYTES", "WINDOW_REQUESTS", "Connection", "Premises"]

WINDOW_REQUESTS = 1_024
WINDOW_BYTES = 4 << 20
"""Of Sends that a client may have unanswered: enough to keep a site busy over a round trip."""
SILENCE_S = 30.0
"""A TCP client that says nothing for this long is gone: clients ping more often. A Unix socket tells by itself."""
_LINE = 2_000
_NOT_YET_S = 0.01
_LINGER_S = 5.0
"""How long a refused client may take to read why."""


@dataclass(slots=True)
class Premises:
    """What all connections of a site share."""

    engine: Engine
    config: Config
    log: logging.Logger
    stop: Callable[[], None]
    """Asks the site to end."""
    connections: dict["Connection", None] = field(default_factory=dict)
    """In the order of their arrival."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("clients", "clients_refused", "clients_cut_off"), 0)
    )

    def here(self, door: Door) -> int:
        """How many came in by that door. Each has a limit of its own: strangers at one must not shut the other."""
        return sum(connection.door is door for connection in self.connections)

    def why_not(self, door: Door, host: str | None, arriving: Sequence[str] = ()) -> str | None:
        """Why one more can't be taken at this door, besides those that are arriving. `host`: None for the Unix
        socket."""
        clients = self.config.clients
        if self.here(door) + len(arriving) >= clients.connections:
            return f"site {self.config.name} has {clients.connections} clients, its limit"
        if host is None:
            return None
        there = sum(connection.door is door and connection.host == host for connection in self.connections)
        if there + list(arriving).count(host) >= clients.connections_by_host:
            return (
                f"site {self.config.name} has {clients.connections_by_host} clients of {host}, its limit for one host"
            )
        return None


class Connection(asyncio.Protocol):
    """A Receiver to its engine, a protocol to its transport."""

    def __init__(self, premises: Premises, door: Door, silence_s: float | None) -> None:
        self._premises = premises
        self.door = door
        self._silence_s = silence_s
        self._admission = Admission(door, premises.config)
        self._access: ProcessHandle | None = None
        self._memberships: set[int] = set()
        """This process's own: a client may not speak for another one."""
        self._muted: set[int] = set()
        """Those that only send."""
        self._waiting: deque[Send | Leave] = deque()
        """Sends for which the site had no room, and what must come after them."""
        self._waiting_bytes = 0
        self._taken = 0
        """Of the first of them."""
        self._pump: asyncio.Task[None] | None = None
        self._log: ClientLog | None = None
        """Made when the client first asks for the log."""
        self._closed = False
        self.gone = False
        """Its transport is closed, with all that was to be written."""
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop
        self._transport: asyncio.Transport
        self._out: ClientOutput
        self._intake: Intake
        self._peer = ""
        self.host: str | None = None
        """Where it comes from; None by the Unix socket."""

    # -- the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's are of no such class
        self._loop = asyncio.get_running_loop()
        self._transport = stream
        self._peer = _peer_name(stream)
        premises = self._premises
        self._out = ClientOutput(stream, premises.config.limits.inbox_bytes, self._cut_off)
        self._intake = Intake(stream, self._receive, self._refuse)
        self.host = _host_of(stream)
        why_not = premises.why_not(self.door, self.host)
        if why_not is not None:
            self._refuse(Unavailable(why_not))
            return
        premises.connections[self] = None
        self._timer = self._loop.call_later(premises.config.clients.handshake_ns / 1e9, self._handshake_late)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if not self._closed:
            self._intake.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        self._close()

    # -- the engine calls

    def events(self, batch: list[GroupEvent]) -> None:
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

    # -- requests

    def _receive(self, message: ToSite | Unreadable) -> None:
        if isinstance(message, Unreadable):
            if self._access is None:
                raise Rejected(f"a request before the handshake: {message.reason}")
            self._fail(message.request, Rejected(message.reason))
            return
        if self._access is None:
            self._receive_in_handshake(message)
            return
        match message:
            case Send():
                self._send(message)
            case Leave():
                self._leave(message)
            case Ping(request=request):
                self._out.answer(request)
            case Hello() | Proof():
                raise Rejected("a second handshake on one connection")
            case Join() | Status() | Health() | Block() | Stop():
                self._carry_out(message, self._access)
            case _:
                self._ask_log(message)

    def _carry_out(self, message: Join | Status | Health | Block | Stop, access: ProcessHandle) -> None:
        engine = self._premises.engine
        try:
            match message:
                case Join():
                    membership = access.join(message.group, message.primary)
                    self._memberships.add(membership)
                    if not message.receive:
                        self._muted.add(membership)
                    self._out.push(Joined(message.request, membership))
                case Status():
                    self._out.push(Told(message.request, engine.status()), 16 << 10)
                case Health():
                    self._out.push(Told(message.request, engine.health()))
                case Block():
                    self._need(Role.ADMIN, "inject faults")
                    engine.block(self._ordinals(message.incoming), self._ordinals(message.outgoing))
                    self._out.answer(message.request)
                case Stop():
                    self._need(Role.ADMIN, "stop the site")
                    event(self._premises.log, logging.INFO, "a client stops the site", client=self._who)
                    self._out.answer(message.request)
                    self._premises.stop()
                case _:
                    assert_never(message)
        except ReconveneError as error:
            self._fail(message.request, error)

    def _ask_log(self, message: LogRequest) -> None:
        if self._log is None:
            premises = self._premises
            port, config = premises.engine.log, premises.config
            if port is None:
                self._fail(message.request, Rejected(f"site {config.name} takes no part in the log: see log.enabled"))
                return
            self._log = ClientLog(
                port, self._out, self._need, self._fail, config.log.red_messages, config.log.snapshot_bytes,
                self._admission.minor,
            )  # fmt: skip
        self._log.receive(message)

    def _ordinals(self, sites: list[str]) -> frozenset[int]:
        names = self._premises.engine.names
        unknown = sorted(set(sites) - set(names))
        if unknown:
            raise Rejected(f"no site {unknown[0]!r} in this cluster: {', '.join(names)} expected")
        return frozenset(names.index(name) for name in sites)

    def _need(self, role: Role, what: str) -> None:
        own = self._admission.role
        if own is None or own < role:
            event(
                self._premises.log, logging.WARNING, "request refused", client=self._who, what=what,
                role=None if own is None else own.label, needed=role.label,
            )  # fmt: skip
            have = "none" if own is None else own.label
            raise Rejected(f"the role {role.label} is needed to {what}, this client has {have}")

    # -- sends, in their order, with what must not overtake them

    def _send(self, send: Send) -> None:
        if self._waiting:
            self._queue(send)
            return
        taken = self._submit(send, 0)
        if taken < len(send.payloads):
            self._taken = taken
            self._queue(send)

    def _submit(self, send: Send, start: int) -> int:
        """How many are settled, from the first on. Answers when that is all of them."""
        access = self._access
        assert access is not None, "requests come after the handshake"
        payloads = send.payloads[start:] if start else send.payloads
        try:
            self._need(Role.APPEND, "send")
            self._check_own(send.membership)
            to = None if send.to is None else tuple(Process(*where) for where in send.to)
            taken = start + access.send(send.membership, Service(send.service), payloads, to)
        except ReconveneError as error:
            self._fail(send.request, error, start)
            return len(send.payloads)
        if taken == len(send.payloads):
            self._out.answer(send.request)
        return taken

    def _leave(self, leave: Leave) -> None:
        if self._waiting:
            self._queue(leave)
        else:
            self._leave_now(leave)

    def _leave_now(self, leave: Leave) -> None:
        access = self._access
        assert access is not None, "requests come after the handshake"
        try:
            self._check_own(leave.membership)
            access.leave(leave.membership)
        except ReconveneError as error:
            self._fail(leave.request, error)
        else:
            self._out.answer(leave.request)

    def _check_own(self, membership: int) -> None:
        if membership not in self._memberships:
            raise Rejected(f"this client has no membership {membership}")

    def _queue(self, request: Send | Leave) -> None:
        if len(self._waiting) > WINDOW_REQUESTS or self._waiting_bytes > WINDOW_BYTES:
            raise Rejected(f"more than {WINDOW_REQUESTS} requests or {WINDOW_BYTES} bytes were sent unanswered")
        self._waiting.append(request)
        self._waiting_bytes += _bytes_of(request)
        if self._pump is None:
            self._pump = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        """While the site's queue is full. Its end is the end of waiting."""
        access = self._access
        assert access is not None, "requests come after the handshake"
        while self._waiting and not self._closed:
            first = self._waiting[0]
            if isinstance(first, Send):
                try:
                    await access.room()
                except ReconveneError as error:
                    self._fail(first.request, error, self._taken)
                    self._taken = len(first.payloads)
                if self._closed:
                    return
                if self._taken < len(first.payloads):
                    before, self._taken = self._taken, self._submit(first, self._taken)
                    if self._taken == before:
                        # There is room, but not for this: its membership has not begun yet.
                        await asyncio.sleep(_NOT_YET_S)
                if self._taken < len(first.payloads):
                    continue
            self._taken = 0
            self._waiting.popleft()
            self._waiting_bytes -= _bytes_of(first)
            if isinstance(first, Leave):
                self._leave_now(first)
        self._pump = None

    # -- handshake

    def _receive_in_handshake(self, message: ToSite) -> None:
        admission = self._admission
        match message:
            case Hello():
                challenge = admission.hello(message)
                if challenge is not None:
                    self._out.push(challenge)
                    return
            case Proof():
                self._out.push(Proven(admission.proof(message)))
                seals = admission.seals()
                if seals is not None:
                    self._intake.opener, sealer = seals
                    self._out.seal_from_now_on(sealer)
            case _:
                raise Rejected("a request before the handshake")
        self._welcome()

    def _welcome(self) -> None:
        premises = self._premises
        config, engine, role = premises.config, premises.engine, self._admission.role
        assert role is not None, "whoever is welcome has a role"
        self._access = engine.open(self)
        self._intake.allow(config.limits.message_bytes + SLACK_BYTES + SEAL_BYTES)
        premises.counts["clients"] += 1
        event(premises.log, logging.DEBUG, "client connected", client=self._who, role=role.label)
        self._out.push(
            Welcome(
                MAJOR, MINOR, config.cluster, config.name, list(engine.names), self._access.process,
                role.label, config.limits.message_bytes, WINDOW_REQUESTS, WINDOW_BYTES,
            )
        )  # fmt: skip
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._silence_s is not None:
            self._timer = self._loop.call_later(self._silence_s, self._listen)

    def _handshake_late(self) -> None:
        self._refuse(Rejected("the handshake took too long"))

    def _listen(self) -> None:
        assert self._silence_s is not None, "only who is listened for has the timer"
        silent = self._loop.time() - self._heard_at
        if silent >= self._silence_s:
            self._cut_off(f"silent for {silent:.0f} s")
        else:
            self._timer = self._loop.call_later(self._silence_s - silent, self._listen)

    @property
    def _who(self) -> str:
        return f"{self._admission.name}@{self._peer}" if self._admission.name else self._peer

    def _fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        self._out.push(Failed(request, _kind_of(error), str(error)[:_LINE], taken))

    # -- the end

    def goodbye(self, reason: str) -> None:
        """The site is stopping."""
        if not self._closed:
            self._out.push(Goodbye(reason))
            self._out.flush()
            self._close()

    def abort(self) -> None:
        self._close()
        self._transport.abort()

    def _refuse(self, error: ReconveneError) -> None:
        if self._closed:
            return
        premises = self._premises
        premises.counts["clients_refused"] += 1
        event(premises.log, logging.WARNING, "client refused", client=self._who, why=str(error))
        self._out.push(Refused(_kind_of(error), str(error)[:_LINE]))
        self._out.flush()
        self._close()
        # Who does not read the reason either keeps nothing here for long.
        self._loop.call_later(_LINGER_S, self._transport.abort)

    def _cut_off(self, why: str) -> None:
        self._premises.counts["clients_cut_off"] += 1
        event(self._premises.log, logging.WARNING, "client cut off", client=self._who, why=why)
        self.abort()

    def _close(self) -> None:
        """Its process leaves its groups, and nothing of it is kept."""
        if self._closed:
            return
        self._closed = True
        self._premises.connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._pump is not None:
            self._pump.cancel()
        if self._log is not None:
            self._log.close()
        self._waiting.clear()
        self._intake.close()
        self._out.close()
        if self._access is not None:
            self._access.close()
        self._transport.close()


def _host_of(transport: asyncio.Transport) -> str | None:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and len(peer) >= 2 else None


def _peer_name(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) >= 2 else "unix"


def _bytes_of(request: Send | Leave) -> int:
    return sum(map(len, request.payloads)) if isinstance(request, Send) else 0


def _kind_of(error: ReconveneError) -> str:
    match error:
        case Rejected():
            return "rejected"
        case OutcomeUnknown():
            return "unknown"
        case Malformed():
            return "malformed"
        case _:
            return "unavailable"
