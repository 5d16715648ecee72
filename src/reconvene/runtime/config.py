"""What a site is told: one TOML file, or the same as objects in a program.

Every key, with its default and unit, is here and nowhere else; docs/configuration.md is written from it. Durations
are ns inside, and a number with a unit ("600ms") in the file. Relative paths are relative to the file.
"""

from pathlib import Path

from msgspec import Struct, field

__all__ = [
    "Address",
    "Clients",
    "Config",
    "Faults",
    "Http",
    "Limits",
    "Log",
    "Order",
    "Seal",
    "Timing",
    "Tls",
    "Trace",
    "Transport",
]

Address = tuple[str, int]
"""Host and port, written "host:port"."""


class Seal(Struct, frozen=True, kw_only=True):
    keys: tuple[Path, ...] = ()
    """Key files. The first one seals; datagrams under any of them are opened."""
    insecure: bool = False
    """Neither encrypt nor authenticate: anyone who reaches the port is a member."""


class Transport(Struct, frozen=True, kw_only=True):
    kind: str = "unicast"
    """unicast: a copy to each site | multicast: one datagram to a multicast group where it goes to several."""
    group: Address | None = None
    """The multicast group."""
    ttl: int = 1
    frame_bytes: int = 0
    """Of a frame's messages; 0: what the path to the other sites carries in one packet, at most 60,000. More than
    that is cut by the kernel: one packet lost loses the frame."""
    receive_buffer_bytes: int = 4 << 20
    send_buffer_bytes: int = 4 << 20
    """Asked of the system, which may cap them: then the site says so, and its window fits what it got."""
    turn_datagrams: int = 64
    """Datagrams taken in one turn, at most."""


class Order(Struct, frozen=True, kw_only=True):
    engine: str = "atop"
    """atop | all-ack"""
    generator: str = "low-discrepancy"
    policy: str = "book-keeper"


class Timing(Struct, frozen=True, kw_only=True):
    """Base times. What depends on the group's size is derived from them; `reconvene node --check` prints it."""

    beacon_every_ns: int = 100_000_000
    gather_every_ns: int = 25_000_000
    suspect_base_ns: int = 600_000_000
    suspect_per_site_ns: int = 10_000_000
    round_patience_ns: int = 500_000_000


class Limits(Struct, frozen=True, kw_only=True):
    message_bytes: int = 16 << 20
    """A larger message is rejected. The same at every site."""
    queue_bytes: int = 32 << 20
    queue_messages: int = 100_000
    """What may wait to be sent; beyond it senders wait."""
    inbox_bytes: int = 64 << 20
    inbox_messages: int = 500_000
    """What may wait for one process to take; beyond it the process is cut off, and leaves its groups."""
    processes: int = 10_000
    """At one site."""
    groups_per_process: int = 10_000
    group_name_bytes: int = 255


class Tls(Struct, frozen=True, kw_only=True):
    certificate: Path
    key: Path
    client_ca: Path | None = None
    """Clients show a certificate of this authority; else they show a client key."""


class Clients(Struct, frozen=True, kw_only=True):
    """Where processes connect. The Unix socket is guarded by its file mode; TCP by TLS, a client key, or both."""

    unix: Path | None = None
    """Default: site.sock in `dir`."""
    unix_mode: int = 0o600
    tcp: Address | None = None
    keys: Path | None = None
    """A TOML file of client keys: name = { key = "…", role = "read" | "append" | "admin" }."""
    tls: Tls | None = None
    connections: int = 1_000
    handshake_ns: int = 5_000_000_000


class Http(Struct, frozen=True, kw_only=True):
    """Health, metrics and status."""

    address: Address | None = None
    tls: Tls | None = None
    keys: Path | None = None
    """As for clients: a bearer token with the role read. Without it, /health and /metrics answer anyone who can
    connect; that is loopback unless `address` says otherwise, and elsewhere keys are required."""


class Trace(Struct, frozen=True, kw_only=True):
    dir: Path | None = None
    """Where NAME.jsonl and run.json go; None: no trace."""
    max_bytes: int = 1 << 30
    """At this size the trace stops, with a log line and a metric."""


class Log(Struct, frozen=True, kw_only=True):
    level: str = "info"
    """debug | info | warning | error"""
    format: str = "text"
    """text | json"""


class Faults(Struct, frozen=True, kw_only=True):
    allowed: bool = False
    """Whether an admin may have this site drop datagrams, for tests and drills."""
    blocked: tuple[str, ...] = ()
    """Sites with which no datagrams are exchanged from the start: a partition that outlives a restart."""


class Config(Struct, frozen=True, kw_only=True):
    cluster: str
    """The cluster's name: datagrams of another one are refused."""
    name: str
    """This site's."""
    sites: dict[str, Address]
    """Every site of the cluster, this one included, and where it receives datagrams."""
    dir: Path
    """What this site keeps: its record, its socket. One site's alone."""
    seal: Seal = field(default_factory=Seal)
    transport: Transport = field(default_factory=Transport)
    order: Order = field(default_factory=Order)
    timing: Timing = field(default_factory=Timing)
    limits: Limits = field(default_factory=Limits)
    clients: Clients = field(default_factory=Clients)
    http: Http = field(default_factory=Http)
    trace: Trace = field(default_factory=Trace)
    log: Log = field(default_factory=Log)
    faults: Faults = field(default_factory=Faults)

    @property
    def names(self) -> tuple[str, ...]:
        """Sorted: an ordinal is a place among them."""
        return tuple(sorted(self.sites))

    @property
    def ordinal(self) -> int:
        return self.names.index(self.name)
