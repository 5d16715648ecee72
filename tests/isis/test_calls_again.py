"""Replies to casts that are rejected and go out again."""

import pytest
from tests.isis.hand import Hand

from reconvene.isis.events import ALL, Answered, CallOver, Cast, Failed, Flushed, Rejection
from reconvene.isis.messages import Announce


def test_a_failure_is_told_once_also_where_the_cast_goes_out_again() -> None:
    hand = Hand("abc")
    hand.install("abc")
    hand.run()
    dying = hand.open("b", "bank")
    member = hand.open("c", "bank")
    asker = hand.open("a")
    newcomer = hand.open("a")
    hand.cut.add("ac")
    hand.at(newcomer).join(newcomer, "bank")
    hand.run(1)  # announced, and all are ready
    hand.at(asker).cbcast(asker, "bank", b"which", replies=2)
    hand.hold = lambda message, site: isinstance(message, Announce)  # no view without the dead one yet
    hand.at(dying).kill(dying)  # its site gets the cast after that
    hand.run(1)
    assert hand.views(member)[-1] == (dying, member, newcomer)
    hand.run(5)
    hand.cut.clear()
    hand.run(300)
    hand.hold = lambda message, site: False
    hand.run(300)
    casts = hand.of(Cast, asker)
    assert [(cast.attempt, cast.to) for cast in casts] == [(0, (dying, member)), (1, (dying, member, newcomer))]
    assert [event.sender for event in hand.of(Failed, asker)] == [dying]
    assert len(hand.of(Answered, asker)) == 1, "the failure counted as one of two"


@pytest.mark.parametrize("another_waits", [False, True])
def test_a_call_ends_where_all_that_rejected_it_are_gone(another_waits: bool) -> None:
    """One leaves, one dies, one is lost with its site, and the newcomer because of which they rejected it leaves.
    `another_waits`: a process waits to join the group until those that failed last are back."""
    hand = Hand("abcdef")
    hand.install("abcdef")
    hand.run()
    leaving, lost, dying = hand.open("b", "bank"), hand.open("d", "bank"), hand.open("c")
    hand.at(dying).join(dying, "bank", last_to_fail=True)
    hand.run()
    asker, newcomer = hand.open("a"), hand.open("e")
    hand.delay_ms |= dict.fromkeys(hand.links(of="a", to="bcd"), 20)
    hand.delay_ms |= dict.fromkeys(hand.links(of="bcd", to="a"), 200)
    hand.at(newcomer).join(newcomer, "bank")
    hand.run(1)
    hand.at(asker).cbcast(asker, "bank", b"who", replies=ALL)
    hand.run(30)
    assert all(hand.of(Rejection, process) for process in (leaving, dying, lost))
    hand.at(leaving).leave(leaving, "bank")
    hand.at(newcomer).leave(newcomer, "bank")
    hand.run(10)
    hand.at(dying).kill(dying)
    hand.crash("d")
    hand.install("abcef")
    hand.run(100)
    assert hand.of(CallOver, asker) == [], "nobody has said yet that it rejects the cast"
    hand.delay_ms.clear()
    if another_waits:
        another = hand.open("f")
        hand.at(another).join(another, "bank", last_to_fail=True)
    hand.at(asker).flush(asker)
    hand.run(1_000)
    assert [cast.attempt for cast in hand.of(Cast, asker)] == [0]
    assert {event.sender for event in hand.of(Failed, asker)} == {dying, lost}
    assert len(hand.of(CallOver, asker)) == len(hand.of(Flushed, asker)) == 1
    assert not hand.sites["a"].own.open
    assert another_waits == bool(hand.sites["a"].table.groups["bank"].waiting)
    assert another_waits or hand.judge() == [], "a join that waits is not live yet"
