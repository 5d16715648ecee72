"""Thousands of groups cost no more than one: a configuration's change takes one message of each site."""

from collections.abc import Callable

from tests.sim.groups_world import GroupSite, Life

from reconvene.core.effects import ConfKind, Event, Sent
from reconvene.core.groups.events import GroupEvent, Process, ViewChanged
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.ids import Service
from reconvene.sim.cluster import Cluster
from reconvene.sim.core import SiteLike
from reconvene.sim.node import Node

GROUPS = 5_000
SECOND = 1_000_000_000


class Many:
    """Three sites with one process each, and all of them in all groups; a tenth of the groups have the filter."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.sent = 0
        self.cluster = Cluster("abc", core=self, options=Options(return_unsent=True))
        self.cluster.on_events(self._count)
        self.cluster.start()
        self.until(lambda: self.ready("abc"))
        self.processes = [life.groups.open() for life in self.lives]
        for life, process in zip(self.lives, self.processes, strict=True):
            for number in range(GROUPS):
                life.groups.join(process, f"group {number:04}", number % 10 == 0, self.cluster.now)
            self.cluster.nodes[life.site].hand_over(Service.FIFO, ())
        self.until(lambda: all(len(self.views(process)) == GROUPS for process in self.processes))
        self.until(lambda: all(self.last_sizes(process) == {3} for process in self.processes))

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return boot(stored, ordinal, token)

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> SiteLike:
        return GroupSite(self, options, ordinal, sites, record, now)

    def begin(self, life: Life) -> None:
        self.lives.append(life)

    def react(self, site: GroupSite, events: list[GroupEvent]) -> None:
        pass

    def _count(self, node: Node, events: list[Event]) -> None:
        self.sent += sum(event.count for event in events if isinstance(event, Sent))

    def until(self, condition: Callable[[], bool]) -> None:
        end = self.cluster.now + 30 * SECOND
        while not condition():
            assert self.cluster.now < end, "not within 30 s"
            self.cluster.run_for(SECOND // 20)

    def ready(self, names: str) -> bool:
        lives = [life for life in self.lives if self.cluster.names[life.site] in names]
        return all(life.groups.room() > 0 and len(life.groups.site.members) == len(names) for life in lives)

    def views(self, process: Process) -> dict[int, ViewChanged]:
        views = self.lives[process.site].views
        return {number: view for number, view in views.items() if view.kind is ConfKind.REGULAR}

    def last_sizes(self, process: Process) -> set[int]:
        return {len(view.members) for view in self.views(process).values()}


def test_thousands_of_groups_through_a_partition_and_a_heal() -> None:
    many = Many()
    cluster = many.cluster
    joins = many.sent
    assert joins <= 3 * GROUPS + 10
    cluster.partition(["ab", "c"])
    many.until(lambda: many.ready("ab") and many.ready("c"))
    assert many.sent - joins <= 1, "sites that go on together agree on that by one message"
    assert many.last_sizes(many.processes[0]) == {2}
    alone = {number for number, view in many.views(many.processes[2]).items() if len(view.members) == 1}
    assert len(alone) == GROUPS * 9 // 10, "in groups with the filter it is blocked"
    before = many.sent
    cluster.heal()
    many.until(lambda: many.ready("abc"))
    assert many.sent - before == 3, "one table each"
    for process in many.processes:
        assert many.last_sizes(process) == {3}
    # Each has its groups under the same numbers.
    one, two, three = (many.views(process) for process in many.processes)
    assert all(one[number].view == two[number].view == three[number].view for number in range(1, GROUPS + 1))
