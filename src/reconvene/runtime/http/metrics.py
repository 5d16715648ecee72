"""A site's metrics in Prometheus' format. They are collected at each request. In between, histograms cost less than a
microsecond for each commit and each append, and all others cost nothing."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from reconvene.runtime.diagnostics.loop_lag import LoopLag
from reconvene.runtime.site.interface import Engine
from reconvene.world import world

__all__ = ["COUNTERS", "GAUGES", "HISTOGRAMS", "LABELLED", "RequestCounts", "SiteMetrics"]

HEALTHS = ("primary", "minority", "forming", "outpost")
PHASES = ("operational", "gathering", "forming", "recovering")

COUNTERS: Mapping[str, str] = {
    "alives": "Alive frames sent: signs of life and acks of an idle site.",
    "clients": "Clients that were accepted.",
    "clients_cut_off": "Clients that did not read and reached their limit.",
    "configurations": "Regular configurations installed.",
    "delivered_bytes": "Bytes of messages delivered here, for whichever process.",
    "delivered_messages": "Messages delivered here, for whichever process.",
    "doubled_segments": "Segments of trains that were received twice: a high loss makes sites send them so.",
    "duplicates": "Duplicate frames.",
    "isis_casts": "Casts of this site's processes; one that is sent again counts once.",
    "isis_channel_bare": "Packets to other sites without records: acks.",
    "isis_channel_malformed": "Packets of channels that were invalid.",
    "isis_channel_packets": "Packets with records to other sites, each counted once.",
    "isis_channel_records": "Records in these packets: casts, questions, answers. By packets: messages a packet.",
    "isis_channel_resent": "Packets that were sent again.",
    "isis_channel_stalled": "Sites that acknowledged nothing for long, and were suspected.",
    "isis_kills": "Processes of this site that the others went on without.",
    "isis_malformed": "Records and control messages that were invalid.",
    "isis_rejections": "Casts that a process here rejected since the group had gained a member; they are sent again.",
    "isis_wide_casts": "Casts of this site's processes to processes of other clusters.",
    "isis_wide_dropped": "Messages between clusters that were dropped: too many waited for a site view.",
    "isis_wide_received": "Casts to processes of several clusters that processes of this site have received.",
    "isis_unordered": "CBCASTs whose label is below an earlier one of their sender: they are not ordered after it.",
    "log_accepted_messages": "Messages accepted here: on this site's stable storage.",
    "log_malformed": "Messages between replicas of the log that were invalid.",
    "log_ordered_messages": "Messages that became green here, whichever site accepted them.",
    "log_primaries": "Primary components of the log that were established with this site.",
    "malformed": "Datagrams that were opened and were invalid.",
    "nacks": "Requests for lost frames sent.",
    "overflow": "Frames too far ahead to be stored, and packets of channels beyond those that a turn takes.",
    "received_bytes": "Bytes of datagrams received, refused ones included.",
    "received_datagrams": "Datagrams received, refused ones included; a train counts as one, once it is whole.",
    "received_segments": "Segments of trains received.",
    "received_trains": "Trains received whole.",
    "requests_refused": "Requests of clients whose role does not allow them.",
    "resent": "Frames sent again.",
    "sent_bytes": "Bytes of datagrams sent.",
    "sent_datagrams": "Datagrams sent, each copy counted; a train counts as one.",
    "sent_messages": "Messages of this site's processes that were numbered.",
    "sent_segments": "Segments of trains sent, each copy counted.",
    "sent_trains": "Trains sent: datagrams in several packets, each copy counted.",
    "sessions": "Sessions of other sites that were opened: one for each of their starts and of ours.",
    "other_lists": "Beacons of sites whose list of sites contradicts this site's.",
    "stale": "Datagrams of another configuration or incarnation, or that arrived too late.",
    "turns": "Turns of the engine.",
    "wide_brought_in": "Messages that this site, representing its cluster, brought in from the cluster above.",
    "wide_configurations": "Regular wide configurations entered.",
    "wide_crossed": "Messages that this site, representing its cluster, sent to the cluster above.",
    "wide_delivered": "Messages of wide groups delivered here, from whichever cluster.",
    "wide_refused": "Messages of domains that were invalid, or of a gateway that lied or has other rules.",
    "wide_sent": "Messages to wide groups sent here.",
    "wide_terms": "Changes of the site that represents this cluster.",
}
"""The counters of `Engine.counters` and of the clients' server, by name; each is reconvene_NAME_total."""

LABELLED: Mapping[str, tuple[str, str]] = {
    "dropped_": ("dropped_datagrams", "Datagrams that were dropped, by reason."),
    "clients_refused_": ("clients_refused", "Clients that were refused, by reason."),
    "http_refused_": ("http_refused", "Requests and connections over HTTP that were refused, by reason."),
}
"""Counters whose name begins so are one metric, and the rest of the name is its label `reason`."""

GAUGES: Mapping[str, str] = {
    "info": "Always 1; the labels name the site.",
    "health": "1 for the current health: primary, minority or forming, of an outpost always outpost.",
    "phase": "1 for the site's current phase.",
    "incarnation": "How often this site has been started.",
    "uptime_seconds": "Time since this start.",
    "time_seconds": "The site's time of day, since 1970: what a scraper knows of the clocks of all sites.",
    "sites": "Sites of the cluster, as its list has them now.",
    "member": "1 for each site of the list that is in the current configuration, 0 for each other one.",
    "configuration_members": "Members of the current configuration.",
    "processes": "Processes of this site.",
    "groups": "Groups with members anywhere in the configuration.",
    "waiting_messages": "Messages accepted and not yet sent.",
    "waiting_bytes": "Bytes of messages accepted and not yet sent.",
    "round_trip_seconds": "Round trip to another site, smoothed.",
    "blocked_sites": "Sites disconnected by fault injection, by direction.",
    "storage_ok": "0: the disk refuses writes or is damaged; nothing is accepted, and no configuration is formed.",
    "store_used_bytes": "Size of what is stored, in whole pages, without free ones.",
    "store_limit_bytes": "log.max_bytes: at this size nothing more is accepted.",
    "store_writing_seconds": "For how long the write to disk has been tried that is under way; 0: there is none.",
    "disk_free_bytes": "Free space of the file system that holds the store, for the site's user.",
    "disk_size_bytes": "Size of that file system.",
    "certificate_end_seconds": "When a certificate that is in use ends, since 1970, by its key in the site's file.",
    "log_primary": "Number of the log's primary component that this site is in; 0: none.",
    "log_base": "First position of the log that is kept here; earlier ones are truncated.",
    "log_green": "The green line: how many messages have a position in the log.",
    "log_yellow_messages": "Messages logged in a primary component, not yet known to be logged by all its members.",
    "log_red_messages": "Messages logged, without a position yet.",
    "log_unlogged_messages": "Messages accepted here, and not yet sent to the other replicas.",
    "log_own_messages": "Messages accepted here, without a position yet.",
    "log_own_bytes": "The same in bytes: at log.red_bytes nothing more is accepted.",
    "log_follow_behind_messages": "Of a follower of the log: messages that it lacks, as far as it has heard.",
    "log_outpost_connected": "Of an outpost of the log: 1 while it is connected to a site that it forwards to.",
    "log_outpost_oldest_seconds": "Of an outpost: how long its oldest message without a position has waited.",
    "log_follow_connected": "Of a follower of the log: 1 while it is connected to a source.",
    "log_lag_messages": "How far a replica's green line, as it last reported it, is behind this site's.",
    "isis_blocked": "1: the site is not in the primary component, so its processes neither cast nor receive.",
    "isis_site_view_members": "Sites of the last site view that was adopted here.",
    "isis_processes": "Processes of this site.",
    "isis_groups": "Groups with members anywhere.",
    "isis_open_casts": "Casts of this site that some destination is not done with: at 4,096 further ones wait.",
    "isis_open_bytes": "The same in bytes: at 4 MiB further ones wait.",
    "isis_waiting_casts": "Requests of its processes that wait: for room, or for a group that gains a member.",
    "isis_pool_casts": "CBCASTs of all sites that are kept here since some destination may lack them.",
    "isis_pool_bytes": "Bytes of their payloads.",
    "isis_open_gbcasts": "GBCASTs, joins, leaves and failures that are announced and not done.",
    "isis_open_calls": "Casts of this site's processes that still wait for replies.",
    "isis_wide_waiting": "Casts and watches that wait to be sent to other clusters: at 4,096 further casts wait.",
    "isis_wide_open_calls": "Casts to several clusters that still wait for replies.",
    "isis_wide_watches": "Processes of other clusters that those of this site watch; each watch counts.",
    "isis_wide_watched": "Processes of this cluster that others watch: at 4,096 further watches are refused.",
    "wide_domains": "Clusters of the current wide configuration, this one included.",
    "wide_all_domains": "Clusters that are joined by the cluster above.",
    "wide_represents": "1: this site represents its cluster.",
    "wide_waiting_messages": "Messages to wide groups sent here, not back yet: at domain.backlog senders wait.",
    "wide_upper_members": "At a gateway: gateways in its configuration of the cluster above.",
    "wide_upper_sent_bytes": "At a gateway: bytes of datagrams sent in the cluster above.",
    "wide_upper_received_bytes": "At a gateway: bytes of datagrams received in the cluster above.",
    "trace_bytes": "Size of the trace so far.",
    "trace_stopped": "1: the trace has stopped at its size limit.",
    "longest_turn_seconds": "The longest turn of the engine since the start.",
    "loop_lag_seconds": "How late the event loop was when last measured.",
    "loop_lag_worst_seconds": "The worst of the last minute.",
}
"""reconvene_NAME."""

HISTOGRAMS: Mapping[str, str] = {
    "append_seconds": "From when an append was accepted until its messages were on this site's stable storage.",
    "commit_seconds": "Writes to the store, with their sync; all that waits goes into one.",
}
"""Of `Engine.histograms`; each is reconvene_NAME_bucket, _sum and _count."""

_STORE_FIELDS = {
    "store_used_bytes": "used_bytes",
    "store_limit_bytes": "limit_bytes",
    "store_writing_seconds": "writing_s",
    "disk_free_bytes": "free_bytes",
    "disk_size_bytes": "disk_bytes",
}
"""Of status's `store`."""

_LOG_FIELDS = {
    "log_primary": "primary",
    "log_base": "base",
    "log_green": "green",
    "log_yellow_messages": "yellow",
    "log_red_messages": "red",
    "log_unlogged_messages": "unlogged",
}
"""Of status's `log`."""


_ISIS_FIELDS = {
    "isis_blocked": "blocked",
    "isis_site_view_members": "members",
    "isis_processes": "processes",
    "isis_groups": "group_count",
    "isis_open_casts": "open_casts",
    "isis_open_bytes": "open_bytes",
    "isis_waiting_casts": "waiting_casts",
    "isis_pool_casts": "pool",
    "isis_pool_bytes": "pool_bytes",
    "isis_open_gbcasts": "open_gbcasts",
    "isis_open_calls": "open_calls",
    "isis_wide_waiting": "wide_waiting",
    "isis_wide_open_calls": "wide_calls",
    "isis_wide_watches": "wide_watches",
    "isis_wide_watched": "wide_watched",
}
"""Of status's `isis`."""


_OUTCOMES = {408: "refused", 429: "no_room", 500: "failed", 503: "unavailable", 504: "unknown"}


class RequestCounts:
    """HTTP requests by route and outcome. Both are bounded: routes are patterns of paths, not paths."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def count(self, route: str, status: int, cut_off: bool) -> None:
        outcome = _OUTCOMES.get(status, "answered" if status < 400 else "refused")
        self.counts[route, "cut_off" if cut_off else outcome] += 1


class SiteMetrics(Collector):
    """Collects metrics from an engine; `more` are counters of other parts, `ends` when certificates end, `requests`
    counts those of HTTP, and `lag` measures the loop."""

    def __init__(
        self,
        engine: Engine,
        lag: LoopLag | None = None,
        more: Callable[[], Mapping[str, int]] = dict,
        ends: Callable[[], Mapping[str, float]] = dict,
        requests: RequestCounts | None = None,
    ) -> None:
        self._engine = engine
        self._lag = lag
        self._more = more
        self._ends = ends
        self._requests = requests
        # A registry of its own, so that an embedding application's metrics stay separate.
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing, since registering must not query an engine that has not started yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._counters({**self._engine.counters(), **self._more()})
        for name, times in sorted(self._engine.histograms().items()):
            yield HistogramMetricFamily(f"reconvene_{name}", HISTOGRAMS[name], times.buckets(), times.sum_s)
        yield from self._gauges(self._engine.status())

    def _counters(self, counters: Mapping[str, int]) -> Iterator[Metric]:
        labelled = {
            prefix: CounterMetricFamily(f"reconvene_{name}", help_, labels=["reason"])
            for prefix, (name, help_) in LABELLED.items()
        }
        for name, value in sorted(counters.items()):
            prefix = next((prefix for prefix in labelled if name.startswith(prefix)), None)
            if prefix is not None:
                labelled[prefix].add_metric([name.removeprefix(prefix)], value)
            else:
                yield CounterMetricFamily(f"reconvene_{name}", COUNTERS.get(name, name), value=value)
        yield from labelled.values()
        if self._requests is not None:
            asked = CounterMetricFamily(
                "reconvene_http_requests", "Requests over HTTP, by route and outcome.", labels=["route", "outcome"]
            )
            for labels, value in sorted(self._requests.counts.items()):
                asked.add_metric(labels, value)
            yield asked

    def _gauges(self, status: Mapping[str, object]) -> Iterator[Metric]:
        info = {name: str(status.get(name, "")) for name in ("cluster", "seal")}
        labels = {"site": str(status.get("name", "")), "version": version("reconvene"), **info}
        yield _family("info", sorted(labels), {tuple(labels[name] for name in sorted(labels)): 1})
        yield _family("health", ["health"], {(name,): status.get("health") == name for name in HEALTHS})
        yield _family("phase", ["phase"], {(name,): status.get("phase") == name for name in PHASES})
        yield _one("incarnation", status.get("incarnation"))
        yield _one("uptime_seconds", status.get("uptime_s"))
        yield _one("time_seconds", world().time_ns() / 1e9)
        sites, members = _table(status, "list").get("sites", status.get("sites")), status.get("members")
        yield _one("sites", sites)
        yield _family("member", ["site"], {(site,): site in _names(members) for site in _names(sites)})
        yield _one("configuration_members", status.get("members"))
        yield _one("processes", status.get("processes"))
        yield _one("groups", status.get("group_count"))
        waiting = _table(status, "waiting")
        yield _one("waiting_messages", waiting.get("messages"))
        yield _one("waiting_bytes", waiting.get("bytes"))
        trips = _table(status, "round_trips_us")
        yield _family("round_trip_seconds", ["site"], {(site,): _number(us) / 1e6 for site, us in trips.items()})
        blocked = _table(status, "blocked")
        yield _family("blocked_sites", ["direction"], {(way,): _number(sites) for way, sites in blocked.items()})
        yield _one("longest_turn_seconds", _number(status.get("longest_turn_ms")) / 1e3)
        yield _one("storage_ok", status.get("storage", "ok") == "ok")
        yield from self._store_gauges(_table(status, "store"))
        yield _family("certificate_end_seconds", ["key"], {(key,): end for key, end in self._ends().items()})
        yield from self._log_gauges(_table(status, "log"))
        isis = _table(status, "isis")
        if isis:
            for name, field in _ISIS_FIELDS.items():
                yield _one(name, isis.get(field))
        yield from self._wide_gauges(str(status.get("name", "")), _table(status, "domain"))
        trace = _table(status, "trace")
        if trace:
            yield _one("trace_bytes", trace.get("bytes"))
            yield _one("trace_stopped", trace.get("stopped"))
        if self._lag is not None:
            yield _one("loop_lag_seconds", self._lag.last_s)
            yield _one("loop_lag_worst_seconds", self._lag.worst_s)

    def _store_gauges(self, store: Mapping[str, object]) -> Iterator[Metric]:
        for name, field in _STORE_FIELDS.items():
            if store.get(field) is not None:
                yield _one(name, store[field])

    def _log_gauges(self, log: Mapping[str, object]) -> Iterator[Metric]:
        if not log:
            return
        if log.get("outpost"):
            yield from self._outpost_gauges(log)
            return
        for name, field in _LOG_FIELDS.items():
            yield _one(name, log.get(field))
        follow = _table(log, "follow")
        if follow:
            yield _one("log_follow_behind_messages", follow.get("behind"))
            yield _one("log_follow_connected", 0 if follow.get("source") is None else 1)
        own = _table(log, "own")
        yield _one("log_own_messages", own.get("messages"))
        yield _one("log_own_bytes", own.get("bytes"))
        replicas = _table(log, "replicas")
        lags: dict[tuple[str, ...], float] = {
            (name,): _number(_table(replicas, name).get("lag")) for name in replicas
        }
        yield _family("log_lag_messages", ["replica"], lags)

    def _wide_gauges(self, site: str, domain: Mapping[str, object]) -> Iterator[Metric]:
        if not domain:
            return
        yield _one("wide_domains", domain.get("domains"))
        yield _one("wide_all_domains", domain.get("all"))
        yield _one("wide_represents", domain.get("representative") == site)
        yield _one("wide_waiting_messages", domain.get("waiting"))
        upper = _table(domain, "upper")
        if upper:
            yield _one("wide_upper_members", upper.get("members"))
            yield _one("wide_upper_sent_bytes", upper.get("sent_bytes"))
            yield _one("wide_upper_received_bytes", upper.get("received_bytes"))

    def _outpost_gauges(self, log: Mapping[str, object]) -> Iterator[Metric]:
        waiting = _table(log, "waiting")
        yield _one("log_yellow_messages", log.get("yellow"))
        yield _one("log_red_messages", log.get("red"))
        yield _one("log_own_messages", waiting.get("messages"))
        yield _one("log_own_bytes", waiting.get("bytes"))
        yield _one("log_outpost_connected", log.get("site") is not None)
        yield _one("log_outpost_oldest_seconds", log.get("oldest_s"))


def _one(name: str, value: object) -> Metric:
    return GaugeMetricFamily(f"reconvene_{name}", GAUGES[name], value=_number(value))


def _family(name: str, labels: list[str], values: Mapping[tuple[str, ...], float]) -> Metric:
    family = GaugeMetricFamily(f"reconvene_{name}", GAUGES[name], labels=labels)
    for label, value in sorted(values.items()):
        family.add_metric(label, float(value))
    return family


def _number(value: object) -> float:
    """The number, or the length of a collection."""
    if isinstance(value, int | float):
        return float(value)
    return float(len(value)) if isinstance(value, list | tuple | dict) else 0.0


def _names(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list | tuple) else []


def _table(status: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = status.get(name)
    return value if isinstance(value, dict) else {}
