"""One site running: datagrams, requests and timers go into turns of its core, and what a turn brings is performed.

Given: a transport, a directory. Promised: all that has arrived is taken in one turn, and flushed once; each turn is
performed in the order that `stack.turn.Turn` states. What a turn records is with the operating system before anything
of the turn leaves the site.
"""

import asyncio
import logging
from collections.abc import Sequence

from reconvene.domains.events import WideEvent
from reconvene.errors import Rejected
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import event
from reconvene.runtime.disk.lmdb_disk import LmdbDisk
from reconvene.runtime.domain.parts import Part
from reconvene.runtime.isis.service import IsisService
from reconvene.runtime.log.service import LogService
from reconvene.runtime.log.status import Authors
from reconvene.runtime.net.site_numbers import Numbers, numbers_in, store_bytes
from reconvene.runtime.outside import Dial, Disk, Transport
from reconvene.runtime.site.follower_trace import FollowerTrace
from reconvene.runtime.site.following import Sources
from reconvene.runtime.site.processes import LocalProcesses
from reconvene.runtime.site.starting import start_stack
from reconvene.runtime.site.state import SiteState
from reconvene.runtime.site.trace import SiteTrace
from reconvene.stack.turn import Turn

__all__ = ["SiteEngine"]

_DRAIN_S = 2.0
"""How long a clean leave waits for what was accepted to reach everyone."""
_ADAPT_EVERY_NS = 50_000_000
"""How often the size of frames is adapted to the loss."""
_NEVER_NS = 1 << 63
_FAREWELLS = 3
_FAREWELL_GAP_S = 0.02
"""A leave is reported more than once, since datagrams get lost."""
_FIRST_ANSWER_S = 3.0
"""How long a site that follows a log waits for a source to answer, before it is ready without."""


class SiteEngine(SiteState):
    def __init__(
        self,
        config: Config,
        transport: Transport,
        log: logging.Logger,
        disk: Disk | None = None,
        numbers: Numbers | None = None,
        dial: Dial | None = None,
        part: Part | None = None,
    ) -> None:
        """`numbers`: those that the transport goes by; default: those of a new site. `dial`: how a follower
        connects to its sources. `part`: what the site does in a tree of clusters."""
        super().__init__(config, transport, log, numbers_in(config) if numbers is None else numbers, part)
        self._disk: Disk = LmdbDisk() if disk is None else disk
        self._log = log
        self._stopping = False
        self._due = False
        self._asked = True
        """Since the last turn something was requested of groups, or of the log."""
        self._later: list[tuple[tuple[int, ...], bytes]] = []
        """Acks of channels, which leave once programs have seen what is acknowledged."""
        self._adapt_at = 0 if transport.frame_bytes > transport.packet_bytes else _NEVER_NS
        """When the size of frames is looked at next: it changes only where a frame may take several packets."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._wall_offset_ns = self._world.time_ns() - self._now()
        self._loop: asyncio.AbstractEventLoop
        self._state_changed = True
        """What `_report_state` logs may have changed since it last looked."""
        self._dial = dial
        self._sources: Sources | None = None
        """Where the site follows a log."""

    # -- start and stop

    async def start(self) -> None:
        """Boots the site: a new incarnation is synced before anyone hears of it."""
        self._loop = asyncio.get_running_loop()
        config = self.config
        self._store = self._disk.open(config.dir / "store", store_bytes(config))
        try:
            self._boot(self._now())
        except BaseException:
            self._store.close()
            raise
        self._keeper = self._disk.keeper(self._store, self._synced, self._disk_failed)
        event(self._log, logging.INFO, "site starts", site=config.name, incarnation=self.incarnation)
        if config.faults.blocked:
            ordinals = frozenset(self.names.index(name) for name in config.faults.blocked if name in self.names)
            self._block(ordinals, ordinals)
        self._transport.start(self._receive)
        self._turn()

    async def check_sources(self) -> None:
        """Of a site that follows a log. Raises Rejected where a source holds another log, or follows this site."""
        if self._sources is not None:
            await self._sources.first_answer(_FIRST_ANSWER_S)

    def _boot(self, now: int) -> None:
        config = self.config
        started = start_stack(config, self._numbers, self._store, self._transport, now, self._part)
        self._stack, self._no_log = started.stack, started.no_log
        self.incarnation = self._stack.incarnation
        self._processes = LocalProcesses(config.name, self._stack, self._now, self._wake)
        if self._part is not None:
            self._part.booted(self._wake)
            self._processes.wide = self._part.groups
        author = None
        if started.replica is not None:
            author = Authors(started.replica)
            self._service = LogService(
                started.replica,
                self.incarnation,
                author,
                self._wake,
                self._notes.damaged,
                config.cluster,
                None if started.following is None else started.following.pulling,
            )
        if started.following is not None:
            if self._dial is None:
                raise Rejected(f"site {config.name}: log.follow: this program can't connect to other sites")
            self._sources = Sources(started.following, self._dial, self._wake, self._log)
        if started.isis is not None:
            self._isis = IsisService(config.name, self.names, started.isis, self._wake_isis)
        if config.trace_dir is not None and started.following is not None and author is not None:
            self._trace = FollowerTrace(
                config,
                self.incarnation,
                started.following.follower,
                author,
                now + self._wall_offset_ns,
                self._notes.trace_stopped,
            )
        elif config.trace_dir is not None:
            log = None if started.replica is None or author is None else (started.replica, author)
            self._trace = SiteTrace(
                config, self.names, self._stack, log, now + self._wall_offset_ns, self._notes.trace_stopped
            )

    async def stop(self) -> None:
        """A clean leave: what was accepted is durable, and sent as far as it can be; the others know that it left."""
        if self._stopping:
            return
        self._stopping = True
        if self._sources is not None:
            self._sources.close()
        self._processes.stop()
        self._note_trouble()
        if self._service is not None:
            self._service.room.wake()
        if self._isis is not None:
            self._isis.stop()
        give_up_at = self._loop.time() + _DRAIN_S
        while not self._drained and self._loop.time() < give_up_at:
            await asyncio.sleep(0.01)
        self._stack.leave(self._now())
        for _ in range(_FAREWELLS):
            self._turn()
            await asyncio.sleep(_FAREWELL_GAP_S)
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        last = self._stack.finish()
        if last.writes:
            self._keeper.write(last.writes)
        await self._keeper.close()
        if self._part is not None:
            self._part.stop()
        if self._trace is not None:
            settled = self._stack.settled and self._keeper.trouble is None
            self._trace.close(self._now() + self._wall_offset_ns, left=settled)
        if self._service is not None:
            self._service.close()
        self._store.close()
        event(self._log, logging.INFO, "site has left", site=self.config.name)

    @property
    def _drained(self) -> bool:
        return (
            self._stack.drained
            and (self._isis is None or self._isis.drained)
            and (self._part is None or self._part.drained)
        )

    def abandon(self) -> None:
        """Where a process is only simulated, and is killed: lets go of what the operating system would close."""
        if self._trace is not None:
            self._trace.abandon()

    # -- turns

    def _receive(self, datagrams: list[bytes]) -> None:
        now = self._now()
        receive = self._stack.receive
        for data in datagrams:
            receive(data, now)
        self._turn(now)

    def _synced(self, tokens: list[int]) -> None:
        now = self._now()
        for token in tokens:
            self._stack.synced(token, now)
        self._notes.disk_takes()
        self._look_for_room()
        self._note_trouble()
        self._state_changed = True
        self._turn(now)

    def _look_for_room(self) -> None:
        full = self._service is not None and self._store.used_bytes >= self.config.log.max_bytes
        if full != self._full:
            self._full = full
            self._notes.full(full, self.config.log.max_bytes)

    def _wake(self) -> None:
        """One flush for all that this round of the loop brings."""
        self._asked = True
        self._wake_isis()

    def _wake_isis(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._turn_if_due)

    def _turn_if_due(self) -> None:
        if self._due:  # else what asked for it has gone with a turn that something else began
            self._turn()

    def _turn(self, began: int = 0) -> None:
        """`began`: when the turn's first input was taken, if there was one."""
        self._due = False
        now = self._now()
        if now >= self._adapt_at:
            self._adapt_at = now + _ADAPT_EVERY_NS
            self._adapt_frames()
        asked, self._asked = self._asked, False
        if self._service is not None and asked:
            self._service.before_turn()
        turn = self._stack.flush(now, self._world.time_ns(), asked=asked)
        if turn.events and self._notes.events(turn.events):
            self._state_changed = True
        if self._trace is not None:
            self._trace.turn(now + self._wall_offset_ns, turn)
        if self._part is not None and turn.wide:
            self._part.record(turn.wide)
        if turn.writes:
            self._keeper.write(turn.writes)
        if turn.datagrams and self._keeper.trouble is None:
            # A site that can't keep a configuration is silent, or the others would keep trying to form one with it.
            if turn.acks_only and turn.isis:
                self._send_later(turn.datagrams)
            else:
                self._send_now(turn.datagrams)
        if not turn.apart:
            self._processes.deliver(turn.processes)
        if self._isis is not None:
            self._isis.after_turn(turn.isis)
        if not turn.apart:
            self._after_whole_turn(turn)
        self._arm(now)
        self._notes.turn(self._now() - (began or now))

    def _adapt_frames(self) -> None:
        site = self._site
        others = [member for member in site.members if member != self.ordinal]
        frame_bytes = self._transport.adapt(others, site.counters.resent)
        site.outbox.frame_bytes = min(frame_bytes, site.current.multicast.window.frame_bytes)

    def _send_now(self, datagrams: list[tuple[tuple[int, ...], bytes]]) -> None:
        if self._later:
            datagrams, self._later = self._later + datagrams, []
        self._transport.send(datagrams)

    def _send_later(self, datagrams: list[tuple[tuple[int, ...], bytes]]) -> None:
        """After the program inside this site has read what the turn brought, and the task that waits for that has
        gone on: two rounds of the loop. Sending wakes another site. Where that runs on the same core, it takes the
        core at once, and the program here would wait until that site is done with an ack."""
        if not self._later:
            self._loop.call_soon(self._loop.call_soon, self._send_what_waits)
        self._later += datagrams

    def _send_what_waits(self) -> None:
        if self._later and self._keeper.trouble is None:
            self._send_now([])

    def _after_whole_turn(self, turn: Turn) -> None:
        if self._part is not None:
            self._part.after_turn(turn.wide)
        if self._service is not None:
            self._service.after_turn(turn.log)
            self._note_damage(self._service)
        if self._sources is not None:
            self._sources.perform()
        self._note_phase()
        if self._state_changed:
            self._report_state()

    def _note_damage(self, service: LogService) -> None:
        damage = self._stack.damage
        if damage is not None and service.damage is None:
            service.damage = damage
            self._notes.damaged(damage)

    def _report_state(self) -> None:
        """Logs what has changed of the site's state. It changes with a configuration or a sync, or a while after
        something was heard: the engine asks after those, and when a timer fires, and in no other turn."""
        self._state_changed = False
        self._notes.log_is(self.log_note())
        self._notes.refused(self._refused())
        self._list.look(self._site)

    def _arm(self, now: int) -> None:
        """A timer that fires too early is set again; one that is late would be a fault, so only an earlier one
        replaces it."""
        at = self._stack.deadline()
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_later(max(at - now, 0) / 1e9, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._now()
        if self._stack.deadline() <= now:
            self._stack.tick(now)
            self._state_changed = True
            self._turn()
        else:
            self._arm(now)

    def _note_phase(self) -> None:
        notes, site = self._notes, self._site
        if site.phase != notes.phase:
            notes.phase_of(site)
            notes.health_is(self.health(), site.configuration)
        elif notes.health == "forming":
            notes.health_is(self.health(), site.configuration)

    def _disk_failed(self, why: str) -> None:
        self._notes.disk_refuses(why)
        self._note_trouble()
        if self._service is not None:
            self._service.room.wake()  # appends that wait for room are refused, with the reason

    def _note_trouble(self) -> None:
        if self._service is not None:
            self._service.trouble = self._log_trouble()

    def _log_trouble(self) -> str | None:
        """Why the log takes nothing now."""
        if self._stopping:
            return f"site {self.config.name} is stopping"
        trouble = self._keeper.trouble
        if trouble is not None:
            return f"site {self.config.name}: storage refuses: {trouble}"
        if self._full:
            return f"site {self.config.name}: the log has reached its limit, log.max_bytes"
        return None

    def record_wide(self, events: Sequence[WideEvent]) -> None:
        """What a gateway's site above reports of this site, for its trace."""
        if isinstance(self._trace, SiteTrace):
            self._trace.wide(self._now() + self._wall_offset_ns, events)
