"""Packets of channels go through the site untouched; a site whose channel stands still can be suspected."""

from tests.core.hand import MS
from tests.stack.hand_stacks import HandStacks
from tests.stack.wired import alone

from reconvene.core.effects import ConfKind
from reconvene.wire.codec import encode
from reconvene.wire.messages import Beacon, Packet


def packet(site: int, seq: int = 1) -> Packet:
    return Packet(site, 5, 6, seq, 0, 0, 0, 0, 0, 0, 0, 0, records=[b"x"])


def test_packets_are_handed_up_in_order() -> None:
    hand = HandStacks("ab")
    for seq in (1, 2):
        hand.sites["a"].receive(encode(packet(1, seq)), hand.now)
    hand.flush("a")
    assert hand.layers["a"].packets == [packet(1, 1), packet(1, 2)]
    hand.flush("a")
    assert len(hand.layers["a"].packets) == 2


def test_packets_of_no_other_site_are_malformed() -> None:
    hand = HandStacks("ab")
    for site in (0, 2, 63):
        hand.receive("a", encode(packet(site)))
    assert hand.layers["a"].packets == []
    assert hand.sites["a"].counters.malformed == 3


def test_a_turn_takes_a_bounded_number() -> None:
    hand = HandStacks("ab")
    for seq in range(5_000):
        hand.sites["a"].receive(encode(packet(1, seq)), hand.now)
    hand.flush("a")
    assert [packet.seq for packet in hand.layers["a"].packets] == list(range(4_096))
    assert hand.sites["a"].counters.overflow == 5_000 - 4_096
    hand.receive("a", encode(packet(1, 7)))
    assert len(hand.layers["a"].packets) == 4_097


def test_packets_that_nobody_takes_are_dropped() -> None:
    stack = alone()
    stack.site.changes.hearing.sites = 2
    stack.receive(encode(packet(1)), 1)
    stack.flush(1, 1)
    assert stack.site.counters.stale == 1
    assert stack.site.take_packets() == []


def test_a_packet_is_a_sign_of_life_of_a_member() -> None:
    hand = HandStacks("ab")
    hand.settle()
    hand.lose.append(lambda sent: sent.source == "b")
    for _ in range(100):
        hand.run(20)
        hand.receive("a", encode(packet(1)))
    assert hand.members("a") == "ab"
    hand.run(2_000)
    assert hand.members("a") == "a"
    for _ in range(10):
        hand.run(20)
        hand.receive("a", encode(packet(1)))
    assert not hand.sites["a"].changes.hearing.hears(1), "of a site that is no member it shows nothing"


def test_a_suspected_site_is_left_out_and_comes_back() -> None:
    hand = HandStacks("abc")
    hand.settle()
    at = hand.now
    hand.layers["a"].to_suspect = [2]
    hand.flush("a")
    assert not hand.sites["a"].changes.hearing.hears(2), "in the same turn"
    hand.until(lambda: hand.members("a") != "abc", 1_000)
    assert hand.now - at < 500 * MS, "sooner than silence would do it"
    assert not {"a", "c"} <= set(hand.members("a"))
    hand.settle()
    assert hand.now - at < 5_000 * MS
    (without,) = {layer.story[-1] for layer in hand.layers.values()}
    assert without in ("used abc by ab", "used abc by bc"), "one of the two was outside meanwhile"


def test_a_site_that_is_not_heard_is_not_suspected_again() -> None:
    hand = HandStacks("abc")
    hand.settle()
    before = len(hand.changes("a", ConfKind.REGULAR))
    assert not hand.stacks["a"].site.suspect(0, hand.now), "never itself"
    assert hand.stacks["a"].site.suspect(2, hand.now)
    assert not hand.stacks["a"].site.suspect(2, hand.now)
    hand.until(lambda: len(hand.changes("a", ConfKind.REGULAR)) > before)
    hand.settle()


def test_a_site_that_cannot_be_reached_stays_out() -> None:
    hand = HandStacks("abc")
    hand.settle()
    hand.partition("ab", "c")
    hand.layers["a"].to_suspect = [2]
    hand.flush("a")
    hand.settle("ab")
    hand.run(3_000)
    assert {hand.members(name) for name in "ab"} == {"ab"}
    assert {hand.layers[name].story[-1] for name in "ab"} == {"used ab by ab"}


def test_a_beacon_does_not_bring_a_suspected_site_back_at_once() -> None:
    hand = HandStacks("abc")
    hand.settle()
    hand.stacks["a"].site.suspect(2, hand.now)
    heard: list[bool] = []
    hand.on_send = lambda sent: heard.append(
        sent.source == "c" and isinstance(sent.datagram, Beacon) and hand.sites["a"].changes.hearing.hears(2)
    )
    hand.run(900)
    assert heard
    assert not any(heard)
