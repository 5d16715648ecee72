"""What a running site is made of, and what clients and HTTP may ask of it (`interface.Engine`).

`SiteEngine`, which runs the site in turns, makes the parts and keeps them going.
"""

import logging
import os
from dataclasses import asdict

from reconvene.core.site import Site
from reconvene.errors import Rejected
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.runtime.disk.store_status import store_status
from reconvene.runtime.domain.parts import NO_WIDE_COUNTERS, Part
from reconvene.runtime.isis.service import NO_ISIS_COUNTERS, IsisService
from reconvene.runtime.log.service import NO_LOG_COUNTERS, LogService
from reconvene.runtime.net.list_watch import ListWatch, refused
from reconvene.runtime.net.site_numbers import Numbers
from reconvene.runtime.outside import Keeping, Store, Transport
from reconvene.runtime.site.follower_trace import FollowerTrace
from reconvene.runtime.site.history import History
from reconvene.runtime.site.interface import Receiver
from reconvene.runtime.site.notes import SiteNotes
from reconvene.runtime.site.processes import LocalProcesses, ProcessAccess
from reconvene.runtime.site.trace import SiteTrace
from reconvene.stack.no_log import NoLog
from reconvene.stack.stack import Stack
from reconvene.world import world

__all__ = ["SiteState"]

_GROUPS_SHOWN = 100


class SiteState:
    def __init__(
        self, config: Config, transport: Transport, log: logging.Logger, numbers: Numbers, part: Part | None
    ) -> None:
        self.config = config
        self.names = numbers.names
        self.ordinal = numbers.ordinal
        self.incarnation = 0
        self.above: SiteState | None = None
        """A gateway's site in the cluster above."""
        self._numbers = numbers
        self._part = part
        self._transport = transport
        self._world = world()
        self._now = self._world.monotonic_ns
        self._started_at = self._now()
        self._notes = SiteNotes(log, self.names)
        self._list = ListWatch(log, config.sites_version)
        self._blocked: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        self._keeper: Keeping
        self._store: Store
        self._stack: Stack
        self._processes: LocalProcesses
        self._service: LogService | None = None
        """None: the site takes no part in the log …"""
        self._no_log: NoLog | None = None
        """… and says so."""
        self._isis: IsisService | None = None
        """None: the site takes no part in ISIS."""
        self._trace: SiteTrace | FollowerTrace | None = None
        self._full = False
        """The log has reached its limit, and takes nothing until some of it is truncated."""

    def open(self, receiver: Receiver) -> ProcessAccess:
        return self._processes.open(receiver)

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
            "store": store_status(self._store, self._keeper, self.config.log.max_bytes),
            "log": None if self.log is None else self.log.status(),
            "isis": None if self._isis is None else self._isis.status(),
            "domain": self._domain_status(),
            "seal": "insecure" if self.config.seal.insecure else "sealed",
            "configurations": self._notes.counts["configurations"],
            "longest_turn_ms": self._notes.longest_turn_ns / 1e6,
            "counters": self.counters(),
        }

    def histograms(self) -> dict[str, Histogram]:
        log = {} if self._service is None else {"append_seconds": self._service.durable.times}
        return {"commit_seconds": self._keeper.commits, **log}

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
            **asdict(core),
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
