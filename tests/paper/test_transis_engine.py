"""The Transis Approach, "A High-Performance Reliable Multicast Engine" and its sidebar: the principles, in sites."""

import pytest
from tests.core.hand import MS, Hand, Packet

from reconvene.core.options import Limits, Options
from reconvene.ids import Service
from reconvene.wire.messages import Alive, Frame, Nack

KINDS = (Frame, Alive, Nack)


@pytest.fixture
def sent() -> list[Packet]:
    return []


def started(names: str, sent: list[Packet], **limits: int) -> Hand:
    hand = Hand(names, Options(limits=Limits(**limits)))
    hand.wait_together()
    hand.run(300)
    hand.on_send = lambda packet: sent.append(packet) if isinstance(packet.datagram, KINDS) else None
    return hand


def of(sent: list[Packet], kind: type) -> list[Packet]:
    return [packet for packet in sent if isinstance(packet.datagram, kind)]


def test_nothing_is_sent_again_unless_it_is_asked_for(sent: list[Packet]) -> None:
    hand = started("abc", sent)
    for turn in range(20):
        hand.submit("abc"[turn % 3], Service.FIFO, b"x")
        hand.run(10)
    hand.run(500)
    frames = [(packet.to, packet.data) for packet in of(sent, Frame)]
    assert len(frames) == len(set(frames)) == 40
    assert not of(sent, Nack)


def test_acknowledgments_ride_on_frames(sent: list[Packet]) -> None:
    """While both send, no datagram is only an acknowledgment."""
    hand = started("ab", sent)
    for turn in range(20):
        hand.submit("ab"[turn % 2], Service.FIFO, b"x")
        hand.run(5)
    assert not of(sent, Alive)
    acks = [packet.datagram.acks for packet in of(sent, Frame) if isinstance(packet.datagram, Frame)]
    assert sum(bool(one) for one in acks) == 19


def test_an_idle_machine_acknowledges_after_a_time(sent: list[Packet]) -> None:
    hand = started("ab", sent)
    begin = hand.now
    hand.submit("a", Service.FIFO, b"x")
    hand.until(lambda: bool(of(sent, Alive)))
    assert of(sent, Alive)[0].source == "b"
    assert hand.now - begin == hand.options.timing.ack_after_ns + 1 * MS
    count = len(sent)
    hand.run(2_000)
    assert len(sent) == count, "and then there is silence"


def test_a_loss_is_found_by_reference(sent: list[Packet]) -> None:
    """d misses a's frame, and notices as soon as b's next frame names it: a itself sends nothing more."""
    hand = started("abcd", sent)
    hand.lose.append(lambda packet: packet.kind == "frame" and packet.source == "a" and packet.to == "d")
    hand.submit("a", Service.FIFO, b"x")
    hand.lose.clear()
    hand.run(2)
    assert not of(sent, Nack)
    hand.submit("b", Service.FIFO, b"y")
    hand.until(lambda: hand.delivered("d") == [b"x", b"y"], ms=10)
    (nack,) = of(sent, Nack)
    assert (nack.source, nack.to) == ("d", "a")


def test_a_frame_after_a_causal_hole_is_neither_delivered_nor_acknowledged(sent: list[Packet]) -> None:
    hand = started("abcd", sent)
    hand.lose += [
        lambda packet: packet.kind == "frame" and packet.source == "c" and packet.to == "a",
        lambda packet: packet.kind == "nack",
    ]
    hand.submit("c", Service.FIFO, b"C.1")
    hand.run(2)
    hand.submit("d", Service.FIFO, b"D.1")
    hand.run(2)
    hand.submit("a", Service.FIFO, b"A.1")
    assert hand.delivered("a") == [b"A.1"]
    frame = of(sent, Frame)[-1].datagram
    assert isinstance(frame, Frame)
    assert frame.acks == []
    hand.lose.clear()
    hand.run(200)
    assert hand.delivered("a") == [b"A.1", b"C.1", b"D.1"]


def unstable_bytes(sent: list[Packet]) -> list[list[int]]:
    """Three members that send as much as they can: what each has in flight, after each event."""
    hand = started("abc", sent, buffer_bytes=20_000, frame_bytes=1_000)
    for name in "abc":
        for _ in range(60):
            hand.sites[name].submit(Service.FIFO, b"x" * 900, hand.now)
    for name in "abc":
        hand.flush(name)
    seen: list[list[int]] = []
    while len(hand.delivered("c")) < 180:
        assert hand.step(hand.now + 5_000 * MS)
        multicasts = [site.current.multicast for site in hand.sites.values()]
        seen.append([(m.received[m.rank] - m.stable[m.rank]) * 900 for m in multicasts])
    return seen


def test_nobody_has_more_under_way_than_the_smallest_buffer_takes(sent: list[Packet]) -> None:
    assert max(map(max, unstable_bytes(sent))) <= 20_000 * 9 // 20
    assert not of(sent, Nack)


def test_the_window_is_the_whole_networks(sent: list[Packet]) -> None:
    """A network sliding window: all members' unstable frames together fit it."""
    assert max(map(sum, unstable_bytes(sent))) <= 20_000 * 9 // 20
