"""What `reconvene analyze` measures: the tables of its report, and the document that `--json` prints.

All durations are in ns, all moments in ns since the run's first event. Everything here is bounded, whatever the size
of the traces: the limits are below, and `cut` names the tables that reached theirs.
"""

from msgspec import Struct, field

__all__ = [
    "BUCKETS",
    "CURVE",
    "MOST_BANDS",
    "MOST_CHANGES",
    "MOST_RUNS",
    "MOST_SITES",
    "Analysis",
    "Band",
    "Change",
    "ColourPoint",
    "Fairness",
    "Fault",
    "Latency",
    "Minority",
    "Overview",
    "RatePoint",
    "RunLine",
    "Sender",
    "SiteFaults",
    "Spread",
    "Story",
]

BUCKETS = 120
"""At most so many buckets of time in a run."""
MOST_SITES = 100
"""Sites, and senders, in a table."""
MOST_RUNS = 100
MOST_CHANGES = 200
MOST_BANDS = 2_000
"""Configurations and faults of the sites of the one run whose story is told."""

CURVE = (
    *(step / 20 for step in range(20)),
    *(0.96, 0.97, 0.98, 0.985, 0.99, 0.993, 0.995, 0.997, 0.998, 0.999, 0.9995, 0.9999, 1.0),
)
"""The shares at which a distribution is told."""


class Spread(Struct, kw_only=True, frozen=True):
    """A distribution of durations."""

    count: int
    mean: float | None = None
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None
    curve: list[float] = field(default_factory=list)
    """At the shares of `CURVE`, or empty."""


class Latency(Struct, kw_only=True, frozen=True):
    """From a sending to its deliveries, by service; or by service and the site that delivers."""

    service: str
    site: str | None
    spread: Spread
    negative: int
    """Deliveries that a clock puts before their sending."""


class Sender(Struct, kw_only=True, frozen=True):
    sender: str
    messages: int
    deliveries: int
    share: float
    """Of all deliveries."""
    spread: Spread


class Fairness(Struct, kw_only=True, frozen=True):
    """Jain's index, (Σx)² / (n Σx²): 1 where all senders have the same, 1/n where one has everything."""

    deliveries: float | None
    """Of the deliveries of each sender's messages."""
    latency: float | None
    """Of each sender's mean latency."""
    senders: list[Sender]


class RunLine(Struct, kw_only=True, frozen=True):
    """One run, and its deliveries a second in buckets from the first delivery to the last."""

    run: str
    nodes: int
    stack: str
    order: str
    seed: int
    settled: bool
    events: int
    deliveries: int
    length: int
    """From its first event to its last."""
    bucket: int
    rate: float | None
    variance: float | None
    variation: float | None
    """The standard deviation as a share of the mean."""
    changes: int
    fails: int
    stops: int


class Change(Struct, kw_only=True, frozen=True):
    """A regular configuration that was entered from others."""

    run: str
    conf: str
    members: list[str]
    entered: int
    """By how many members."""
    merged: int
    """How many regular configurations they came from."""
    began: int
    """The first of them left its old configuration."""
    took: int
    """Until the last member entered the new one."""
    silence: int | None
    """The longest at a member, from its last delivery before to its first one in the new configuration."""


class SiteFaults(Struct, kw_only=True, frozen=True):
    site: str
    incarnations: int
    fails: int
    stops: int


class Minority(Struct, kw_only=True, frozen=True):
    """Messages that an author accepted while it was in no primary component."""

    author: str
    """Empty: all together."""
    accepted: int
    """All that it accepted."""
    waited: int
    """Of these, in no primary component."""
    still: int
    """Of those, never green at their author in the trace."""
    spread: Spread
    """From accept to green at the author, of those that waited."""


class RatePoint(Struct, kw_only=True, frozen=True):
    at: int
    service: str
    deliveries: int


class ColourPoint(Struct, kw_only=True, frozen=True):
    """How many messages have a colour at the end of a bucket, summed over the sites."""

    at: int
    red: int
    yellow: int
    green: int


class Band(Struct, kw_only=True, frozen=True):
    """A site in a configuration. A band without a configuration: the site was down."""

    site: str
    conf: str
    kind: str
    members: list[str]
    began: int
    ended: int


class Fault(Struct, kw_only=True, frozen=True):
    site: str
    kind: str
    """fail, stop or restart."""
    at: int
    inc: int


class Story(Struct, kw_only=True, frozen=True):
    """One run over time."""

    run: str
    nodes: list[str]
    length: int
    bucket: int
    rates: list[RatePoint]
    bands: list[Band]
    faults: list[Fault]
    changes: list[Change]
    colours: list[ColourPoint]


class Overview(Struct, kw_only=True, frozen=True):
    runs: int
    sites: int
    events: int
    messages: int
    """Sendings of the layer evs."""
    deliveries: int
    changes: int
    fails: int
    stops: int
    accepted: int
    """Messages that the log took."""
    greens: int
    """Green rows, of all sites."""


class Analysis(Struct, kw_only=True, frozen=True):
    traces: list[str]
    percentiles: str
    """How exact they are."""
    overview: Overview
    runs: list[RunLine]
    latency: list[Latency]
    """By service, with the service's name and no site; then by service and site."""
    fairness: Fairness
    change_spread: Spread
    """Of how long changes took, of all runs."""
    changes: list[Change]
    """The longest ones."""
    faults: list[SiteFaults]
    green_at_author: Spread
    green_at_sites: list[Latency]
    """From accept at the author to green at each site; `service` is `log`."""
    minorities: list[Minority]
    story: Story | None
    cut: list[str]
    """Tables that reached their limit, in words."""
