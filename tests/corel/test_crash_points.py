"""A crash between each two durable writes of recovery and of establishing, at each site, one at a time and in pairs.

One story: three sites meet again. a and b know the second primary component, where one message is yellow at a alone;
c knows the first, where one is yellow at c alone; all three have red ones, one of which may have been sent before. So
their meeting goes through every step. From then on a site crashes at its k-th write, in one of three ways.
"""

from enum import Enum
from itertools import combinations, product

import pytest
from _pytest.mark import ParameterSet
from tests.corel.sites import MS, SECOND, Sites

from reconvene.core.record import KEY
from reconvene.ids import Service
from reconvene.sim.cluster import Cluster
from reconvene.sim.disk import Disk, _Write
from reconvene.sim.node import Node
from reconvene.storage.tables import Put

NAMES = "abc"
STEPS = ["log: states", "log: priority", "log: claims", "log: reds", "log: attempt", "log: commit"]
DOWN_NS = 150 * MS
"""From a crash to the restart: the others are on their way without it, or not yet."""
EACH = 11
"""Of all pairs of crashes, one in so many: 11 has no factor in common with their ways and writes."""
PARTS = 4
MORE = pytest.mark.long("more crashes of the same kind")


class When(Enum):
    BEFORE = "just before it is durable"
    AFTER = "when it is durable, and the site does not know, and has sent nothing"
    TOLD = "when what waited for it was told and sent"


def _of_the_log(write: _Write) -> bool:
    ops = [op for each in write.writes for op in each.ops]
    return any(not isinstance(op, Put) or op.key != KEY.encode() for op in ops)


class CrashDisk(Disk):
    """Ends its site at the k-th write of the log after `arm`."""

    __slots__ = ("_cluster", "_left", "_node", "_when", "crashed_at", "writes")

    def __init__(self, cluster: Cluster, node: Node) -> None:
        super().__init__(cluster.loop, cluster.stream(f"disk of {node.name}"), node._synced)
        self._cluster = cluster
        self._node = node
        self._left = 0
        self._when = When.BEFORE
        self.crashed_at = ""
        """The step that it was in."""
        self.writes = 0

    def arm(self, k: int, when: When) -> None:
        self._left, self._when = k, when

    def _report(self, writes: list[_Write]) -> None:
        self.writes += 1
        if self._left and any(map(_of_the_log, writes)):
            self._left -= 1
            if self._left == 0:
                self._end(writes)
                return
        super()._report(writes)

    def _end(self, writes: list[_Write]) -> None:
        self.crashed_at = self._node.step
        if self._when is When.TOLD:
            super()._report(writes)
        elif self._when is When.AFTER:
            for write in writes:
                for each in write.writes:
                    self.put(each.ops)
        if self._node.up:
            self._cluster.crash(self._node.name)
        self._cluster.loop.at(self._cluster.now + DOWN_NS, lambda _: self._cluster.restart(self._node.name))


class Meeting(Sites):
    """Everything up to the moment before they meet."""

    def __init__(self) -> None:
        super().__init__(NAMES)
        cluster = self.cluster
        self.disks = {name: CrashDisk(cluster, cluster.node(name)) for name in NAMES}
        for name, disk in self.disks.items():
            disk._tables = cluster.node(name).disk._tables
            cluster.node(name).disk = disk
        self.run(SECOND)
        self.append("a", "1")
        self.run(50 * MS)
        for other in "ab":
            cluster.cut("c", other)
        self.append("c", "y")
        self._go_on("a", "b")
        self.partition_for("ab", "c")
        self.append("c", "x")
        self.append("b", "2")
        self.run(50 * MS)
        cluster.cut("a", "b")
        self.append("a", "3")
        self._go_on("b")
        self.partition_for("a", "b", "c")
        self.append("a", "r")
        self.append("b", "s")
        self.disks["c"].arm(1, When.TOLD)
        cluster.append("c", [b"m"])  # accepted and sent, and not logged
        self.run(600 * MS)
        self.disks["c"].crashed_at = ""

    def _go_on(self, *names: str) -> None:
        """They send whole frames, so that the sites that hear them go on ordering, though they hear nothing."""
        for _ in range(6):
            for name in names:
                self.cluster.send(name, Service.AGREED, bytes(20_000))
            self.run(5 * MS)

    def partition_for(self, *components: str) -> None:
        self.cluster.partition(components)
        self.run(600 * MS)

    def meet(self) -> None:
        self.cluster.heal()
        self.run(2 * SECOND)
        assert len(set(map(self.queue, NAMES))) == 1, [self.queue(name) for name in NAMES]
        assert set(self.queue("a").split()) == {"1", "2", "3", "m", "r", "s", "x", "y", "|"}
        assert self.queue("a").endswith(" |  | ")
        self.judge()


def steps_of(crashes: list[tuple[str, int, When]]) -> list[str]:
    """In which steps these crashes found their sites, where all is well at the end; "" for one that did not come."""
    sites = Meeting()
    for name, k, when in crashes:
        sites.disks[name].arm(k, when)
    sites.meet()
    return [sites.disks[name].crashed_at for name, _, _ in crashes]


def test_the_story() -> None:
    """The situation is the one described above, and the meeting goes through every step."""
    sites = Meeting()
    assert sites.queue("a") == "1 2 | 3 | r"
    assert sites.queue("b") == "1 2 |  | s"
    assert sites.queue("c") == "1 | y | x m"
    assert [sites.log(name).record.last_committed_primary for name in NAMES] == [2, 2, 1]
    assert [entry.marked for entry in sites.log("c").queue.red] == [False, True]
    passed: list[str] = []
    sites.cluster.on_step(lambda node, before, now: passed.append(now) if node.name == "c" else None)
    sites.meet()
    assert passed[passed.index(STEPS[0]) :] == [*STEPS, "log: primary"]


def each_way() -> list[ParameterSet]:
    """Every site and every way to crash. Each of them is in `make test` once."""
    return [
        pytest.param(name, when, marks=[] if place == way else [MORE], id=f"{name}-{when.name.lower()}")
        for place, name in enumerate(NAMES)
        for way, when in enumerate(When)
    ]


@pytest.mark.parametrize(("name", "when"), each_way())
def test_one_crash(name: str, when: When) -> None:
    """At each write in turn, until there are no more."""
    found: list[str] = []
    while not found or found[-1]:
        found += steps_of([(name, len(found) + 1, when)])
    print(f"{name}, {when.value}: {', '.join(found[:-1])}")
    assert len(found) > 5
    assert {"log: attempt", "log: commit"} <= set(found)


def pairs() -> list[list[tuple[str, int, When]]]:
    """All pairs of sites, writes and ways that differ enough; every so many of them."""
    every = [
        [(one, k, when), (other, m, then)]
        for one, other in combinations(NAMES, 2)
        for k, m in product(range(1, 7), repeat=2)
        for when, then in product(When, repeat=2)
    ]
    return every[::EACH]


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=MORE) for part in range(1, PARTS))])
def test_two_crashes(part: int) -> None:
    """Both at their own writes: together, or one while the others recover from the other."""
    both = 0
    for crashes in pairs()[part::PARTS]:
        both += all(steps_of(crashes))
    assert both > 10
