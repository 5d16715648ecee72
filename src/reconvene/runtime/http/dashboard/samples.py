"""The state of a site, as it reports it to dashboards, its own and those of other sites."""

from msgspec import Struct

from reconvene.runtime.site.history import Stay

__all__ = ["DomainSample", "IsisGroupSample", "IsisSample", "LogSample", "QueueSegment", "ShownMessage", "SiteSample"]


class QueueSegment(Struct, frozen=True, array_like=True):
    """Consecutive messages of one author in a site's queue."""

    color: str
    """green | yellow | red"""
    author: str
    first: int
    """Counter of the first message."""
    count: int


class LogSample(Struct, frozen=True):
    phase: str
    primary: int | None
    base: int
    green: int
    """The green line: how many messages have a position."""
    yellow: int
    red: int
    """Messages without a position, logged or only accepted."""
    greens: list[QueueSegment]
    """The last messages below the green line."""
    pending: list[QueueSegment]
    """The last messages above the green line."""
    greens_told: dict[str, int]
    """The green line of every replica, as this site last heard of it."""


class IsisGroupSample(Struct, frozen=True):
    name: str
    view: int
    """The number of its last view."""
    members: list[str]
    """The first ones, by rank."""
    member_count: int
    properties: dict[str, str | None]
    """The first ones. None: the value is not to be shown."""


class IsisSample(Struct, frozen=True):
    """Process groups in the manner of ISIS."""

    blocked: bool
    """The site is not in the primary component: its processes neither cast nor receive."""
    refused: list[str]
    """Sites that take no part: while there are any, nobody can use it."""
    view: str
    """The number of the last site view that the site adopted; "0": none."""
    members: list[str]
    """The sites of that view."""
    processes: int
    groups: list[IsisGroupSample]
    """The first ones, by name."""
    group_count: int
    open_casts: int
    waiting_casts: int
    pool: int
    pool_bytes: int
    open_gbcasts: int
    open_calls: int


class DomainSample(Struct, frozen=True, rename={"into": "in"}):
    """The site's part in a tree of clusters."""

    name: str
    gateways: list[str]
    representative: str | None
    phase: str
    configuration: str
    domains: list[str]
    """The clusters of the wide configuration."""
    all: list[str]
    out: list[str]
    into: list[str]
    refused: dict[str, list[str]]
    """By name, what of the site's rules is not as the representative's."""
    waiting: int
    above: list[str] | None
    """At a gateway: the members of its configuration above."""


class SiteSample(Struct, frozen=True):
    cluster: str
    name: str
    incarnation: int
    at: int
    """ms since 1970, by its clock."""
    uptime_s: float
    health: str
    phase: str
    configuration: str
    members: list[str]
    sites: list[str]
    blocked: list[str]
    """Sites that it is disconnected from by fault injection, in one direction or both."""
    storage: str
    processes: int
    waiting: int
    """Messages that are accepted and not yet sent."""
    counters: dict[str, int]
    round_trips_us: dict[str, float]
    lag_ms: float
    """The worst lag of its event loop in the last minute."""
    order_ms: float | None
    """Time from accepting an append until it was ordered: the median of this site's appends of the last seconds."""
    log: LogSample | None
    faults: bool
    """Whether fault injection is allowed."""
    history: list[Stay] = []
    """Its configurations that the requester does not know."""
    isis: IsisSample | None = None
    """None: it takes no part in process groups in the manner of ISIS."""
    domain: DomainSample | None = None
    """None: its cluster stands alone."""


class ShownMessage(Struct, frozen=True):
    """A message of the log for the page."""

    color: str
    """green | yellow | red"""
    position: int | None
    """None: not ordered yet."""
    author: str
    incarnation: int
    counter: int
    at: int
    """ms since 1970, by its author's clock, when it was accepted."""
    kind: str
    """data | change | staged | commit"""
    void: bool
    """It repeats an earlier message and is ignored."""
    size: int
    text: str | None
    """The beginning of the message; None if messages are not to be shown."""
