"""The soak of groups: clients of each site send with all services and read what comes."""

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reconvene.errors import Rejected
from reconvene.lab.load.fleet import ClientFleet, client_addresses
from reconvene.lab.load.group_fleet import GroupAudit, GroupFleet, GroupTotals, wait_joined
from reconvene.lab.soak.faults import BREAKS, MENDS, RandomFaults
from reconvene.lab.soak.run import TOGETHER_S, Notify, Soak, SoakRun, break_until
from reconvene.lab.soak.vitals import Vitals
from reconvene.local.cluster import LocalCluster
from reconvene.local.layout import site_names

__all__ = ["GroupSoak"]


class GroupSoak(Soak[GroupTotals]):
    profile = "groups"
    rate = 2000.0
    unit = "messages"
    kinds = (*BREAKS, *MENDS)

    @property
    def run_type(self) -> type[SoakRun[GroupTotals]]:
        return SoakRun[GroupTotals]

    def open(self, directory: Path, sites: int) -> LocalCluster:
        """All runs share one cluster, so that its stored state grows old."""
        if not (directory / "cluster.toml").exists():
            return LocalCluster.create(directory, sites)
        cluster = LocalCluster(directory)
        if cluster.names != site_names(sites):
            raise Rejected(
                f"{directory}: holds a cluster of {len(cluster.names)} sites, not {sites}; --fresh makes a new one"
            )
        cluster.kill()  # of a run that was interrupted
        shutil.rmtree(cluster.trace_dir, ignore_errors=True)
        return cluster

    def load(self, cluster: LocalCluster, rate: float, seed: int, log: Path) -> GroupFleet:
        return GroupFleet.on(client_addresses(cluster), rate=rate, seed=seed, log=log)

    def wait_loaded(self, cluster: LocalCluster) -> None:
        wait_joined(cluster, TOGETHER_S)

    def faults(
        self, cluster: LocalCluster, load: ClientFleet[Any], seed: int, spared: str, notify: Notify
    ) -> RandomFaults:
        return RandomFaults(cluster, seed, spared=[spared], notify=notify)

    def breaking(
        self, faults: RandomFaults, load: ClientFleet[Any], vitals: Vitals, chance: random.Random, seconds: float
    ) -> None:
        break_until(faults, load, vitals, chance, time.monotonic() + seconds)

    def wait_at_rest(self, cluster: LocalCluster) -> None:
        """The clients have read back what they wrote: nothing more to wait for."""

    def audit(
        self, cluster: LocalCluster, load: ClientFleet[Any], end: Callable[[], object]
    ) -> tuple[GroupTotals, list[str]]:
        end()
        audit = GroupAudit(load.reports())
        return audit.totals, audit.faults

    def written(self, run: SoakRun[GroupTotals]) -> int:
        return run.counts.messages

    def detail(self, run: SoakRun[GroupTotals]) -> str:
        return f"{run.counts.deliveries:,} deliveries"

    def lines(self, runs: Sequence[SoakRun[GroupTotals]], seconds: float) -> Iterator[str]:
        messages = sum(run.counts.messages for run in runs)
        deliveries = sum(run.counts.deliveries for run in runs)
        yield f"messages        {messages:,}, {messages / seconds:,.0f} a second"
        yield f"deliveries      {deliveries:,} at sites, {deliveries / seconds:,.0f} a second"
        sums = {
            name: sum(getattr(run.clients, name) for run in runs)
            for name in ("accepted", "delivered", "refused", "unknown", "shared")
        }
        yield (
            "clients         {accepted:,} messages accepted, {delivered:,} read; {refused:,} refused, {unknown:,} of"
            " unknown outcome; {shared:,} pairs of views compared".format(**sums)
        )
