"""The soak of the log: clients of each site append and follow, and every receipt is compared with the log.

Followers and outposts beside the sites have clients of their own.
"""

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from reconvene.lab.load.fleet import ClientFleet, client_addresses
from reconvene.lab.load.log_fleet import LogAudit, LogFleet, LogTotals, read_logs, wait_appended, wait_ordered
from reconvene.lab.soak.faults import (
    BLACKOUT,
    BREAKS,
    DISK,
    DISK_MEND,
    ISOLATE,
    MENDS,
    PLACE_BREAKS,
    PLACE_MENDS,
    RandomFaults,
)
from reconvene.lab.soak.place_faults import PlaceFaults
from reconvene.lab.soak.run import TOGETHER_S, Notify, Soak, SoakRun, break_until
from reconvene.lab.soak.vitals import Vitals
from reconvene.local.cluster import LocalCluster

__all__ = ["LogSoak"]

_ORDERED_S = 90.0
_HARD_S = 1.5
"""After so long without a kill or a partition, the next fault is one: of the 5 s between two, starting a site takes
some."""
_BLACKOUT = (0.1, 0.4)
"""After a share of the run between these, all sites are killed at once. Early, so that later lives are long."""


class LogSoak(Soak[LogTotals]):
    profile = "log"
    rate = 1500.0
    unit = "receipts"
    spare_bytes = 64 << 20
    """A site keeps up to 32 MiB of the log in memory, and what a partition left to be sent and ordered."""
    kinds = (*BREAKS, *PLACE_BREAKS, DISK, ISOLATE, BLACKOUT, *MENDS, *PLACE_MENDS, DISK_MEND)

    def __init__(self, followers: int = 0, outposts: int = 0) -> None:
        self._followers = followers
        self._outposts = outposts

    @property
    def run_type(self) -> type[SoakRun[LogTotals]]:
        return SoakRun[LogTotals]

    def open(self, directory: Path, sites: int) -> LocalCluster:
        """A new cluster for each run: a trace begins where its log does."""
        if (directory / "cluster.toml").exists():
            LocalCluster(directory).kill()
        shutil.rmtree(directory, ignore_errors=True)
        return LocalCluster.create(directory, sites, followers=self._followers, outposts=self._outposts)

    def load(self, cluster: LocalCluster, rate: float, seed: int, log: Path) -> LogFleet:
        beside = {**dict.fromkeys(cluster.followers, "follower"), **dict.fromkeys(cluster.outposts, "outpost")}
        addresses = [[cluster.addresses[name]] for name in beside]
        places = list(beside.values())
        return LogFleet.on(
            [*addresses, *client_addresses(cluster)], rate=rate, seed=seed, log=log, places=places
        )  # fmt: skip

    def wait_loaded(self, cluster: LocalCluster) -> None:
        wait_appended(cluster, TOGETHER_S)

    def faults(
        self, cluster: LocalCluster, load: ClientFleet[Any], seed: int, spared: str, notify: Notify
    ) -> RandomFaults:
        if self._followers or self._outposts:
            return PlaceFaults(cluster, seed, spared=[spared], notify=notify)
        return RandomFaults(cluster, seed, spared=[spared], isolating=True, disks=True, notify=notify)

    def breaking(
        self, faults: RandomFaults, load: ClientFleet[Any], vitals: Vitals, chance: random.Random, seconds: float
    ) -> None:
        began = time.monotonic()
        break_until(faults, load, vitals, chance, began + seconds * chance.uniform(*_BLACKOUT), _HARD_S)
        faults.do(BLACKOUT)
        break_until(faults, load, vitals, chance, began + seconds, _HARD_S)

    def wait_at_rest(self, cluster: LocalCluster) -> None:
        wait_ordered(cluster, _ORDERED_S)

    def audit(
        self, cluster: LocalCluster, load: ClientFleet[Any], end: Callable[[], object]
    ) -> tuple[LogTotals, list[str]]:
        logs, index = read_logs(cluster)
        end()
        audit = LogAudit(load.reports(), logs, index)
        return audit.totals, audit.faults

    def written(self, run: SoakRun[LogTotals]) -> int:
        return run.clients.judgement.receipts

    def detail(self, run: SoakRun[LogTotals]) -> str:
        return f"{run.clients.entries:,} entries"

    def lines(self, runs: Sequence[SoakRun[LogTotals]], seconds: float) -> Iterator[str]:
        def total(name: str) -> int:
            return sum(getattr(run.clients.judgement, name) for run in runs)

        entries = sum(run.clients.entries for run in runs)
        yield (
            f"receipts        {total('receipts'):,}, {total('receipts') / seconds:,.0f} a second;"
            f" {total('placed'):,} with a position, {total('forgotten'):,} whose position was not known any more"
        )
        yield f"ordered         {entries:,} entries, {entries / seconds:,.0f} a second"
        yield f"map             {sum(run.clients.calls for run in runs):,} calls, checked for linearizability by key"
        yield f"read            by every site and every client; {sum(len(run.findings) for run in runs)} findings"
        yield (
            f"retried         {total('again'):,} messages that the log had already; {total('voids'):,} void entries"
        )
        yield (
            f"failed          {total('unknown'):,} messages of unknown outcome, {total('arrived'):,} of them in the"
            f" log; {total('refused'):,} refused"
        )
        yield f"rest            {max(run.rest_s for run in runs):.1f} s at most from mended to all ordered everywhere"
        hard = sum(run.hard for run in runs)
        longest = max(run.longest_hard_gap_s for run in runs)
        every = seconds / max(1, hard)
        yield f"hard faults     a kill or a partition every {every:.1f} s, {longest:.1f} s apart at most"
