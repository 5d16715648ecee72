"""What report tests draw: golden traces with their verdicts, and measures of every kind."""

from functools import cache
from pathlib import Path

from reconvene.report.measures import (
    CURVE,
    Analysis,
    Band,
    Change,
    ColourPoint,
    Fairness,
    Fault,
    Latency,
    Minority,
    Overview,
    RatePoint,
    RunLine,
    Sender,
    SiteFaults,
    Spread,
    Story,
)
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

GOLDEN = Path(__file__).parent.parent / "golden"
BAD = sorted((GOLDEN / "bad").iterdir())


@cache
def verdict(directory: Path) -> Report:
    return verify([History.load(directory)])


def spread(scale: float, count: int = 1000) -> Spread:
    curve = [scale * (1 + share * 9) for share in CURVE]
    return Spread(
        count=count,
        mean=scale * 5.5,
        p50=scale * 5.5,
        p99=scale * 9.91,
        p999=scale * 9.991,
        max=scale * 10,
        curve=curve,
    )


def sample() -> Analysis:
    """Two runs' measures; names need escaping."""
    services = ("fifo", "causal", "agreed", "safe")
    sites = ["a", "b", "<c>"]
    change = Change(
        run="one & only",
        conf="131072",
        members=sites,
        entered=3,
        merged=3,
        began=2_000_000,
        took=123_456,
        silence=7_000_000,
    )
    story = Story(
        run="one & only",
        nodes=sites,
        length=10**9,
        bucket=10**7,
        rates=[
            RatePoint(at=at * 10**7, service=service, deliveries=at + place)
            for at in (0, 1, 2, 50, 51)
            for place, service in enumerate(services)
        ],
        bands=[
            Band(site="a", conf="65536", kind="regular", members=["a"], began=0, ended=2_000_000),
            Band(site="a", conf="65536+131072", kind="transitional", members=["a"], began=2_000_000, ended=2_000_000),
            Band(site="a", conf="131072", kind="regular", members=sites, began=2_000_000, ended=5 * 10**8),
            Band(site="a", conf="", kind="down", members=[], began=5 * 10**8, ended=10**9),
        ],
        faults=[Fault(site="a", kind="fail", at=5 * 10**8, inc=1)],
        changes=[change],
        colours=[
            ColourPoint(at=10**7, red=5, yellow=0, green=0),
            ColourPoint(at=4 * 10**7, red=0, yellow=2, green=3),
        ],
    )
    return Analysis(
        traces=["out/<trace>"],
        percentiles="exact",
        overview=Overview(
            runs=2,
            sites=3,
            events=123_456,
            messages=4_000,
            deliveries=12_000,
            changes=1,
            fails=1,
            stops=0,
            accepted=77,
            greens=231,
        ),
        runs=[
            RunLine(
                run=name,
                nodes=3,
                stack="corel",
                order="atop",
                seed=1,
                settled=True,
                events=61_728,
                deliveries=6_000,
                length=10**9,
                bucket=10**7,
                rate=6_000.0,
                variance=90_000.0,
                variation=0.05,
                changes=1,
                fails=1,
                stops=0,
            )
            for name in ("one & only", "two")
        ],
        latency=[
            *(Latency(service=service, site=None, spread=spread(1e6), negative=2) for service in services),
            *(
                Latency(service=service, site=site, spread=spread(1.5e6), negative=0)
                for service in services
                for site in sites
            ),
        ],
        fairness=Fairness(
            deliveries=0.9876,
            latency=None,
            senders=[
                Sender(sender=site, messages=1333, deliveries=4000, share=1 / 3, spread=spread(2e6)) for site in sites
            ],
        ),
        change_spread=spread(1e5, 1),
        changes=[change],
        faults=[SiteFaults(site=site, incarnations=2, fails=1, stops=0) for site in sites],
        green_at_author=spread(3e6, 77),
        green_at_sites=[Latency(service="log", site=site, spread=spread(4e6, 77), negative=0) for site in sites],
        minorities=[
            Minority(author=author, accepted=77, waited=5, still=1, spread=spread(1e9, 4)) for author in ("", *sites)
        ],
        story=story,
        cut=["runs: the first 2 are shown"],
    )


def empty() -> Analysis:
    """Of traces in which next to nothing happened."""
    nothing = Spread(count=0)
    return Analysis(
        traces=["x"],
        percentiles="exact",
        overview=Overview(
            runs=1,
            sites=1,
            events=1,
            messages=0,
            deliveries=0,
            changes=0,
            fails=0,
            stops=0,
            accepted=0,
            greens=0,
        ),
        runs=[],
        latency=[],
        fairness=Fairness(deliveries=None, latency=None, senders=[]),
        change_spread=nothing,
        changes=[],
        faults=[],
        green_at_author=nothing,
        green_at_sites=[],
        minorities=[],
        story=Story(run="x", nodes=["a"], length=0, bucket=1, rates=[], bands=[], faults=[], changes=[], colours=[]),
        cut=[],
    )
