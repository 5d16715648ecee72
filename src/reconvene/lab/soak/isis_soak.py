"""The soak of process groups in the manner of ISIS: programs at each site, in groups that overlap, cast and ask."""

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reconvene.core.intersite.limits import ChannelLimits
from reconvene.isis.limits import IsisLimits
from reconvene.lab.load.fleet import ClientFleet, client_addresses
from reconvene.lab.load.isis_fleet import IsisAudit, IsisFleet, IsisTotals, wait_in_groups
from reconvene.lab.soak.faults import BREAKS, MENDS, PROCESS_BREAKS, PROCESS_MENDS, RandomFaults
from reconvene.lab.soak.process_faults import ProcessFaults
from reconvene.lab.soak.run import TOGETHER_S, Notify, Soak, SoakRun, break_until
from reconvene.lab.soak.vitals import Vitals
from reconvene.local.cluster import LocalCluster

__all__ = ["IsisSoak"]

_EACH = 2
"""Programs at a site, with one process each, in two groups."""


class IsisSoak(Soak[IsisTotals]):
    profile = "isis"
    rate = 2000.0
    least = 500.0
    unit = "casts"
    kinds = (*BREAKS, *PROCESS_BREAKS, *MENDS, *PROCESS_MENDS)

    @property
    def run_type(self) -> type[SoakRun[IsisTotals]]:
        return SoakRun[IsisTotals]

    def open(self, directory: Path, sites: int) -> LocalCluster:
        """A new cluster for each run: a trace begins where its line of site views does."""
        if (directory / "cluster.toml").exists():
            LocalCluster(directory).kill()
        shutil.rmtree(directory, ignore_errors=True)
        return LocalCluster.create(directory, sites, isis=True, settings={"log": {"enabled": False}})

    def load(self, cluster: LocalCluster, rate: float, seed: int, log: Path) -> IsisFleet:
        return IsisFleet.on(client_addresses(cluster), rate=rate, seed=seed, log=log, each=_EACH)

    def wait_loaded(self, cluster: LocalCluster) -> None:
        wait_in_groups(cluster, TOGETHER_S, 2 * _EACH * len(cluster.names))

    def faults(
        self, cluster: LocalCluster, load: ClientFleet[Any], seed: int, spared: str, notify: Notify
    ) -> RandomFaults:
        assert isinstance(load, IsisFleet), "what `load` returned"
        return ProcessFaults(cluster, load, seed, spared=[spared], notify=notify)

    def breaking(
        self, faults: RandomFaults, load: ClientFleet[Any], vitals: Vitals, chance: random.Random, seconds: float
    ) -> None:
        break_until(faults, load, vitals, chance, time.monotonic() + seconds)

    def wait_at_rest(self, cluster: LocalCluster) -> None:
        """No process waits for anything: `quiet` has seen to that."""

    def audit(
        self, cluster: LocalCluster, load: ClientFleet[Any], end: Callable[[], object]
    ) -> tuple[IsisTotals, list[str]]:
        end()
        audit = IsisAudit(load.reports())
        return audit.totals, audit.faults

    def bounds(self, run: SoakRun[IsisTotals]) -> dict[str, int]:
        """A site stops at its own limit; others may hold twice as much of it (isis.excess)."""
        limits = IsisLimits()
        pool, processes = 2 * limits.open_casts * run.sites, _EACH * run.sites
        return {
            "open_casts": limits.open_casts,
            "open_bytes": limits.open_bytes + limits.payload_bytes,
            "waiting_casts": limits.held_casts * processes,
            "open_gbcasts": limits.open_gbcasts * (1 + run.sites),  # each site may see room for so many at once
            "open_calls": limits.open_calls * processes,
            "pool": pool,
            "pool_bytes": (2 * limits.open_bytes + limits.payload_bytes) * run.sites,
            "abcasts": pool,
            "received": pool * processes,
            "replies": limits.owed_replies * processes,
            "channel_bytes": ChannelLimits().queue_bytes,
        }

    def written(self, run: SoakRun[IsisTotals]) -> int:
        return run.counts.casts

    def detail(self, run: SoakRun[IsisTotals]) -> str:
        return f"{run.counts.receipts:,} receipts, {run.clients.calls:,} calls"

    def lines(self, runs: Sequence[SoakRun[IsisTotals]], seconds: float) -> Iterator[str]:
        def total(name: str) -> int:
            return sum(getattr(run.clients, name) for run in runs)

        casts, receipts = sum(run.counts.casts for run in runs), sum(run.counts.receipts for run in runs)
        yield f"casts           {casts:,}, {casts / seconds:,.0f} a second"
        yield f"receipts        {receipts:,} by processes, {receipts / seconds:,.0f} a second"
        yield (
            f"processes       that lived to the end: {total('accepted'):,} casts taken, {total('received'):,}"
            f" received; {total('refused'):,} refused, {total('unknown'):,} of unknown outcome; killed"
            f" {total('killed'):,} times"
        )
        yield (
            f"calls           {total('calls'):,}: {total('answered'):,} answered, {total('ended'):,} ended with an"
            f" error; {total('failures'):,} failures in place of replies"
        )
        yield (
            f"views           {total('views'):,} seen, {total('states'):,} states taken; {total('shared'):,} views"
            " and GBCASTs compared"
        )
        names = sorted({name for run in runs for name in run.peaks})
        peaks = {name: max(run.peaks.get(name, 0) for run in runs) for name in names}
        bounds = self.bounds(runs[0])
        yield "queues          the most that was seen at a site, and the bound"
        for name, peak in peaks.items():
            yield f"  {name:<14}{peak:>12,}{f'{bounds[name]:,}' if name in bounds else '-':>16}"
