"""One simulated process around one site: its clock, receive buffer, disk and application.

Given: datagrams, syncs, and the orders to start, crash, pause and go on.
Promised: the site sees what a process of its own would: turns that end in one flush, effects performed in their
order, timers that are never early, nothing at all while it is paused, and only what was synced after a crash.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappush
from random import Random
from typing import NamedTuple

from reconvene.core.effects import Event
from reconvene.core.options import Options
from reconvene.core.record import KEY
from reconvene.corel.events import LogEvent
from reconvene.corel.following.source import Source
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import MAX_SITES, Service
from reconvene.isis.events import IsisEvent
from reconvene.sim.calls import Calls, Connection
from reconvene.sim.core import Core, Datagrams, Joining, LogCore, LogLike, SiteLike, StoringCore
from reconvene.sim.disk import Disk
from reconvene.sim.forward_server import ForwardServer
from reconvene.sim.isis_application import NodeProcesses
from reconvene.sim.isis_face import HasProcesses
from reconvene.sim.isis_scenario import IsisVerb
from reconvene.sim.log_server import LogServer
from reconvene.sim.loop import NEVER, Loop
from reconvene.sim.network import Network
from reconvene.stack.stack import Stack
from reconvene.storage.tables import Put
from reconvene.trace.events import Row
from reconvene.trace.group_recorder import GroupRecorder
from reconvene.trace.isis_recorder import IsisRecorder
from reconvene.trace.log_past import log_past
from reconvene.trace.log_recorder import LogRecorder
from reconvene.trace.recorder import Recorder
from reconvene.trace.wide_recorder import WideRecorder

__all__ = ["Node"]

_TURN_AROUND_NS = 10_000
"""From what an application receives to what it sends in answer, so that time moves on where it always answers."""

_MOST_TICKS = 1_000
"""At one instant: a site that never gets beyond its deadline would otherwise stop time."""

_EPOCH_NS = 1_700_000_000_000_000_000
"""The simulated clocks' midnight, as ns since 1970."""

_RECORD = KEY.encode()
_ORIGIN = "sim"
"""The cluster's name, for those who follow its log."""


class _SyncDoom(NamedTuple):
    before: Callable[[], None]
    completes: bool


class Node:
    """`site` is None while the process is down."""

    def __init__(
        self,
        name: str,
        ordinal: int,
        names: Sequence[str],
        loop: Loop,
        options: Options,
        core: Core | LogCore,
        random: Random,
    ) -> None:
        self.name = name
        self.ordinal = ordinal
        self.loop = loop
        self.disk = Disk(loop, random, self._synced)
        self.site: SiteLike | None = None
        self.log: LogLike | None = None
        """The same site, where it keeps the log."""
        self.processes: NodeProcesses | None = None
        """Where there are process groups: the application's."""
        self.paused = False
        self._starts = 0
        """Of this node, whatever its disk remembers."""
        self.offset = 0
        """This node's clock, less the loop's time."""
        self.overflow = 0
        """Datagrams that its receive buffer had no room for."""
        self.submitted = 0
        """Messages of the application that its site has taken, but for the log's."""
        self.on_crash: Callable[[], None] | None = None
        """Where the process holds another site besides: that one is over too …"""
        self.process: object = None
        """… and this is the process."""
        self.wide_recorder: WideRecorder | None = None
        """Where the site's cluster is one of several."""
        self.absent = False
        """It is not in the list of sites: it was not added yet, or it was removed, and is down for good."""
        self.replicas_changed = False
        """Whether the log's replicas, or their quorum, have not been those that it began with, or a change of them
        was proposed here."""
        self.numbered: list[str] | None = [] if isinstance(core, Joining) else None
        """Where the list of sites changes: its names, by number."""
        self.awaits_list = False
        """It is added to the list: it starts once it has heard of that."""
        self._names = tuple(names)
        self._options = options
        self._core = core
        self._random = random
        self._network: Network
        self._recorder: Recorder
        self._group_recorder: GroupRecorder
        self._rows: Sequence[Row]
        self._log_recorder: LogRecorder | None = None
        self._observe_log: Callable[[Node, list[LogEvent]], None] | None = None
        self._observe_append: Callable[[Node, int, list[bytes]], None] | None = None
        self._isis_recorder: IsisRecorder
        self._observe_isis: Callable[[Node, list[IsisEvent]], None] | None = None
        self._observe: Callable[[Node, list[Event]], None] | None = None
        self._after_turn: Callable[[Node], None] | None = None
        self._outbox: deque[tuple[Service, bytes]] = deque()
        self._appends: deque[bytes] = deque()
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._held_tokens: list[int] = []
        self._timer_at = NEVER
        self._ticked = -1
        self._ticks = 0
        self._turn_due = False
        self._process_turn_due = False
        self._doom: int | None = None
        self._doom_sync: _SyncDoom | None = None
        self._on_timer = self._timer
        self._server: LogServer | None = None
        """Where processes beside the nodes follow the log …"""
        self._forwards: ForwardServer | None = None
        """… or forward to it."""
        self._calls: Calls | None = None

    def join(
        self,
        network: Network,
        recorder: Recorder,
        observe: Callable[["Node", list[Event]], None],
        after_turn: Callable[["Node"], None],
        observe_log: Callable[["Node", list[LogEvent]], None] | None = None,
        observe_append: Callable[["Node", int, list[bytes]], None] | None = None,
        rows: Sequence[Row] = (),
        observe_isis: Callable[["Node", list[IsisEvent]], None] | None = None,
    ) -> None:
        """Completes the making of a cluster, whose parts refer to each other. `rows`: what was recorded."""
        self._network, self._recorder, self._rows = network, recorder, rows
        self._group_recorder = GroupRecorder(recorder)
        self._isis_recorder = IsisRecorder(recorder)
        self._observe, self._after_turn = observe, after_turn
        self._observe_log, self._observe_append = observe_log, observe_append
        self._observe_isis = observe_isis

    def record_wide(self, recorder: WideRecorder) -> None:
        """Its cluster is one of several."""
        self.wide_recorder = self._isis_recorder.wide = recorder

    def serve(self, calls: Calls) -> None:
        """Processes beside the nodes may connect to it, and follow its log."""
        self._calls = calls
        self._server = LogServer(self, self.loop, self._log_source)
        self._forwards = ForwardServer(self, lambda: None if self.log is None else self.log.replica)

    def _log_source(self) -> Source | None:
        log = self.log
        return None if log is None else Source(log.replica, lambda: _ORIGIN, lambda: [self.name])

    def heard(self, connection: Connection, message: object) -> None:
        """Over a connection that a process beside the nodes has opened."""
        if self._forwards is not None and ForwardServer.is_asked(message):
            self._forwards.asked(connection, message)  # type: ignore[arg-type]  # of an outpost
            self._turn_soon(0)
        elif self._server is not None and LogServer.is_asked(message):
            self._server.asked(connection, message)  # type: ignore[arg-type]  # an Ask

    def lost(self, connection: Connection) -> None:
        if self._server is not None and self._forwards is not None:
            self._server.lost(connection)
            self._forwards.lost(connection)

    # -- the process -------------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        return self.site is not None

    @property
    def now(self) -> int:
        return self.loop.now + self.offset

    @property
    def step(self) -> str:
        return "down" if self.site is None else self.site.step

    @property
    def list_step(self) -> tuple[str, int] | None:
        """Where the list of sites changes: how far this site knows of a change, and of which version."""
        if not isinstance(self.site, Stack):
            return None
        known = self.site.site.sites
        step = "proposed" if known.proposal is not None else "in force" if known.finished else "chosen"
        return f"list: {step}", known.newest

    @property
    def waiting(self) -> int:
        """Messages that the application holds because the site has no room for them."""
        return len(self._outbox) + len(self._appends) + (0 if self.processes is None else self.processes.waiting)

    @property
    def doomed(self) -> bool:
        return self._doom is not None or self._doom_sync is not None

    def await_list(self) -> None:
        """It starts as soon as another site tells it a list that has this node."""
        self.awaits_list = True

    def start(self) -> None:
        assert self.site is None, f"{self.name} is up"
        self.awaits_list = self.absent = False
        self._starts += 1
        token = self._starts * MAX_SITES + self.ordinal
        record = self._core.boot(self.disk.get(_RECORD), self.ordinal, token)
        self.disk.put([Put(_RECORD, record)])
        core = self._core
        if isinstance(core, LogCore):
            self.disk.put(core.create(self.ordinal, self._names, self.disk))
            self.log = core.site(self._options, self.ordinal, self._names, record, self.disk, self.now)
            self.site = self.log
            self._log_recorder = LogRecorder(self._recorder, self.log.author)
        else:
            if isinstance(core, StoringCore):
                core.keep(self.ordinal, self.disk)
            self.site = core.site(self._options, self.ordinal, len(self._names), record, self.now)
        if self.numbered is not None:
            assert isinstance(self.site, Stack), "it has a list of sites"
            self.numbered = self.site.site.names
            self._recorder.names = self.numbered
        self._recorder.begin(self.site.incarnation)
        if self.log is not None and self._log_recorder is not None:
            self._log_recorder.catch_up(self.now, log_past(self._rows), self.log.replica)
            self._note_change()
        if self.processes is not None and isinstance(self.site, HasProcesses):
            self.processes.begin(self.site.isis)
        self._turn()

    def crash(self) -> None:
        assert self.site is not None, f"{self.name} is down"
        self._recorder.fail(self.now)
        self._end()

    def _stop_removed(self) -> bool:
        """Whether its site was removed from the list: then its process ends, and does not come back."""
        if not isinstance(self.site, Stack) or not self.site.site.removed:
            return False
        self.absent = True
        self._recorder.stop(self.now)
        self._end()
        return True

    def _end(self) -> None:
        self.site = self.log = None
        if self.processes is not None:
            self.processes.crash()
        self.paused = False
        self.disk.crash()
        self._outbox.clear()
        self._appends.clear()
        self._held.clear()
        self._held_bytes = 0
        self._held_tokens.clear()
        self._timer_at = NEVER
        self._doom = self._doom_sync = None
        if self._calls is not None and self._server is not None:
            self._calls.crashed(self)
            self._server.crashed()
        if self._forwards is not None:
            self._forwards.crashed()
        if self.on_crash is not None:
            self.on_crash()

    def doom(self, copies: int | None) -> None:
        """Crash in the midst of the next turn that sends: this many copies of its datagrams still leave.

        None cancels every planned crash."""
        self._doom = copies
        if copies is None:
            self._doom_sync = None

    def doom_sync(self, before: Callable[[], None], *, completes: bool) -> None:
        """Crash at its next write: before it is durable, when that turn has ended; or, if it `completes`, when it is
        durable, and the process does not know it yet. `before` is called just before that."""
        self._doom_sync = _SyncDoom(before, completes)

    def _crash_at_sync(self, completes: bool) -> bool:
        doom = self._doom_sync
        if doom is None or doom.completes is not completes:
            return False
        doom.before()
        self.crash()
        return True

    def pause(self) -> None:
        assert self.site is not None, f"{self.name} is down"
        assert not self.paused, f"{self.name} is paused"
        self.paused = True

    def resume(self) -> None:
        assert self.site is not None, f"{self.name} is down"
        assert self.paused, f"{self.name} is not paused"
        self.paused = False
        site, now = self.site, self.now
        # A process that wakes finds its timers and its socket ready at once, and may look at either first.
        late = site.deadline() <= now
        timers_first = late and self._random.random() < 0.5
        if timers_first:
            site.tick(now)
        for token in self._held_tokens:
            site.synced(token, now)
        for data in self._held:
            site.receive(data, now)
        if late and not timers_first:
            site.tick(now)
        self._held_tokens.clear()
        self._held.clear()
        self._held_bytes = 0
        if self._calls is not None:
            self._calls.resumed(self)
        self._turn()

    def jump(self, by_ns: int) -> None:
        """The clock jumps forward; a site's time never goes back."""
        assert by_ns >= 0
        self.offset += by_ns
        if self.site is not None and not self.paused:
            self._arm(self.site)

    # -- inputs ------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        site = self.site
        if site is None:
            if self.awaits_list and isinstance(self._core, Joining) and self._core.learns(self.ordinal, data):
                self.start()
            return
        if self.paused:
            size = _kernel_bytes(len(data))
            if self._held_bytes + size > self._options.limits.buffer_bytes:
                self.overflow += 1
            else:
                self._held.append(data)
                self._held_bytes += size
            return
        loop = self.loop
        site.receive(data, loop.now + self.offset)
        if loop.heap and loop.heap[0][0] == loop.now:
            self._turn_soon(0)  # more may come at this instant: one flush for all of it
        else:
            self._turn()

    def send(self, service: Service, payload: bytes) -> None:
        """From the application, also from within a turn: it goes in a little later, with all that is sent by then.

        Where the site has no room the message waits, and is lost at a crash.
        """
        self._take(service, payload)
        self._turn_soon(_TURN_AROUND_NS)

    def hand_over(self, service: Service, payloads: Iterable[bytes]) -> None:
        """The same at once, as a turn of its own."""
        for payload in payloads:
            self._take(service, payload)
        if not self.paused:
            self._turn()

    def append(self, messages: Iterable[bytes]) -> bool:
        """To the log, as a turn of its own; what there is no room for waits, and is lost at a crash."""
        assert self.log is not None, f"{self.name} is down, or keeps no log"
        self._appends += messages
        if not self.paused:
            self._turn()
        return True

    def ask(self, verb: IsisVerb, *, counted: bool = True) -> None:
        """A step of one of its processes, as a turn of its own. `counted`: as skipped, if it is refused."""
        assert self.processes is not None, f"{self.name} has no processes"
        self.processes.ask(verb, counted=counted)
        if not self.paused:
            self._turn()

    def _take(self, service: Service, payload: bytes) -> None:
        assert self.site is not None, f"{self.name} is down"
        most = self._options.limits.message_bytes
        if len(payload) > most:
            raise Rejected(f"a message of {len(payload)} bytes is larger than {most}")
        self._outbox.append((service, payload))

    def drop_waiting(self) -> int:
        """The application gives up what is not sent yet; only a message of which fragments are out goes on."""
        dropped = self.waiting
        self._outbox.clear()
        self._appends.clear()
        if self.processes is not None:
            self.processes.drop()
        return dropped + (self.site.withdraw() if self.site is not None else 0)

    def _synced(self, token: int) -> None:
        site = self.site
        assert site is not None, "a crash forgets the syncs under way"
        if self.paused:
            self._held_tokens.append(token)
            return
        if self._crash_at_sync(completes=True):
            return
        site.synced(token, self.loop.now + self.offset)
        self._turn()

    def _timer(self, at: int) -> None:
        if at != self._timer_at:
            return  # an earlier deadline took its place, or the process it belonged to is gone
        self._timer_at = NEVER
        site = self.site
        if site is None or self.paused:
            return  # resuming looks at the deadline itself
        now = self.loop.now + self.offset
        if site.deadline() <= now:
            self._ticks = self._ticks + 1 if now == self._ticked else 1
            self._ticked = now
            assert self._ticks < _MOST_TICKS, f"{self.name} wants to be called again and again at {now}"
            site.tick(now)
            self._turn()
        else:
            self._arm(site)

    # -- turns -------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something of the same process has an input for it: a turn, at this instant."""
        self._turn_soon(0)

    def _turn_soon(self, after_ns: int) -> None:
        if not self._turn_due:
            self._turn_due = True
            self.loop.at(self.loop.now + after_ns, self._turn_at_last, None)

    def _turn_at_last(self, _: None) -> None:
        self._turn_due = False
        if self.site is not None and not self.paused:
            self._turn()

    def _turn(self) -> None:
        site = self.site
        assert site is not None
        now = self.loop.now + self.offset
        if self._outbox:
            self._submit(site, now)
        if self._appends and self.log is not None:
            first, taken = self.log.append(self._appends, now)
            messages = [self._appends.popleft() for _ in range(taken)]
            if messages and self._observe_append is not None:
                self._observe_append(self, first, messages)
        processes = self.processes
        if processes is not None:
            processes.submit(now)
        turn = site.flush(now, _EPOCH_NS + now)
        if turn.writes:
            self.disk.write(turn.writes)  # durable later than anything that follows here
        if turn.events:
            self._group_recorder.turn(now, turn.events, turn.notes)
            if self._observe is not None:
                self._observe(self, turn.events)
                if self.site is not site:
                    return  # an observer crashed it: after its deliveries, before its datagrams
        if turn.wide and self.wide_recorder is not None:
            self.wide_recorder.events(now, turn.wide)
        if turn.isis:
            self._isis_recorder.events(now, turn.isis)
            if self._observe_isis is not None:
                self._observe_isis(self, turn.isis)
                if self.site is not site:
                    return
            if processes is not None:
                processes.take(turn.isis)
        if turn.log:
            assert self._log_recorder is not None
            self._log_recorder.events(now, turn.log)
            self._note_change()
            if self._observe_log is not None:
                self._observe_log(self, turn.log)
                if self.site is not site:
                    return
        if turn.datagrams:
            if self._doom is not None:
                self._die_sending(turn.datagrams)
                return
            self._network.transmit(self.ordinal, self._to_places(turn.datagrams))
        if turn.writes and self._crash_at_sync(completes=False):
            return
        if self.numbered is not None and self._stop_removed():
            return
        if (self._outbox and site.room() > 0) or (processes is not None and processes.wants_turn):
            self._turn_soon(_TURN_AROUND_NS)
        if processes is not None:
            self._turn_for(processes)
        self._arm(site)
        if self._server is not None and turn.log:
            self._server.look()
        if self._forwards is not None:
            self._forwards.look(turn.log)
        if self._after_turn is not None:
            self._after_turn(self)

    def _turn_for(self, processes: NodeProcesses) -> None:
        at = processes.wants_turn_at
        if at is not None and not self._process_turn_due:
            self._process_turn_due = True
            self.loop.at(max(at - self.offset, self.loop.now), self._process_turn, None)

    def _process_turn(self, _: None) -> None:
        self._process_turn_due = False
        if self.site is not None and not self.paused:
            self._turn()

    def _note_change(self) -> None:
        """No row shows such a change, and after a crash or a lost disk it can't be seen any more."""
        if not self.replicas_changed and self.log is not None:
            self.replicas_changed = self.log.replica.replicas.age > (0, 0)

    def _submit(self, site: SiteLike, now: int) -> None:
        outbox = self._outbox
        for _ in range(min(site.room(), len(outbox))):
            service, payload = outbox[0]
            try:
                site.submit(service, payload, now)
            except Unavailable:
                return  # there was room for a message, but not for one of this size
            outbox.popleft()
            self.submitted += 1

    def _arm(self, site: SiteLike) -> None:
        at = max(site.deadline() - self.offset, self.loop.now)
        if at < self._timer_at:
            self._timer_at = at
            heappush(self.loop.heap, (at, next(self.loop.sequence), self._on_timer, at))

    def _die_sending(self, datagrams: list[tuple[tuple[int, ...], bytes]]) -> None:
        copies: Datagrams = [((to,), data) for destinations, data in datagrams for to in destinations]
        self._network.transmit(self.ordinal, self._to_places(copies[: self._doom]))
        self.crash()

    def _to_places(self, datagrams: Datagrams) -> Datagrams:
        if self.numbered is None or not isinstance(self._core, Joining):
            return datagrams
        return self._core.to_places(self.numbered, datagrams)


def _kernel_bytes(size: int) -> int:
    """What a datagram takes of a receive buffer: Linux rounds its memory up to a power of two, and adds its own."""
    return 256 + max(512, 1 << (size + 320 - 1).bit_length())
