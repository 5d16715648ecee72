"""A cast that several sites offer crosses once: it is fetched from one of them.

a's cast reaches all but e; a is lost. b, c and d offer it to e.
"""

from tests.isis.hand import Hand

from reconvene.isis.messages import Copy, Offer, Want


def offered(hand: Hand) -> None:
    hand.cut.add("ae")
    hand.run(3)
    hand.crash("a")
    hand.packets.clear()


def count(hand: Hand, kind: type[Copy] | type[Offer] | type[Want], links: set[str]) -> int:
    return sum(len(hand.records(link, kind)) for link in links)


def test_it_is_wanted_from_the_first_that_offers_it() -> None:
    hand = Hand("abcde")
    x = hand.begin(bank="abcde")
    hand.sites["a"].cbcast(x["a"], "bank", b"B")
    offered(hand)
    hand.install("bcde")
    hand.run(100)
    to_e = {"be", "ce", "de"}
    assert count(hand, Offer, to_e) == 3
    assert count(hand, Want, {"eb", "ec", "ed"}) == 1
    assert count(hand, Copy, to_e) == 1
    assert hand.received(x["e"]) == [b"B"]
    assert hand.judge() == []


def test_another_is_asked_if_that_one_is_lost() -> None:
    """d's offer comes first; what d sends for it does not come. Then d is lost too."""
    hand = Hand("abcdefg")
    x = hand.begin(bank="abcde")
    hand.sites["a"].cbcast(x["a"], "bank", b"B")
    offered(hand)
    hand.delay_ms |= {"be": 5.0, "ce": 5.0}
    hand.install("bcdefg")
    while not hand.records("ed", Want):
        hand.run(0.25)
        assert not hand.records("eb", Want)
    hand.cut.add("de")
    hand.run(20)
    assert [len(hand.records(link, Want)) for link in ("eb", "ec", "ed")] == [0, 0, 1]
    assert hand.received(x["e"]) == []
    hand.crash("d")
    hand.install("bcefg")
    hand.run(300)
    assert hand.received(x["e"]) == [b"B"]
    assert hand.judge() == []
    assert not len(hand.sites["e"].pool._offers)
