"""Simulated sites that keep the log, with a ledger of what was appended, and the judge at the end."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from reconvene.core.options import Options
from reconvene.corel.batch import Heading, messages_of
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY
from reconvene.lab.ledger.replicas import ReplicaLedger
from reconvene.quorum import Spec
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Conditions
from reconvene.sim.log_site import LogSite, RealLogCore
from reconvene.trace.events import SCHEMA, Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History

__all__ = ["MS", "SECOND", "Sites"]

MS = 1_000_000
SECOND = 1_000 * MS


class Sites:
    def __init__(
        self,
        names: Iterable[str],
        *,
        seed: int = 0,
        order: str = "atop",
        quorum: Spec = MAJORITY,
        conditions: Conditions | None = None,
        check_every: int = 5,
    ) -> None:
        self.quorum = quorum
        self.cluster = Cluster(
            names,
            seed=seed,
            options=Options(order=order),
            conditions=conditions,
            core=RealLogCore(quorum),
            check_every=check_every,
        )
        self.names = self.cluster.names
        self.ledger = ReplicaLedger(self.cluster)
        self.cluster.start()

    def log(self, name: str) -> Replica:
        site = self.cluster.node(name).site
        assert isinstance(site, LogSite), f"{name} is down"
        return site.replica

    def append(self, name: str, *texts: str) -> None:
        """A batch of its own each, if their syncs are over in between."""
        for text in texts:
            self.cluster.append(name, [text.encode()])
            self.run(5 * MS)

    def run(self, duration_ns: int = 2 * SECOND) -> None:
        self.cluster.run_for(duration_ns)

    def partition(self, *components: str) -> None:
        """And waits until each has found its configuration."""
        self.cluster.partition(components)
        self.run()

    def heal(self) -> None:
        self.cluster.heal()
        self.run()

    @contextmanager
    def stop_when(self, step: str) -> Iterator[list[str]]:
        """Yields the names of nodes as they enter this step."""
        entered: list[str] = []
        end = self.cluster.on_step(lambda node, before, now: entered.append(node.name) if now == step else None)
        try:
            yield entered
        finally:
            end()

    # -- what they hold

    def text(self, name: str, heading: Heading) -> str:
        return " ".join(message.decode() for message in messages_of(self.log(name).body(heading)))

    def queue(self, name: str) -> str:
        """Green | yellow | red."""
        replica = self.log(name)
        zones = (
            [heading for _, heading in replica.read(replica.base)],
            [entry.heading for entry in replica.queue.yellow],
            [entry.heading for entry in replica.queue.red],
        )
        return " | ".join(" ".join(self.text(name, heading) for heading in zone) for zone in zones)

    # -- the judge

    def judge(self, settled: bool = True) -> None:
        """The checks of `verify`, and, where all is at rest, the ledger."""
        cluster = self.cluster
        run = Run(
            schema=SCHEMA,
            run="scenario",
            nodes=list(self.names),
            stack="corel",
            order=cluster.options.order,
            seed=cluster.seed,
            settled=settled,
            components=cluster.components(),
            down=[node.name for node in cluster.nodes if not node.up],
            quorum=cluster.run_quorum(self.quorum),
        )
        report = verify([History.of(run, cluster.rows)])
        assert not report.violated(), [check for check in report.checks if check.violations]
        if settled:
            assert self.ledger.problems(self.quorum) == []
