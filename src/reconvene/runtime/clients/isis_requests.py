"""Process groups in the manner of ISIS, as one client uses them: its requests in, what its process receives out.

Given: the site's ISIS layer. Promised: a client acts for its own process only. Every request is answered: when it is
carried out, when it is refused, or when the process is killed before that. What waits to be carried out is bounded.
Where the connection ends, the process is dead, unless the client closed it before.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import assert_never

from reconvene.core.groups.events import Process
from reconvene.errors import ReconveneError, Rejected, Unavailable
from reconvene.ids import MessageId
from reconvene.isis import events
from reconvene.isis.events import CastId, IsisEvent, Sent
from reconvene.isis.far_events import FarProcess, FarReceived
from reconvene.runtime.access.auth import Role
from reconvene.runtime.clients.answers import Answers, Overstepped
from reconvene.runtime.clients.isis_wide import said_of
from reconvene.runtime.isis.interface import IsisHandle, SiteIsis
from reconvene.wire import client_isis as wire
from reconvene.wire.client_isis import HELD_BYTES, HELD_REQUESTS
from reconvene.wire.clients import MINOR, WIDE_ISIS_MINOR, Told

__all__ = ["ClientIsis"]

_KINDS = {"cbcast": 0, "abcast": 1, "gbcast": 2}
_PROCESS_BYTES = 16
_KILLED = "this process was killed before it was carried out: the others had gone on without its site"


class ClientIsis:
    """An `IsisReceiver` of the site."""

    def __init__(
        self,
        port: SiteIsis,
        out: Answers,
        need: Callable[[Role, str], None],
        sent: Callable[[int, int], None] | None = None,
        minor: int = MINOR,
    ) -> None:
        """`need` raises Rejected where the client lacks a role. `sent`: of a client in the same program: called with
        the request and the counter of each cast that has its id. `minor`: of the client's protocol."""
        self._port = port
        self._out = out
        self._need = need
        self._tell_at_once = sent
        self._knows_wide = minor >= WIDE_ISIS_MINOR
        self._loop = asyncio.get_running_loop()
        self._process: IsisHandle | None = None
        self._open: dict[int, int] = {}
        """By request that is not carried out yet: its bytes."""
        self._open_bytes = 0
        self._sent = wire.IsisSent([], [])
        """Casts that have their ids, and whose client is not told yet."""

    def close(self) -> None:
        """The connection has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    # -- requests

    def receive(self, message: wire.IsisRequest) -> None:
        """Raises Overstepped if a client exceeds its limits: the caller ends its connection."""
        try:
            if type(message) is wire.IsisCast:
                self._cast(message)
            else:
                self._carry_out(message)
        except Overstepped:
            raise
        except ReconveneError as error:
            self._open_bytes -= self._open.pop(message.request, 0)
            self._out.fail(message.request, error)

    def _cast(self, cast: wire.IsisCast) -> None:
        self._need(Role.APPEND, "cast")
        process = self._own()
        request, kind, label = cast.request, cast.kind, cast.label
        to = cast.to if isinstance(cast.to, str) else [Process(*where) for where in cast.to]
        more = cast.more
        size = len(cast.payload) + sum(map(len, more)) if more else len(cast.payload)
        done = self._hold(request, size, self._cast_done)
        if kind == 0:
            process.cbcast(to, cast.payload, label, cast.replies, done, more)
        elif more:
            raise Rejected("only CBCASTs go together")
        elif kind == wire.GBCAST:
            if not isinstance(to, str) or label is not None or cast.replies:
                raise Rejected("a GBCAST goes to a group, without a label, and asks for no replies")
            process.gbcast(to, cast.payload, done)
        elif isinstance(label, dict):
            raise Rejected("the label of an ABCAST is text: the name of its queue")
        else:
            process.abcast(to, cast.payload, label or "", kind == wire.CAUSAL_ABCAST, cast.replies, done)

    def _carry_out(self, message: wire.IsisRequest) -> None:
        match message:
            case wire.IsisOpen():
                self._begin(message)
            case wire.IsisClose():
                process, self._process = self._process, None
                if process is not None:
                    process.close()
            case wire.IsisJoin():
                self._join(message)
            case wire.IsisLeave(request=request, group=group):
                self._own().leave(group, self._hold(request, 0, self._done))
            case wire.IsisCast():
                self._cast(message)
            case wire.IsisReply(request=request):
                self._need(Role.APPEND, "reply")
                done = self._hold(request, len(message.payload), self._done)
                self._own().reply(CastId(*message.cast), message.payload, done)
            case wire.IsisRank(request=request):
                self._need(Role.APPEND, "rank the members of a group")
                order = [Process(*where) for where in message.order]
                self._own().rank(message.group, order, self._hold(request, 0, self._done))
            case wire.IsisSet(request=request):
                self._need(Role.APPEND, "set properties of a group")
                size = sum(map(len, message.properties.values()))
                self._own().set_properties(message.group, message.properties, self._hold(request, size, self._done))
            case wire.IsisDelete(request=request):
                self._need(Role.APPEND, "delete a group")
                self._own().delete(message.group, self._hold(request, 0, self._done))
            case wire.IsisFlush(request=request):
                self._own().flush(self._hold(request, 0, self._done))
            case wire.IsisGive(request=request):
                self._need(Role.APPEND, "give a group's state")
                done = self._hold(request, len(message.data), self._done)
                newcomer = Process(*message.newcomer)
                self._own().give(
                    message.group, message.view, newcomer, message.index, message.data, message.last, done
                )
            case wire.IsisWatch(request=request):
                self._own().watch(Process(*message.process))
                self._out.answer(request)
            case wire.IsisGroups(request=request, wide=wide):
                self._out.push(Told(request, self._port.wide_groups() if wide else self._port.groups()), 16 << 10)
            case wire.IsisWideCast():
                self._wide_cast(message)
            case wire.IsisWideReply(request=request):
                self._need(Role.APPEND, "reply")
                done = self._hold(request, len(message.payload), self._done)
                self._own().wide_reply(MessageId(*message.cast), message.payload, done)
            case wire.IsisWideWatch(request=request):
                self._own().wide_watch(FarProcess(*message.process))
                self._out.answer(request)
            case _:
                assert_never(message)

    def _wide_cast(self, cast: wire.IsisWideCast) -> None:
        self._need(Role.APPEND, "cast")
        if cast.kind in (wire.GBCAST, wire.CAUSAL_ABCAST):
            what = "a GBCAST" if cast.kind == wire.GBCAST else "a causal ABCAST"
            raise Rejected(f"{what} does not pass between clusters: a CBCAST or an ABCAST expected")
        process, label = self._own(), cast.label
        to = cast.to if isinstance(cast.to, str) else [FarProcess(*where) for where in cast.to]
        done = self._hold(cast.request, len(cast.payload), self._cast_done)
        if cast.kind == 0:
            process.wide_cbcast(to, cast.payload, label, cast.replies, done)
        elif isinstance(label, dict):
            raise Rejected("the label of an ABCAST is text: the name of its queue")
        else:
            process.wide_abcast(to, cast.payload, label or "", cast.replies, done)

    def _begin(self, message: wire.IsisOpen) -> None:
        if self._process is not None:
            raise Rejected("this client has a process already")
        self._process = self._port.open(self, message.name)
        self._out.push(wire.IsisOpened(message.request, self._process.process))

    def _join(self, join: wire.IsisJoin) -> None:
        if join.answers or join.state:
            self._need(Role.APPEND, "join a group with its state, or to answer in it")
        self._own().join(
            join.group,
            state=join.state,
            vector=join.vector,
            answers=join.answers,
            last_to_fail=join.last_to_fail,
            wide=join.wide,
            done=self._hold(join.request, 0, self._done),
        )

    def _own(self) -> IsisHandle:
        if self._process is None:
            raise Rejected("this client has no process: IsisOpen expected first")
        return self._process

    def _hold(self, request: int, size: int, then: Callable[[int, CastId | None], None]) -> Sent:
        if len(self._open) >= HELD_REQUESTS or self._open_bytes > HELD_BYTES:
            raise Overstepped(f"more than {HELD_REQUESTS} requests or {HELD_BYTES} bytes wait to be carried out")
        self._open[request] = size
        self._open_bytes += size

        def done(cast: CastId | None) -> None:
            held = self._open.pop(request, None)
            if held is not None:
                self._open_bytes -= held
                then(request, cast)

        return done

    def _done(self, request: int, cast: CastId | None) -> None:
        self._out.answer(request)

    def _cast_done(self, request: int, cast: CastId | None) -> None:
        if cast is None:
            self._out.fail(request, Rejected("nobody is left to send it to"))
        elif self._tell_at_once is not None:
            self._tell_at_once(request, cast.counter)
        else:
            sent = self._sent
            if not sent.requests:
                self._loop.call_soon(self._tell_sent)
            sent.requests.append(request)
            sent.counters.append(cast.counter)

    def _tell_sent(self) -> None:
        sent = self._sent
        if sent.requests:
            self._sent = wire.IsisSent([], [])
            self._out.push(sent, 12 * len(sent.requests))

    # -- the site calls

    def isis_events(self, batch: list[IsisEvent]) -> None:
        self._tell_sent()  # a reply comes after the cast's own id
        at, end = 0, len(batch)
        push = self._out.push
        while at < end:
            event = batch[at]
            if type(event) is events.Received:
                at = self._push_casts(batch, at)
                continue
            at += 1
            match event:
                case events.Answered():
                    size = len(event.payload) + 32
                    push(wire.IsisReplied(event.id.counter, event.sender, event.payload), size)
                case events.Failed():
                    push(
                        wire.IsisFailed(event.sender)
                        if event.id is None
                        else wire.IsisReplied(event.id.counter, event.sender, None)
                    )
                case events.CallOver():
                    push(wire.IsisOver(event.id.counter))
                case events.ViewShown():
                    size = _PROCESS_BYTES * len(event.ranked) + sum(map(len, event.properties.values()))
                    push(
                        wire.IsisViewed(
                            event.group, event.view, list(event.ranked), event.properties, list(event.lost),
                            list(event.last_to_fail), event.newcomer, event.number,
                        ),
                        size,
                    )  # fmt: skip
                case events.LeftGroup():
                    push(wire.IsisLeft(event.group, event.deleted))
                case events.StateWanted():
                    push(wire.IsisWanted(event.group, event.view, event.newcomer, event.first))
                case events.StateTaken():
                    push(wire.IsisTaken(event.group, event.newcomer))
                case events.StateChunk():
                    if event.member is not None:
                        size = len(event.data) + 64
                        push(wire.IsisChunk(event.group, event.index, event.data, event.member), size)
                case events.StateDone():
                    push(wire.IsisStated(event.group))
                case events.Blocked():
                    push(wire.IsisBlocked())
                case events.Killed():
                    self._fail_open()
                    push(wire.IsisKilled(event.process))
                case _ if self._knows_wide:
                    for said, size in said_of(event):
                        push(said, size)
                case FarReceived() if event.replies and self._process is not None:
                    with suppress(ReconveneError):  # whoever asked may be out of reach by now
                        self._process.wide_reply(event.id, b"", _nothing)  # an older client can't read it

    def _push_casts(self, batch: Sequence[IsisEvent], at: int) -> int:
        """Casts of one sender that follow each other go together. Returns where it goes on."""
        first = batch[at]
        assert isinstance(first, events.Received)
        payloads = [first.payload, *first.more]
        sender, kind, group, view, replies = first.sender, first.kind, first.group, first.view, first.replies
        counter = first.id.counter
        at += 1
        if not replies:
            while at < len(batch):
                event = batch[at]
                if (
                    type(event) is not events.Received
                    or event.sender != sender
                    or event.id.counter != counter + len(payloads)
                    or event.kind != kind
                    or event.group != group
                    or event.view != view
                    or event.replies
                ):
                    break
                payloads.append(event.payload)
                payloads += event.more
                at += 1
        clock = first.clock if replies else 0
        casts = wire.IsisCasts(_KINDS[kind], sender, group, view, counter, payloads, replies, clock)
        self._out.push(casts, sum(map(len, payloads)) + 5 * len(payloads) + 64)
        return at

    def _fail_open(self) -> None:
        waiting, self._open, self._open_bytes = self._open, {}, 0
        for request in waiting:
            self._out.fail(request, Unavailable(_KILLED))


def _nothing(cast: CastId | None) -> None:
    """Nobody waits for it."""
