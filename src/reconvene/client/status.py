"""What a site reports about itself and its log, as `Site.status`, `Site.health` and `Log.status` return it.

The fields are those of the JSON that a site serves under /status. Fields with a default may be missing there, as at a
site of another version; fields that this version does not know are left out.
"""

from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins

from reconvene.errors import Malformed

__all__ = [
    "BlockedSites",
    "DomainStatus",
    "FollowStatus",
    "GroupStatus",
    "Health",
    "IsisGroupStatus",
    "IsisStatus",
    "LogStatus",
    "OwnMessages",
    "ReplicaStatus",
    "SiteListStatus",
    "SiteStatus",
    "SnapshotInUse",
    "SnapshotTransfer",
    "SnapshotsStatus",
    "TraceStatus",
    "UpperStatus",
    "document",
    "health_of",
    "isis_groups",
    "log_status",
    "site_status",
    "snapshots_in_use",
]

T = TypeVar("T")


class Health(StrEnum):
    """Whether a site is together with a majority of its cluster's sites. Also the text: `health == "primary"`."""

    PRIMARY = "primary"
    """With a majority of the sites."""
    MINORITY = "minority"
    """Without one."""
    FORMING = "forming"
    """A configuration is being agreed on."""


class OwnMessages(Struct, frozen=True):
    """Messages that wait at the site."""

    messages: int
    bytes: int


class SnapshotInUse(Struct, frozen=True):
    """The snapshot of one state machine's name."""

    position: int | None
    """The state after everything below it; None: there is no snapshot yet."""
    bytes: int
    needs: int
    """A machine of this name needs the log from this position on."""
    here: bool
    """A machine of this name is run at this site."""
    lacks: bool
    """Another site has a snapshot that this one still has to get."""


class SnapshotTransfer(Struct, frozen=True, rename={"holder": "from"}):
    """A snapshot that the site is getting from another one."""

    name: str
    position: int
    received: int
    bytes: int
    holder: str
    """The site that sends it. In JSON: `from`."""


class SnapshotsStatus(Struct, frozen=True, omit_defaults=True):
    """The snapshots of state machines at the site."""

    lacks: bool
    """There is one that this site still has to get."""
    holds: int | None = None
    """Truncation stops at this position because of them. None: no name is in use."""
    names: dict[str, SnapshotInUse] = {}
    receiving: SnapshotTransfer | None = None


class ReplicaStatus(Struct, frozen=True):
    """A replica, as far as this site knows."""

    number: int
    green: int
    """So many messages are ordered there."""
    lag: int
    """So many fewer than here."""


class IsisGroupStatus(Struct, frozen=True):
    """A group in the manner of ISIS."""

    name: str
    view: int
    """The number of its last view."""
    members: tuple[str, ...]
    """Processes by rank, written as a:1:7."""
    properties: dict[str, bytes] = {}
    """Not part of a site's status."""


class IsisStatus(Struct, frozen=True):
    """ISIS at one site."""

    blocked: bool
    """The site is not in the primary component: its processes neither send nor receive."""
    refused: tuple[str, ...]
    """Sites that take no part in ISIS: while there are any, nobody can use it."""
    view: int
    """The number of the adopted site view; 0: none."""
    members: dict[str, int]
    """Its sites, each with the number of the site view in which it entered."""
    processes: int
    """Open at this site."""
    groups: tuple[IsisGroupStatus, ...]
    """The first hundred."""
    group_count: int
    open_casts: int
    """Casts of this site that some destination is not done with …"""
    open_bytes: int
    """… and their bytes."""
    waiting_casts: int
    """Requests of its processes that are held: behind a view that is locked, or for room."""
    pool: int
    """CBCASTs of all sites that some destination may lack, as far as this site knows …"""
    pool_bytes: int
    """… and their payloads."""
    open_gbcasts: int
    """Announced, and not yet received by all members."""
    open_calls: int
    """Casts of its processes that still wait for replies."""
    queues: dict[str, int]
    """What else waits: `abcasts` that are not done; casts and gates that its processes have not `received`; `replies`
    that its processes owe; `channel_bytes` that the site with the most of them has not acknowledged."""
    wide_waiting: int = 0
    """Casts and watches that wait to be sent to other clusters."""
    wide_calls: int = 0
    """Casts to several clusters that still wait for replies."""
    wide_watches: int = 0
    """Processes of other clusters that those of this site watch; each watch counts."""
    wide_watched: int = 0
    """Processes of this cluster that others watch, as far as this site knows."""


class FollowStatus(Struct, frozen=True):
    """A follower of the log."""

    of: str | None
    """The cluster whose log it follows. None: it has not reached any source yet."""
    source: str | None
    """Where it pulls from now. None: it is not connected."""
    sources: list[str]
    head: int
    """The highest green line that it has heard of."""
    behind: int
    """So many messages it lacks of that."""
    refused: dict[str, str]
    """Sources that hold another log or follow this one, and why."""
    trouble: dict[str, str]
    """Sources that could not be reached when that was last tried, and why."""


class LogStatus(Struct, frozen=True):
    """The log at one site."""

    enabled: bool
    replica: bool
    """The site keeps the log."""
    waits: str | None
    """Why its storage accepts nothing yet. None: it does."""
    left_out: str | None
    """Why it is no replica any more. None: it is one, or never was."""
    number: int | None
    """The replica's own; it never changes. None: the site is none."""
    phase: str
    primary: int
    """The number of the primary component that the site is in; 0: none, and nothing is ordered here now."""
    last_primary: int
    base: int
    """The first position that is still in the log."""
    green: int
    """So many messages are ordered, from position 0 on."""
    yellow: int
    red: int
    """Messages that are on disk here, and not ordered yet."""
    unlogged: int
    """Messages that are accepted here, and not on disk as part of the log yet."""
    own: OwnMessages
    """Accepted here, and without a place."""
    participants: list[str]
    """Replicas in this configuration."""
    strangers: list[str]
    """Sites that came with another storage than the replica of their name has."""
    replicas: dict[str, ReplicaStatus]
    quorum: dict[str, Any]
    forced: bool
    """Replicas were given up by force at some time."""
    snapshot: SnapshotsStatus
    malformed: int
    """Messages of the log that could not be read."""
    storage: str
    """ok, or what is wrong with the disk."""
    follow: FollowStatus | None = None
    """Of a site that follows the log instead of keeping a replica."""


class SiteListStatus(Struct, frozen=True):
    """The list of sites, as this site knows it."""

    version: int
    sites: list[str]
    file_version: int
    """The version in this site's configuration file."""
    finished: bool
    waits_for: str | None
    """What a change of it still waits for. None: nothing."""
    refused: dict[str, str]
    """Sites with a different list, and what differs."""


class GroupStatus(Struct, frozen=True):
    name: str
    members: int
    primary: bool
    """Joined with `primary=True`."""


class BlockedSites(Struct, frozen=True):
    """Sites whose datagrams are dropped on purpose."""

    incoming: list[str]
    outgoing: list[str]


class TraceStatus(Struct, frozen=True):
    bytes: int
    stopped: bool
    """At its size limit."""


class UpperStatus(Struct, frozen=True):
    """A gateway's site in the cluster above."""

    cluster: str
    name: str
    phase: str
    configuration: str
    members: list[str]
    sites: list[str]
    blocked: list[str]
    storage: str
    sent_bytes: int
    received_bytes: int


class DomainStatus(Struct, frozen=True, rename={"into": "in"}):
    """A site as part of a tree of clusters."""

    name: str
    """The cluster's."""
    gateways: list[str]
    representative: str | None
    """The site that represents the cluster now."""
    term: int
    phase: str
    """meeting | catching up | open"""
    configuration: str
    """The wide configuration."""
    kind: str
    domains: list[str]
    """The clusters of that configuration."""
    all: list[str]
    """All clusters."""
    out: list[str]
    into: list[str]
    """Patterns of the groups that leave, and that come in. In JSON: `in`."""
    groups: int
    """Wide groups that a process of this site is in."""
    waiting: int
    """Messages sent here that have not come back."""
    upper: UpperStatus | None
    """None: the site is no gateway."""
    refused: dict[str, list[str]] = {}
    """Gateways whose rules are not the representative's, and this site if its are not: by name, the keys of the site
    file that differ."""


class StoreStatus(Struct, frozen=True):
    """A site's storage."""

    used_bytes: int
    """Size of the values, in whole pages."""
    limit_bytes: int
    """log.max_bytes: at this size the log is full."""
    free_bytes: int | None
    """Of its file system, for this program; None: not known."""
    disk_bytes: int | None
    """Size of the file system."""
    writing_s: float
    """For how long the write has been tried that is under way; 0: there is none."""


class SiteStatus(Struct, frozen=True, rename={"site_list": "list"}):
    """A site."""

    cluster: str
    name: str
    incarnation: int
    """One more after each start."""
    pid: int
    health: Health
    phase: str
    configuration: str
    members: list[str]
    """The sites of the configuration."""
    sites: list[str]
    """All sites of the cluster."""
    site_list: SiteListStatus
    """In JSON: `list`."""
    uptime_s: float
    processes: int
    groups: list[GroupStatus]
    """The first groups by name; `group_count` has the number of all."""
    group_count: int
    waiting: OwnMessages
    """Messages that were accepted and not sent yet."""
    round_trips_us: dict[str, float]
    """By site."""
    blocked: BlockedSites
    trace: TraceStatus | None
    storage: str
    """ok, or what is wrong with the disk."""
    log: LogStatus | None
    """None: the site takes no part in the log."""
    seal: str
    """sealed | insecure"""
    configurations: int
    """So many were installed since the start."""
    longest_turn_ms: float
    counters: dict[str, int]
    isis: IsisStatus | None = None
    """None: the site takes no part in ISIS."""
    domain: DomainStatus | None = None
    """None: the cluster stands alone."""
    store: StoreStatus | None = None
    """None: the site runs an older version."""


def site_status(said: object) -> SiteStatus:
    """Raises Malformed."""
    return _converted(said, SiteStatus)


def log_status(said: object) -> LogStatus:
    """Raises Malformed."""
    return _converted(said, LogStatus)


def isis_groups(said: object) -> list[IsisGroupStatus]:
    """Raises Malformed."""
    return _converted(said, list[IsisGroupStatus])


def health_of(said: object) -> Health:
    """Raises Malformed."""
    return _converted(said, Health)


def snapshots_in_use(log: dict[str, Any]) -> dict[str, SnapshotInUse]:
    """By name, of a log's status as JSON. Raises Malformed."""
    return _converted(log.get("snapshot", {"lacks": False}), SnapshotsStatus).names


def document(status: SiteStatus | LogStatus) -> dict[str, Any]:
    """As JSON has it."""
    found: dict[str, Any] = to_builtins(status)
    return found


def _converted(said: object, form: type[T]) -> T:
    try:
        return convert(said, form)
    except ValidationError as error:
        raise Malformed(f"the site's answer: {error}") from None
