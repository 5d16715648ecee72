"""A site's counters, and its log lines about configurations, storage and faults."""

import logging
from collections.abc import Iterable, Sequence

from reconvene.core.effects import Changed, ConfKind, Delivered, Event, Sent
from reconvene.core.site import Site
from reconvene.runtime.diagnostics.structured_logging import event
from reconvene.runtime.site.history import History

__all__ = ["SiteNotes"]


class SiteNotes:
    def __init__(self, log: logging.Logger, names: Sequence[str]) -> None:
        self._log = log
        self._names = names
        self.counts = dict.fromkeys(
            ("turns", "sent_messages", "delivered_messages", "delivered_bytes", "configurations"), 0
        )
        self.phase = "operational"
        self.health = "forming"
        """As last logged."""
        self.longest_turn_ns = 0
        """Since the start."""
        self._members: frozenset[int] = frozenset()
        """Of the last regular configuration that was logged."""
        self._settled_health = ""
        """The last one but *forming*."""
        self._refusing = False
        self._log_note: str | None = None
        self._refused: dict[str, str] = {}
        self.history = History(names)

    def turn(self, took_ns: int) -> None:
        self.counts["turns"] += 1
        if took_ns > self.longest_turn_ns:
            self.longest_turn_ns = took_ns

    def events(self, events: Sequence[Event]) -> bool:
        """Returns whether a configuration is among them."""
        counts = self.counts
        configurations = False
        for happened in events:
            if type(happened) is Delivered:
                counts["delivered_messages"] += len(happened.payloads)
                counts["delivered_bytes"] += sum(map(len, happened.payloads))
            elif type(happened) is Sent:
                counts["sent_messages"] += happened.count
            elif type(happened) is Changed:
                configurations = True
                self._change(happened)
        return configurations

    def _change(self, changed: Changed) -> None:
        if changed.kind is ConfKind.REGULAR:
            self.counts["configurations"] += 1
            self.history.installed(changed.conf, changed.members)
        if changed.kind is ConfKind.TRANSITIONAL:
            return
        if changed.kind is not ConfKind.REGULAR:
            what = "hidden configuration"
            event(self._log, logging.INFO, what, number=changed.conf, members=self._listed(changed.members))
            return
        lost = sorted(self._members.difference(changed.members))
        self._members = frozenset(changed.members)
        event(
            self._log, logging.WARNING if lost else logging.INFO, "configuration", number=changed.conf,
            members=self._listed(changed.members), lost=self._listed(lost) or None,
        )  # fmt: skip

    def phase_of(self, site: Site) -> None:
        """Why another configuration is being formed: a member went silent, or a new site is heard."""
        if self.phase == "operational":
            hearing = site.changes.hearing
            silent = self._listed(member for member in site.members if not hearing.hears(member))
            event(self._log, logging.INFO, "gathering", why=site.changes.gathering.reason, silent=silent or "none")
            self.history.forming()
        elif site.phase == "operational":
            self.history.resumed()
        self.phase = site.phase

    def health_is(self, health: str, configuration: str) -> None:
        if health != self.health:
            self.health = health
            if health != "forming":
                lost = self._settled_health == "primary" and health == "minority"
                level = logging.WARNING if lost else logging.INFO
                event(self._log, level, "health", health=health, configuration=configuration)
                self._settled_health = health

    def log_is(self, note: str | None) -> None:
        """Why the log accepts no appends here; None: it does."""
        if note == self._log_note:
            return
        self._log_note = note
        if note is None:
            event(self._log, logging.INFO, "the log accepts messages")
        else:
            event(self._log, logging.WARNING, "the log accepts nothing", why=note)

    def refused(self, sites: dict[str, str]) -> None:
        """Sites that are refused because their storage is older than what is known of them, and why."""
        if sites == self._refused:
            return
        for name, why in sorted(sites.items()):
            if self._refused.get(name) != why:
                what = "site refused: its storage is older than what is known of it; replace it"
                event(self._log, logging.ERROR, what, refused=name, why=why)
        self._refused = dict(sites)

    # -- storage and trace

    def disk_refuses(self, why: str) -> None:
        self._refusing = True
        what = "storage refuses writes; until it works again, nothing is accepted and no configuration is formed"
        event(self._log, logging.ERROR, what, why=why)

    def disk_takes(self) -> None:
        if self._refusing:
            self._refusing = False
            event(self._log, logging.WARNING, "storage works again")

    def full(self, full: bool, limit: int) -> None:
        what = "the log is full; nothing is accepted" if full else "the log has room again"
        event(self._log, logging.ERROR if full else logging.WARNING, what, limit=limit)

    def damaged(self, why: str) -> None:
        event(self._log, logging.ERROR, "storage is damaged; nothing is accepted", why=why)

    def trace_stopped(self, why: str) -> None:
        event(self._log, logging.WARNING, "trace stops", why=why)

    def blocked(self, incoming: Iterable[int], outgoing: Iterable[int]) -> None:
        event(
            self._log, logging.WARNING, "fault injected: datagrams are dropped",
            incoming=self._listed(sorted(incoming)) or "none", outgoing=self._listed(sorted(outgoing)) or "none",
        )  # fmt: skip

    def _listed(self, sites: Iterable[int]) -> str:
        return ",".join(self._names[site] for site in sites)
