"""One part of a soak: a cluster under load, broken again and again, brought to rest, and judged."""

import math
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from reconvene.errors import Rejected
from reconvene.lab.load.fleet import ClientFleet
from reconvene.lab.load.group_fleet import Load, Outcome, places, wait_joined
from reconvene.lab.soak.faults import BREAKS, Campaign
from reconvene.lab.soak.judge import Counts, Verdict, count, judge
from reconvene.lab.soak.vitals import Life, Vitals
from reconvene.local.cluster import LocalCluster
from reconvene.local.layout import site_names

__all__ = ["KEPT", "TOGETHER_S", "Part", "Tell", "break_until", "open_cluster", "run_part"]

Tell = Callable[[str], None]

_GAP_S = (0.3, 1.5)
"""Between two steps."""
_BREAK_S = 2.0
"""After so long without anything being broken, the next step breaks something …"""
_HURRY_S = 3.0
"""… and after so long it comes at once: starting a site takes a while."""
_LOOK_S = 3.0
TOGETHER_S = 60.0
"""For sites to start and to come together, on a machine that has other things to do."""
KEPT = 20
"""Findings of a part."""


class Part(Struct, kw_only=True):
    """What came of it; a line of a soak's results."""

    number: int
    seed: int
    sites: int
    load_s: float
    """How long the clients wrote."""
    counts: Counts
    accepted: int
    delivered: int
    """To clients."""
    refused: int
    """To clients, outside of a primary component or while a site was stopping."""
    unknown: int
    shared: int
    """Stretches between two views that several clients had, and compared."""
    faults: dict[str, int]
    longest_gap_s: float
    """Without anything being broken."""
    dropped: dict[str, int]
    """What sites did not take in, by counter."""
    spared: str
    """The site that was never ended."""
    lives: list[Life]
    cases: dict[str, int]
    violations: int
    findings: list[str] = field(default_factory=list)
    """Violations, and what the clients found; the first ones."""

    @property
    def ok(self) -> bool:
        return not self.violations and not self.findings

    @property
    def breaks(self) -> int:
        return sum(self.faults.get(kind, 0) for kind in BREAKS)


def open_cluster(directory: Path, sites: int) -> LocalCluster:
    """The cluster that the parts share, so that what its sites keep grows old; made where there is none."""
    if not (directory / "cluster.toml").exists():
        return LocalCluster.create(directory, sites)
    cluster = LocalCluster(directory)
    if cluster.names != site_names(sites):
        raise Rejected(
            f"{directory}: holds a cluster of {len(cluster.names)} sites, not {sites}; --fresh makes another"
        )
    cluster.kill()  # of a part that was cut off
    return cluster


def run_part(
    cluster: LocalCluster, number: int, seed: int, seconds: float, rate: float, log: Path, tell: Tell
) -> Part:
    """The trace stays in the cluster's directory."""
    shutil.rmtree(cluster.trace_dir, ignore_errors=True)
    spared = cluster.names[number % len(cluster.names)]
    vitals = Vitals()
    with cluster:
        cluster.start(TOGETHER_S)
        with Load.on(places(cluster), rate=rate, seed=seed, log=log) as load:
            wait_joined(cluster, TOGETHER_S)
            began = time.monotonic()
            campaign = Campaign(cluster, seed, spared=[spared], tell=tell)
            break_until(campaign, load, vitals, random.Random(f"soak/{seed}"), began + seconds)
            campaign.mend()
            load_s = time.monotonic() - began
            cluster.wait_for(timeout_s=TOGETHER_S)
            load.quiet()
            vitals.look(cluster)
            tell("comes to rest")
            trace = cluster.finish_trace(TOGETHER_S)
            clients = load.finish()
    tell("is judged")
    return _part(number, seed, load_s, spared, campaign, vitals, clients, count(trace), judge(trace), cluster)


def break_until(
    campaign: Campaign,
    load: ClientFleet[Any],
    vitals: Vitals,
    chance: random.Random,
    until: float,
    hard_s: float = math.inf,
) -> None:
    """One fault after the other; what is broken in the end stays so. Looks at clients and sites now and then.

    `hard_s`: after so long without a kill or a partition the next fault is one of these.
    """
    look_at = 0.0
    while time.monotonic() < until:
        load.check()
        campaign.check()
        if disk := campaign.disk_due():
            campaign.do(disk)
        elif campaign.hard_idle_s > hard_s:
            campaign.strike()
        else:
            campaign.step(breaking=campaign.idle_s > _BREAK_S)
        if time.monotonic() >= look_at:
            vitals.look(campaign.cluster)
            look_at = time.monotonic() + _LOOK_S
        if campaign.idle_s < _HURRY_S:
            time.sleep(chance.uniform(*_GAP_S))


def _part(
    number: int,
    seed: int,
    load_s: float,
    spared: str,
    campaign: Campaign,
    vitals: Vitals,
    clients: Outcome,
    counts: Counts,
    verdict: Verdict,
    cluster: LocalCluster,
) -> Part:
    return Part(
        number=number,
        seed=seed,
        sites=len(cluster.names),
        load_s=load_s,
        counts=counts,
        accepted=clients.accepted,
        delivered=clients.delivered,
        refused=clients.refused,
        unknown=clients.unknown,
        shared=clients.shared,
        faults=dict(campaign.faults),
        longest_gap_s=campaign.longest_gap_s,
        dropped=vitals.refused(),
        spared=spared,
        lives=vitals.longest(),
        cases={check.id: check.cases for check in verdict.checks},
        violations=verdict.violations,
        findings=[*verdict.witnesses(), *clients.faults][:KEPT],
    )
