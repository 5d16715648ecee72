"""No packet makes a site's channels raise an error, break an invariant, use unbounded memory, or take a record twice.

Malformed packets are counted, and not acknowledged.
"""

from random import Random

import msgspec
import pytest
from tests.core.intersite.network import MS, Network
from tests.wire.hostile import HUGE, weight

from reconvene.core.intersite.channels import Channels
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.multicast.packing import FRAGMENT, LAST, WHOLE
from reconvene.wire.messages import Packet

LIMITS = ChannelLimits(packet_bytes=500, record_bytes=8_000, buffer_bytes=20_000)


def busy(seed: int) -> Network:
    """Two sites in the middle of a conversation, with losses."""
    network = Network(3, LIMITS, seed, marks=False)
    network.loss = 0.3
    for turn in range(30):
        network.send(turn % 2, 1 - turn % 2, bytes(network.random.choice([10, 400, 3_000])))
        network.turn(turn % 2)
        network.run_for(1)
    return network


class Liar:
    """Makes well-formed packets to site 0 with contents near the truth, or far from it."""

    def __init__(self, network: Network, random: Random) -> None:
        self.random = random
        self.sender = network.sites[0]._channels[1].sender
        self.receiver = network.sites[0]._channels[1].receiver

    def near(self, *values: int) -> int:
        random = self.random
        if random.random() < 0.1:
            return random.choice(HUGE)
        return max(0, random.choice(values) + random.randrange(-2, 3))

    def packet(self) -> Packet:
        random, sender, receiver = self.random, self.sender, self.receiver
        size = random.choice([0, 1, 30, 500, 5_000])
        return Packet(
            random.choice([1, 1, 1, 1, 1, 1, 2, 0, 63]),
            random.choice([1, 1, 1, 1, 1, 1, 1, 0, 2]),
            random.choice([1, 1, 1, 1, 1, 1, 1, 0, 2]),
            random.choice([0, self.near(receiver.got + 1, receiver.got + 60)]),
            self.near(sender.acked, sender.last),
            random.choice([0, 0, 0, random.getrandbits(3), random.getrandbits(64), 2**64 - 1]),
            self.near(0, sender.numbered),
            self.near(0, 0, sender.numbered),
            self.near(0),
            self.near(0, 1_000 * MS),
            self.near(0, 0, 1_000 * MS),
            self.near(0, 10_000),
            random.choice([WHOLE, WHOLE, FRAGMENT, LAST]),
            [random.randbytes(size)] * random.choice([0, 1, 1, 1, 2]),
            random.random() < 0.001,
            random.random() < 0.05,
        )


@pytest.mark.parametrize("seed", range(20))
def test_nothing_raises_and_invariants_hold(seed: int) -> None:
    network = busy(seed)
    zero = network.sites[0]
    liar = Liar(network, Random(seed))
    number = zero._channels[1].receiver.number
    for turn in range(1_500):
        lie = liar.packet()
        try:
            for got, _ in zero.receive(lie, network.now):
                if lie.site == 1:
                    assert got == number + 1
                    number = got
            if turn % 3 == 0:
                zero.mark(1, number, number)
            if turn % 50 == 0 and zero.queued(1) < 100_000:
                zero.send(1, bytes(liar.random.choice([10, 3_000])))
            zero.flush(network.now)
            zero.stalled(network.now)
            zero.invariants()
            deadline = zero.deadline()
            assert deadline is None or deadline > network.now
        except Exception as error:
            raise AssertionError(f"after {turn} packets: {lie}") from error
        network.now += liar.random.randrange(5 * MS)


def test_memory_is_bounded() -> None:
    network = busy(1)
    zero = network.sites[0]
    liar = Liar(network, Random(1))
    most = 0
    for turn in range(10_000):
        lie = liar.packet()
        lie.dead = False
        zero.receive(lie, network.now)
        zero.flush(network.now)
        if turn % 1_000 == 0:
            most = max(most, weight(zero))
        network.now += MS
    assert most < 10 * LIMITS.buffer_bytes


def target() -> Channels:
    """A site that has sent two records, in two packets, to site 1."""
    channels = Channels(0, LIMITS)
    channels.connect(1, 1, 1, 0)
    for record in (b"one", b"two"):
        channels.send(1, record)
        channels.flush(1)
    return channels


GOOD = Packet(1, 1, 1, 1, 0, 0, 0, 0, 0, 5, 0, 10_000, WHOLE, [b"x"])


def test_a_good_packet_is_taken() -> None:
    channels = target()
    assert channels.receive(GOOD, 2) == [(1, b"x")]
    assert len(channels.flush(2)) == 1


@pytest.mark.parametrize(
    "lie",
    [
        {"ack": 3},
        {"gaps": 1 << 1},
        {"ack": 1, "gaps": 1},
        {"ack": 2**62},
        {"gaps": 2**64 - 1},
        {"arrived": 3},
        {"arrived": 1, "released": 2},
        {"seq": 0},
        {"part": LAST},
        {"part": FRAGMENT, "records": [b""]},
        {"part": FRAGMENT, "records": []},
        {"part": FRAGMENT, "records": [b"x", b"y"]},
        {"part": FRAGMENT, "records": [bytes(8_001)]},
    ],
    ids=str,
)
def test_a_malformed_packet_is_counted_and_not_acknowledged(lie: dict[str, object]) -> None:
    channels = target()
    assert channels.receive(msgspec.structs.replace(GOOD, **lie), 2) == []
    assert channels.counters.malformed == 1
    assert channels.flush(2) == []
    assert channels.receive(GOOD, 3) == [(1, b"x")], "it does no harm"


def test_a_whole_record_between_fragments_is_malformed() -> None:
    channels = target()
    channels.receive(msgspec.structs.replace(GOOD, part=FRAGMENT), 2)
    channels.flush(2)
    assert channels.receive(msgspec.structs.replace(GOOD, seq=2), 3) == []
    assert channels.counters.malformed == 1
    assert channels.flush(3) == []
    assert channels.receive(msgspec.structs.replace(GOOD, seq=2, part=LAST), 4) == [(1, b"xx")]


def test_fragments_without_end_take_bounded_memory() -> None:
    channels = target()
    for seq in range(1, 10_000):
        channels.receive(msgspec.structs.replace(GOOD, seq=seq, part=FRAGMENT, records=[b"x"]), 2)
        channels.flush(2)
    assert channels.counters.malformed > 0
    assert weight(channels) < 2 * (LIMITS.record_bytes + LIMITS.buffer_bytes)


def test_packets_far_ahead_take_bounded_memory() -> None:
    channels = target()
    for seq in [*range(2, 3_000), 2**62]:
        channels.receive(msgspec.structs.replace(GOOD, seq=seq, records=[bytes(1_000)]), 2)
    assert channels.counters.overflow > 2_900
    channels.invariants()
    assert weight(channels) < 3 * LIMITS.buffer_bytes


def test_a_request_to_send_again_is_followed_once() -> None:
    channels = target()
    ask = msgspec.structs.replace(GOOD, seq=0, records=[], again=True)
    sent = 0
    for _ in range(100):
        channels.receive(ask, 2)
        sent += len(channels.flush(2))
    assert sent == 2


def test_its_own_packets_do_no_harm() -> None:
    channels = target()
    assert channels.receive(msgspec.structs.replace(GOOD, site=0), 2) == []
    assert channels.flush(2) == []
    assert channels.counters.stale == 1
