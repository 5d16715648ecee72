"""A simulated cluster that keeps the log, for tests: what its replicas hold, and what is wrong with it."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from random import Random

from reconvene.corel.batch import Heading, messages_of
from reconvene.corel.keeping.load import create
from reconvene.corel.limits import LogLimits
from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import MAJORITY, ReplicaSet
from reconvene.quorum import Spec
from reconvene.runtime.site.journal import run_quorum
from reconvene.sim.cluster import Cluster
from reconvene.sim.log_site import LogSite, RealLogCore
from reconvene.storage.tables import Clear, Op
from reconvene.trace.events import SCHEMA, Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History

MS = 1_000_000
SECOND = 1_000 * MS


class SomeCore(RealLogCore):
    """Only some of the sites are the log's first replicas. A site whose log is gone gets another identity."""

    def __init__(self, replicas: Sequence[str], quorum: Spec = MAJORITY, limits: LogLimits | None = None) -> None:
        super().__init__(quorum, limits)
        self._first = ReplicaSet.first(replicas, quorum)
        self.replaces = False
        """What is made from now on takes the place of what was lost."""
        self._made = 0

    def first(self, name: str, names: Sequence[str], first: bool, booted: dict[int, int]) -> list[Op]:
        self._made += 1
        identity = sha256(f"{name}/{self._made}".encode()).digest()[:8]
        return create(identity, self._first, admitted=first, boots=booted, replaces=self.replaces)


class World:
    def __init__(
        self,
        names: Iterable[str] = "abc",
        seed: int = 0,
        replicas: Sequence[str] | None = None,
        limits: LogLimits | None = None,
        quorum: Spec = MAJORITY,
        check_every: int = 7,
        start: Sequence[str] | None = None,
    ) -> None:
        names = tuple(names)
        self.core = self.make_core(replicas or names, quorum, limits)
        self.first_quorum = run_quorum(names, replicas or names, quorum)
        self.cluster = Cluster(names, seed=seed, core=self.core, check_every=check_every)
        self.random = Random(seed)
        self.cluster.start(start)

    def make_core(self, replicas: Sequence[str], quorum: Spec, limits: LogLimits | None) -> RealLogCore:
        return SomeCore(replicas, quorum, limits)

    def run(self, duration_ns: int = SECOND) -> None:
        self.cluster.run_for(duration_ns)

    def log(self, name: str) -> Replica:
        site = self.cluster.node(name).site
        assert isinstance(site, LogSite)
        return site.replica

    def up(self, name: str) -> bool:
        return self.cluster.node(name).up

    def turn(self, name: str) -> None:
        """Runs a turn, so that what was asked of a replica takes effect."""
        self.cluster.node(name).append(())

    def append(self, name: str, *messages: bytes) -> int:
        first = self.log(name).append(messages)
        self.turn(name)
        return first

    def lose_disk(self, name: str) -> None:
        """Of the log; the site keeps its own, as if they were two disks."""
        if self.up(name):
            self.cluster.crash(name)
        self.cluster.node(name).disk.put([Clear(b"\x00", b" ")])

    # -- what the replicas hold

    def green(self, name: str) -> list[tuple[int, Heading]]:
        replica = self.log(name)
        return list(replica.read(replica.base))

    def entries(self, name: str) -> dict[int, bytes]:
        """By position: the messages that count."""
        replica = self.log(name)
        found: dict[int, bytes] = {}
        for position, heading in self.green(name):
            void = replica.voids(position, heading)
            for index, message in enumerate(messages_of(replica.body(heading))):
                if index not in void:
                    found[position + index] = message
        return found

    def texts(self, name: str) -> list[bytes]:
        """The messages that count, in order."""
        return list(self.entries(name).values())

    def agree(self, names: Iterable[str]) -> None:
        """These replicas are at one line, with the same messages at the same positions, as far as they have them."""
        logs = {name: self.log(name) for name in names}
        lines = {name: (log.green, log.queue.yellow_line, log.queue.red_messages) for name, log in logs.items()}
        assert len(set(lines.values())) == 1, lines
        held: dict[int, bytes] = {}
        for name in logs:
            for position, message in self.entries(name).items():
                assert held.setdefault(position, message) == message, (name, position)
        sets = {name: log.replicas for name, log in logs.items()}
        assert len({repr(found) for found in sets.values()}) == 1, sets
        tables = {name: sorted(log.session_rows()) for name, log in logs.items()}
        assert len({repr(found) for found in tables.values()}) == 1, tables

    def verified(self, ignore: Iterable[str] = ()) -> None:
        """Checked from the trace alone."""
        cluster = self.cluster
        run = Run(
            schema=SCHEMA,
            run=f"test-{cluster.seed}",
            nodes=list(cluster.names),
            stack="corel",
            order=cluster.options.order,
            seed=cluster.seed,
            settled=False,
            components=cluster.components(),
            down=[node.name for node in cluster.nodes if not node.up],
            quorum=cluster.run_quorum(self.first_quorum),
        )
        report = verify([History.of(run, cluster.rows)])
        bad = [check for check in report.checks if check.violations and check.id not in ignore]
        assert not bad, f"seed {cluster.seed}: {bad}"
