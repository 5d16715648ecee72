"""The configuration of a site: one TOML file, or the same as objects in a program.

Every key, with its default, unit and range, is defined here and nowhere else; docs/configuration.md is generated from
it. Durations are ns in the program; in the file they are a number with a unit ("600ms"), and the key has no `_ns`.
Sizes are bytes; in the file they may have a unit ("4MiB"). Relative paths in the file are relative to the file's
directory.
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
    "DomainSettings",
    "FaultSettings",
    "Http",
    "Limits",
    "LogSettings",
    "Logging",
    "OneOf",
    "Order",
    "PassSettings",
    "Scheduling",
    "Seal",
    "Timing",
    "Tls",
    "Trace",
    "TransportSettings",
    "UpperSettings",
]

Address = tuple[str, int]
"""Host and port, written "host:port"."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The allowed values of a string."""

    choices: tuple[str, ...]


Flow = Annotated[int, Meta(ge=1 << 16, le=1 << 40)]
Count = Annotated[int, Meta(ge=1, le=10_000_000)]
Span = Annotated[int, Meta(ge=1_000_000, le=600_000_000_000)]


class Seal(Struct, frozen=True, kw_only=True):
    """How datagrams between sites are protected: see seals.md."""

    keys: tuple[Path, ...] = ()
    """Key files, made by `reconvene keygen`. Datagrams are sealed with the first key, and accepted under any of
    them."""
    insecure: bool = False
    """Neither encrypt nor authenticate: anyone who can reach the port can act as a site."""


class TransportSettings(Struct, frozen=True, kw_only=True):
    """How datagrams travel between sites."""

    kind: Annotated[str, OneOf(("unicast", "multicast"))] = "unicast"
    """unicast: a copy to each site. multicast: a datagram for several sites is sent once, to a multicast group."""
    group: Address | None = None
    """The multicast group; required if kind is multicast."""
    ttl: Annotated[int, Meta(ge=0, le=255)] = 1
    """How many routers a multicast datagram may pass."""
    frame_bytes: Annotated[int, Meta(ge=0, le=60_000)] = 0
    """Size of a frame's messages; 0: what fits into one packet to the other sites or, where trains are used, into a
    train; at most 60,000. The kernel fragments frames of a size that is set here and does not fit: if one fragment is
    lost, so is the frame."""
    trains: bool = True
    """Whether several packets are filled, sealed and sent at once, where the kernel can and few packets get lost; see
    seals.md. Only with frame_bytes = 0. Sites with and without work together."""
    receive_buffer_bytes: Annotated[int, Meta(ge=4096, le=1 << 30)] = 4 << 20
    """Requested from the system, which may grant less. Then the site logs it, and adapts its window."""
    send_buffer_bytes: Annotated[int, Meta(ge=4096, le=1 << 30)] = 4 << 20
    """Requested from the system, which may grant less."""
    turn_datagrams: Annotated[int, Meta(ge=1, le=4096)] = 64
    """Most datagrams read in one turn."""


class Scheduling(Struct, frozen=True, kw_only=True):
    """How the operating system shares the processor between this site and other programs."""

    real_time: Annotated[int, Meta(ge=0, le=99)] = 0
    """Priority in the real-time class SCHED_RR, in which the site's threads run before all programs of the ordinary
    class. 0: the ordinary class. A site that is refused the priority does not start. See operations.md."""


class Order(Struct, frozen=True, kw_only=True):
    """How messages are ordered: see order.md. The same at every site."""

    engine: Annotated[str, OneOf(("atop", "all-ack"))] = "atop"
    """The order engine."""
    generator: Annotated[str, OneOf(("low-discrepancy", "pseudo-random"))] = "low-discrepancy"
    """atop: how slots are distributed."""
    policy: Annotated[str, OneOf(("book-keeper", "round-trip", "damped", "none"))] = "book-keeper"
    """atop: how the shares adapt to the traffic."""


class Timing(Struct, frozen=True, kw_only=True):
    """Base times. Times that depend on the number of sites are derived from them; `reconvene node --check` prints
    them."""

    beacon_every_ns: Span = 100_000_000
    """How often a site sends a beacon to every other site. Partitioned sites find each other by them, too."""
    gather_every_ns: Span = 25_000_000
    """How often beacons are sent while a configuration is being formed."""
    suspect_base_ns: Span = 600_000_000
    """A member is suspected after suspect_base + suspect_per_site · sites of silence."""
    suspect_per_site_ns: Annotated[int, Meta(ge=0, le=10_000_000_000)] = 10_000_000
    """See suspect_base."""
    round_patience_ns: Span = 500_000_000
    """How long forming and recovery wait for an answer or for progress, plus six round trips."""


class Limits(Struct, frozen=True, kw_only=True):
    """Limits. At each of them the sender waits or gets an error."""

    message_bytes: Annotated[int, Meta(ge=4 << 10, le=1 << 30)] = 16 << 20
    """A larger message is rejected. A message of the log may have 64 KiB less (or half of this, if that is more):
    16,711,680 bytes by default. The list of all groups of a site's processes has to fit into one message. With
    `[domain]` at least 2 MiB; with `[isis]` at least 256 KiB and 192 KiB for each site. The same at every site."""
    queue_bytes: Flow = 32 << 20
    """Bytes of messages that may wait to be sent; beyond it senders wait."""
    queue_messages: Count = 100_000
    """The same, counted in messages."""
    inbox_bytes: Flow = 64 << 20
    """Bytes that may wait to be read by one process; beyond it the process is cut off, and leaves its groups."""
    inbox_messages: Count = 500_000
    """The same, counted in messages."""
    processes: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Most processes of a site."""
    groups_per_process: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Most groups of a process."""
    group_name_bytes: Annotated[int, Meta(ge=1, le=1024)] = 255
    """A longer name is rejected. The same at every site."""


class Tls(Struct, frozen=True, kw_only=True):
    """TLS for clients or for HTTP. SIGHUP reads the files again."""

    certificate: Path
    """This site's certificate chain, PEM."""
    key: Path
    """The private key, PEM."""
    client_ca: Path | None = None
    """Clients must present a certificate of this authority; without it, a client key."""


class Clients(Struct, frozen=True, kw_only=True):
    """Where programs connect. The Unix socket is protected by its file mode; TCP by TLS, a client key, or both."""

    unix: Path | None = None
    """The Unix socket; default: site.sock in `dir`."""
    unix_mode: Annotated[int, Meta(ge=0, le=0o777)] = 0o600
    """Mode of the socket's file, which decides who may connect."""
    tcp: Address | None = None
    """The TCP address; default: none. Port 0: any free port, which is logged. Other than on loopback, keys or
    tls.client_ca are required."""
    keys: Path | None = None
    """A TOML file of client keys: name = { key = "…", role = "read" | "append" | "admin" }."""
    tls: Tls | None = None
    """TLS on the TCP address."""
    connections: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    """Most connections over TCP, and as many over the Unix socket; beyond it a client is refused."""
    connections_by_host: Annotated[int, Meta(ge=1, le=100_000)] = 500
    """Most TCP connections from one address. Keep it below connections, so that no host can use up all of them."""
    handshake_ns: Span = 5_000_000_000
    """A client that has not completed its handshake by then is cut off."""


class Http(Struct, frozen=True, kw_only=True):
    """Health, metrics and status: see operations.md; the log and groups for programs: see http-api.md."""

    address: Address | None = None
    """The address; default: none. Port 0: any free port, which is logged. Other than on loopback, keys or
    tls.client_ca are required."""
    tls: Tls | None = None
    """HTTPS instead of HTTP."""
    keys: Path | None = None
    """A file of client keys: every request must carry one as a bearer token. Without it, anyone who can connect is
    answered."""
    connections: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Most connections. Beyond it, of the host that has most connections without a request, the oldest of these is
    closed."""
    connections_by_host: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Most connections from one address."""
    api: bool = False
    """Whether the log and groups are served under /v1/, to the roles that clients need for them: see http-api.md.
    Without keys, anyone who can connect may append and read."""
    waiting: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Most appends and sends over HTTP that are not answered yet; beyond it they are refused. One of connections
    stays free."""
    followers: Annotated[int, Meta(ge=1, le=10_000)] = 32
    """Most streams of the log and of groups over HTTP; beyond it they are refused. Each uses one of connections."""


class Dashboard(Struct, frozen=True, kw_only=True):
    """A live page that shows the cluster, at `/` of http.address: see dashboard.md."""

    enabled: bool = True
    """Whether the page is served, if http.address is set."""
    payloads: bool = False
    """Whether the page shows the beginnings of the log's messages, to everyone who may see the page."""
    peers: dict[str, Address] = field(default_factory=dict)
    """HTTP addresses of the other sites, by name, so that the page can show their status."""
    beside: Annotated[dict[str, Address], Meta(max_length=256)] = field(default_factory=dict)
    """HTTP addresses of followers and outposts of this cluster's log, by name, so that the page can show how far
    behind they are."""
    key: Path | None = None
    """A file with one client key, for the requests to these addresses. Its role is read, or admin if the page may
    inject faults."""
    ca: Path | None = None
    """The authority of the peers' certificates. Requests then use HTTPS, and present the certificate of http.tls."""
    watchers: Annotated[int, Meta(ge=1, le=1_000)] = 16
    """Most pages that may be open; each uses one of http.connections."""


class Trace(Struct, frozen=True, kw_only=True):
    """A record of everything that happened, for `reconvene verify`: see traces.md."""

    dir: Path | None = None
    """Directory for NAME.jsonl and run.json; default: no trace."""
    max_bytes: Flow = 1 << 30
    """At this size the trace stops, with a log line and a metric."""


class LogSettings(Struct, frozen=True, kw_only=True):
    """The durable, totally ordered log."""

    enabled: bool = True
    """Whether this site takes part in the log."""
    replicas: tuple[str, ...] = ()
    """The replicas of a new log; default: all sites. The same at every site. Once the log exists, it contains its own
    replicas, and `reconvene log replicas` changes them."""
    quorum: dict[str, object] = field(default_factory=lambda: {"kind": "majority"})
    """Which sets of replicas may order messages of a new log: { kind = "majority" }, { kind = "weighted", weights = {
    a = 2, b = 1 } }, { kind = "grid", rows = [["a", "b"], ["c", "d"]] } or { kind = "dynamic", minimum = 2 }; see
    quorums.md. The same at every site;
    later changed by `reconvene log replicas`, too."""
    max_bytes: Annotated[int, Meta(ge=16 << 20, le=1 << 44)] = 64 << 30
    """Most bytes of the log on disk. At this size the site stops accepting appends, as on a full disk."""
    red_messages: Count = 1_000_000
    """Most messages of this site that are accepted and not ordered yet; beyond it an append waits or is refused."""
    red_bytes: Flow = 1 << 30
    """The same, counted in bytes."""
    batch_bytes: Annotated[int, Meta(ge=0, le=16 << 20)] = 0
    """Size of a batch: messages that are stored, sent and ordered together. 0: what fits into a frame. A larger
    message is a batch by itself."""
    retain_bytes: Annotated[int, Meta(ge=0, le=1 << 44)] = 0
    """Most bytes of ordered messages that are kept. Beyond it the oldest are removed, even if a replica lacks them,
    but not those that a state machine in use needs to start. 0: no such limit."""
    retain_age_ns: Annotated[int, Meta(ge=0, le=LONGEST_NS)] = 0
    """The same by age, counted from when a message was accepted. 0: no such limit."""
    staged_age_ns: Annotated[int, Meta(ge=0, le=LONGEST_NS)] = 3_600 * 10**9
    """How long messages of an uncommitted transaction are kept although a snapshot covers them. Should be longer than
    a transaction takes."""
    snapshot_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 40)] = 1 << 30
    """Most bytes of the snapshots of all state machines together; a snapshot that would exceed it is refused."""
    sessions: Count = 10_000
    """Most client sessions that are remembered, so that a repeated append is accepted once. Beyond it the least
    recently used session is forgotten. The same limit holds for transactions, which are counted separately. The same
    at every site."""
    follow: tuple[str, ...] = ()
    """Where to follow the log, instead of keeping a replica: addresses of replicas or of other followers, best first,
    as clients write them ("unix:PATH", "host:port"). See followers.md."""
    follow_key: Path | None = None
    """A file with one client key, for `follow` over TCP; an outpost's has the role append."""
    begin: bool = False
    """Whether a new log is created automatically once all of its replicas are connected, empty, and have this
    setting. For clusters on one machine, and for tests. Otherwise `reconvene log init` creates it."""
    outpost: bool = False
    """Whether this is an outpost: it accepts appends where no replica is, and forwards them to the sites of `follow`;
    see operations.md."""
    follow_tls: Path | None = None
    """At an outpost: the certificate of the authority that signed these sites' certificates; for TCP. Default: no
    TLS."""


class IsisSettings(Struct, frozen=True, kw_only=True):
    """Process groups in the manner of ISIS: see isis.md."""

    enabled: bool = False
    """Whether this site takes part. The same at every site: while one of them does not, nobody can use it."""


class PassSettings(Struct, frozen=True, kw_only=True):
    """Which groups' messages cross the border of this cluster. The same at every site of the cluster."""

    out: tuple[str, ...] = ()
    """Patterns of the groups whose messages leave; `*` in a pattern stands for any text. Default: none."""
    in_: tuple[str, ...] = ()
    """The same for messages that come in from other clusters."""


class UpperSettings(Struct, frozen=True, kw_only=True):
    """The cluster above: its sites are the gateways of the clusters that it joins."""

    cluster: str
    """Its name."""
    sites: dict[str, Address]
    """Every gateway of every cluster, as CLUSTER.SITE, with the address at which it receives datagrams of the cluster
    above. The same at every site of every cluster."""
    keys: tuple[Path, ...] = ()
    """Key files of the cluster above, needed at gateways. Not the keys of [seal]: a site that is no gateway must not
    be able to speak there. With seal.insecure: none."""
    timing: Timing = field(default_factory=Timing)


class DomainSettings(Struct, frozen=True, kw_only=True):
    """This cluster as one of several that are joined by a cluster above them: see domains.md. Default: it stands
    alone."""

    gateways: tuple[str, ...]
    """Sites of this cluster that are also sites of the cluster above, best first. One of them represents the cluster.
    The same at every site of the cluster."""
    backlog: Annotated[int, Meta(ge=1, le=1_000_000)] = 4_096
    """Messages to wide groups, sent here, that have not come back from the cluster above. Beyond it senders wait."""
    backlog_bytes: Flow = 4 << 20
    """The same, counted in bytes."""
    pass_: PassSettings = field(default_factory=PassSettings)
    upper: UpperSettings


class Logging(Struct, frozen=True, kw_only=True):
    """The lines that a site writes to stderr."""

    level: Annotated[str, OneOf(("debug", "info", "warning", "error"))] = "info"
    """The lowest level that is logged."""
    format: Annotated[str, OneOf(("text", "json"))] = "text"
    """text: key=value. json: one object per line."""


class FaultSettings(Struct, frozen=True, kw_only=True):
    """Fault injection, for tests and drills."""

    allowed: bool = False
    """Whether an admin may make this site drop datagrams, by an admin's client or on the dashboard with an admin's
    key. On loopback without http.keys, everyone who sees the dashboard counts as an admin."""
    blocked: tuple[str, ...] = ()
    """Sites that this one is disconnected from at its start, in both directions, until an admin changes it. At a
    gateway also sites of the cluster above, as CLUSTER.SITE."""
    record: Path | None = None
    """A file in which the dashboard saves a partition that it makes, for the program that starts the sites."""


class Config(Struct, frozen=True, kw_only=True):
    cluster: str
    """The cluster's name. Datagrams of another cluster are refused."""
    name: str
    """This site's."""
    sites: dict[str, Address] = field(default_factory=dict)
    """Every site of the cluster, this one included, with the address at which it receives datagrams. None at an
    outpost, which is no site."""
    sites_version: Annotated[int, Meta(ge=1, le=MAX_VERSION)] = 1
    """Version of the list of sites: add one each time that sites are added or removed. A changed list with the same
    version is refused; see sites.md."""
    numbers: tuple[str, ...] = ()
    """Every site that was ever in the list, in the order of the sites' numbers, as `reconvene status` shows it. Only
    needed at a new site; default: the sites, sorted by name."""
    dir: Path
    """Directory for this site's storage and socket. Each site needs its own; it is created if it is missing."""
    seal: Seal = field(default_factory=Seal)
    transport: TransportSettings = field(default_factory=TransportSettings)
    scheduling: Scheduling = field(default_factory=Scheduling)
    order: Order = field(default_factory=Order)
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    clients: Clients = field(default_factory=Clients)
    http: Http = field(default_factory=Http)
    dashboard: Dashboard = field(default_factory=Dashboard)
    trace: Trace = field(default_factory=Trace)
    log: LogSettings = field(default_factory=LogSettings)
    isis: IsisSettings = field(default_factory=IsisSettings)
    domain: DomainSettings | None = None
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
        """The replicas of a new log, sorted."""
        return tuple(sorted(self.log.replicas)) or self.names

    @property
    def unix_socket(self) -> Path:
        """The Unix socket at which programs on this machine connect."""
        return self.clients.unix or self.dir / "site.sock"

    @property
    def trace_dir(self) -> Path | None:
        """Where this site's trace file is. Traces of a cluster that is joined with others have a level more."""
        if self.trace.dir is None or self.domain is None:
            return self.trace.dir
        return self.trace.dir / self.cluster

    @property
    def is_gateway(self) -> bool:
        return self.domain is not None and self.name in self.domain.gateways

    def options(self, frame_bytes: int, buffer_bytes: int, packet_bytes: int = 0) -> Options:
        """Options of the core. The sizes of a frame, a packet and the receive buffer come from the transport."""
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
                packet_bytes=packet_bytes,
                message_bytes=self.limits.message_bytes,
                queue_bytes=self.limits.queue_bytes,
                queue_messages=self.limits.queue_messages,
                buffer_bytes=buffer_bytes,
            ),
        )
