"""One client's connection to its site: handshake, requests in, answers and events out.

Promised: no client can hold up the site. A client that does not read is cut off at its limit. A client that exceeds
its window or breaks the protocol is refused. In each case its process leaves its groups.
"""

import asyncio
import logging
import socket
import struct
from typing import assert_never, cast

from reconvene.core.groups.events import GroupEvent
from reconvene.errors import ReconveneError, Rejected, Unavailable
from reconvene.runtime.access.auth import Admission, Endpoint, NotAdmitted, Role
from reconvene.runtime.clients.group_requests import WINDOW_BYTES, WINDOW_REQUESTS, ClientGroups
from reconvene.runtime.clients.intake import Intake
from reconvene.runtime.clients.isis_requests import ClientIsis
from reconvene.runtime.clients.log_requests import ClientLog
from reconvene.runtime.clients.output import ClientOutput
from reconvene.runtime.clients.server_state import ServerState
from reconvene.runtime.diagnostics.structured_logging import audit, event
from reconvene.runtime.domain.events import WideGroupEvent
from reconvene.transports import abort
from reconvene.wire.client_isis import IsisCast, IsisRequest
from reconvene.wire.client_log import Append, LogRequest
from reconvene.wire.clients import (
    MAJOR,
    MINOR,
    SLACK_BYTES,
    Block,
    Goodbye,
    Health,
    Hello,
    Join,
    Leave,
    Ping,
    Proof,
    Proven,
    Send,
    Status,
    Stop,
    Told,
    ToSite,
    Unreadable,
    Welcome,
)
from reconvene.wire.records import SEAL_BYTES

__all__ = ["SILENCE_S", "Connection"]

SILENCE_S = 30.0
"""A TCP client that sends nothing for this long is cut off: clients ping more often. Unix sockets need no such timer,
since the kernel closes them with the client."""
_UCRED = struct.Struct("iII")
"""pid, uid, gid"""
_LINGER_S = 5.0
"""How long a refused client may take to read why."""


class Connection(asyncio.Protocol):
    """A `Receiver` for the engine, a protocol for the event loop's transport."""

    def __init__(self, state: ServerState, endpoint: Endpoint, silence_s: float | None) -> None:
        self._state = state
        self.endpoint = endpoint
        self._silence_s = silence_s
        self._admission = Admission(endpoint, state.config)
        self._groups: ClientGroups | None = None
        """None until the handshake is over."""
        self._log: ClientLog | None = None
        """Made at the client's first request to the log."""
        self._isis: ClientIsis | None = None
        """Made at the client's first request about ISIS."""
        self._closed = False
        self.gone = False
        """Its transport is closed, and everything is written."""
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop
        self._transport: asyncio.Transport
        self._out: ClientOutput
        self._intake: Intake
        self._peer = ""
        self.host: str | None = None
        """Where the client is; None over the Unix socket."""

    # -- the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from it
        self._loop = asyncio.get_running_loop()
        self._transport = stream
        self._peer = _peer_name(stream)
        state = self._state
        self._out = ClientOutput(stream, state.config.limits.inbox_bytes, self._cut_off)
        self._intake = Intake(stream, self._receive, self._refuse)
        self.host = _host_of(stream)
        why_not = state.why_not(self.endpoint, self.host)
        if why_not is not None:
            self._refuse(Unavailable(why_not), "limit")
            return
        state.connections[self] = None
        self._timer = self._loop.call_later(state.config.clients.handshake_ns / 1e9, self._handshake_late)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if not self._closed:
            self._intake.feed(data)

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        self._close()

    # -- the engine calls

    def events(self, batch: list[GroupEvent]) -> None:
        assert self._groups is not None, "a process is opened after the handshake"
        self._groups.push(batch)

    def wide_events(self, batch: list[WideGroupEvent]) -> None:
        assert self._groups is not None, "a process is opened after the handshake"
        self._groups.push_wide(batch)

    # -- requests

    def _receive(self, message: ToSite | Unreadable) -> None:
        groups = self._groups
        if isinstance(message, Unreadable):
            if groups is None:
                raise Rejected(f"a request before the handshake: {message.reason}")
            self._out.fail(message.request, Rejected(message.reason))
            return
        if groups is None:
            self._receive_in_handshake(message)
            return
        match message:
            case Append() if self._log is not None:
                self._log.appends.append(message)
            case Send():
                groups.send(message)
            case Leave():
                groups.leave(message)
            case Ping(request=request):
                self._out.answer(request)
            case Hello() | Proof():
                raise Rejected("a second handshake on one connection")
            case IsisCast() if self._isis is not None:
                self._isis.receive(message)
            case Join() | Status() | Health() | Block() | Stop():
                self._carry_out(message, groups)
            case _ if isinstance(message, IsisRequest):
                self._ask_isis(message)
            case _:
                self._ask_log(message)

    def _carry_out(self, message: Join | Status | Health | Block | Stop, groups: ClientGroups) -> None:
        engine = self._state.engine
        try:
            match message:
                case Join():
                    groups.join(message)
                case Status():
                    self._out.push(Told(message.request, engine.status()), 16 << 10)
                case Health():
                    self._out.push(Told(message.request, engine.health()))
                case Block():
                    self._need(Role.ADMIN, "inject faults")
                    blocks = engine.above if message.above else engine
                    if blocks is None:
                        raise Rejected(f"site {self._state.config.name} is no gateway: see domain.gateways")
                    names = blocks.names
                    blocks.block(_ordinals(names, message.incoming), _ordinals(names, message.outgoing))
                    audit(
                        "faults injected", self._who, incoming=message.incoming, outgoing=message.outgoing,
                        above=message.above or None,
                    )  # fmt: skip
                    self._out.answer(message.request)
                case Stop():
                    self._need(Role.ADMIN, "stop the site")
                    audit("site stopped", self._who)
                    self._out.answer(message.request)
                    self._state.stop()
                case _:
                    assert_never(message)
        except ReconveneError as error:
            self._out.fail(message.request, error)

    def _ask_log(self, message: LogRequest) -> None:
        if self._log is None:
            state = self._state
            port, config = state.engine.log, state.config
            if port is None:
                self._out.fail(
                    message.request, Rejected(f"site {config.name} takes no part in the log: see log.enabled")
                )
                return
            self._log = ClientLog(
                port, self._out, self._need, config.log.red_messages, config.log.snapshot_bytes,
                self._admission.minor, who=self._who,
            )  # fmt: skip
        self._log.receive(message)

    def _ask_isis(self, message: IsisRequest) -> None:
        if self._isis is None:
            state = self._state
            port = state.engine.isis
            if port is None:
                self._out.fail(
                    message.request, Rejected(f"site {state.config.name} takes no part in ISIS: see isis.enabled")
                )
                return
            self._isis = ClientIsis(port, self._out, self._need, minor=self._admission.minor)
        self._isis.receive(message)

    def _need(self, role: Role, what: str) -> None:
        own = self._admission.role
        if own is None or own < role:
            self._state.counts["requests_refused"] += 1
            event(
                self._state.log, logging.WARNING, "request refused", client=self._who, what=what,
                role=None if own is None else own.label, needed=role.label,
            )  # fmt: skip
            have = "none" if own is None else own.label
            raise Rejected(f"the role {role.label} is needed to {what}, this client has {have}")

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
        state = self._state
        config, engine, role = state.config, state.engine, self._admission.role
        assert role is not None, "the handshake assigned a role"
        process = engine.open(self)
        self._groups = ClientGroups(process, self._out, self._need)
        self._intake.allow(config.limits.message_bytes + SLACK_BYTES + SEAL_BYTES)
        state.counts["clients"] += 1
        event(state.log, logging.DEBUG, "client connected", client=self._who, role=role.label)
        self._out.push(
            Welcome(
                MAJOR, MINOR, config.cluster, config.name, list(engine.names), process.process,
                role.label, config.limits.message_bytes, WINDOW_REQUESTS, WINDOW_BYTES,
            )
        )  # fmt: skip
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._silence_s is not None:
            self._timer = self._loop.call_later(self._silence_s, self._check_silence)

    def _handshake_late(self) -> None:
        self._refuse(Rejected("the handshake took too long"), "late")

    def _check_silence(self) -> None:
        assert self._silence_s is not None, "only TCP clients have an idle timer"
        silent = self._loop.time() - self._heard_at
        if silent >= self._silence_s:
            self._cut_off(f"silent for {silent:.0f} s")
        else:
            self._timer = self._loop.call_later(self._silence_s - silent, self._check_silence)

    @property
    def _who(self) -> str:
        return f"{self._admission.name}@{self._peer}" if self._admission.name else self._peer

    # -- the end

    def goodbye(self, reason: str) -> None:
        """The site is stopping."""
        if not self._closed:
            self._out.push(Goodbye(reason))
            self._out.flush()
            self._close()

    def abort(self) -> None:
        self._out.abort()
        self._close()
        abort(self._transport)

    def _refuse(self, error: ReconveneError, reason: str = "protocol") -> None:
        if self._closed:
            return
        reason = error.reason if isinstance(error, NotAdmitted) else reason
        self._state.refused(reason, self._who, str(error))
        self._out.refuse(error)
        self._out.flush()
        self._close()
        # A client that does not read the reason either is dropped soon.
        self._loop.call_later(_LINGER_S, abort, self._transport)

    def _cut_off(self, why: str) -> None:
        self._state.counts["clients_cut_off"] += 1
        event(self._state.log, logging.WARNING, "client cut off", client=self._who, why=why)
        self.abort()

    def _close(self) -> None:
        """The client's process leaves its groups, and nothing of the connection is kept."""
        if self._closed:
            return
        self._closed = True
        self._state.connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._log is not None:
            self._log.close()
        if self._isis is not None:
            self._isis.close()
        self._intake.close()
        self._out.close()
        if self._groups is not None:
            self._groups.close()
        self._transport.close()


def _host_of(transport: asyncio.Transport) -> str | None:
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and len(peer) >= 2 else None


def _peer_name(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple) and len(peer) >= 2:
        return f"{peer[0]}:{peer[1]}"
    found = _credentials(transport)
    return "unix" if found is None else f"unix:uid:{found[1]}:pid:{found[0]}"


def _credentials(transport: asyncio.Transport) -> tuple[int, int] | None:
    """Process and user at the other end of a Unix socket, as they were when it connected; None: not known."""
    stream = transport.get_extra_info("socket")
    if stream is None or not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        process, user, _ = _UCRED.unpack(stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError:
        return None
    return process, user


def _ordinals(names: tuple[str, ...], sites: list[str]) -> frozenset[int]:
    unknown = sorted(set(sites) - set(names))
    if unknown:
        raise Rejected(f"no site {unknown[0]!r} in this cluster: {', '.join(names)} expected")
    return frozenset(names.index(name) for name in sites)
