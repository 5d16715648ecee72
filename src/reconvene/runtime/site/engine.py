"""One site running: datagrams, requests and timers go into turns, and what a turn brings is performed.

Given: a transport, a directory. Promised: the order of effects in `core.effects`: what a turn records is with the
operating system before anyone outside sees it; what depends on a sync waits for it, and nothing else does; all that
has arrived is taken in one turn, and flushed once. What the site and its log want written goes into one transaction,
after the turn's rows are recorded: so the green line, which nothing waits for, is never further on storage than in
the trace.
"""

import asyncio
import logging
import os
from collections.abc import Sequence

from msgspec import msgpack

from reconvene.core.effects import Persist
from reconvene.core.groups.events import Process
from reconvene.core.groups.groups import GroupLimits, Groups
from reconvene.core.site import KEY, Site, boot, incarnation_of, stored_list
from reconvene.corel.replica import LogEffects, Replica
from reconvene.corel.stack import Stack
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import Service
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import event
from reconvene.runtime.disk.lmdb_disk import LmdbDisk
from reconvene.runtime.log.service import LogService
from reconvene.runtime.log.start import first_ops, load_replica, tables_for
from reconvene.runtime.log.status import Authors
from reconvene.runtime.net.list_watch import ListWatch, refused
from reconvene.runtime.net.site_numbers import ADDRESSES, Numbers, kept_addresses, numbers_in, store_bytes
from reconvene.runtime.outside import Disk, Keeping, Store, Transport
from reconvene.runtime.site.history import History
from reconvene.runtime.site.interface import Receiver
from reconvene.runtime.site.notes import SiteNotes
from reconvene.runtime.site.trace import SiteTrace
from reconvene.site_list import read_list
from reconvene.storage.tables import Put, Tables
from reconvene.world import world

__all__ = ["SiteEngine"]

_DRAIN_S = 2.0
"""How long a clean leave waits for what was accepted to reach everyone."""
_FAREWELLS = 3
_FAREWELL_GAP_S = 0.02
"""A leave is told more than once: datagrams get lost."""
_GROUPS_SHOWN = 100
_TOKEN_BYTES = 4
"""Of what each start draws, so that a storage that was put back is told apart."""


class SiteEngine:
    def __init__(
        self,
        config: Config,
        transport: Transport,
        log: logging.Logger,
        disk: Disk | None = None,
        numbers: Numbers | None = None,
    ) -> None:
        """`numbers`: those that the transport goes by; default: those of a new site."""
        self.config = config
        self._numbers = numbers_in(config) if numbers is None else numbers
        self.names = self._numbers.names
        self.ordinal = self._numbers.ordinal
        self.incarnation = 0
        self._transport = transport
        self._disk: Disk = LmdbDisk() if disk is None else disk
        self._log = log
        self._world = world()
        self._now = self._world.monotonic_ns
        self._receivers: dict[Process, Receiver] = {}
        self._roomless: list[asyncio.Future[None]] = []
        self._stopping = False
        self._due = False
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
        self._site: Site
        self._groups: Groups
        self._stack: Stack
        self._replica: Replica
        self._service: LogService
        self._tables: Tables
        """The log's: the store, or, where the site takes no part, in memory."""
        self._trace: SiteTrace | None = None
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
        self._keeper = self._disk.keeper(self._store, self._synced, self._disk_failed, self._logged)
        event(self._log, logging.INFO, "site starts", site=config.name, incarnation=self.incarnation)
        if config.faults.blocked:
            ordinals = frozenset(self.names.index(name) for name in config.faults.blocked)
            self._block(ordinals, ordinals)
        self._transport.start(self._receive)
        self._turn()

    def _boot(self, now: int) -> None:
        config = self.config
        token = int.from_bytes(world().random_bytes(_TOKEN_BYTES), "big") or 1
        stored = self._store.get(KEY)
        sites = read_list(stored_list(stored), config.sites_version, config.sites, self.names)
        record = boot(stored, self.ordinal, token, sites)
        addresses = msgpack.encode({**kept_addresses(self._store), **config.sites})
        self._tables = tables_for(config, self._store)
        first = first_ops(config, self._tables, incarnation_of(record), token)
        try:
            if self._tables is self._store:
                own = Put(KEY.encode(), record), Put(ADDRESSES.encode(), addresses)
                self._store.write([*own, *first])
            else:
                self._store.put({KEY: record, ADDRESSES: addresses})
                self._tables.write(first)
        except OSError as error:
            raise Unavailable(f"{config.dir}: a new incarnation can't be kept there: {error}") from None
        frame_bytes = self._transport.frame_bytes
        self._site = Site(
            config.options(frame_bytes, self._transport.buffer_bytes), self.ordinal, len(self.names), record, now,
            self._numbers.peers,
        )  # fmt: skip
        self._site.disputes.outside = self._transport.disputes
        self.incarnation = self._site.incarnation
        limits = config.limits
        self._groups = Groups(
            self._site,
            len(self.names),
            GroupLimits(limits.processes, limits.groups_per_process, limits.group_name_bytes),
        )
        try:
            self._replica = load_replica(config, self.names, self._tables, self.incarnation, frame_bytes)
        except Malformed as error:
            raise Malformed(f"{config.dir}: the log can't be read: {error}") from None
        self._stack = Stack(self._groups, self._replica)
        author = Authors(self._replica)
        self._service = LogService(
            self._replica, self.incarnation, author, self._wake, self._log_trouble, self._notes.damaged
        )
        if config.trace.dir is not None:
            at = now + self._wall_offset_ns
            self._trace = SiteTrace(
                config, self.names, self._groups, self._replica, author, at, self._notes.trace_stopped
            )

    async def stop(self) -> None:
        """A clean leave: what was accepted is durable, and sent as far as it can be; and the others are told."""
        if self._stopping:
            return
        self._stopping = True
        self._let_in()
        self._service.let_in()
        give_up_at = self._loop.time() + _DRAIN_S
        while not self._drained() and self._loop.time() < give_up_at:
            await asyncio.sleep(0.01)
        self._groups.leave_cluster(self._now())
        for _ in range(_FAREWELLS):
            self._turn()
            await asyncio.sleep(_FAREWELL_GAP_S)
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        self._write_green_line()
        await self._keeper.close()
        if self._trace is not None:
            settled = self._replica.settled and self._keeper.trouble is None
            self._trace.close(self._now() + self._wall_offset_ns, left=settled)
        self._service.close()
        self._store.close()
        event(self._log, logging.INFO, "site has left", site=self.config.name)

    def abandon(self) -> None:
        """Where a process is only simulated, and is killed: lets go of what the operating system would close."""
        if self._trace is not None:
            self._trace.abandon()

    def _drained(self) -> bool:
        return self._groups.drained and self._site.drained and self._replica.settled

    def _write_green_line(self) -> None:
        """It waits for a write that it can go with, and there will be none."""
        at = self._replica.deadline()
        if at is not None and self._replica.settled:
            self._write(self._replica.flush(at), [])

    # -- turns

    def _receive(self, datagrams: list[bytes]) -> None:
        now = self._now()
        receive = self._groups.receive
        for data in datagrams:
            receive(data, now)
        self._turn(now)

    def _synced(self, tokens: list[int]) -> None:
        now = self._now()
        for token in tokens:
            self._groups.synced(token, now)
        self._notes.disk_takes()
        self._turn(now)

    def _logged(self, tokens: list[int]) -> None:
        began = self._now()
        for token in tokens:
            self._stack.logged(token)
        self._notes.disk_takes()
        self._look_for_room()
        self._turn(began)

    def _look_for_room(self) -> None:
        full = self._tables is self._store and self._store.used_bytes >= self.config.log.max_bytes
        if full != self._full:
            self._full = full
            self._notes.full(full, self.config.log.max_bytes)

    def _write(self, log: LogEffects, persist: list[Persist]) -> None:
        """Everything that a turn wants on stable storage, as one transaction."""
        if log.token and self._tables is not self._store:
            self._tables.write(log.ops)
            self._loop.call_soon(self._logged, [log.token])
        elif log.token:
            self._keeper.write(log.token, log.ops, persist)
            return
        if persist:
            self._keeper.persist(persist)

    def _wake(self) -> None:
        """One flush for all that this round of the loop brings."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._turn)

    def _turn(self, began: int = 0) -> None:
        """`began`: when the turn's first input was taken, if there was one."""
        self._due = False
        now = self._now()
        self._service.before_turn()
        turn = self._stack.flush(now, self._world.time_ns())
        effects, log = turn.site, turn.log
        if effects.events:
            self._notes.events(effects.events)
        if self._trace is not None:
            self._trace.turn(now + self._wall_offset_ns, effects.events, log.events)
        if log.token or effects.persist:
            self._write(log, effects.persist)
        if effects.datagrams and self._keeper.trouble is None and self._stack.damage is None:
            # Who can't keep a configuration is silent: else the others would try to form one with it for ever.
            self._transport.send(effects.datagrams)
        for process, events in turn.processes:
            receiver = self._receivers.get(process)
            if receiver is not None:
                receiver.events(events)
        self._service.after_turn(log.events)
        if self._stack.damage is not None and self._service.damage is None:
            self._service.damage = self._stack.damage
            self._notes.damaged(self._stack.damage)
        if self._roomless:
            self._let_in()
        self._note_phase()
        self._notes.log_is(self.log_note())
        self._notes.refused(self._refused())
        self._list.look(self._site)
        self._arm(now)
        self._notes.turn(self._now() - (began or now))

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
            self._groups.tick(now)
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
        self._service.let_in()  # who waits for room is told why there is none

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

    # -- processes

    def open(self, receiver: Receiver) -> "ProcessAccess":
        self._refuse_if_stopping()
        access = ProcessAccess(self, self._groups.open())
        self._receivers[access.process] = receiver
        return access

    def _close(self, process: Process) -> None:
        if self._receivers.pop(process, None) is not None:
            self._groups.close(process, self._now())
            self._wake()

    def _let_in(self) -> None:
        if self._groups.room() > 0 or self._stopping:
            waiting, self._roomless = self._roomless, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _refuse_if_stopping(self) -> None:
        if self._stopping:
            raise Unavailable(f"site {self.config.name} is stopping")

    # -- what others ask

    @property
    def log(self) -> LogService | None:
        """None where the site takes no part in the log."""
        return self._service if self.config.log.enabled else None

    @property
    def history(self) -> History:
        return self._notes.history

    def _refused(self) -> dict[str, str]:
        """By name: sites whose storage is older than what is known of them, and why."""
        by_site = self._site.changes.hearing.behind
        if not by_site and not self._replica.behind:
            return {}
        found = {self.names[site]: why for site, why in by_site.items()}
        return {**self._replica.behind, **found}

    def storage(self) -> str:
        full = "the log has reached log.max_bytes" if self._full else None
        return self._keeper.trouble or self._service.damage or self._behind() or full or "ok"

    def _behind(self) -> str | None:
        why = self._site.behind or self._replica.record.behind
        return (
            f"older than what others know of this site ({why}): `reconvene replace` gives it a new one"
            if why
            else None
        )

    def refused_sites(self) -> dict[str, str]:
        return refused(self._site)

    def log_note(self) -> str | None:
        """Why the log takes nothing here, where that is neither the disk's fault nor what was configured."""
        replica = self._replica
        if self.log is None or self.config.name not in replica.record.names.values():
            return None
        return replica.waits or replica.left_out

    def health(self) -> str:
        if self._site.phase != "operational" or not self._groups.settled:
            return "forming"
        return "primary" if self._site.primary else "minority"

    def status(self) -> dict[str, object]:
        site = self._site
        trips = site.changes.hearing.round_trips.smoothed_ns
        groups = self._groups.groups()
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
            "processes": len(self._receivers),
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
            "seal": "insecure" if self.config.seal.insecure else "sealed",
            "configurations": self._notes.counts["configurations"],
            "longest_turn_ms": self._notes.longest_turn_ns / 1e6,
            "counters": self.counters(),
        }

    def counters(self) -> dict[str, int]:
        core = self._site.counters
        return {
            **self._notes.counts,
            **{name: getattr(core, name) for name in core.__slots__},
            **self._transport.counters(),
            **self._service.counters(),
        }

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        if not self.config.faults.allowed:
            raise Rejected(f"site {self.config.name} does not allow faults to be injected: see [faults] allowed")
        self._block(incoming, outgoing)

    def _block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        self._blocked = (incoming, outgoing)
        self._transport.block(incoming, outgoing)
        self._notes.blocked(incoming, outgoing)


class ProcessAccess:
    """One process's hold on the site."""

    __slots__ = ("_engine", "process")

    def __init__(self, engine: SiteEngine, process: Process) -> None:
        self._engine = engine
        self.process = process

    def join(self, group: str, primary: bool) -> int:
        engine = self._engine
        engine._refuse_if_stopping()
        membership = engine._groups.join(self.process, group, primary, engine._now())
        engine._wake()
        return membership

    def leave(self, membership: int) -> None:
        self._engine._groups.leave(membership, self._engine._now())
        self._engine._wake()

    def send(
        self, membership: int, service: Service, payloads: Sequence[bytes], to: tuple[Process, ...] | None = None
    ) -> int:
        engine = self._engine
        if engine._stopping:
            engine._refuse_if_stopping()
        taken = engine._groups.send(membership, service, payloads, to, engine._now())
        if taken and not engine._due:
            engine._wake()
        return taken

    async def room(self) -> None:
        engine = self._engine
        while engine._groups.room() <= 0:
            engine._refuse_if_stopping()
            future = engine._loop.create_future()
            engine._roomless.append(future)
            await future
        engine._refuse_if_stopping()

    def close(self) -> None:
        self._engine._close(self.process)
