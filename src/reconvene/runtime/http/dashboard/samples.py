"""What a site says of itself to a dashboard, its own or another site's."""

from msgspec import Struct

from reconvene.runtime.site.history import Stay

__all__ = ["LogSample", "QueueSegment", "ShownMessage", "SiteSample"]


class QueueSegment(Struct, frozen=True, array_like=True):
    """Messages of one author that follow each other in a site's queue."""

    color: str
    """green | yellow | red"""
    author: str
    first: int
    """The first one's counter."""
    count: int


class LogSample(Struct, frozen=True):
    phase: str
    primary: int | None
    base: int
    green: int
    """The green line: how many messages have their place."""
    yellow: int
    red: int
    """Without a place, whether logged or only accepted."""
    greens: list[QueueSegment]
    """The last ones below the green line."""
    pending: list[QueueSegment]
    """The last ones above it."""
    greens_told: dict[str, int]
    """Of every replica: its green line, as this site last heard of it."""


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
    """Whom it is cut off from on purpose, one way or both."""
    storage: str
    processes: int
    waiting: int
    """Messages that are accepted and not yet sent."""
    counters: dict[str, int]
    round_trips_us: dict[str, float]
    lag_ms: float
    """How late its event loop was, at the worst of the last minute."""
    order_ms: float | None
    """From an append's accept until it had its place: the median of this site's own, of the last seconds."""
    log: LogSample | None
    faults: bool
    """Whether datagrams may be dropped on purpose."""
    history: list[Stay] = []
    """Its configurations, those that the asker does not know."""


class ShownMessage(Struct, frozen=True):
    """A message of the log as it is shown."""

    color: str
    """green | yellow | red"""
    position: int | None
    """None: it has none yet."""
    author: str
    incarnation: int
    counter: int
    at: int
    """ms since 1970, by its author's clock, when it was accepted."""
    kind: str
    """data | change | staged | commit"""
    void: bool
    """It repeats an earlier one, and counts for nothing."""
    size: int
    text: str | None
    """Its beginning; None where messages are not shown."""
