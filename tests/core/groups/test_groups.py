"""Groups of processes, event by event, on sites that a test drives by hand."""

import pytest
from tests.core.groups.hand_groups import HandGroups

from reconvene.core.effects import ConfKind
from reconvene.core.groups.events import Arrived, Blocked, Left, Process, ViewChanged
from reconvene.core.groups.groups import GroupLimits
from reconvene.core.options import Limits, Options
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import Service


def together(names: str = "abc", limits: GroupLimits | None = None) -> HandGroups:
    hand = HandGroups(names, limits)
    hand.settle()
    return hand


def joined(hand: HandGroups, names: str, group: str = "fleet", primary: bool = False) -> list[tuple[Process, int]]:
    members = []
    for name in names:
        process = hand.open(name)
        members.append((process, hand.join(process, group, primary)))
        hand.run(20)
    return members


def test_a_join_changes_the_view_everywhere_at_one_point() -> None:
    hand = together()
    (one, _), (two, _), (three, _) = joined(hand, "abc")
    assert hand.views(one) == [{one}, {one, two}, {one, two, three}]
    assert hand.views(two) == [{one, two}, {one, two, three}]
    first, second = hand.of(one, ViewChanged)[-1], hand.of(three, ViewChanged)[-1]
    assert (first.view, first.members, first.conf) == (second.view, second.members, second.conf)
    assert first.members == (one, two, three), "in the order of joining"
    assert (first.process, second.process) == (one, three)
    assert first.primary


@pytest.mark.parametrize("service", list(Service))
def test_every_member_gets_every_message_of_every_service(service: Service) -> None:
    hand = together()
    members = joined(hand, "abc")
    for number, (process, membership) in enumerate(members):
        assert hand.send(process, membership, b"%d" % number, b"x", service=service) == 2
    hand.run(100)
    for process, _ in members:
        assert sorted(hand.got(process)) == [b"0", b"1", b"2", b"x", b"x", b"x"]
        for arrived in hand.of(process, Arrived):
            assert arrived.service is service
            assert (arrived.timestamp is not None) == (service >= Service.AGREED)


def test_a_message_to_some_reaches_those_alone() -> None:
    hand = together()
    (one, first), (two, _), (three, _) = joined(hand, "abc")
    outsider = hand.open("b")
    hand.send(one, first, b"secret", to=(two, outsider))
    hand.send(one, first, b"myself", to=(one,))
    hand.run(50)
    assert [hand.got(process) for process in (one, two, three, outsider)] == [[b"myself"], [b"secret"], [], []]
    with pytest.raises(Rejected, match="to nobody"):
        hand.send(one, first, b"", to=())


def test_processes_of_one_site_share_a_frame_of_messages() -> None:
    hand = together("ab")
    (one, first), (two, _), (three, _) = joined(hand, "abb")
    hand.send(one, first, *[b"%d" % number for number in range(50)])
    hand.run(50)
    (left,), (right,) = hand.of(two, Arrived), hand.of(three, Arrived)
    assert left.payloads == [b"%d" % number for number in range(50)]
    assert left.payloads is right.payloads
    assert (left.membership, right.membership) == (1, 2)


def test_a_frame_of_several_memberships_is_taken_apart() -> None:
    hand = together("ab")
    (one, first), (two, _) = joined(hand, "ab")
    other = hand.join(one, "galley")
    hand.run(20)
    groups = hand.groups["a"]
    groups.send(first, Service.AGREED, [b"1", b"2"], None, hand.now)
    groups.send(other, Service.AGREED, [b"3"], None, hand.now)
    groups.send(first, Service.AGREED, [b"4"], None, hand.now)
    hand.flush("a")
    hand.run(50)
    assert [(arrived.payloads, arrived.index) for arrived in hand.of(two, Arrived)] == [
        ([b"1", b"2"], 0),
        ([b"4"], 3),
    ]
    assert hand.got(one) == [b"1", b"2", b"3", b"4"]


def test_leaving_and_dying() -> None:
    hand = together()
    (one, _), (two, second), (three, _) = joined(hand, "abc")
    hand.join(three, "galley")
    hand.run(20)
    hand.leave(two, second)
    hand.close(three)
    hand.close(three)
    hand.run(50)
    assert [left.reason for left in hand.of(two, Left)] == ["left"]
    assert hand.of(three, Left) == [], "who is gone is told nothing"
    assert hand.views(one)[-1] == {one}
    with pytest.raises(Rejected, match="is over"):
        hand.send(two, second, b"x")
    hand.leave(two, second)
    with pytest.raises(Rejected, match="there is none"):
        hand.leave(two, 99)
    with pytest.raises(Rejected, match="not open"):
        hand.join(three, "fleet")
    for groups in hand.groups.values():
        assert [status.name for status in groups.groups()] == ["fleet"]


def test_nothing_is_sent_before_the_join_is_delivered() -> None:
    hand = together("ab")
    process = hand.open("a")
    membership = hand.groups["a"].join(process, "fleet", False, hand.now)
    assert hand.groups["a"].send(membership, Service.FIFO, [b"x"], None, hand.now) == 0
    hand.flush("a")
    hand.run(50)
    assert hand.send(process, membership, b"x") == 1


def test_limits() -> None:
    hand = together("ab", GroupLimits(processes=2, groups_per_process=2, group_name_bytes=8))
    one = hand.open("a")
    hand.open("a")
    with pytest.raises(Unavailable, match="2 processes"):
        hand.open("a")
    hand.join(one, "fleet")
    with pytest.raises(Rejected, match="already"):
        hand.join(one, "fleet")
    for name in ("", "harbours!", "ü" * 5, "\ud800"):
        with pytest.raises(Rejected, match="name"):
            hand.join(one, name)
    hand.join(one, "ü" * 4)
    with pytest.raises(Unavailable, match="2 groups"):
        hand.join(one, "bank")


def test_a_site_s_table_fits_one_message() -> None:
    hand = HandGroups("ab", options=Options(limits=Limits(message_bytes=4_096)))
    hand.settle()
    process = hand.open("a")
    names = iter(range(100))
    while hand.groups["a"]._processes._weight < 3_072 - 55:
        hand.join(process, f"group {next(names)}")
    with pytest.raises(Unavailable, match="fill its table"):
        hand.join(process, "one more than there is room for")
    hand.run(50)
    hand.partition("a", "b")
    hand.settle("a")
    hand.heal()
    hand.settle()
    assert len(hand.groups["b"].groups()) == len(hand.groups["a"].groups()) > 20


def test_a_message_that_is_too_large_is_rejected() -> None:
    hand = HandGroups("ab", options=Options(limits=Limits(message_bytes=2_000)))
    hand.settle()
    ((process, membership),) = joined(hand, "a")
    with pytest.raises(Rejected, match="at most 2000"):
        hand.send(process, membership, bytes(1_996))
    assert hand.send(process, membership, bytes(1_995)) == 1


# -- configurations


def test_who_goes_on_together_needs_no_exchange() -> None:
    hand = together()
    (one, _), (two, second), (three, _) = joined(hand, "abc")
    before = hand.groups["a"].counters.tables_exchanged
    hand.crash("c")
    hand.settle("ab")
    assert hand.groups["a"].counters.tables_exchanged == before
    last = [view for view in hand.of(one, ViewChanged) if view.members != (one, two, three)][-2:]
    assert [(view.kind, view.members) for view in last] == [
        (ConfKind.TRANSITIONAL, (one, two)),
        (ConfKind.REGULAR, (one, two)),
    ]
    assert last[1].view.change == 0
    assert hand.send(two, second, b"on") == 1
    hand.run(50)
    assert hand.got(one) == [b"on"]


def test_components_that_meet_tell_each_other_their_tables() -> None:
    hand = together()
    (one, _), (two, _), (three, _) = joined(hand, "abc")
    hand.partition("ab", "c")
    hand.settle("ab")
    hand.settle("c")
    assert hand.views(three)[-1] == {three}
    assert not hand.of(three, ViewChanged)[-1].primary
    late = hand.open("b")
    hand.join(late, "fleet")
    hand.run(20)
    hand.heal()
    hand.settle()
    for process in (one, two, three, late):
        assert hand.of(process, ViewChanged)[-1].members == tuple(sorted((one, two, three, late)))
    assert len({hand.of(process, ViewChanged)[-1].view for process in (one, two, three, late)}) == 1


def test_a_restarted_site_has_none_of_its_processes() -> None:
    hand = together()
    (one, _), (two, _), (_, _) = joined(hand, "abc")
    hand.crash("c")
    hand.run(5)
    hand.start("c")
    hand.settle()
    assert hand.views(one)[-1] == {one, two}
    process = hand.open("c")
    hand.join(process, "fleet")
    hand.run(50)
    assert process.incarnation == 2
    assert hand.views(one)[-1] == {one, two, process}


def test_what_waits_while_tables_are_exchanged_goes_out_afterwards_in_order() -> None:
    hand = together()
    (one, first), (two, _), (_, _) = joined(hand, "abc")
    hand.partition("ab", "c")
    hand.run(10)
    for number in range(3):
        hand.send(one, first, b"%d" % number, service=Service.SAFE)
    hand.settle("ab")
    hand.run(100)
    assert hand.got(two) == [b"0", b"1", b"2"]


def test_requests_made_while_tables_are_exchanged_are_heard_afterwards() -> None:
    hand = together()
    ((one, first),) = joined(hand, "a")
    hand.partition("ab", "c")
    hand.settle("ab")
    hand.heal()
    hand.until(lambda: not hand.groups["a"].settled)
    assert hand.groups["a"].room() == 0
    assert hand.send(one, first, b"x") == 0
    process = hand.open("a")
    hand.join(process, "fleet")
    hand.leave(one, first)
    hand.settle()
    hand.run(50)
    assert hand.views(process)[-1] == {process}
    assert [left.reason for left in hand.of(one, Left)] == ["left"]


# -- the filter


def test_a_minority_is_blocked_and_comes_back_as_someone_else() -> None:
    hand = together()
    (one, first), (two, _), (three, third) = joined(hand, "abc", "bank", True)
    hand.partition("ab", "c")
    hand.settle("ab")
    hand.settle("c")
    assert hand.views(one)[-1] == {one, two}
    assert len(hand.of(three, Blocked)) == 1
    with pytest.raises(Unavailable, match="primary component"):
        hand.send(three, third, b"x")
    assert hand.send(one, first, b"without you") == 1
    hand.run(50)
    hand.heal()
    hand.settle()
    hand.run(50)
    back = hand.of(three, ViewChanged)[-1]
    assert back.process is not None
    assert back.process != three
    assert (back.process.site, back.process.incarnation) == (three.site, three.incarnation)
    assert back.members == (one, two, back.process)
    assert hand.got(three) == []
    assert all(view.kind is ConfKind.REGULAR for p in (one, two, three) for view in hand.of(p, ViewChanged))
    assert hand.send(three, third, b"again") == 1
    hand.run(50)
    assert hand.of(one, Arrived)[-1].sender == back.process


def test_processes_are_merged_one_at_a_time_in_the_same_order_everywhere() -> None:
    hand = together("abcde")
    members = joined(hand, "abcdede", "bank", True)
    hand.partition("abc", "de")
    hand.settle("abc")
    hand.settle("de")
    hand.heal()
    hand.settle()
    views = [view for view in hand.of(members[0][0], ViewChanged) if view.conf == hand.sites["a"].configuration]
    assert [len(view.members) for view in views] == [3, 4, 5, 6, 7]
    assert [view.view.change for view in views] == [0, 1, 2, 3, 4]
    for process, _ in members[3:]:
        mine = [view for view in hand.of(process, ViewChanged) if view.conf == hand.sites["a"].configuration]
        assert [view.members for view in mine] == [view.members for view in views][-len(mine) :]
    newcomers = views[-1].members[3:]
    assert list(newcomers) == sorted(newcomers)


def test_where_nobody_has_a_majority_all_begin_anew() -> None:
    hand = together("abcd")
    members = joined(hand, "abcd", "bank", True)
    hand.partition("ab", "cd")
    hand.settle("ab")
    hand.settle("cd")
    assert all(len(hand.of(process, Blocked)) == 1 for process, _ in members)
    hand.heal()
    hand.settle()
    last = hand.of(members[0][0], ViewChanged)[-1]
    assert len(last.members) == 4
    assert not set(last.members) & {process for process, _ in members}


def test_who_joins_in_a_minority_waits_for_the_primary_component() -> None:
    hand = together()
    hand.partition("ab", "c")
    hand.settle("c")
    process = hand.open("c")
    hand.join(process, "bank", True)
    hand.run(20)
    assert [type(event) for event in hand.told[process]] == [Blocked]
    hand.heal()
    hand.settle()
    assert hand.views(process) == [{process}], "it was never anyone else"


def test_who_leaves_a_group_with_the_filter_comes_back_as_someone_else() -> None:
    hand = together("ab")
    ((one, first),) = joined(hand, "a", "bank", True)
    hand.groups["a"].leave(first, hand.now)
    hand.join(one, "bank", True)
    hand.run(50)
    last = hand.of(one, ViewChanged)[-1]
    assert last.process is not None
    assert last.process != one
    assert last.members == (last.process,)


def test_fifo_and_causal_messages_are_agreed_under_the_filter() -> None:
    hand = together("ab")
    (one, first), (two, _) = joined(hand, "ab", "bank", True)
    for service in Service:
        hand.send(one, first, service.label.encode(), service=service)
    hand.run(50)
    assert hand.got(two) == [b"fifo", b"causal", b"agreed", b"safe"]
    assert {arrived.service for arrived in hand.of(two, Arrived)} == {Service.AGREED, Service.SAFE}


def test_a_group_has_the_filter_or_not() -> None:
    hand = together("ab")
    (one, _), (two, _) = joined(hand, "a", "bank", True) + joined(hand, "b", "bank", False)
    assert hand.views(one) == [{one}]
    assert [left.reason for left in hand.of(two, Left)] == ["refused: group 'bank' has the primary-component filter"]
    hand.join(two, "bank", True)
    hand.run(20)
    assert hand.views(two) == [{one, two}]


def test_components_that_disagree_about_the_filter_follow_the_lowest_member() -> None:
    hand = together("abc")
    hand.partition("a", "bc")
    hand.settle("a")
    hand.settle("bc")
    ((one, _),) = joined(hand, "a", "bank", False)
    (two, _), (three, _) = joined(hand, "bc", "bank", True)
    hand.heal()
    hand.settle()
    assert hand.views(one)[-1] == {one}
    for process in (two, three):
        assert [left.reason for left in hand.of(process, Left)] == ["refused: group 'bank' has no filter"]


def test_a_restarted_majority_does_not_trust_a_minority_s_memory() -> None:
    hand = together("abc")
    (one, _), _, _ = joined(hand, "abc", "bank", True)
    for name in "bc":
        hand.crash(name)
        hand.start(name)
    hand.settle()
    last = hand.of(one, ViewChanged)[-1]
    assert last.process != one, "while it slept, the two may have gone on and forgotten it"
