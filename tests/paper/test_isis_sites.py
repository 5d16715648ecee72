"""Reliable Communication in the Presence of Failures, sections 4.1 (monitoring) and 4.2: site views."""

import pytest
from tests.isis.hand import Hand

from reconvene.isis.events import ALL, Answered, Failed, Killed, SiteAdopted

# -- 4.1, the monitoring service (channels: test_isis_intersite)


@pytest.mark.parametrize("end", ["kill", "crash"])
def test_a_reply_is_delivered_before_the_failure_of_its_sender(end: str) -> None:
    """ "... any reply sent by the failed process will be delivered before failure messages are generated for it"."""
    hand = Hand("abc", answers="b")
    x = hand.begin()
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"one", replies=ALL)
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"two", replies=ALL)
    hand.run(3)
    one, _two = hand.sites["b"].delivery.locals[x["b"]].owed
    hand.delay_ms["ba"] = 30
    hand.sites["b"].reply(x["b"], one, b"done")
    hand.turn("b")
    if end == "kill":
        hand.sites["b"].kill(x["b"])
    else:
        hand.run(31)
        hand.crash("b")
        hand.install("ac")
    hand.run(300)
    ends = [event for event in hand.seen(x["a"]) if isinstance(event, Answered | Failed)]
    assert [(type(event), event.sender) for event in ends] == [(Answered, x["b"]), (Failed, x["b"])]
    assert hand.judge() == []


# -- 4.2, site view management


def adopted(hand: Hand, name: str) -> list[tuple[tuple[int, int], ...]]:
    return [event.members for event in hand.events[name] if isinstance(event, SiteAdopted)]


def come_and_go(hand: Hand) -> None:
    hand.install("abcde")
    hand.run()
    hand.crash("b")
    hand.install("acde")
    hand.run()
    hand.start("b")
    hand.install("abcde")
    hand.run()
    hand.install("abc")  # the others are cut off
    hand.run()
    hand.install("de")
    hand.run()
    hand.install("abcde")
    hand.run()


def test_each_operational_site_goes_through_the_same_sequence_of_site_views() -> None:
    hand = Hand("abcde")
    come_and_go(hand)
    whole = adopted(hand, "a")
    assert len(whole) == 5
    for name in "bcde":
        mine = adopted(hand, name)
        assert [view for view in whole if view in mine] == mine
    assert hand.judge() == []


def test_sites_are_ordered_by_the_view_in_which_they_became_operational() -> None:
    """ "The sites in a view can be ordered uniquely according to the view in which they first became operational,
    with ties broken by site ID. The oldest site in this ordering is called the view manager". Here it tells newcomers
    the table of groups; if it fails, the next one does."""
    hand = Hand("abc")
    hand.install("bc")
    hand.run()
    hand.install("abc")
    hand.run()
    view = hand.sites["a"].here.view
    assert view is not None
    assert view.oldest([0, 1, 2]) == 1
    assert view.oldest([0, 2]) == 2
    hand.crash("b")
    hand.install("ac")
    hand.run()
    hand.start("b")
    hand.install("abc")
    hand.run()
    view = hand.sites["b"].here.view
    assert view is not None
    assert view.oldest([0, 1, 2]) == 2


def test_a_site_that_was_taken_for_failed_is_killed() -> None:
    """ "Such a site is said to be killed, as it is forced to undergo recovery with a new incarnation number." """
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    hand.install("bc")  # a is slow, and does not notice
    hand.run(20)
    hand.install("abc")
    hand.run(200)
    # a was in the last used configuration as far as it knows, but the others have gone on.
    assert (0, 1) not in adopted(hand, "b")[-1]
    assert [event.was for event in hand.events["a"] if isinstance(event, Killed)] == [x["a"]]
    assert hand.judge() == []


def test_view_managers_that_contradict_each_other() -> None:
    """ "... it is possible for a site a to believe that a site b has failed, for b to believe that a has failed ...
    In this situation, one or both will be killed". Without a majority: both, as far as anyone can tell."""
    hand = Hand("abcd")
    x = hand.begin(bank="ab")
    hand.install("ac")
    hand.install("bd")
    hand.run()
    hand.install("abcd")
    hand.run()
    killed = {event.was for name in "ab" for event in hand.events[name] if isinstance(event, Killed)}
    assert killed <= {x["a"], x["b"]}
    assert hand.judge() == []


def test_below_a_quorum_sites_cease_to_operate() -> None:
    """Footnote 3: "erroneous actions can be prevented by requiring that sites cease to operate if the number of
    operational sites in a view drops below a quorum"."""
    hand = Hand("abcde")
    hand.begin(bank="abcde")
    count = len(adopted(hand, "a"))
    hand.install("ab")
    hand.run()
    assert hand.sites["a"].blocked
    assert len(adopted(hand, "a")) == count


def test_a_gbcast_that_is_open_when_a_site_comes_back_is_concluded() -> None:
    """ "... the site view should not grow to include recovered sites while these protocols are running ... by
    introducing locks": here there are none. What is open is told to the newcomer with the table."""
    hand = Hand("abcd")
    hand.install("abc")
    hand.run()
    x = {name: hand.open(name) for name in "abc"}
    for name in "abc":
        hand.join(x[name], "bank")
    hand.hold = lambda message, site: site == "c"
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(10)
    hand.hold = lambda message, site: False
    hand.install("abcd")
    hand.run(100)
    assert [hand.received(x[name]) for name in "abc"] == [[b"act"]] * 3
    assert hand.sites["d"].table.open == []
    assert hand.judge() == []
