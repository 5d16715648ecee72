"""Deletion of a group: it ends for all its members at one place of the order, and its name can be used again."""

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.isis.events import Answered, IsisEvent, LeftGroup, Received, StateDone, ViewShown
from reconvene.isis.isis import Isis
from reconvene.isis.messages import Announce, Control, Ready


def ends(hand: Hand, process: Process) -> list[IsisEvent]:
    """How it left its groups."""
    return list(hand.of(LeftGroup, process))


def last(process: Process) -> list[IsisEvent]:
    return [LeftGroup(process, "bank", deleted=True)]


@pytest.mark.parametrize("who", "ad")
def test_all_members_leave_and_the_name_is_free(who: str) -> None:
    """A member deletes it, or an outsider."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hand.sites["a"].set_properties(x["a"], "bank", {"mode": b"ro"})
    hand.run()
    number = hand.of(ViewShown, x["b"])[-1].view
    hand.sites[who].delete(x[who], "bank")
    hand.run()
    for name in "abc":
        assert ends(hand, x[name]) == last(x[name])
    with pytest.raises(Rejected, match="no such group"):
        hand.sites["d"].cbcast(x["d"], "bank", b"to nobody")
    hand.join(x["d"], "bank")
    hand.join(x["b"], "bank")
    again = hand.of(ViewShown, x["d"])
    assert [view.ranked for view in again] == [(x["d"],), (x["d"], x["b"])]
    assert again[0].view > number, "numbers of views are not used again"
    assert again[0].properties == {}
    hand.sites["b"].cbcast(x["b"], "bank", b"anew")
    hand.run()
    assert hand.received(x["d"]) == [b"anew"]
    assert hand.judge() == []


def test_what_members_have_cast_comes_first() -> None:
    """c's casts are under way when a deletes the group, and reach b late."""
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    hand.delay_ms["cb"] = 40
    hand.sites["c"].cbcast(x["c"], "bank", b"cast")
    hand.sites["c"].abcast(x["c"], "bank", b"order", "queue")
    hand.turn("c")
    hand.sites["a"].delete(x["a"], "bank")
    hand.run(300)
    for name in "abc":
        seen = [event for event in hand.seen(x[name]) if isinstance(event, Received | LeftGroup)]
        assert sorted(event.payload for event in seen[:-1] if isinstance(event, Received)) == [b"cast", b"order"]
        assert seen[-1] == LeftGroup(x[name], "bank", deleted=True)
    assert hand.judge() == []


def test_what_an_outsider_has_cast_comes_first_too() -> None:
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hand.delay_ms["db"] = 40
    hand.sites["d"].cbcast(x["d"], "bank", b"last", replies=3)
    hand.sites["d"].delete(x["d"], "bank")
    hand.run(300)
    for name in "abc":
        assert hand.received(x[name]) == [b"last"]
        assert ends(hand, x[name]) == last(x[name])
    assert len(hand.of(Answered, x["d"])) == 3
    assert hand.judge() == []


def test_casts_that_come_after_it_reach_nobody() -> None:
    """d's cast arrives behind the end of the group: all drop it, and d's site is done with it."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hand.delay_ms |= {"da": 40, "db": 40, "dc": 40}
    hand.sites["d"].abcast(x["d"], "bank", b"too late")
    hand.turn("d")
    hand.sites["a"].delete(x["a"], "bank")
    hand.run(400)
    assert [hand.received(x[name]) for name in "abc"] == [[]] * 3
    assert not hand.sites["d"].own.open
    assert hand.judge() == []


OTHERS = {
    "another deletion": lambda isis, p: isis.delete(p, "bank"),
    "leave": lambda isis, p: isis.leave(p, "bank"),
    "rank": lambda isis, p: isis.rank(p, "bank", list(reversed(isis.table.groups["bank"].members()))),
    "property": lambda isis, p: isis.set_properties(p, "bank", {"mode": b"rw"}),
    "gbcast": lambda isis, p: isis.gbcast(p, "bank", b"act"),
    "death": lambda isis, p: isis.kill(p),
    "close": lambda isis, p: isis.close(p),
}  # fmt: skip


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_with_another_gbcast_of_the_group(other: str, first: bool) -> None:
    """b asks for something else at the same time; it is announced before the deletion, or after it."""
    hand = Hand("abc")
    x = hand.begin(bank="abc")

    def ask(isis: Isis) -> None:
        OTHERS[other](isis, x["b"])

    if first:
        ask(hand.sites["b"])
        hand.turn("b")
    hand.sites["a"].delete(x["a"], "bank")
    hand.turn("a")
    if not first:
        ask(hand.sites["b"])
    hand.run(200)
    assert ends(hand, x["c"]) == last(x["c"])
    assert not any(isis.table.open for isis in hand.sites.values())
    hand.join(x["c"], "bank")
    hand.join(x["a"], "bank")
    shown = hand.of(ViewShown, x["a"])[-1]
    assert shown.ranked == (x["c"], x["a"])
    assert shown.properties == {}
    if other not in ("death", "close"):
        hand.join(x["b"], "bank")
        hand.sites["b"].cbcast(x["b"], "bank", b"b goes on")
        hand.run()
        assert hand.received(x["a"])[-1] == b"b goes on"
    assert hand.judge() == []


@pytest.mark.parametrize("first", [True, False])
def test_with_a_join(first: bool) -> None:
    """A join before it is a member's, who leaves with the others; one after it begins the group anew."""
    hand = Hand("abc")
    x = hand.begin(bank="ab")
    if first:
        hand.sites["c"].join(x["c"], "bank")
        hand.turn("c")
    hand.sites["a"].delete(x["a"], "bank")
    hand.turn("a")
    if not first:
        hand.sites["c"].join(x["c"], "bank")
    hand.run(200)
    assert ends(hand, x["c"]) == (last(x["c"]) if first else [])
    assert hand.views(x["c"])[-1] == ((x["a"], x["b"], x["c"]) if first else (x["c"],))
    assert hand.judge() == []


@pytest.mark.parametrize("held", [Announce, Ready])
@pytest.mark.parametrize("lost", "abc")
def test_a_site_is_lost_meanwhile(lost: str, held: type[Control]) -> None:
    """The site that asked for it, or another; before its announcement, or before the sites are ready. Those that go
    on agree whether the group has ended."""
    hand = Hand("abcde")
    x = hand.begin(bank="abc", till="bcd")
    hand.sites["c"].cbcast(x["c"], "bank", b"before")
    hand.hold = lambda message, site: isinstance(message, held)
    hand.sites["a"].delete(x["a"], "bank")
    hand.run(5)
    hand.crash(lost)
    hand.hold = lambda message, site: False
    hand.install("abcde".replace(lost, ""))
    hand.run(500)
    standing = [name for name in "abc" if name != lost]
    deleted = held is Ready or lost != "a"
    for name in standing:
        assert ends(hand, x[name]) == (last(x[name]) if deleted else [])
    hand.join(x["e"], "bank")
    joined = hand.views(x["e"])[-1]
    assert joined == ((x["e"],) if deleted else (*[x[name] for name in standing], x["e"]))
    assert hand.judge() == []


def test_a_transfer_ends_with_the_group() -> None:
    hand = Hand("abc", state="abc")
    x = hand.begin(bank="a")
    hand.join(x["b"], "bank")  # and waits for its state
    hand.sites["c"].delete(x["c"], "bank")
    hand.run()
    assert ends(hand, x["b"]) == last(x["b"])
    assert not hand.of(StateDone, x["b"])
    assert {isis.step for isis in hand.sites.values()} == {"isis: idle"}
    with pytest.raises(Rejected, match="nobody wants"):
        hand.sites["a"].give(x["a"], "bank", 2, x["b"], 0, b"", True)
    hand.join(x["b"], "bank")
    hand.sites["b"].cbcast(x["b"], "bank", b"no transfer")
    hand.run()
    assert hand.received(x["b"]) == [b"no transfer"]
    assert hand.judge() == []


def test_what_can_not_be_deleted() -> None:
    hand = Hand("abc")
    x = hand.begin(bank="a")
    with pytest.raises(Rejected, match="'till': there is no such group"):
        hand.sites["a"].delete(x["a"], "till")
    hand.sites["a"].leave(x["a"], "bank")
    hand.run()
    with pytest.raises(Rejected, match="'bank': there is no such group"):
        hand.sites["a"].delete(x["a"], "bank")
    hand.install("a")
    with pytest.raises(Unavailable, match="primary component"):
        hand.sites["a"].delete(x["a"], "bank")


# -- groups that remember who failed last


def lasting(hand: Hand, name: str) -> Process:
    process = hand.sites[name].open()
    hand.sites[name].join(process, "bank", last_to_fail=True)
    hand.run(60)
    return process


def test_who_failed_last_does_not_matter_any_more() -> None:
    """c is down when the group is deleted: what it has stored counts for nothing when it is back."""
    hand = Hand("abc")
    hand.install("abc")
    for name in "abc":
        lasting(hand, name)
    hand.crash("c")
    hand.install("ab")
    hand.run(60)
    outsider = hand.open("a")
    hand.sites["a"].delete(outsider, "bank")
    hand.run(60)
    assert [hand.sites[name].stored.of("bank") for name in "ab"] == [None, None]
    hand.start("c")
    assert hand.sites["c"].stored.of("bank") is not None
    hand.install("abc")
    hand.run(60)
    newcomer = lasting(hand, "c")
    assert hand.views(newcomer) == [(newcomer,)]


def test_those_that_wait_for_the_last_to_fail_begin_anew() -> None:
    hand = Hand("abc")
    hand.install("abc")
    for name in "abc":
        lasting(hand, name)
    for name in "abc":
        hand.restart(name)
    hand.install("ab")
    waiting = [lasting(hand, name) for name in "ab"]
    assert [hand.views(process) for process in waiting] == [[], []], "c may have gone on without them"
    outsider = hand.open("a")
    hand.sites["a"].delete(outsider, "bank")
    hand.run(100)
    assert [hand.views(process)[-1] for process in waiting] == [tuple(waiting)] * 2
