"""One site running: datagrams, requests and timers go into turns of its core, and what a turn brings is performed.

Given: a transport, a directory. Promised: all that has arrived is taken in one turn, and flushed once; each turn is
performed in the order that `stack.turn.Turn` states. What a turn records is with the operating system before anything
of the turn leaves the site.
"""

import asyncio
import logging
import os
from collections.abc import Sequence

from reconvene.core.site import Site
from reconvene.domains.events import WideEvent
from reconvene.errors import Rejected
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import event
from reconvene.runtime.disk.lmdb_disk import LmdbDisk
from reconvene.runtime.domain.parts import NO_WIDE_COUNTERS, Part
from reconvene.runtime.isis.service import NO_ISIS_COUNTERS, IsisService
from reconvene.runtime.log.service import NO_LOG_COUNTERS, LogService
from reconvene.runtime.log.status import Authors
from reconvene.runtime.net.list_watch import ListWatch, refused
from reconvene.runtime.net.site_numbers import Numbers, numbers_in, store_bytes
from reconvene.runtime.outside import Dial, Disk, Keeping, Store, Transport
from reconvene.runtime.site.follower_trace import FollowerTrace
from reconvene.runtime.site.following import Sources
from reconvene.runtime.site.history import History
from reconvene.runtime.site.interface import Receiver
from reconvene.runtime.site.notes import SiteNotes
from reconvene.runtime.site.processes import LocalProcesses, ProcessAccess
from reconvene.runtime.site.starting import start_stack
from reconvene.runtime.site.trace import SiteTrace
from reconvene.stack.no_log import NoLog
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn
from reconvene.world import world

__all__ = ["SiteEngine"]

_DRAIN_S = 2.0
"""How long a clean leave waits for what was accepted to reach everyone."""
_FAREWELLS = 3
_FAREWELL_GAP_S = 0.02
"""A leave is reported more than once, since datagrams get lost."""
_GROUPS_SHOWN = 100
_FIRST_ANSWER_S = 3.0
"""How long a site that follows a log waits for a source to answer, before it is ready without."""


class SiteEngine:
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
        self.config = config
        self._part = part
        self._numbers = numbers_in(config) if numbers is None else numbers
        self.names = self._numbers.names
        self.ordinal = self._numbers.ordinal
        self.incarnation = 0
        self._transport = transport
        self._disk: Disk = LmdbDisk() if disk is None else disk
        self._log = log
        self._world = world()
        self._now = self._world.monotonic_ns
        self._stopping = False
        self._due = False
        self._asked = True
        """Since the last turn something was requested of groups, or of the log."""
        self._later: list[tuple[tuple[int, ...], bytes]] = []
        """Acks of channels, which leave once programs have seen what is acknowledged."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._started_at = self._now()
        self._wall_offset_ns = self._world.time_ns() - self._now()
        self._notes = SiteNotes(log, self.names)
        self._list = ListWatch(log, config.sites_version)
        self._blocked: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        self._loop: asyncio.AbstractEventLoop
        self._store: Store
        self._keeper: Keeping
        self._stack: Stack
        self._processes: LocalProcesses
        self._service: LogService | None = None
        """None: the site takes no part in the log …"""
        self._no_log: NoLog | None = None
        """… and says so."""
        self._isis: IsisService | None = None
        """None: the site takes no part in ISIS."""
        self._state_changed = True
        """What `_report_state` logs may have changed since it last looked."""
        self._trace: SiteTrace | FollowerTrace | None = None
        self._dial = dial
        self.above: SiteEngine | None = None
        """A gateway's site in the cluster above."""
        self._sources: Sources | None = None
        """Where the site follows a log."""
        self._full = False
        """The log has reached its limit, and takes nothing until some of it is truncated."""

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

    def open(self, receiver: Receiver) -> ProcessAccess:
        return self._processes.open(receiver)

    # -- what others ask

    @property
    def log(self) -> LogService | None:
        """None where the site takes no part in the log."""
        return self._service

    @property
    def isis(self) -> IsisService | None:
        """None where the site takes no part in ISIS."""
        return self._isis

    @property
    def _site(self) -> Site:
        return self._stack.site

    @property
    def history(self) -> History:
        return self._notes.history

    def _refused(self) -> dict[str, str]:
        """By name: sites whose storage is older than what is known of them, and why."""
        part = self._service or self._no_log
        found = {} if part is None else dict(part.behind)
        for site, why in self._site.changes.hearing.behind.items():
            found[self.names[site]] = why
        return found

    def storage(self) -> str:
        full = "the log has reached log.max_bytes" if self._full else None
        damage = None if self._service is None else self._service.damage
        return self._keeper.trouble or damage or self._behind() or full or "ok"

    def _behind(self) -> str | None:
        why = self._site.behind or (self._service is not None and self._service.own_behind)
        return (
            f"older than what others know of this site ({why}): `reconvene replace` gives it a new one"
            if why
            else None
        )

    def refused_sites(self) -> dict[str, str]:
        return refused(self._site)

    def log_note(self) -> str | None:
        """Why the log takes nothing here, where that is neither the disk's fault nor what was configured."""
        return None if self._service is None else self._service.note()

    def health(self) -> str:
        if self._site.phase != "operational" or not self._stack.groups.settled:
            return "forming"
        return "primary" if self._site.primary else "minority"

    def status(self) -> dict[str, object]:
        site = self._site
        trips = site.changes.hearing.round_trips.smoothed_ns
        groups = self._stack.groups.groups()
        incoming, outgoing = self._blocked
        return {
            "cluster": self.config.cluster,
            "name": self.config.name,
            "incarnation": self.incarnation,
            "pid": os.getpid(),
            "health": self.health(),
            "phase": site.phase,
            "configuration": site.configuration,
            "members": [self.names[member] for member in site.members],
            "sites": list(self.names),
            "list": self._list.status(site),
            "uptime_s": (self._now() - self._started_at) / 1e9,
            "processes": len(self._processes),
            "groups": [
                {"name": group.name, "members": group.members, "primary": group.primary}
                for group in groups[:_GROUPS_SHOWN]
            ],
            "group_count": len(groups),
            "waiting": {"messages": len(site.outbox), "bytes": site.outbox.bytes},
            "round_trips_us": {self.names[other]: trips[other] / 1e3 for other in self._numbers.peers},
            "blocked": {
                "incoming": [self.names[other] for other in sorted(incoming)],
                "outgoing": [self.names[other] for other in sorted(outgoing)],
            },
            "trace": None if self._trace is None else self._trace.status(),
            "storage": self.storage(),
            "log": None if self.log is None else self.log.status(),
            "isis": None if self._isis is None else self._isis.status(),
            "domain": self._domain_status(),
            "seal": "insecure" if self.config.seal.insecure else "sealed",
            "configurations": self._notes.counts["configurations"],
            "longest_turn_ms": self._notes.longest_turn_ns / 1e6,
            "counters": self.counters(),
        }

    def _domain_status(self) -> dict[str, object] | None:
        found = None if self._part is None else self._part.status()
        if found is not None:
            found["upper"] = None if self.above is None else self.above.short_status()
        return found

    def short_status(self) -> dict[str, object]:
        """Of a gateway's site above, for the status of the site below."""
        site = self._site
        incoming, _ = self._blocked
        return {
            "cluster": self.config.cluster,
            "name": self.config.name,
            "phase": site.phase,
            "configuration": site.configuration,
            "members": [self.names[member] for member in site.members],
            "sites": list(self.names),
            "blocked": [self.names[other] for other in sorted(incoming)],
            "storage": self.storage(),
            "sent_bytes": self._transport.counters().get("sent_bytes", 0),
            "received_bytes": self._transport.counters().get("received_bytes", 0),
        }

    def counters(self) -> dict[str, int]:
        core = self._site.counters
        return {
            **self._notes.counts,
            **{name: getattr(core, name) for name in core.__slots__},
            **self._transport.counters(),
            **(NO_WIDE_COUNTERS if self._part is None else self._part.counters()),
            **(NO_ISIS_COUNTERS if self._isis is None else self._isis.counters()),
            **(NO_LOG_COUNTERS if self._service is None else self._service.counters()),
        }

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        if not self.config.faults.allowed:
            raise Rejected(f"site {self.config.name} does not allow faults to be injected: see [faults] allowed")
        self._block(incoming, outgoing)

    def _block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        self._blocked = (incoming, outgoing)
        self._transport.block(incoming, outgoing)
        self._notes.blocked(incoming, outgoing)
