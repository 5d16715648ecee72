"""One outpost running: requests, syncs, answers and timers go into turns of its core.

Given: a directory, addresses of sites. Promised: each turn is performed in the order that `OutpostTurn` states; what
it records is with the operating system before a program is answered.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from typing import NoReturn

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service
from reconvene.outpost.forwarding import Answer
from reconvene.outpost.layout import IDENTITY_BYTES, boot
from reconvene.outpost.limits import OutpostLimits
from reconvene.outpost.outpost import Outpost
from reconvene.outpost_site.link import Link
from reconvene.outpost_site.service import OutpostLog
from reconvene.outpost_site.trace import OutpostTrace
from reconvene.room import UNBOUNDED, Room
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.runtime.diagnostics.structured_logging import event
from reconvene.runtime.disk.lmdb_disk import LmdbDisk
from reconvene.runtime.disk.store_status import store_status
from reconvene.runtime.isis.interface import SiteIsis
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.net.site_numbers import store_bytes
from reconvene.runtime.outside import Disk, Keeping, Store
from reconvene.runtime.site.history import History
from reconvene.runtime.site.interface import Receiver
from reconvene.stack.turn import Write
from reconvene.wire.client_log import log_message_bytes
from reconvene.world import world

__all__ = ["OutpostEngine"]

_NEVER = 1 << 62
LinkMaker = Callable[[Callable[[], None], Callable[[str], None], Callable[[list[Answer]], None]], Link]


class OutpostProcess:
    """A program at an outpost: it uses the log alone."""

    def __init__(self, engine: "OutpostEngine", process: Process) -> None:
        self.process = process
        self._room = Room(lambda: UNBOUNDED)
        self._engine = engine

    def _refuse(self) -> NoReturn:
        raise Rejected(f"{self._engine.config.name} is an outpost of the log: groups are at the cluster's sites")

    def join(self, group: str, primary: bool, wide: bool = False) -> int:
        self._refuse()

    def leave(self, membership: int) -> None:
        self._refuse()

    def send(
        self,
        membership: int,
        service: Service,
        payloads: Sequence[bytes],
        to: tuple[Process, ...] | None = None,
        cluster: bool = False,
    ) -> int:
        self._refuse()

    def room_of(self, membership: int) -> Room:
        return self._room

    def close(self) -> None:
        self._engine.processes -= 1


class OutpostEngine:
    """Implements `runtime.site.interface.Engine`."""

    isis: SiteIsis | None = None
    ordinal = 0

    def __init__(
        self, config: Config, sites: int, link: LinkMaker, log: logging.Logger, disk: Disk | None = None
    ) -> None:
        self.config = config
        self.names: tuple[str, ...] = ()
        """It is no site: so a program that goes on at a site of its cluster, or comes from one, finds no other sites
        than before."""
        self.incarnation = 0
        self.processes = 0
        self._sites = sites
        self._link = link(self._connected, self._lost, self._answered)
        self._log = log
        self._disk: Disk = LmdbDisk() if disk is None else disk
        self._world = world()
        self._now = self._world.monotonic_ns
        self._started_at = self._now()
        self._stopping = False
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._opened = 0
        self._told = ""
        self._history = History(self.names)
        self._loop: asyncio.AbstractEventLoop
        self._store: Store
        self._keeper: Keeping
        self._outpost: Outpost
        self._service: OutpostLog
        self._trace: OutpostTrace | None = None

    # -- start and stop

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        config = self.config
        self._store = self._disk.open(config.dir / "store", store_bytes(config))
        try:
            self._boot()
        except BaseException:
            self._store.close()
            raise
        self._keeper = self._disk.keeper(self._store, self._synced, self._refused)
        waiting = self._outpost.queue.messages
        event(
            self._log,
            logging.INFO,
            "outpost starts",
            outpost=config.name,
            incarnation=self.incarnation,
            waiting=waiting,
        )
        self._turn()

    def _boot(self) -> None:
        config = self.config
        self._store.write(boot(self._store, self._world.random_bytes(IDENTITY_BYTES)))
        limits = OutpostLimits(
            messages=config.log.red_messages,
            bytes=config.log.red_bytes,
            message_bytes=log_message_bytes(config.limits.message_bytes),
        )
        self._outpost = Outpost(config.name, self._sites, self._store, limits)
        self.incarnation = self._outpost.incarnation
        self._service = OutpostLog(self._outpost, self._wake, self._trouble, lambda: self._link.site)
        if config.trace.dir is not None:
            self._trace = OutpostTrace(config, self._outpost, self._world.time_ns(), self._trace_stopped)

    async def stop(self) -> None:
        """What was accepted is durable, and is forwarded when it starts again."""
        if self._stopping:
            return
        self._stopping = True
        self._turn()
        self._link.close()
        if self._timer is not None:
            self._timer.cancel()
        await self._keeper.close()
        if self._trace is not None:
            self._trace.close()
        self._service.close()
        self._store.close()
        event(self._log, logging.INFO, "outpost has stopped", outpost=self.config.name)

    # -- inputs

    def _synced(self, tokens: list[int]) -> None:
        for token in tokens:
            self._outpost.synced(token)
        self._turn()

    def _refused(self, why: str) -> None:
        event(self._log, logging.ERROR, "storage refuses", why=why)

    def _connected(self) -> None:
        self._outpost.connected(self._now())
        event(
            self._log, logging.INFO, "forwards to a site", site=self._link.site, waiting=self._outpost.queue.messages
        )
        self._told = ""
        self._wake()

    def _lost(self, why: str) -> None:
        self._outpost.lost(why, self._now())
        self._tell(why)
        self._wake()

    def _tell(self, why: str) -> None:
        if why and why != self._told:
            self._told = why
            event(self._log, logging.WARNING, "can't forward now", why=why, waiting=self._outpost.queue.messages)

    def _answered(self, answers: list[Answer]) -> None:
        now = self._now()
        for answer in answers:
            self._outpost.answered(answer, now)
        self._wake()

    # -- turns

    def _wake(self) -> None:
        """One flush for all that this round of the loop brings."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._due = False
        now = self._now()
        turn = self._outpost.flush(now, self._world.time_ns())
        if self._trace is not None:
            self._trace.turn(self._world.time_ns(), turn)
        if turn.token:
            self._keeper.write([Write(turn.token, turn.ops)])
        if turn.disconnect:
            self._link.close()
            self._tell(self._outpost.forwarding.trouble)
        if turn.connect is not None and not self._stopping:
            self._link.connect(turn.connect)
        self._link.send(turn.requests)
        self._service.after_turn(turn)
        self._arm(now)

    def _arm(self, now: int) -> None:
        at = self._outpost.deadline()
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
            self._timer = None
        if at < _NEVER and not self._stopping:
            self._timer_at = at
            self._timer = self._loop.call_later(max(at - now, 0) / 1e9, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._turn()

    def _trouble(self) -> str | None:
        if self._stopping:
            return f"outpost {self.config.name} is stopping"
        why = self._keeper.trouble
        return None if why is None else f"outpost {self.config.name}: storage refuses: {why}"

    def _trace_stopped(self, why: str) -> None:
        event(self._log, logging.ERROR, "the trace stops", why=why)

    # -- what others ask

    @property
    def log(self) -> SiteLog | None:
        return self._service

    @property
    def history(self) -> History:
        return self._history

    def open(self, receiver: Receiver) -> OutpostProcess:
        if self._stopping:
            raise Unavailable(f"outpost {self.config.name} is stopping")
        self._opened += 1
        self.processes += 1
        return OutpostProcess(self, Process(0, self.incarnation, self._opened))

    def health(self) -> str:
        return "outpost"

    def storage(self) -> str:
        return self._keeper.trouble or "ok"

    def refused_sites(self) -> dict[str, str]:
        return {}

    def log_note(self) -> str | None:
        return None

    def counters(self) -> dict[str, int]:
        return self._service.counters()

    def histograms(self) -> dict[str, Histogram]:
        return {"commit_seconds": self._keeper.commits, "append_seconds": self._service.durable.times}

    @property
    def above(self) -> None:
        """An outpost is no gateway."""
        return None

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        raise Rejected(f"{self.config.name} is an outpost: it exchanges no datagrams that could be dropped")

    def status(self) -> dict[str, object]:
        return {
            "cluster": self.config.cluster,
            "name": self.config.name,
            "incarnation": self.incarnation,
            "pid": os.getpid(),
            "health": self.health(),
            "phase": self._outpost.forwarding.step.value,
            "configuration": "",
            "members": [],
            "sites": [],
            "uptime_s": (self._now() - self._started_at) / 1e9,
            "processes": self.processes,
            "storage": self.storage(),
            "store": store_status(self._store, self._keeper, self.config.log.max_bytes),
            "trace": None if self._trace is None else self._trace.status(),
            "log": self._service.status(),
            "counters": self.counters(),
        }
