"""What a site is told: one TOML file, or the same as objects in a program.

Every key, with its default, unit and range, is here and nowhere else; docs/configuration.md is written from it.
Durations are ns inside, and in the file a number with a unit ("600ms") under the name without `_ns`. Sizes are bytes,
in the file a number or one with a unit ("4MiB"). Relative paths in the file are relative to it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from reconvene.core import options
from reconvene.core.options import Options
from reconvene.site_list import MAX_VERSION
from reconvene.units import LONGEST_NS

__all__ = [
    "Address",
    "Clients",
    "Config",
    "Dashboard",
    "FaultSettings",
    "Http",
    "Limits",
    "LogSettings",
    "Logging",
    "OneOf",
    "Order",
    "Seal",
    "Timing",
    "Tls",
    "Trace",
    "TransportSettings",
]

Address = tuple[str, int]
"""Host and port, written "host:port"."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The values that a string may have."""

    choices: tuple[str, ...]


Flow = Annotated[int, Meta(ge=1 << 16, le=1 << 40)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Span = Annotated[int, Meta(ge=1_000_000, le=600_000_000_000)]


class Seal(Struct, frozen=True, kw_only=True):
    """How datagrams between sites are protected: see seals.md."""

    keys: tuple[Path, ...] = ()
    """Key files, made by `reconvene keygen`. The first one seals; datagrams under any of them are opened."""
    insecure: bool = False
    """Neither encrypt nor authenticate: anyone who reaches the port is a member."""


class TransportSettings(Struct, frozen=True, kw_only=True):
    """How datagrams travel between sites."""

    kind: Annotated[str, OneOf(("unicast", "multicast"))] = "unicast"
    """unicast: a copy to each site. multicast: one datagram to a multicast group where it goes to several."""
    group: Address | None = None
    """The multicast group; required where kind is multicast."""
    ttl: Annotated[int, Meta(ge=0, le=255)] = 1
    """Of multicast datagrams: how many routers they may pass."""
    frame_bytes: Annotated[int, Meta(ge=0, le=60_000)] = 0
    """Of a frame's messages; 0: what the path to the other sites carries in one packet, at most 60,000. More than
    that is cut by the kernel: one packet lost loses the frame."""
    receive_buffer_bytes: Annotated[int, Meta(ge=4096, le=1 << 30)] = 4 << 20
    """Asked of the system, which may cap it: then the site says so, and its window fits what it got."""
    send_buffer_bytes: Annotated[int, Meta(ge=4096, le=1 << 30)] = 4 << 20
    """Asked of the system, which may cap it."""
    turn_datagrams: Annotated[int, Meta(ge=1, le=4096)] = 64
    """Datagrams taken in one turn, at most."""


class Order(Struct, frozen=True, kw_only=True):
    """How messages are ordered: see order.md. The same at every site."""

    engine: Annotated[str, OneOf(("atop", "all-ack"))] = "atop"
    """The order engine."""
    generator: Annotated[str, OneOf(("low-discrepancy", "pseudo-random"))] = "low-discrepancy"
    """atop: how slots are dealt out."""
    policy: Annotated[str, OneOf(("book-keeper", "round-trip", "damped", "none"))] = "book-keeper"
    """atop: how shares follow the traffic."""


class Timing(Struct, frozen=True, kw_only=True):
    """Base times. What depends on the group's size is derived from them; `reconvene node --check` prints it."""

    beacon_every_ns: Span = 100_000_000
    """A sign of life to every site; also how sites that parted find each other."""
    gather_every_ns: Span = 25_000_000
    """Beacons while a configuration is being found."""
    suspect_base_ns: Span = 600_000_000
    """A member that was silent for suspect_base + suspect_per_site · sites is suspected."""
    suspect_per_site_ns: Annotated[int, Meta(ge=0, le=10_000_000_000)] = 10_000_000
    """See suspect_base."""
    round_patience_ns: Span = 500_000_000
    """How long forming and recovering wait for an answer or for progress, plus six round trips."""


class Limits(Struct, frozen=True, kw_only=True):
    """A bound on everything. At each one the sender waits, or gets an error."""

    message_bytes: Annotated[int, Meta(ge=4 << 10, le=1 << 30)] = 16 << 20
    """A larger message is rejected; of the log, one that is larger than this less 64 KiB (or half of it, if that is
    more): 16,711,680 bytes by default. All groups of a site's processes have to fit one. The same at every site."""
    queue_bytes: Flow = 32 << 20
    """What may wait to be sent; beyond it senders wait."""
    queue_messages: Count = 100_000
    """The same, in messages."""
    inbox_bytes: Flow = 64 << 20
    """What may wait for one process to take; beyond it the process is cut off, and leaves its groups."""
    inbox_messages: Count = 500_000
    """The same, in messages."""
    processes: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """At one site."""
    groups_per_process: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """That one process may be in."""
    group_name_bytes: Annotated[int, Meta(ge=1, le=1024)] = 255
    """A longer name is rejected. The same at every site."""


class Tls(Struct, frozen=True, kw_only=True):
    """TLS for clients or for HTTP."""

    certificate: Path
    """This site's chain of certificates, PEM."""
    key: Path
    """Its private key, PEM."""
    client_ca: Path | None = None
    """Clients show a certificate of this authority; else they show a client key."""


class Clients(Struct, frozen=True, kw_only=True):
    """Where processes connect. The Unix socket is guarded by its file mode; TCP by TLS, a client key, or both."""

    unix: Path | None = None
    """The Unix socket; default: site.sock in `dir`."""
    unix_mode: Annotated[int, Meta(ge=0, le=0o777)] = 0o600
    """Its file mode: who may connect."""
    tcp: Address | None = None
    """Where to listen for TCP; default: nowhere. Port 0: any free one, which the log names. Beyond loopback keys or
    tls.client_ca are required."""
    keys: Path | None = None
    """A TOML file of client keys: name = { key = "…", role = "read" | "append" | "admin" }."""
    tls: Tls | None = None
    """TLS on the TCP address."""
    connections: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    """At once by TCP, and as many by the Unix socket; beyond it a client is refused."""
    connections_by_host: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Of those by TCP, from one address. Keep it below connections, so that no host can take all of them."""
    handshake_ns: Span = 5_000_000_000
    """A client that has not said who it is by then is cut off."""


class Http(Struct, frozen=True, kw_only=True):
    """Health, metrics and status: see operations.md."""

    address: Address | None = None
    """Where to listen; default: nowhere. Port 0: any free one, which the log names. Beyond loopback keys or
    tls.client_ca are required."""
    tls: Tls | None = None
    """HTTPS instead of HTTP."""
    keys: Path | None = None
    """As for clients: every request carries one as a bearer token. Without it anyone who can connect is answered."""
    connections: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """At once; beyond it the oldest one that has not asked yet is closed, of the host that has most of these."""
    connections_by_host: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Of those, from one address."""


class Dashboard(Struct, frozen=True, kw_only=True):
    """The cluster as a live page, at `/` of http.address: see dashboard.md."""

    enabled: bool = True
    """Whether it is served, where http.address is set."""
    payloads: bool = False
    """Whether its log shows the beginnings of messages to everyone who may ask."""
    peers: dict[str, Address] = field(default_factory=dict)
    """Where the other sites' HTTP is, by name, so that the page shows what they say of themselves."""
    key: Path | None = None
    """A file with one client key, which is shown to the peers. Its role is read; or admin, for the page's faults."""
    ca: Path | None = None
    """The authority of the peers' certificates: they are then asked by HTTPS, and shown http.tls's certificate."""
    watchers: Annotated[int, Meta(ge=1, le=1_000)] = 16
    """Pages that may be open at once; each takes one of http.connections."""


class Trace(Struct, frozen=True, kw_only=True):
    """What happened, for `reconvene verify`: see traces.md."""

    dir: Path | None = None
    """Where NAME.jsonl and run.json go; default: no trace."""
    max_bytes: Flow = 1 << 30
    """At this size the trace stops, with a log line and a metric."""


class LogSettings(Struct, frozen=True, kw_only=True):
    """The durable, totally ordered log."""

    enabled: bool = True
    """Whether this site takes part in it."""
    replicas: tuple[str, ...] = ()
    """The sites that keep a new log; default: all of them. The same at every site. From then on the log itself says
    who its replicas are, and `reconvene log replicas` changes them."""
    quorum: dict[str, object] = field(default_factory=lambda: {"kind": "majority"})
    """Which of them may order a new log: { kind = "majority" }, { kind = "weighted", weights = { a = 2, b = 1 } } or
    { kind = "grid", rows = [["a", "b"], ["c", "d"]] }; see quorums.md. The same at every site; changed later as
    replicas are."""
    max_bytes: Annotated[int, Meta(ge=16 << 20, le=1 << 44)] = 64 << 30
    """Of the log on disk, which takes what it needs. At this size the site stops accepting, as on a full disk."""
    red_messages: Count = 1_000_000
    """Own messages that are accepted and not ordered yet; at it an append waits, or is refused."""
    red_bytes: Flow = 1 << 30
    """The same, in bytes."""
    batch_bytes: Annotated[int, Meta(ge=0, le=16 << 20)] = 0
    """Of messages that are stored, sent and ordered together; 0: what fits a frame. A larger message is a batch by
    itself."""
    retain_bytes: Annotated[int, Meta(ge=0, le=1 << 44)] = 0
    """Of ordered messages that are kept: beyond it the oldest go, also where a replica lacks them, but for what a
    state machine that is in use needs to start. 0: no such limit."""
    retain_age_ns: Annotated[int, Meta(ge=0, le=LONGEST_NS)] = 0
    """The same by age, since their authors accepted them. 0: no such limit."""
    staged_age_ns: Annotated[int, Meta(ge=0, le=LONGEST_NS)] = 3_600 * 10**9
    """Messages of a transaction that is not committed are kept so long though a snapshot covers them: more than a
    transaction takes."""
    snapshot_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 40)] = 1 << 30
    """Of the snapshots of all state machines together: one that would make them larger is refused."""
    sessions: Count = 10_000
    """Client sessions that are remembered, so that an append that is tried again is taken once; beyond it the one
    that was used least recently is forgotten. As many transactions are, by themselves. The same at every site."""
    begin: bool = False
    """Whether a new log begins by itself once all of its replicas are there, empty, and say so too. For clusters of
    one machine, and for tests. Else `reconvene log init` begins it."""


class Logging(Struct, frozen=True, kw_only=True):
    """What goes to stderr."""

    level: Annotated[str, OneOf(("debug", "info", "warning", "error"))] = "info"
    """The least level that is logged."""
    format: Annotated[str, OneOf(("text", "json"))] = "text"
    """text: key=value. json: one object a line."""


class FaultSettings(Struct, frozen=True, kw_only=True):
    """Faults on purpose, for tests and drills."""

    allowed: bool = False
    """Whether an admin may have this site drop datagrams: by an admin's client, or on the dashboard with an admin's
    key. On loopback without http.keys whoever sees the dashboard is one."""
    blocked: tuple[str, ...] = ()
    """Sites that this one is cut off from at its start, both ways, until an admin says otherwise."""
    record: Path | None = None
    """Where a partition that the dashboard makes is written down, for whoever starts sites."""


class Config(Struct, frozen=True, kw_only=True):
    cluster: str
    """The cluster's name: datagrams of another one are refused."""
    name: str
    """This site's."""
    sites: dict[str, Address]
    """Every site of the cluster, this one included, and where it receives datagrams."""
    sites_version: Annotated[int, Meta(ge=1, le=MAX_VERSION)] = 1
    """Of the list of sites: one more each time that sites are added or removed. A list that has changed under the
    same version is refused; see sites.md."""
    numbers: tuple[str, ...] = ()
    """Every name that the list ever had, in the order of the sites' numbers, as `reconvene status` shows it. Only
    needed at a new site; default: the sites by name."""
    dir: Path
    """What this site keeps: its record, its socket. One site's alone; made where it is missing."""
    seal: Seal = field(default_factory=Seal)
    transport: TransportSettings = field(default_factory=TransportSettings)
    order: Order = field(default_factory=Order)
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    clients: Clients = field(default_factory=Clients)
    http: Http = field(default_factory=Http)
    dashboard: Dashboard = field(default_factory=Dashboard)
    trace: Trace = field(default_factory=Trace)
    log: LogSettings = field(default_factory=LogSettings)
    logging: Logging = field(default_factory=Logging)
    faults: FaultSettings = field(default_factory=FaultSettings)

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted."""
        return tuple(sorted(self.sites))

    @property
    def ordinal(self) -> int:
        """This site's number in a cluster whose list has never changed."""
        return self.names.index(self.name)

    @property
    def replicas(self) -> tuple[str, ...]:
        """Of a new log, sorted."""
        return tuple(sorted(self.log.replicas)) or self.names

    @property
    def unix_socket(self) -> Path:
        """Where processes of this machine connect."""
        return self.clients.unix or self.dir / "site.sock"

    def options(self, frame_bytes: int, buffer_bytes: int) -> Options:
        """What the core is told; a frame's size and the receive buffer are the transport's to say."""
        return Options(
            order=self.order.engine,
            generator=self.order.generator,
            policy=self.order.policy,
            return_unsent=True,
            timing=options.Timing(
                beacon_every_ns=self.timing.beacon_every_ns,
                gather_every_ns=self.timing.gather_every_ns,
                suspect_base_ns=self.timing.suspect_base_ns,
                suspect_per_site_ns=self.timing.suspect_per_site_ns,
                round_patience_ns=self.timing.round_patience_ns,
            ),
            limits=options.Limits(
                frame_bytes=frame_bytes,
                message_bytes=self.limits.message_bytes,
                queue_bytes=self.limits.queue_bytes,
                queue_messages=self.limits.queue_messages,
                buffer_bytes=buffer_bytes,
            ),
        )
