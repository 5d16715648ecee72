"""Who failed last (3.1): the rule, what is stored, and a group of which all members fail, at every write."""

from itertools import permutations, product
from random import Random

import pytest
from msgspec import msgpack
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import MAX_SITES
from reconvene.isis.events import LeftGroup, ViewShown
from reconvene.isis.isis import Isis
from reconvene.isis.last_to_fail import StoredViews, last_to_fail
from reconvene.isis.limits import IsisLimits
from reconvene.isis.messages import Ready, StoredView
from reconvene.storage.memory import MemoryTables

# -- the rule


def test_nobody_has_stored_anything() -> None:
    assert last_to_fail({0, 1}, {}) == frozenset()


def test_the_newest_view_decides_once_all_of_its_sites_are_back() -> None:
    older, newer = StoredView(1, 3, [0, 1, 2]), StoredView(1, 4, [1, 2])
    assert last_to_fail({0, 1}, {0: older, 1: newer}) is None
    assert last_to_fail({0, 1, 2}, {0: older, 1: newer}) == frozenset({1})
    assert last_to_fail({0, 1, 2}, {0: older, 1: newer, 2: newer}) == frozenset({1, 2})


def test_numbers_of_a_group_begin_again_with_the_line() -> None:
    assert last_to_fail({0, 1}, {0: StoredView(5, 1, [0]), 1: StoredView(3, 9, [1])}) == frozenset({0})


def test_a_site_that_is_lost_again_still_counts() -> None:
    assert last_to_fail({1}, {0: StoredView(1, 4, [0]), 1: StoredView(1, 3, [0, 1])}) is None


# -- what is stored


def test_what_a_site_stores_fits_what_it_brings_into_a_configuration() -> None:
    """Beyond that a join is refused; one of a group that is stored already is not."""
    limits = IsisLimits(stored_bytes=20_000)
    isis = Isis(0, 1, limits, tables=MemoryTables())
    process = isis.open("")
    asked = limits.stored_bytes // 296  # 200 for a name, 96 for a view
    for number in range(asked):
        isis.join(process, f"{number:0200}", last_to_fail=True)
    with pytest.raises(Unavailable, match="stores the views of so many groups that another does not fit"):
        isis.join(process, f"{asked:0200}", last_to_fail=True)
    views = {f"{number:0200}": StoredView(2**62, 2**62, [*range(MAX_SITES)]) for number in range(asked)}
    assert len(msgpack.encode(views)) < limits.stored_bytes
    other = isis.open("")
    isis.join(other, f"{0:0200}", last_to_fail=True)
    isis.join(other, "another")


def test_a_view_is_stored_once_and_the_newest_stays() -> None:
    tables = MemoryTables()
    stored = StoredViews(tables)
    one, two = StoredView(1, 1, [0]), StoredView(1, 2, [0, 1])
    assert not stored.is_stored("bank", one)
    first = stored.flush()
    assert first is not None
    assert not stored.is_stored("bank", one)
    assert stored.flush() is None
    assert not stored.is_stored("bank", two)
    second = stored.flush()
    assert second is not None
    assert not stored.settled
    for token, ops in (first, second):
        tables.write(ops)
        stored.synced(token)
    assert stored.settled
    assert stored.is_stored("bank", one)
    assert stored.is_stored("bank", two)
    assert StoredViews(tables).of("bank") == two


def test_what_is_forgotten_or_unreadable_is_not_there() -> None:
    tables = MemoryTables()
    stored = StoredViews(tables)
    stored.forget("bank")
    assert stored.flush() is None
    stored.is_stored("bank", StoredView(1, 1, [0]))
    stored.forget("bank")
    write = stored.flush()
    assert write is not None
    tables.write([*write[1], *[type(op)(b"isis/view/till", b"nonsense") for op in write[1]]])
    stored.synced(write[0])
    assert stored.of("bank") is None
    assert StoredViews(tables).of("till") is None


def test_a_site_without_storage_refuses_the_option() -> None:
    isis = Isis(0, 1)
    with pytest.raises(Rejected, match="stable storage"):
        isis.join(isis.open(), "bank", last_to_fail=True)


# -- groups


class Failing(Hand):
    """Three sites with one process each in one group, and a model of what they have seen."""

    def __init__(self) -> None:
        super().__init__("abc")
        self.processes: dict[str, Process] = {}
        self.install("abc")

    def ask(self, site: str) -> None:
        self.processes[site] = self.sites[site].open(state=True)
        self.sites[site].join(self.processes[site], "bank", last_to_fail=True)

    def come(self, site: str, ms: int = 60) -> None:
        self.ask(site)
        self.run(ms)

    def shown(self, site: str) -> list[ViewShown]:
        return self.of(ViewShown, self.processes[site])

    def newest(self) -> tuple[int, int]:
        """The newest view that any process ever saw."""
        views = [event for events in self.events.values() for event in events if isinstance(event, ViewShown)]
        return max(((event.number, event.view) for event in views), default=(0, 0))

    def age(self, site: str) -> tuple[int, int]:
        stored = StoredViews(self.disks[site]).of("bank")
        return (0, 0) if stored is None else (stored.number, stored.view)


def test_a_view_is_shown_once_it_is_stored() -> None:
    hand = Failing()
    written: list[str] = []
    hand.writes = lambda site: written.append(site) or True  # type: ignore[func-returns-value]
    for site in "abc":
        hand.come(site)
    assert len(hand.shown("a")) == 3
    assert written.count("a") == 6, "before each join, and before each view"
    assert [hand.age(site) for site in "abc"] == [hand.newest()] * 3


def test_one_that_leaves_is_no_witness() -> None:
    hand = Failing()
    for site in "ab":
        hand.come(site)
    hand.sites["b"].leave(hand.processes["b"], "bank")
    hand.run()
    assert hand.of(LeftGroup, hand.processes["b"])
    assert hand.age("b") == (0, 0)
    assert hand.age("a") == hand.newest()


def test_those_that_failed_earlier_wait_for_the_last() -> None:
    hand = Failing()
    for site in "abc":
        hand.come(site)
    hand.install("bc")  # site a fails first
    hand.run(60)
    for site in "abc":
        hand.restart(site)
    hand.install("abc")
    hand.come("a")
    hand.come("b")
    assert not hand.shown("a")
    assert not hand.shown("b"), "site c may have gone on without them"
    hand.come("c")
    assert hand.shown("b")[0].last_to_fail == (1, 2)
    assert [process.site for process in hand.shown("a")[-1].ranked] == [1, 2, 0]


def test_whoever_joins_without_the_option_begins_anew() -> None:
    hand = Failing()
    for site in "abc":
        hand.come(site)
    for site in "abc":
        hand.restart(site)
    hand.install("abc")
    hand.come("a")
    operator = hand.open("b", "bank")
    assert hand.views(operator)[0] == (operator,)
    assert hand.views(operator)[-1] == (operator, hand.processes["a"])


def test_a_site_that_waits_and_is_lost_again_is_not_forgotten() -> None:
    """It has the newest view: the others wait until it is back."""
    hand = Failing()
    for site in "abc":
        hand.come(site)
    hand.install("ab")
    hand.run(60)  # sites a and b have a view that site c lacks
    for site in "abc":
        hand.restart(site)
    hand.install("abc")
    hand.come("b")
    hand.come("c")
    hand.restart("b")
    hand.install("ac")
    hand.run(60)
    hand.come("a")
    assert not hand.shown("c")
    hand.install("abc")
    hand.come("b")
    assert hand.shown("c")[0].ranked[0].site in (0, 1)


def test_a_process_that_dies_while_it_waits_joins_no_more() -> None:
    hand = Failing()
    for site in "ab":
        hand.come(site)
    for site in "ab":
        hand.restart(site)
    hand.install("abc")
    hand.come("a")
    hand.sites["a"].kill(hand.processes["a"])
    hand.run()
    hand.come("b")
    assert not hand.shown("b")
    hand.come("a")
    assert [process.site for process in hand.shown("a")[-1].ranked] == [1, 0]


def test_a_process_that_died_before_its_join_came_too_early_joins_no_more() -> None:
    """It is announced that a's process joins, and that it has died. Before either is concluded all members fail, so
    the join has to wait for those that failed last; nobody will say again that the process is dead."""
    hand = Hand("abcde")
    hand.install("abcde")
    hand.run()
    for name in "de":
        hand.sites[name].join(hand.open(name), "bank", last_to_fail=True)
        hand.run(60)
    hand.hold = lambda message, site: site in "de" and isinstance(message, Ready)
    dying = hand.open("a")
    hand.sites["a"].join(dying, "bank", last_to_fail=True)
    hand.run(5)
    hand.sites["a"].kill(dying)
    hand.run(5)
    assert [gbcast.action.kind for gbcast in hand.sites["b"].table.open] == ["join", "failed"]
    for name in "de":
        hand.crash(name)
    hand.hold = lambda message, site: False
    hand.install("abc")
    hand.run(60)
    for name in "de":
        hand.start(name)
    hand.install("abcde")
    hand.run()
    back = [hand.open(name) for name in "dea"]  # d and e know that a was about to join
    for process in back:
        hand.at(process).join(process, "bank", last_to_fail=True)
        hand.run(60)
    assert hand.views(back[0])[-1] == tuple(back)
    assert hand.judge() == []


# -- every write

WRITES = 14
"""Of three sites that join one after the other, and lose one of them again."""


def fail(hand: Failing, crash_at: int, durable: bool) -> None:
    """All members fail; one of them at this write."""
    count = 0

    def write(site: str) -> bool | None:
        nonlocal count
        count += 1
        return True if count != crash_at else (None if durable else False)

    hand.writes = write
    members = "abc"
    for site in "abc":
        if site in hand.sites:
            hand.come(site)
        if len(hand.sites) < len(members):
            members = "".join(hand.sites)
            hand.install(members)
            hand.run(60)
    while len(members) > 2:
        members = members[1:]
        hand.install(members)
        hand.run(60)
    hand.writes = lambda site: True
    assert count <= WRITES


@pytest.mark.parametrize(("crash_at", "durable"), list(product(range(1, WRITES + 1), (False, True))))
def test_crashes_at_every_write(crash_at: int, durable: bool) -> None:
    """The group begins again with one that has seen the newest view, or was about to see a newer one."""
    for order in permutations("abc"):
        hand = Failing()
        fail(hand, crash_at, durable)
        newest = hand.newest()
        for site in "abc":
            hand.restart(site)
        ages = {site: hand.age(site) for site in "abc"}
        hand.install("abc")
        for site in order:
            hand.come(site)
        for site in "abc":
            views = hand.shown(site)
            assert views, f"{site} is not a member: {ages}"
            founder = hand.names[hand.shown(hand.names[views[0].ranked[0].site])[0].process.site]
            assert ages[founder] == max(ages.values()) >= newest
            assert len(views[-1].ranked) == 3


@pytest.mark.parametrize("seed", range(30))
def test_random_failures(seed: int) -> None:
    """Again and again all fail, at random writes and in random orders, some while they come back."""
    random = Random(f"last to fail/{seed}")
    hand = Failing()
    for _ in range(4):
        hand.writes = lambda site: True if random.random() < 0.85 else random.choice((False, None))
        members = "abc"
        for site in random.sample(members, 3):
            if site in hand.sites:
                hand.come(site, random.randrange(5, 60))
            alive = "".join(sorted(hand.sites))
            if len(alive) < 2:
                break
            if alive != members:
                members = alive
                hand.install(members)
                hand.run(60)
        hand.writes = lambda site: True
        newest = hand.newest()
        for site in "abc":
            hand.restart(site)
        ages = {site: hand.age(site) for site in "abc"}
        assert max(ages.values()) >= newest
        first = random.sample("abc", random.choice((2, 3)))
        stored = {site: StoredViews(disk).of("bank") for site, disk in hand.disks.items()}
        aware = any(ages[site] > (0, 0) for site in first)
        hand.install("".join(sorted(first)))
        for site in first:
            hand.come(site)
        if len(first) == 2:
            hand.install("abc")
            hand.come(*({*"abc"} - {*first}))
        founder = hand.names[hand.shown("a")[-1].ranked[0].site]
        if aware:  # else they could not know of the group
            assert ages[founder] == max(ages.values()), stored
        for site in "abc":
            hand.restart(site)
        hand.install("abc")
