"""The table of groups: what GBCASTs do to it, in their order, and how a newcomer gets it."""

from reconvene.core.groups.events import Process
from reconvene.isis.messages import Action
from reconvene.isis.table import GROUP_PROPERTIES_BYTES, PROPERTIES_BYTES, OpenGbcast, Table

A, B, C = (Process(site, 1, 1) for site in range(3))


def opened(table: Table, action: Action) -> OpenGbcast:
    (gbcast,) = table.announce(action)
    return gbcast


def joined(table: Table, *processes: Process, group: str = "bank") -> None:
    for process in processes:
        table.conclude(opened(table, Action("join", group, process)))


def test_joins_leaves_and_views() -> None:
    table = Table()
    joined(table, A, B)
    group = table.groups["bank"]
    assert (group.view, group.gained, group.members()) == (2, 2, [A, B])
    outcome = table.conclude(opened(table, Action("leave", "bank", A)))
    assert (outcome.view, outcome.leaver, group.gained) == (3, A, 2)
    joined(table, C)
    assert (group.view, group.gained, group.members()) == (4, 4, [B, C])
    table.invariants()


def test_what_means_nothing_opens_nothing() -> None:
    table = Table()
    assert table.announce(Action("cast", "bank", A)) == []
    assert table.announce(Action("leave", "bank", A)) == []
    joined(table, A)
    assert table.announce(Action("join", "bank", A)) == [], "a second join"
    assert table.announce(Action("leave", "bank", B)) == []
    assert table.announce(Action("failed", "", B)) == []


def test_a_join_that_is_announced_counts_as_prospective() -> None:
    table = Table()
    joined(table, A)
    join = opened(table, Action("join", "bank", B))
    assert table.announce(Action("join", "bank", B)) == []
    assert table.groups["bank"].prospective() == [A, B]
    assert table.sites(join) == {0, 1}
    leave = opened(table, Action("leave", "bank", B))
    assert table.open == table.groups["bank"].open == [join, leave]
    table.conclude(join)
    table.conclude(leave)
    assert table.groups["bank"].members() == [A]


def test_a_failed_process_leaves_all_its_groups() -> None:
    table = Table()
    joined(table, A, B)
    joined(table, B, group="till")
    joined(table, A, group="tap")
    gbcasts = table.announce(Action("failed", "", B))
    assert [gbcast.action.group for gbcast in gbcasts] == ["bank", "till"]
    outcomes = [table.conclude(gbcast) for gbcast in gbcasts]
    assert [outcome.lost for outcome in outcomes] == [(B,), (B,)]
    assert table.groups["till"].members() == []
    assert table.groups["till"].view == 2, "views go on, also where nobody is left"


def test_a_rank_that_is_no_permutation_is_refused_alike() -> None:
    table = Table()
    joined(table, A, B)
    assert table.conclude(opened(table, Action("rank", "bank", A, order=[B, A]))).view == 3
    assert table.groups["bank"].members() == [B, A]
    for order in ([A], [A, A], [A, B, C], []):
        assert table.conclude(opened(table, Action("rank", "bank", A, order=order))).view == 0
    assert table.groups["bank"].view == 3


def test_properties_add_up() -> None:
    table = Table()
    joined(table, A)
    table.conclude(opened(table, Action("set", "bank", A, properties={"mode": b"ro", "limit": b"1"})))
    outcome = table.conclude(opened(table, Action("set", "bank", A, properties={"mode": b"rw"})))
    assert outcome.properties == {"mode": b"rw", "limit": b"1"}


def test_members_lost_with_their_sites_make_one_view() -> None:
    table = Table()
    joined(table, A, B, C)
    outcome = table.fail(table.groups["bank"], [A, C])
    assert (outcome.view, outcome.lost) == (4, (A, C))
    assert table.groups["bank"].members() == [B]


def test_a_gbcast_of_a_kind_that_is_not_known_does_nothing() -> None:
    table = Table()
    joined(table, A)
    outcome = table.conclude(opened(table, Action("dance", "bank", A)))
    assert (outcome.view, outcome.cast) == (0, None)


def test_a_newcomer_gets_all_of_it() -> None:
    table = Table()
    joined(table, A, B)
    opened(table, Action("join", "bank", C))
    opened(table, Action("cast", "bank", A))
    other = Table()
    other.load(table.pieces(7, 9, changing=False))
    assert other.pieces(7, 9, changing=False) == table.pieces(7, 9, changing=False)
    assert [gbcast.number for gbcast in other.open] == [3, 4]
    assert other.groups["bank"].prospective() == [A, B, C]
    other.invariants()


def set_property(table: Table, group: str, name: str, size: int) -> bool:
    """Returns whether the group has it then."""
    action = Action("set", group, A, properties={name: bytes(size)})
    return bool(table.conclude(opened(table, action)).view) and name in table.groups[group].properties


def test_properties_of_a_group_and_of_all_groups_are_bounded() -> None:
    table = Table()
    joined(table, A)
    assert set_property(table, "bank", "half", GROUP_PROPERTIES_BYTES // 2)
    assert not set_property(table, "bank", "rest", GROUP_PROPERTIES_BYTES // 2)
    assert set_property(table, "bank", "half", 0), "it takes the place of the old one"
    many = PROPERTIES_BYTES // GROUP_PROPERTIES_BYTES
    taken = 0
    for number in range(many + 1):
        joined(table, A, group=str(number))
        taken += set_property(table, str(number), "p", GROUP_PROPERTIES_BYTES - 1)
    assert taken == many - 1, "the bank has some"
    table.invariants()
