"""The seam for several clusters (4.6): a site of another cluster gets casts directly, after the local ones."""

import pytest
from tests.isis.hand import Hand

from reconvene.core.effects import Changed, ConfKind, Used
from reconvene.core.groups.events import Process
from reconvene.errors import Rejected
from reconvene.isis.events import ALL, Answered
from reconvene.isis.here import Born
from reconvene.isis.messages import Copy, Stub
from reconvene.site_list import first_list

FAR = 4
"""Site e, a cluster of its own."""


def clusters() -> tuple[Hand, dict[str, Process]]:
    """a to d are one cluster. They and e have met."""
    hand = Hand("abcde")
    hand.install("abcd")
    far = hand.sites["e"]
    alone = Changed(ConfKind.REGULAR, "e", (FAR,), sites=first_list(5))
    far.take([alone, Used(7, "e", (FAR,), (), {FAR: far.brings()})], hand.now)
    for site, name in enumerate("abcd"):
        hand.sites[name].meet(FAR, Born(7, 1, 1, 1), hand.now)
        far.meet(site, Born(1, 1, 1, 1), hand.now)
    hand.run()
    return hand, {name: hand.open(name) for name in "abcde"}


def test_it_crosses_once_it_has_arrived_here() -> None:
    hand, x = clusters()
    hand.cut.add("ab")
    hand.sites["a"].cbcast(x["a"], [x["e"], x["b"]], b"first")
    hand.sites["a"].cbcast(x["a"], [x["e"]], b"second")
    hand.run(100)
    assert hand.received(x["e"]) == [], "b has not got it: nobody elsewhere gets it, nor what follows"
    hand.cut.clear()
    hand.run(2_000)
    assert hand.received(x["b"]) == [b"first"]
    assert hand.received(x["e"]) == [b"first", b"second"]
    assert not hand.sites["a"].own.open


def test_a_lost_local_destination_holds_up_nothing() -> None:
    hand, x = clusters()
    hand.cut |= hand.links(to="b")
    hand.sites["a"].cbcast(x["a"], [x["e"], x["b"]], b"cast")
    hand.run(20)
    hand.install("acd")
    hand.run(500)
    assert hand.received(x["e"]) == [b"cast"]


def test_what_does_not_concern_it_does_not_cross() -> None:
    """b's cast precedes a's, and goes to c alone: within the cluster it goes along with a's, not to e."""
    hand, x = clusters()
    hand.cut.add("bc")
    hand.sites["b"].cbcast(x["b"], [x["a"], x["c"]], b"near")
    hand.run(5)
    hand.sites["a"].cbcast(x["a"], [x["e"]], b"far")
    hand.run(100)
    assert [copy.payload for copy in hand.records("ae", Copy)] == [b"far"]
    assert hand.received(x["e"]) == [b"far"]


def test_causes_that_are_addressed_to_it_come_first() -> None:
    """b sends its cast there itself; a's only names it, and waits for it there."""
    hand, x = clusters()
    hand.cut.add("be")
    hand.sites["b"].cbcast(x["b"], [x["a"], x["e"]], b"cause")
    hand.run(20)
    hand.sites["a"].cbcast(x["a"], [x["e"]], b"effect")
    hand.run(100)
    assert len(hand.records("ae", Stub)) == 1
    assert hand.received(x["e"]) == []
    hand.cut.clear()
    hand.run(2_000)
    assert hand.received(x["e"]) == [b"cause", b"effect"]


def test_replies_come_back() -> None:
    hand, x = clusters()
    hand.sites["a"].cbcast(x["a"], [x["b"], x["e"]], b"?", replies=ALL)
    hand.run(100)
    assert {answer.sender for answer in hand.of(Answered, x["a"])} == {x["b"], x["e"]}


def test_an_abcast_stays_in_its_cluster() -> None:
    hand, x = clusters()
    with pytest.raises(Rejected, match="another cluster"):
        hand.sites["a"].abcast(x["a"], [x["b"], x["e"]], b"order")
