"""What a site of a tree of clusters runs beside its core, and what a gateway's site above does.

A gateway is one process with two sites, each with its own engine. They share a `Gateway`: the upper site fills its
log of what was delivered above, and sends what crosses; the local site reads that log while it represents its
cluster. After each turn, each wakes the other if it has something for it.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from reconvene.core.effects import ConfKind
from reconvene.domains.events import BroughtIn, Crossed, Represents, WideChanged, WideDelivered, WideEvent, WideSent
from reconvene.domains.gateway import Gateway
from reconvene.domains.port import Site
from reconvene.isis.isis import Isis
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import WARNING, event
from reconvene.runtime.domain.groups import WideGroups
from reconvene.runtime.domain.tree import limits_of, tree_of
from reconvene.stack.domains import DomainLayer, UpperLayer
from reconvene.stack.far import join_isis
from reconvene.stack.layer import Layer

__all__ = ["NO_WIDE_COUNTERS", "DomainPart", "Part", "UpperPart"]


_MESSAGE_BYTES = 1 << 20
_NAME_BYTES = 256
"""The most of a message and of a group's name between clusters."""


_KEYS = {
    "out": "domain.pass.out", "into": "domain.pass.in", "gateways": "domain.gateways", "sites": "sites",
    "upper": "domain.upper.sites",
}  # fmt: skip
"""Where a site file has the rules that must be the same at all sites of a cluster."""


class Part(Protocol):
    """What an engine runs beside the usual layers."""

    def layers(self, names: tuple[str, ...], ordinal: int, incarnation: int, isis: Isis | None) -> Sequence[Layer]:
        """Made once, when the site boots. `isis`: that of the site, whose layer is among them."""

    groups: WideGroups | None
    """Of the site's processes, once it has booted."""

    def booted(self, wake: Callable[[], None]) -> None:
        """`wake` asks for a turn of the site."""

    def record(self, events: Sequence[WideEvent]) -> None:
        """Called in each turn that has any, before anything of it leaves the site."""

    def after_turn(self, events: Sequence[WideEvent]) -> None: ...

    @property
    def drained(self) -> bool:
        """All that was accepted has come back."""

    def stop(self) -> None:
        """The site has left, and its trace ends."""

    def counters(self) -> dict[str, int]: ...

    def status(self) -> dict[str, object] | None: ...


NO_WIDE_COUNTERS = {
    "wide_sent": 0,
    "wide_delivered": 0,
    "wide_configurations": 0,
    "wide_terms": 0,
    "wide_crossed": 0,
    "wide_brought_in": 0,
    "wide_refused": 0,
}


class DomainPart:
    """Of a site of the cluster."""

    def __init__(self, config: Config, log: logging.Logger) -> None:
        assert config.domain is not None
        self._config = config
        self._log = log
        self._refused: dict[str, tuple[str, ...]] = {}
        """As last logged."""
        self._domain = config.domain
        self.gateway: Gateway | None = None
        self.site: Site
        self.wake_upper: Callable[[], None] = _nothing
        """Asks for a turn of the gateway's site above."""
        self.groups: WideGroups | None = None
        self._wake: Callable[[], None] = _nothing
        self._counts = dict(NO_WIDE_COUNTERS)

    def layers(self, names: tuple[str, ...], ordinal: int, incarnation: int, isis: Isis | None) -> Sequence[Layer]:
        config = self._config
        tree = tree_of(config, names)
        if config.is_gateway:
            self.gateway = Gateway(tree, config.cluster)
        self.site = Site(tree, config.cluster, ordinal, incarnation, self.gateway, limits_of(config))
        return (DomainLayer(self.site),) if isis is None else join_isis(self.site, isis)

    def booted(self, wake: Callable[[], None]) -> None:
        limits = self._config.limits
        self._wake = wake
        self.groups = WideGroups(
            self._config.name,
            self.site,
            wake,
            message_bytes=min(_MESSAGE_BYTES, limits.message_bytes // 2),
            name_bytes=min(limits.group_name_bytes, _NAME_BYTES),
            memberships=limits.groups_per_process,
        )

    def wake(self) -> None:
        """The site above has brought something."""
        self._wake()

    def record(self, events: Sequence[WideEvent]) -> None:
        """The site's own trace does."""

    def after_turn(self, events: Sequence[WideEvent]) -> None:
        counts = self._counts
        for happened in events:
            if isinstance(happened, WideDelivered):
                counts["wide_delivered"] += 1
            elif isinstance(happened, WideSent):
                counts["wide_sent"] += 1
            elif isinstance(happened, WideChanged):
                counts["wide_configurations"] += happened.regular
            elif isinstance(happened, Represents):
                counts["wide_terms"] += 1
            elif isinstance(happened, BroughtIn):
                counts["wide_brought_in"] += len(happened.ids)
        assert self.groups is not None, "it has booted"
        self.groups.deliver(events)
        if self.site.refused is not self._refused:
            self._note_refused()
        if self.gateway is not None and self.gateway.wants_turn:
            self.wake_upper()

    def _note_refused(self) -> None:
        before, self._refused = self._refused, self.site.refused
        for name, what in self._refused.items():
            if before.get(name) != what:
                event(
                    self._log, WARNING, "refused: other rules than the representative's", site=name,
                    differs=",".join(_KEYS[field] for field in what), representative=self.site.representative,
                )  # fmt: skip

    def crossed(self, events: Sequence[WideEvent]) -> None:
        """What the site above reports."""
        self._counts["wide_crossed"] += sum(len(one.ids) for one in events if isinstance(one, Crossed))

    @property
    def drained(self) -> bool:
        return self.site.room() >= self._domain.backlog

    def stop(self) -> None:
        if self.gateway is not None:
            self.gateway.elected = -1
            self.gateway.resign()

    def counters(self) -> dict[str, int]:
        above = 0 if self.gateway is None else self.gateway.malformed
        return {**self._counts, "wide_refused": self.site.malformed + above}

    def status(self) -> dict[str, object] | None:
        site, domain = self.site, self._domain
        return {
            "name": self._config.cluster,
            "gateways": list(domain.gateways),
            "representative": site.representative,
            "term": site.term,
            "phase": site.phase.value,
            "configuration": site.wide.conf,
            "kind": (ConfKind.REGULAR if site.wide.regular else ConfKind.TRANSITIONAL).value,
            "domains": list(site.wide.domains),
            "all": sorted(site.tree.domains),
            "out": list(domain.pass_.out),
            "in": list(domain.pass_.in_),
            "refused": {name: [_KEYS[field] for field in what] for name, what in sorted(site.refused.items())},
            "groups": 0 if self.groups is None else len(self.groups),
            "waiting": domain.backlog - site.room(),
        }


class UpperPart:
    """Of a gateway's site in the cluster above."""

    groups: WideGroups | None = None

    def __init__(self, domain: DomainPart, record: Callable[[Sequence[WideEvent]], None]) -> None:
        """`domain` has booted. `record`: into the trace of its site."""
        self._domain = domain
        self._record = record
        self._layer: UpperLayer

    def layers(self, names: tuple[str, ...], ordinal: int, incarnation: int, isis: Isis | None) -> Sequence[Layer]:
        gateway = self._domain.gateway
        assert gateway is not None
        assert isis is None, "a site above has no processes"
        assert names == gateway.tree.upper, "numbered by name, as all gateways expect"
        self._layer = UpperLayer(gateway)
        return (self._layer,)

    def booted(self, wake: Callable[[], None]) -> None:
        self._domain.wake_upper = wake

    def record(self, events: Sequence[WideEvent]) -> None:
        self._record(events)
        self._domain.crossed(events)

    def after_turn(self, events: Sequence[WideEvent]) -> None:
        if self._layer.changed:
            self._layer.changed = False
            self._domain.wake()

    @property
    def drained(self) -> bool:
        return True

    def stop(self) -> None:
        """Nothing is to be done."""

    def counters(self) -> dict[str, int]:
        return {}

    def status(self) -> dict[str, object] | None:
        return None


def _nothing() -> None:
    """Nobody is to be woken yet."""
