"""Appends to the log of five real sites while faults happen: every receipt holds, and all logs are the same."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.real.arena import BUSY_S, QUIET_S

from reconvene.lab.load.fleet import client_addresses
from reconvene.lab.load.log_fleet import LogAudit, LogFleet, read_logs, wait_appended, wait_ordered
from reconvene.lab.soak.disk_faults import DiskFault, DiskPlan, can_trace
from reconvene.lab.soak.faults import leave
from reconvene.lab.soak.judge import Counts, count, judge
from reconvene.local import LocalCluster
from reconvene.trace.reader import read_run

RATE = 500.0
LONG_S = 3 * BUSY_S
HALVES = (("a", "b"), ("c", "d", "e"))
IDLE = {"corel.dynamic.subquorum", "corel.dynamic.live", "corel.follow"}
"""Checks without cases here: a majority orders, and nobody follows the log."""


@dataclass(slots=True)
class End:
    counts: Counts
    audit: LogAudit


class LogArena:
    def __init__(self, cluster: LocalCluster, load: LogFleet) -> None:
        self.cluster = cluster
        self.load = load

    def pass_by(self, seconds: float) -> None:
        """Lets the clients work for this time."""
        self.load.check()
        time.sleep(seconds)

    def logs(self) -> dict[str, dict[str, Any]]:
        """The status of the log at each site."""
        return {name: status["log"] for name, status in self.cluster.statuses().items()}

    def orders_on(self, *names: str) -> None:
        """Waits until the green line has moved at these sites."""
        before = {name: self.logs()[name]["green"] for name in names}
        deadline = time.monotonic() + BUSY_S
        while not all(log["green"] > before[name] for name, log in self.logs().items() if name in before):
            assert time.monotonic() < deadline, f"nothing was ordered: {self.logs()}"
            time.sleep(0.05)

    def finish(self) -> End:
        """Call it once all faults are repaired. Waits until the cluster is at rest, reads every log, and checks the
        receipts and the trace."""
        self.cluster.wait_for([self.cluster.names], LONG_S)
        self.load.quiet()
        green = wait_ordered(self.cluster, LONG_S)
        logs, index = read_logs(self.cluster)
        trace = self.cluster.finish_trace(LONG_S, QUIET_S)
        audit = LogAudit(self.load.reports(), logs, index)
        print(audit.totals.judgement, audit.totals.errors)
        assert audit.faults == []
        assert audit.totals.entries == green
        assert audit.totals.calls > 100, "on the map: they are linearizable, or they would be among the faults"
        assert read_run(trace).settled
        verdict = judge(trace)
        assert verdict.ok, verdict.witnesses()
        cases = verdict.cases("corel.")
        assert cases
        idle = {check for check, number in cases.items() if not number}
        assert idle == IDLE, cases
        return End(count(trace), audit)


@contextmanager
def log_arena(seed: int) -> Iterator[LogArena]:
    """Five sites in one configuration, with clients working. If the test fails, the directory is kept."""
    directory = Path(tempfile.mkdtemp(prefix="rv-log-", dir="/tmp"))
    print(f"seed {seed}, in {directory}")
    try:
        with LocalCluster.create(directory / "c", 5) as cluster:
            cluster.start(LONG_S)
            with LogFleet.on(
                client_addresses(cluster), rate=RATE, seed=seed, log=directory / "load.log", processes=1
            ) as load:
                wait_appended(cluster, BUSY_S)
                yield LogArena(cluster, load)
    except BaseException as error:
        error.add_note(f"seed {seed}; what it left is in {directory}")
        raise
    shutil.rmtree(directory)


@pytest.mark.long("a real cluster for ten seconds and more")
def test_killed_while_they_append() -> None:
    with log_arena(1) as it:
        cluster = it.cluster
        it.pass_by(0.5)
        cluster.crash("b", "d")
        it.orders_on("a", "c", "e")
        cluster.restart("b", "d", timeout_s=LONG_S)
        it.pass_by(0.5)
        leave(cluster, "c")
        it.orders_on("a", "b", "d", "e")
        cluster.crash("a", "b", "d", "e")  # no site is up
        cluster.restart(*cluster.names, timeout_s=LONG_S)
        it.orders_on(*cluster.names)
        it.pass_by(0.5)
        end = it.finish()
        assert end.counts.failures == 2 + 4
        assert end.counts.leaves == 1
        assert end.audit.totals.judgement.receipts > 500
        assert end.audit.totals.judgement.placed > 200


def test_both_halves_of_a_partition_append() -> None:
    with log_arena(2) as it:
        cluster = it.cluster
        cluster.partition(HALVES)
        cluster.wait_for(timeout_s=BUSY_S)
        it.orders_on("c", "d", "e")
        before = it.logs()
        it.orders_on("c", "d", "e")
        it.pass_by(1)
        after = it.logs()
        for name in "ab":
            assert after[name]["green"] == before[name]["green"], "a minority orders nothing"
            assert after[name]["own"]["messages"] > before[name]["own"]["messages"], "and goes on accepting"
        # The majority becomes a minority. An author of the old minority brings what it accepted to the new majority.
        cluster.partition([["a", "c"], ["b"], ["d", "e"]])
        cluster.wait_for(timeout_s=BUSY_S)
        it.pass_by(0.5)
        cluster.partition([["a", "c", "d"], ["b", "e"]])
        cluster.wait_for(timeout_s=BUSY_S)
        it.orders_on("a", "c", "d")
        cluster.crash("d")
        cluster.pause("c")
        it.pass_by(1)
        cluster.resume("c")
        cluster.restart("d", timeout_s=LONG_S)
        cluster.heal()
        end = it.finish()
        assert end.counts.failures == 1
        assert end.audit.totals.judgement.receipts > 500


@pytest.mark.long("a real cluster for ten seconds and more")
@pytest.mark.skipif(not can_trace(), reason="strace is not here, or may not trace")
def test_disks_that_fail_while_they_append() -> None:
    """Each kind of disk error, once and for good. The site continues or stops itself; every receipt holds."""
    plans = [
        DiskPlan(call, error, number, lasting)
        for call, number in (("fdatasync", 3), ("pwrite64", 2))
        for error, lasting in (("EIO", True), ("ENOSPC", False))
    ]
    with log_arena(3) as it:
        cluster = it.cluster
        for name, plan in zip("bcde", plans, strict=True):
            fault = DiskFault(cluster.pids[name], plan)
            it.pass_by(1.5)
            fault.mend()
            if cluster.state(name) == "down":
                cluster.restart(name, timeout_s=LONG_S)
            it.orders_on(*cluster.names)
        end = it.finish()
        assert end.audit.totals.judgement.receipts > 500
