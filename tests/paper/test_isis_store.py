"""Reliable Communication in the Presence of Failures, sections 4.4, 4.5 and 4.7: what is kept, flush, liveness."""

from random import Random

import pytest
from tests.isis.hand import Hand

from reconvene.isis.events import Flushed
from reconvene.isis.messages import Copy, Offer, Want

# -- 4.4, the associative store


def test_an_id_is_disposable_when_it_is_everywhere() -> None:
    """ "In the CBCAST protocol, an ID becomes DISPOSABLE at a site when the corresponding REM_DESTS field is empty."
    The copies on the way to others are deleted with it."""
    hand = Hand("abc")
    x = hand.begin()
    hand.delay_ms["ac"] = 50
    hand.sites["a"].cbcast(x["a"], [x["c"]], b"far")
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"near")
    hand.run(10)
    assert len(hand.sites["b"].pool) == 2, "far may be needed"
    hand.run(6000)
    assert [len(hand.sites[name].pool) for name in "abc"] == [0, 0, 0]


def test_abcasts_are_forgotten_after_their_commit_is_delivered_everywhere() -> None:
    """ "... the priority information that they saved is discarded automatically when the protocol completes"."""
    hand = Hand("abc")
    x = hand.begin()
    hand.sites["a"].abcast(x["a"], [x["a"], x["b"], x["c"]], b"m")
    hand.run(6000)
    assert [len(hand.sites[name].abcasts.items) for name in "abc"] == [0, 0, 0]


def test_copies_that_come_after_the_id_was_deleted_are_not_delivered() -> None:
    """ "... some care must be taken to ensure that copies of a message will not be received after its ID is deleted."
    Here the origin's floor says what is everywhere; the paper lists sites in DONT_SEND."""
    hand = Hand("abc")
    x = hand.begin()
    hand.sites["a"].cbcast(x["a"], [x["b"], x["c"]], b"m")
    hand.run(3)
    (late,) = hand.records("ab", Copy)
    hand.run(6000)
    hand.sites["c"].here.send(1, late)
    hand.run(100)
    assert hand.received(x["b"]) == [b"m"]


def test_what_is_kept_is_bounded_by_what_is_under_way() -> None:
    """ "... the length of an IDlist will be determined by the number of active broadcasts." """
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    most = 0
    for place in range(600):
        name = "abc"[place % 3]
        hand.sites[name].cbcast(x[name], "bank", bytes(100))
        hand.run(10)
        most = max(most, *[len(site.pool) for site in hand.sites.values()])
    assert len(hand.received(x["a"])) == 600
    assert most < 100


# -- 4.5, flush


def test_flush_sends_what_others_have_cast_and_waits_for_it() -> None:
    """ "... it suffices to schedule all messages in PBUF for transmission and then wait until all have been sent":
    also those of others, on which the caller may depend."""
    hand = Hand("abc")
    x = hand.begin()
    hand.cut.add("ac")
    hand.sites["a"].cbcast(x["a"], [x["b"], x["c"]], b"m")
    hand.run(3)
    hand.sites["b"].flush(x["b"])
    hand.run(10)
    assert any(isinstance(event, Flushed) for event in hand.seen(x["b"]))
    assert hand.received(x["c"]) == [b"m"], "from b"
    assert len(hand.records("bc", Offer)) == len(hand.records("cb", Want)) == 1
    assert hand.judge() == []


def test_what_follows_a_cast_that_may_be_rejected_waits() -> None:
    """ "If flush is invoked for a group address change, a stronger condition is needed, namely, the fact that there
    is no active CBCAST that could still be rejected." Here what follows waits for the verdict of the group."""
    hand = Hand("abcd")
    x = hand.begin(bank="ab")
    hand.delay_ms["ca"] = hand.delay_ms["cb"] = 30
    hand.sites["c"].cbcast(x["c"], "bank", b"may be rejected")
    hand.sites["c"].cbcast(x["c"], [x["d"]], b"follows")
    hand.run(20)
    assert hand.received(x["d"]) == []
    hand.run(50)
    assert hand.received(x["d"]) == [b"follows"]


# -- 4.7, liveness


@pytest.mark.parametrize("seed", range(8))
def test_nothing_waits_for_ever(seed: int) -> None:
    """ "... the protocols given above are free of deadlock and livelock"."""
    random = Random(seed)
    hand = Hand("abcde")
    x = hand.begin(one="abc", two="bcd")
    for place in range(80):
        name = random.choice([other for other in "abcde" if other in hand.sites])
        isis, group, payload = hand.sites[name], random.choice(("one", "two")), b"%d" % place
        hand.delay_ms[name + random.choice("abcde")] = random.choice((0.3, 1, 7))
        match random.randrange(6):
            case 0:
                isis.gbcast(x[name], group, payload)
            case 1:
                isis.abcast(x[name], group, payload, random.choice(("", "q")), causal=random.random() < 0.5)
            case 2:
                isis.flush(x[name])
            case _:
                isis.cbcast(x[name], group, payload, random.choice((None, "x")))
        if place == 40:
            hand.crash("b")
            hand.install("acde")
        if place == 45:
            hand.sites["e"].join(x["e"], "one")
        hand.run(random.choice((0.1, 0.5, 3)))
    hand.run(7000)
    for site in hand.sites.values():
        assert site.step == "isis: idle"
        assert not site.own.open
        for local in site.delivery.locals.values():
            assert not any((local.waiting, local.queues, local.held, local.flushes, local.gates))
    assert hand.judge() == []
