"""The model catches a channel with a fault: each of these is planted, and found."""

from collections.abc import Callable

import pytest
from tests.core.intersite.network import MS, Network

from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.intersite.receiver import Receiver
from reconvene.core.intersite.sender import Flight, Sender
from reconvene.wire.messages import Packet

Plant = Callable[[pytest.MonkeyPatch], None]


def converse(seed: int) -> None:
    network = Network(2, ChannelLimits(packet_bytes=300, record_bytes=5_000, buffer_bytes=20_000), seed)
    network.loss = network.doubled = 0.2
    network.delay_ns = lambda: network.random.randrange(1, 5 * MS)
    for place in range(100):
        network.send(0, 1, b"%d" % place * network.random.choice([1, 50, 500]))
        network.turn(0)
        network.run_for(1)
    network.settle(20_000)


def taken_twice(patch: pytest.MonkeyPatch) -> None:
    receive = Receiver.receive

    def again(self: Receiver, packet: Packet) -> list[tuple[int, bytes]]:
        if packet.seq == self.got and packet.records:
            self.got -= 1
        return receive(self, packet)

    patch.setattr(Receiver, "receive", again)


def over_gaps(patch: pytest.MonkeyPatch) -> None:
    receive = Receiver.receive

    def ahead(self: Receiver, packet: Packet) -> list[tuple[int, bytes]]:
        self.got = max(self.got, packet.seq - 1)
        return receive(self, packet)

    patch.setattr(Receiver, "receive", ahead)


def never_again(patch: pytest.MonkeyPatch) -> None:
    nothing: list[Flight] = []
    patch.setattr(Sender, "lost", lambda self, now: nothing)


def acks_too_much(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Receiver, "gaps", property(lambda self: 1 if self._early else 0))


def fragments_mixed(patch: pytest.MonkeyPatch) -> None:
    accept = Receiver._accept

    def drops(self: Receiver, packet: Packet, found: list[tuple[int, bytes]]) -> bool:
        if packet.part == 2:
            del self._begun[0]
        return accept(self, packet, found)

    patch.setattr(Receiver, "_accept", drops)


def test_without_a_fault_it_passes() -> None:
    for seed in range(5):
        converse(seed)


@pytest.mark.parametrize("plant", [taken_twice, over_gaps, never_again, acks_too_much, fragments_mixed])
def test_a_planted_fault_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    caught = 0
    for seed in range(5):
        try:
            converse(seed)
        except AssertionError:
            caught += 1
    assert caught > 0
