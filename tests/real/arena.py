"""A cluster of real sites under load, for one test: the faults, what the clients saw, and the verdict on the
trace."""

import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconvene.lab.load.fleet import client_addresses
from reconvene.lab.load.group_fleet import GroupAudit, GroupFleet, wait_joined
from reconvene.lab.soak.faults import RandomFaults
from reconvene.lab.soak.judge import Counts, Verdict, count, judge
from reconvene.local import LocalCluster
from reconvene.trace.events import Run
from reconvene.trace.reader import read_run

__all__ = ["Arena", "End", "arena"]

QUIET_S = 1.5
"""A cluster without an event for so long is at rest: more than twice the time to suspicion."""
BUSY_S = 20.0
"""Longest wait. What takes a fraction of a second on a quiet machine may take this long on a busy one."""

NEED_CHANGES = ("evs.3", "evs.4", "evs.primary.continuity")
"""Checks that look only at sites that go together from one configuration to the next."""
OF_DOMAINS = ("live.wide",)
"""Checks that have no cases in one cluster."""


@dataclass(slots=True)
class End:
    """How a run ended: everything that a test can look at afterwards."""

    run: Run
    counts: Counts
    verdict: Verdict
    clients: GroupAudit


class Arena:
    def __init__(self, directory: Path, cluster: LocalCluster, load: GroupFleet, seed: int) -> None:
        self.directory = directory
        self.cluster = cluster
        self.load = load
        self.seed = seed

    def campaign(self, steps: int, kinds: Sequence[str], gap_s: float = 0.6) -> RandomFaults:
        """Injects so many random faults and repairs of these kinds, then repairs everything."""
        faults = RandomFaults(self.cluster, self.seed, kinds=kinds, notify=print)
        for _ in range(steps):
            self.load.check()
            faults.check()
            faults.step()
            time.sleep(gap_s)
        faults.mend()
        return faults

    def pass_by(self, seconds: float) -> None:
        """Lets the clients work for this time."""
        self.load.check()
        time.sleep(seconds)

    def together(self, components: Sequence[Sequence[str]] | None = None) -> None:
        self.cluster.wait_for(components, timeout_s=BUSY_S)

    def finish(self, *, changes: bool = True) -> End:
        """Call it once all faults are repaired. Waits until the cluster is at rest, stops it, and verifies the trace:
        no violation is accepted.

        `changes`: there were partitions or merges under load, so every check must have cases.
        """
        self.together([self.cluster.names])
        self.load.quiet()
        trace = self.cluster.finish_trace(quiet_s=QUIET_S)
        end = End(read_run(trace), count(trace), judge(trace), self.load.finish())
        print(end.counts)
        assert end.verdict.ok, end.verdict.witnesses()
        assert end.clients.faults == []
        self._looked_at_something(end, OF_DOMAINS if changes else (*OF_DOMAINS, *NEED_CHANGES))
        return end

    def _looked_at_something(self, end: End, excused: Collection[str]) -> None:
        assert end.run.settled
        for prefix in ("evs.", "vs.", "live.", "to.", "transis."):
            cases = end.verdict.cases(prefix)
            assert cases
            empty = [check for check in cases if not cases[check] and check not in excused]
            assert not empty, f"looked at nothing: {empty}"
        assert end.verdict.cases("live.membership") == {"live.membership": len(self.cluster.names)}
        assert set(end.counts.by_service) == {"fifo", "causal", "agreed", "safe"}
        # Joins and tables of groups are messages too, so the trace has more messages than the clients sent.
        assert end.counts.messages >= end.clients.totals.accepted - sum(
            max(0, stream.missing) for written in end.clients.written for stream in written.streams
        )
        assert end.clients.totals.delivered > end.clients.totals.accepted > 0
        assert end.clients.totals.shared > 0


@contextmanager
def arena(
    seed: int,
    nodes: int = 3,
    *,
    rate: float = 400.0,
    large: float = 0.002,
    processes: int = 1,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Arena]:
    """Starts sites in one configuration, with a client working at each. If the test fails, the directory is kept and
    printed.

    When a client loses its site, every second client moves to the next site; the others wait. `processes`: how many
    processes the clients run in.
    """
    directory = Path(tempfile.mkdtemp(prefix="rv-real-", dir="/tmp"))
    print(f"seed {seed}, in {directory}")
    try:
        with LocalCluster.create(directory / "c", nodes, settings=settings) as cluster:
            cluster.start(timeout_s=2 * BUSY_S)
            with GroupFleet.on(
                client_addresses(cluster),
                rate=rate,
                seed=seed,
                log=directory / "load.log",
                processes=processes,
                large=large,
            ) as load:
                wait_joined(cluster, BUSY_S)
                yield Arena(directory, cluster, load, seed)
    except BaseException as error:
        error.add_note(f"seed {seed}; what it left is in {directory}")
        raise
    shutil.rmtree(directory)
