"""What is decided of an ABCAST stays decided: before a site adopts a site view, and before a process sees a view,
every destination knows the place of all that was received before. A takeover decides every attempt that is somewhere.
"""

import pytest
from tests.isis.hand import Hand

from reconvene.isis.abcast import Abcasts
from reconvene.isis.messages import Decided, Ready


def lost_after_a_site_view(hand: Hand) -> None:
    """a has received its own ABCAST by b's priority, and nobody has heard of its COMMIT. a and b see that e is lost,
    and are lost then."""
    x = hand.begin()
    hand.sites["b"].here.seen(90)
    hand.sites["a"].abcast(x["a"], [x["a"], x["b"], x["c"]], b"m")
    hand.run(1.5)
    hand.cut |= {"ab", "ac"}
    hand.run(5)
    assert hand.received(x["a"]) == [b"m"]
    assert hand.received(x["c"]) == []
    hand.crash("e")
    hand.install("abcd")
    hand.run(10)
    hand.crash("a")
    hand.crash("b")
    hand.start("e")
    hand.install("cde")
    hand.run(500)
    assert hand.received(x["c"]) == [b"m"]


def test_a_place_outlives_those_who_knew_it_when_the_site_view_changed() -> None:
    hand = Hand("abcde")
    lost_after_a_site_view(hand)
    assert hand.judge() == []


def test_it_does_not_if_they_tell_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Abcasts, "learn", lambda self, decided: None)
    hand = Hand("abcde")
    lost_after_a_site_view(hand)
    assert hand.judge() == ["isis.abcast"]


def lost_after_a_view(hand: Hand) -> None:
    """b has received a's ABCAST by e's priority, and c has not heard of the COMMIT. b sees a view of its own group;
    then all who know the place are lost."""
    x = hand.begin(till="b")
    hand.sites["e"].here.seen(90)
    hand.sites["a"].abcast(x["a"], [x["b"], x["c"], x["e"]], b"m")
    hand.run(1.5)
    hand.cut |= {"ac", "ec"}
    hand.run(5)
    assert hand.received(x["b"]) == [b"m"]
    assert hand.received(x["c"]) == []
    hand.sites["b"].rank(x["b"], "till", [x["b"]])
    hand.run(20)
    assert len(hand.views(x["b"])) == 2
    for name in "abe":
        hand.crash(name)
    for name in "abe":
        hand.start(name)
    hand.line = dict.fromkeys("cd", 1)
    hand.install("abcde")
    hand.run(500)
    assert hand.received(x["c"]) == [b"m"]


def test_a_place_outlives_those_who_knew_it_when_a_view_was_shown() -> None:
    hand = Hand("abcde")
    lost_after_a_view(hand)
    assert hand.judge() == []


def test_it_does_not_if_the_view_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Abcasts, "settle", lambda self, process: True)
    hand = Hand("abcde")
    lost_after_a_view(hand)
    assert hand.judge() == ["isis.abcast"]


def test_many_are_told_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconvene.isis.abcast._TOLD_TOGETHER", 3)
    hand = Hand("abc")
    x = hand.begin()
    hand.cut.add("ca")  # nothing is released, so all are kept
    for place in range(7):
        hand.sites["a"].abcast(x["a"], [x["a"], x["b"]], b"%d" % place)
    hand.run(20)
    told = list(hand.sites["b"].abcasts.decided(9))
    assert [(len(message.casts), message.last) for message in told] == [(3, False), (3, False), (1, True)]
    assert list(hand.sites["c"].abcasts.decided(9)) == [Decided(9, [], True)]


def test_a_takeover_decides_every_attempt_that_is_somewhere() -> None:
    """d's ABCAST to a group that grows is rejected by e, and goes out again, to b too. a has the first attempt only,
    without its place; then d is lost."""
    hand = Hand("abcde")
    x = hand.begin(bank="ae")
    hand.hold = lambda message, site: site == "b" and isinstance(message, Ready)
    hand.sites["b"].join(x["b"], "bank")
    hand.run(10)
    hand.sites["d"].abcast(x["d"], "bank", b"m")
    hand.run(1.5)
    hand.cut.add("da")
    hand.run(5)
    hand.hold = lambda message, site: False
    hand.run(10)
    places = [[(i.ask.attempt, i.final) for i in hand.sites[name].abcasts.items.values()] for name in "abe"]
    assert places[0] == [(0, False)]
    assert places[1] == places[2] == [(1, False)]
    hand.crash("d")
    hand.install("abce")
    hand.run(200)
    assert [hand.received(x[name]) for name in "abe"] == [[b"m"]] * 3
    assert not any(isis.change.active for isis in hand.sites.values())
    assert hand.judge() == []
