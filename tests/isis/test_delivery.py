"""What processes receive and in which order: causes, queues, gates; replies, state and flushes. By hand."""

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.isis.events import (
    ALL,
    Answered,
    Ended,
    Failed,
    Flushed,
    LeftGroup,
    Received,
    Rejection,
    StateChunk,
    StateDone,
    StateWanted,
    ViewShown,
)  # fmt: skip
from reconvene.isis.messages import Ready


def cluster(sites: str = "abc") -> Hand:
    hand = Hand(sites)
    hand.install(sites)
    return hand


# -- causes


def test_a_cast_waits_for_what_precedes_it_along_another_way() -> None:
    """p → q directly is slow; p → r → q is quick."""
    hand = cluster()
    p, q, r = (hand.open(site) for site in "abc")
    hand.cut.add("ab")
    hand.at(p).cbcast(p, [q, r], b"first")
    hand.run(5)
    hand.at(r).cbcast(r, [q], b"second")
    hand.run(20)
    assert hand.received(r) == [b"first"]
    assert hand.received(q) == [], "its origin lives, and sends it itself: the receiver waits"
    hand.cut.clear()
    hand.run(500)
    assert hand.received(q) == [b"first", b"second"]


def test_where_the_origin_is_lost_the_others_bring_it() -> None:
    hand = cluster()
    p, q, r = (hand.open(site) for site in "abc")
    hand.cut.add("ab")
    hand.at(p).cbcast(p, [q, r], b"first")
    hand.run(5)
    hand.at(r).cbcast(r, [q], b"second")
    hand.run(5)
    hand.install("bc")
    hand.run(200)
    assert hand.received(q) == [b"first", b"second"]
    assert len(hand.sites["b"].pool) == len(hand.sites["c"].pool) == 0, "nobody keeps casts of the lost for ever"


def test_what_went_with_a_rejected_attempt_does_not_wait_for_the_next_one() -> None:
    """The next attempt is lost, with its origin and with all who had it."""
    hand = Hand("abcde")
    x = hand.begin(bank="abe")
    hand.delay_ms |= {"da": 20, "db": 5, "de": 5}
    hand.sites["d"].cbcast(x["d"], "bank", b"first")
    hand.sites["d"].cbcast(x["d"], "bank", b"second")
    hand.sites["c"].join(x["c"], "bank")
    hand.run(7)
    assert [event.id.counter for event in hand.of(Rejection, x["e"])] == [1, 2]
    hand.cut |= {"de", "dc"}
    hand.run(5)
    assert hand.received(x["b"]) == [b"first", b"second"]
    hand.sites["b"].cbcast(x["b"], "bank", b"third")
    hand.run(10)
    assert [event.id.counter for event in hand.of(Rejection, x["a"])] == [1, 2]
    hand.cut.add("da")
    hand.crash("b")
    hand.crash("d")
    hand.install("ace")
    hand.run(500)
    assert [hand.views(x[name])[-1] for name in "ace"] == [(x["a"], x["e"], x["c"])] * 3
    assert hand.judge() == []


@pytest.mark.parametrize(
    ("one", "other", "ordered"), [("x", "x", True), ("x", "y", False), (None, None, True), ({}, {}, False)]
)
def test_labels_say_what_waits(one: str | None, other: str | None, ordered: bool) -> None:
    hand = cluster()
    p, q, r = (hand.open(site) for site in "abc")
    hand.cut.add("ab")
    hand.at(p).cbcast(p, [q, r], b"first", one)
    hand.run(5)
    hand.at(r).cbcast(r, [q], b"second", other)
    hand.run(20)
    assert hand.received(q) == ([] if ordered else [b"second"])


def test_the_pool_empties_by_floors() -> None:
    hand = cluster()
    p, q = hand.open("a"), hand.open("b")
    for _ in range(10):
        hand.at(p).cbcast(p, [q], b"x")
    hand.run(5)
    assert len(hand.received(q)) == 10
    hand.run(6_000)
    assert [len(isis.pool) for isis in hand.sites.values()] == [0, 0, 0]
    assert [isis.pool.bytes for isis in hand.sites.values()] == [0, 0, 0]
    assert not hand.sites["a"].own.open
    assert hand.sites["b"].channels.floor_of(0) == 11


def test_an_own_cast_is_open_until_every_destination_is_done_with_it() -> None:
    hand = cluster()
    p, q, r = (hand.open(site) for site in "abc")
    hand.cut = hand.links(to="c")
    hand.at(p).cbcast(p, [q, r], b"x")
    hand.run(50)
    assert len(hand.sites["a"].own.open) == 1
    hand.install("ab")  # the lost count as done
    hand.run(50)
    assert not hand.sites["a"].own.open
    assert hand.sites["a"].own.bytes == 0


# -- queues


def test_a_queue_is_one_order_and_another_label_does_not_wait() -> None:
    hand = cluster()
    p, q = hand.open("a", "bank"), hand.open("b", "bank")
    r = hand.open("c")
    hand.cut.add("ba")
    hand.at(p).abcast(p, "bank", b"x1", "x")
    hand.at(r).abcast(r, [q], b"y1", "y")
    hand.run(20)
    assert hand.received(q) == [b"y1"], "x1 has no final priority: q's site could not answer"
    hand.cut.clear()
    for number in range(5):
        hand.at(p).abcast(p, "bank", b"p%d" % number, "x")
        hand.at(q).abcast(q, "bank", b"q%d" % number, "x")
        hand.run(1)
    hand.run(500)
    assert hand.received(p) == [payload for payload in hand.received(q) if payload != b"y1"]
    assert len(hand.received(p)) == 11


def test_the_oldest_site_takes_over() -> None:
    hand = cluster("abcd")
    members = [hand.open(site, "bank") for site in "abc"]
    outsider = hand.open("d")
    hand.cut = hand.links(to="d")
    hand.at(outsider).abcast(outsider, "bank", b"orphan", "x")
    hand.run(5)
    assert [hand.received(member) for member in members] == [[], [], []]
    hand.cut.clear()
    hand.install("abc")
    hand.run(200)
    assert [hand.received(member) for member in members] == [[b"orphan"]] * 3
    assert [len(hand.sites[site].abcasts.items) for site in "abc"] == [0, 0, 0]


# -- gates


def test_what_any_member_has_received_comes_before_the_gate_everywhere() -> None:
    hand = cluster()
    p, q, r = (hand.open(site, "bank") for site in "abc")
    hand.cut.add("ab")
    hand.at(p).cbcast(p, "bank", b"cast")
    hand.run(3)
    assert hand.received(r) == [b"cast"]
    hand.at(r).gbcast(r, "bank", b"gbcast")
    hand.run(20)
    assert hand.received(r) == [b"cast"], "p's site is not ready: its cast has not arrived"
    hand.cut.clear()
    hand.run(500)
    for member in (p, q, r):
        assert hand.received(member) == [b"cast", b"gbcast"]


def test_the_own_copy_waits_at_a_gate_too() -> None:
    hand = cluster("ab")
    p, q = hand.open("a", "bank"), hand.open("b", "bank")
    hand.at(q).gbcast(q, "bank", b"gbcast")
    hand.run(1)
    assert hand.sites["a"].delivery.locals[p].gates
    hand.at(p).cbcast(p, "bank", b"cast")
    assert hand.received(p) == []
    hand.run(200)
    assert hand.received(p) == hand.received(q)


def test_a_member_casts_nothing_to_a_group_that_grows() -> None:
    hand = cluster("ab")
    p = hand.open("a", "bank")
    hand.cut = hand.links()
    newcomer = hand.sites["b"].open()
    hand.sites["b"].join(newcomer, "bank")
    hand.hold = lambda message, site: isinstance(message, Ready)
    hand.run(1)
    assert any(gate.locks for gate in hand.sites["a"].delivery.locals[p].gates)
    hand.at(p).cbcast(p, "bank", b"cast")
    hand.run(3)
    assert not hand.sites["a"].own.open
    hand.hold = lambda message, site: False
    hand.cut.clear()
    hand.run(500)
    assert hand.received(newcomer) == [b"cast"], "it goes to the view with the newcomer"


def test_one_that_leaves_receives_nothing_more() -> None:
    hand = cluster("ab")
    p, q = hand.open("a", "bank"), hand.open("b", "bank")
    hand.at(q).leave(q, "bank")
    hand.run(100)
    assert hand.of(LeftGroup, q)
    hand.at(p).cbcast(p, "bank", b"late")
    hand.run(100)
    assert hand.received(q) == []
    assert hand.views(p)[-1] == (p,)


def test_failures_of_a_site_are_one_view_of_each_group() -> None:
    hand = cluster()
    p = hand.open("a", "bank", "till")
    lost = [hand.open("c", "bank"), hand.open("c", "bank", "till")]
    hand.take()
    hand.install("ab")
    hand.run(100)
    views = {view.group: view for view in hand.of(ViewShown, p)}
    assert len(hand.of(ViewShown, p)) == 2
    assert views["bank"].lost == tuple(lost)
    assert views["till"].lost == (lost[1],)


def test_a_process_that_dies_is_reported_behind_its_casts() -> None:
    hand = cluster("ab")
    p, q = hand.open("a", "bank"), hand.open("b", "bank")
    hand.take()
    hand.cut = hand.links()
    hand.at(q).cbcast(q, "bank", b"last words")
    hand.at(q).kill(q)
    hand.run(50)
    assert hand.of(Ended, q)
    assert hand.views(p) == []
    hand.cut.clear()
    hand.run(1_000)
    events = [event for event in hand.events["a"] if isinstance(event, Received | ViewShown)]
    assert [type(event).__name__ for event in events] == ["Received", "ViewShown"]


# -- addressing


def test_a_cast_by_an_old_view_is_rejected_by_all_and_goes_out_again() -> None:
    hand = cluster("abcd")
    p = hand.open("a", "bank")
    outsider = hand.open("c")
    hand.cut = hand.links(of="c")
    hand.at(outsider).cbcast(outsider, "bank", b"cast")
    q = hand.open("b", "bank")
    assert hand.views(q)
    hand.cut.clear()
    hand.run(1_000)
    assert [rejection.attempt for rejection in hand.of(Rejection, p)] == [0]
    assert [(event.attempt, event.payload) for event in hand.of(Received, p)] == [(1, b"cast")]
    assert hand.received(q) == [b"cast"]
    assert not hand.sites["c"].own.open


def test_what_follows_an_outsiders_cast_waits_until_that_is_accepted() -> None:
    hand = cluster("abcd")
    p, outsider, other = hand.open("a", "bank"), hand.open("c"), hand.open("d")
    hand.cut = hand.links(to="a")
    hand.at(outsider).cbcast(outsider, "bank", b"first")
    hand.at(outsider).cbcast(outsider, [other], b"second")
    hand.run(20)
    assert hand.received(other) == [], "nobody else sees what follows a cast that may be rejected"
    hand.cut.clear()
    hand.run(1_000)
    assert hand.received(p) == [b"first"]
    assert hand.received(other) == [b"second"]


# -- replies


@pytest.mark.parametrize(("replies", "count"), [(0, 0), (1, 1), (2, 2), (ALL, 3)])
def test_so_many_replies_as_are_asked_for(replies: int, count: int) -> None:
    hand = cluster("abcd")
    members = [hand.open(site, "bank", answers=site == "a") for site in "abc"]
    asker = hand.open("d")
    hand.at(asker).cbcast(asker, "bank", b"?", replies=replies)
    hand.run(50)
    if replies:
        (question,) = hand.of(Received, members[0])
        hand.at(members[0]).reply(members[0], question.id, b"yes")
        hand.run(50)
    answers = hand.of(Answered, asker)
    assert len(answers) == count
    assert {answer.payload for answer in answers} <= {b"", b"yes"}
    assert len(hand.at(asker).calls) == 0


@pytest.mark.parametrize("how", ["same packet", "waits for what precedes it", "failure"])
def test_a_reply_comes_after_what_its_sender_cast_before(how: str) -> None:
    """Also where that is here, and waits for a cast along another way."""
    hand = cluster()
    asker, member, other = hand.open("a"), hand.open("b", answers=True), hand.open("c")
    hand.at(asker).cbcast(asker, [member], b"?", replies=ALL)
    hand.run(5)
    if how != "same packet":
        hand.cut.add("ca")
        hand.at(other).cbcast(other, [asker, member], b"first")
        hand.run(5)
    hand.at(member).cbcast(member, [asker], b"second")
    if how == "failure":
        hand.at(member).kill(member)
    else:
        (question,) = [cast for cast in hand.of(Received, member) if cast.replies]
        hand.at(member).reply(member, question.id, b"yes")
    hand.run(20)
    assert bool(hand.of(Answered, asker)) == (how == "same packet")
    hand.cut.clear()
    hand.run(500)
    seen = [event for event in hand.events["a"] if isinstance(event, Received | Answered | Failed)]
    assert [getattr(event, "payload", None) for event in seen if event.process == asker] == {
        "same packet": [b"second", b"yes"],
        "waits for what precedes it": [b"first", b"second", b"yes"],
        "failure": [b"first", b"second", None],
    }[how]
    assert len(hand.at(asker).calls) == 0


@pytest.mark.parametrize("how", ["killed", "lost"])
def test_a_failure_counts_as_a_reply(how: str) -> None:
    hand = cluster()
    asker, member = hand.open("a"), hand.open("b", "bank", answers=True)
    hand.at(asker).abcast(asker, "bank", b"?", replies=ALL)
    hand.run(50)
    if how == "killed":
        hand.at(member).kill(member)
    else:
        hand.install("ac")
    hand.run(100)
    assert [failed.sender for failed in hand.of(Failed, asker)] == [member]
    assert len(hand.at(asker).calls) == 0


def test_a_flush_returns_when_all_is_everywhere() -> None:
    hand = cluster()
    p, q = hand.open("a"), hand.open("b")
    hand.cut = hand.links(to="b")
    hand.at(p).cbcast(p, [q], b"x")
    hand.at(p).flush(p)
    hand.run(50)
    assert not hand.of(Flushed, p)
    hand.cut.clear()
    hand.run(1_000)
    (flushed,) = hand.of(Flushed, p)
    assert flushed.id is not None
    assert flushed.id.counter == 1


# -- state


def wanted(hand: Hand, member: Process) -> StateWanted:
    return hand.of(StateWanted, member)[-1]


def test_state_comes_in_chunks_and_a_cohort_goes_on() -> None:
    hand = cluster()
    first, second = (hand.open(site, "bank", state=True) for site in "ab")
    want = hand.of(StateWanted, first)[0]
    hand.at(first).give(first, "bank", want.view, want.newcomer, 0, b"empty", True)
    hand.run(50)
    newcomer = hand.open("c", "bank", state=True)
    asked = wanted(hand, first)
    assert (asked.newcomer, asked.first) == (newcomer, 0)
    hand.at(first).give(first, "bank", asked.view, newcomer, 0, b"one", False)
    hand.run(50)
    hand.at(newcomer).cbcast(newcomer, "bank", b"waits")
    hand.install("bc")
    hand.run(100)
    again = wanted(hand, second)
    assert (again.newcomer, again.view, again.first) == (newcomer, asked.view, 1)
    hand.at(second).give(second, "bank", again.view, newcomer, 1, b"two", False)
    hand.at(second).give(second, "bank", again.view, newcomer, 2, b"three", True)
    assert hand.received(second) == []
    hand.run(100)
    assert [chunk.data for chunk in hand.of(StateChunk, newcomer)] == [b"one", b"two", b"three"]
    assert len(hand.of(StateDone, newcomer)) == 1
    assert hand.received(second) == [b"waits"], "nothing is cast during the transfer"


def test_a_transfer_ends_where_nobody_is_left_who_had_the_state() -> None:
    hand = cluster()
    first = hand.open("a", "bank", state=True)
    newcomer = hand.open("b", "bank", state=True)
    assert wanted(hand, first).newcomer == newcomer
    hand.install("bc")
    hand.run(100)
    assert hand.of(StateDone, newcomer)
    hand.at(newcomer).cbcast(newcomer, "bank", b"alone")
    hand.run(10)
    assert hand.received(newcomer) == [b"alone"]
