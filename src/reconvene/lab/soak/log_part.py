"""One part of a soak of the log: appends everywhere, faults all the time, then rest, and every receipt looked for."""

import random
import shutil
import time
from pathlib import Path

from msgspec import Struct, field

from reconvene.lab.ledger.log import Judgement
from reconvene.lab.load.group_fleet import places
from reconvene.lab.load.log_fleet import LogLoad, LogOutcome, read_logs, wait_appended, wait_ordered
from reconvene.lab.soak.faults import BLACKOUT, BREAKS, DISK, HARD, ISOLATE, Campaign
from reconvene.lab.soak.judge import Counts, count, judge
from reconvene.lab.soak.part import KEPT, TOGETHER_S, Tell, break_until
from reconvene.lab.soak.vitals import Life, Vitals
from reconvene.local.cluster import LocalCluster

__all__ = ["LogPart", "log_cluster", "run_log_part"]

_ORDERED_S = 90.0
_HARD_S = 1.5
"""After so long without a kill or a partition, there is one: starting a site takes seconds of the 5 s between two."""
_BLACKOUT = (0.1, 0.4)
"""When in a part all sites are killed at once: this share of it. Early, so that lives are long after it."""


class LogPart(Struct, kw_only=True):
    """What came of it; a line of a soak's results."""

    number: int
    seed: int
    sites: int
    load_s: float
    """How long the clients wrote."""
    entries: int
    """In the log at the end."""
    judgement: Judgement
    calls: int = 0
    """On the map, all of them linearizable where nothing was found."""
    counts: Counts
    rest_s: float
    """From when everything was mended to one green line everywhere."""
    faults: dict[str, int]
    longest_gap_s: float
    """Without anything being broken …"""
    longest_hard_gap_s: float = 0.0
    """… and without a kill or a partition."""
    dropped: dict[str, int]
    spared: str
    """The site that was ended only where all of them were."""
    lives: list[Life]
    cases: dict[str, int]
    violations: int
    judged_s: float
    errors: list[str] = field(default_factory=list)
    """That clients were told on the way, where they asked for positions."""
    findings: list[str] = field(default_factory=list)
    """Violations, and what is not as the clients were told; the first ones."""

    @property
    def ok(self) -> bool:
        return not self.violations and not self.findings

    @property
    def hard(self) -> int:
        return sum(self.faults.get(kind, 0) for kind in HARD)

    @property
    def breaks(self) -> int:
        return sum(self.faults.get(kind, 0) for kind in (*BREAKS, DISK, ISOLATE, BLACKOUT))


def log_cluster(directory: Path, sites: int) -> LocalCluster:
    """A new one for each part: a trace begins where its log does."""
    if (directory / "cluster.toml").exists():
        LocalCluster(directory).kill()
    shutil.rmtree(directory, ignore_errors=True)
    return LocalCluster.create(directory, sites)


def run_log_part(
    cluster: LocalCluster, number: int, seed: int, seconds: float, rate: float, log: Path, tell: Tell
) -> LogPart:
    """The trace stays in the cluster's directory."""
    spared = cluster.names[number % len(cluster.names)]
    vitals = Vitals()
    chance = random.Random(f"soak/{seed}")
    with cluster:
        cluster.start(TOGETHER_S)
        with LogLoad.on(places(cluster), rate=rate, seed=seed, log=log) as load:
            wait_appended(cluster, TOGETHER_S)
            began = time.monotonic()
            campaign = Campaign(cluster, seed, spared=[spared], isolating=True, disks=True, tell=tell)
            break_until(campaign, load, vitals, chance, began + seconds * chance.uniform(*_BLACKOUT), _HARD_S)
            campaign.do(BLACKOUT)
            break_until(campaign, load, vitals, chance, began + seconds, _HARD_S)
            campaign.mend()
            load_s = time.monotonic() - began
            mended = time.monotonic()
            tell("is mended")
            cluster.wait_for(timeout_s=TOGETHER_S)
            load.quiet()
            wait_ordered(cluster, _ORDERED_S)
            rest_s = time.monotonic() - mended
            vitals.look(cluster)
            tell("comes to rest")
            logs, index = read_logs(cluster)
            trace = cluster.finish_trace(TOGETHER_S)
            outcome = LogOutcome(load.reports(), logs, index)
    tell("is judged")
    return _part(number, seed, load_s, rest_s, spared, campaign, vitals, outcome, trace, cluster)


def _part(
    number: int,
    seed: int,
    load_s: float,
    rest_s: float,
    spared: str,
    campaign: Campaign,
    vitals: Vitals,
    outcome: LogOutcome,
    trace: Path,
    cluster: LocalCluster,
) -> LogPart:
    began = time.monotonic()
    verdict = judge(trace)
    judged_s = time.monotonic() - began
    return LogPart(
        number=number,
        seed=seed,
        sites=len(cluster.names),
        load_s=load_s,
        entries=outcome.entries,
        judgement=outcome.judgement,
        calls=outcome.calls,
        counts=count(trace),
        rest_s=rest_s,
        faults=dict(campaign.faults),
        longest_gap_s=campaign.longest_gap_s,
        longest_hard_gap_s=campaign.longest_hard_gap_s,
        dropped=vitals.refused(),
        spared=spared,
        lives=vitals.longest(),
        cases={check.id: check.cases for check in verdict.checks},
        violations=verdict.violations,
        judged_s=judged_s,
        errors=outcome.errors[:KEPT],
        findings=[*verdict.witnesses(), *outcome.faults][:KEPT],
    )
