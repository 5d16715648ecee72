"""Collects the state of this site for a dashboard. Costs nothing while no page is open."""

from collections.abc import Mapping
from time import time_ns
from typing import Any

from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.loop_lag import LoopLag
from reconvene.runtime.http.dashboard.beside import LogBeside, log_beside
from reconvene.runtime.http.dashboard.delays import OrderDelays
from reconvene.runtime.http.dashboard.isis_sampler import isis_sample
from reconvene.runtime.http.dashboard.samples import DomainSample, IsisSample, LogSample, ShownMessage, SiteSample
from reconvene.runtime.http.dashboard.tail import Tail, segments
from reconvene.runtime.isis.interface import SiteIsis
from reconvene.runtime.site.interface import Engine

__all__ = ["Sampler"]

_COUNTERS = (
    *("sent_messages", "delivered_messages", "sent_bytes", "received_bytes", "resent"),
    *("log_accepted_messages", "log_ordered_messages"),
    *("wide_crossed", "wide_brought_in", "wide_refused"),
    *("isis_casts", "isis_channel_packets", "isis_channel_records", "isis_kills"),
)


class Sampler:
    def __init__(self, config: Config, engine: Engine, lag: LoopLag | None) -> None:
        self._config = config
        self._engine = engine
        self._lag = lag
        log = engine.log
        self._tail = None if log is None else Tail(log, config.dashboard.payloads)
        self._delays = None if log is None else OrderDelays(log)
        self.tail: list[ShownMessage] = []
        """The end of the log at the last look: ordered messages, then those without a position."""
        self.follows: LogBeside | None = None
        """At the last look, if this site follows a log."""

    def close(self) -> None:
        if self._delays is not None:
            self._delays.close()

    def sample(self, since: int = 0) -> SiteSample:
        """The current state, with the configurations after number `since`."""
        engine = self._engine
        status: Mapping[str, Any] = engine.status()
        counters = engine.counters()
        self.follows = log_beside(status)
        blocked = status["blocked"]
        return SiteSample(
            cluster=status["cluster"],
            name=status["name"],
            incarnation=status["incarnation"],
            at=time_ns() // 1_000_000,
            uptime_s=status["uptime_s"],
            health=status["health"],
            phase=status["phase"],
            configuration=status["configuration"],
            members=status["members"],
            sites=status["sites"],
            blocked=sorted({*blocked["incoming"], *blocked["outgoing"]}),
            storage=status["storage"],
            processes=status["processes"],
            waiting=status["waiting"]["messages"],
            counters={name: counters.get(name, 0) for name in _COUNTERS},
            round_trips_us=status["round_trips_us"],
            lag_ms=0.0 if self._lag is None else self._lag.worst_s * 1e3,
            order_ms=None if self._delays is None else self._delays.median_ms(),
            log=None if self._tail is None else self._look_at(self._tail, status["log"]),
            isis=None if engine.isis is None else self._look_at_groups(engine.isis, status["isis"]),
            domain=_domain_sample(status.get("domain")),
            faults=self._config.faults.allowed,
            history=engine.history.since(since),
        )

    def _look_at_groups(self, isis: SiteIsis, status: Mapping[str, Any]) -> IsisSample:
        return isis_sample(isis, status, self._config.dashboard.payloads)

    def _look_at(self, tail: Tail, status: Mapping[str, Any]) -> LogSample:
        greens, waiting = tail.look(), tail.waiting()
        self.tail = [*greens, *waiting]
        return LogSample(
            phase=status["phase"],
            primary=status["primary"],
            base=status["base"],
            green=status["green"],
            yellow=status["yellow"],
            red=status["red"] + status["unlogged"],
            greens=segments(greens),
            pending=segments(waiting),
            greens_told={name: told["green"] for name, told in status["replicas"].items()},
        )


def _domain_sample(domain: Mapping[str, Any] | None) -> DomainSample | None:
    if domain is None:
        return None
    upper = domain["upper"]
    return DomainSample(
        name=domain["name"],
        gateways=domain["gateways"],
        representative=domain["representative"],
        phase=domain["phase"],
        configuration=domain["configuration"],
        domains=domain["domains"],
        all=domain["all"],
        out=domain["out"],
        into=domain["in"],
        refused=domain["refused"],
        waiting=domain["waiting"],
        above=None if upper is None else upper["members"],
    )
