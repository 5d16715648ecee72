"""Reliable causal multicast over a network that loses, doubles and reorders."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.core.multicast.multicast import Counters, Multicast
from reconvene.core.options import Limits, Timing
from reconvene.wire.codec import decode, encode
from reconvene.wire.messages import Alive, Frame, Nack

MS = 1_000_000
NUMBER = 7 << 16
LIMITS = Limits(frame_bytes=500, buffer_bytes=8_000)


class Network:
    """Members with nothing above them. Every frame accepted is checked against what the promise says."""

    def __init__(self, size: int, random: Random, loss: float) -> None:
        self.random = random
        self.loss = loss
        self.now = 0
        self.members = [Multicast(NUMBER, size, rank, Timing(), LIMITS, Counters(), 0) for rank in range(size)]
        self.taken: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        self.past: dict[tuple[int, int], set[tuple[int, int]]] = {}
        """What the sender of each frame had accepted when it sent it."""
        self.wire: list[tuple[int, bytes]] = []

    def send(self, rank: int) -> bool:
        member = self.members[rank]
        if not member.takes(300, self.now):
            return False
        frame = Frame(NUMBER, rank, 1, 0, [], 0, 0, 1, [b"x" * 300])
        member.compose(frame, 300, True, self.now)
        self.past[rank, frame.seq] = set(self.taken[rank])
        self.transmit(rank, None, frame)
        self.turn(rank)
        return True

    def transmit(self, source: int, to: int | None, datagram: Frame | Alive | Nack) -> None:
        data = encode(datagram)
        for rank in range(len(self.members)) if to is None else [to]:
            if rank != source and self.random.random() >= self.loss:
                self.wire += [(rank, data)] * (2 if self.random.random() < 0.1 else 1)

    def turn(self, rank: int) -> None:
        member = self.members[rank]
        accepted, member.accepted = member.accepted, []
        member.heard.clear()
        for frame in accepted:
            place = (frame.sender, frame.seq)
            assert place not in self.taken[rank], "accepted once"
            assert self.past[place] <= set(self.taken[rank]), "after all that its sender had"
            assert sum(one == frame.sender for one, _ in self.taken[rank]) == frame.seq - 1, "in order"
            self.taken[rank].append(place)
        for to, datagram in member.turn(self.now, False):
            self.transmit(rank, to, datagram)
        member.invariants()

    def step(self) -> None:
        """One datagram arrives, any of those under way; or, if there is none, time goes on."""
        if self.wire and self.random.random() < 0.95:
            rank, data = self.wire.pop(self.random.randrange(len(self.wire)))
            member = self.members[rank]
            match decode(data):
                case Frame() as frame:
                    member.receive(frame, self.now)
                case Alive() as alive:
                    member.hear(alive, self.now)
                case Nack() as nack:
                    for frame in member.answer(nack, self.now):
                        self.transmit(rank, nack.sender, frame)
            self.turn(rank)
            return
        due = [(at, rank) for rank, member in enumerate(self.members) if (at := member.deadline()) is not None]
        if due:
            at, rank = min(due)
            self.now = max(self.now, at)
            self.turn(rank)

    def quiet(self) -> bool:
        return not self.wire and all(member.deadline() is None for member in self.members)


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4]))
def test_every_frame_everywhere_once_in_causal_order(size: int, seed: int, loss: float) -> None:
    random = Random(seed)
    network = Network(size, random, loss)
    wanted = [random.randrange(12) for _ in range(size)]
    steps = 0
    while any(wanted) or not network.quiet():
        steps += 1
        assert steps < 60_000, "it comes to an end"
        rank = random.randrange(size)
        if wanted[rank] and random.random() < 0.3:
            wanted[rank] -= network.send(rank)
        else:
            network.step()
    everything = set(network.past)
    for member, taken in zip(network.members, network.taken, strict=True):
        assert set(taken) == everything
        assert member.stable == member.received, "all that all have is known to be with all"
        assert not any(member._kept), "and forgotten"
        assert member.extras() == []
        assert member.nacks.pending == 0


@settings(max_examples=20, derandomize=True, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32))
def test_clocks_grow_along_the_causal_order(size: int, seed: int) -> None:
    random = Random(seed)
    network = Network(size, random, 0.2)
    clocks: dict[tuple[int, int], int] = {}
    for _ in range(300):
        rank = random.randrange(size)
        if random.random() < 0.1 and network.send(rank):
            member = network.members[rank]
            clocks[rank, member.received[rank]] = member.clock
        else:
            network.step()
    for place, past in network.past.items():
        assert all(clocks[place] > clocks[before] for before in past)


@settings(max_examples=20, derandomize=True, deadline=None)
@given(st.integers(2, 4), st.integers(0, 2**32))
def test_what_is_under_way_stays_within_the_window(size: int, seed: int) -> None:
    random = Random(seed)
    network = Network(size, random, 0.1)
    for _ in range(400):
        rank = random.randrange(size)
        if random.random() >= 0.5 or not network.send(rank):
            network.step()
        for member in network.members:
            own = member.received[member.rank] - member.stable[member.rank]
            assert own <= max(1, member.window.bytes // 300)


# -- single cases


def pair(size: int = 2) -> list[Multicast]:
    return [Multicast(NUMBER, size, rank, Timing(), LIMITS, Counters(), 0) for rank in range(size)]


def compose(member: Multicast) -> Frame:
    frame = Frame(NUMBER, member.rank, 1, 0, [], 0, 0, 1, [b"x"])
    member.compose(frame, 1, True, 0)
    decoded = decode(encode(frame))
    assert isinstance(decoded, Frame)
    return decoded


def test_too_far_ahead_is_counted_and_dropped() -> None:
    one, two = pair()
    frame = compose(one)
    frame.seq = LIMITS.ahead_frames + 1
    two.receive(frame, 0)
    assert two._counters.overflow == 1
    assert two.extras() == []


def test_a_member_whose_acks_stand_still_is_found() -> None:
    one, two, _ = pair(3)
    frame = compose(one)
    two.receive(frame, 0)
    for to, datagram in two.turn(25 * MS, True):
        assert to is None
        assert isinstance(datagram, Alive)
        one.hear(datagram, 25 * MS)
    assert one.stalled(1_000 * MS, [2_000 * MS] * 3) == []
    assert one.stalled(3_000 * MS, [2_000 * MS] * 3) == [2]


def test_a_site_that_slept_blames_no_other() -> None:
    one, _ = pair()
    compose(one)
    one.slept(5_000 * MS)
    assert one.stalled(5_000 * MS, [2_000 * MS] * 2) == []


def test_alone_everything_is_stable_at_once() -> None:
    (one,) = pair(1)
    compose(one)
    assert one.settle(0)
    assert one.stable == [1]
    assert one.turn(0, True) == []


def test_an_alive_frame_that_contradicts_itself_is_malformed() -> None:
    one, _ = pair()
    for acks in ([0], [5, 0], [0, 3]):
        one.hear(Alive(NUMBER, 1, 0, 0, acks, 1_000), 0)
    assert one._counters.malformed == 3
    assert one.known[1] == [0, 0]


def test_who_names_a_frame_can_be_asked_for_it() -> None:
    """001, the sidebar: B.1 names C.1, so b has it. c is gone; a has no other member to ask."""
    a, b, c = pair(3)
    b.receive(compose(c), 0)
    b.settle(0)
    a.receive(compose(b), 0)
    now = 0
    asked: list[int | None] = []
    for _ in range(6):
        asked += [to for to, datagram in a.turn(now, False) if isinstance(datagram, Nack)]
        now = max(now + MS, a.nacks.deadline() or 0)
    assert 1 in asked


def test_the_others_are_told_what_is_left_of_the_buffer() -> None:
    limits = Limits(buffer_bytes=100_000, channel_bytes=40_000)
    one, two = (Multicast(NUMBER, 2, rank, Timing(), limits, Counters(), 0) for rank in (0, 1))
    assert one._alive(False).buffer == 60_000
    plain = Multicast(NUMBER, 2, 0, Timing(), Limits(buffer_bytes=100_000), Counters(), 0)
    plain.hear(two._alive(False), 1)
    assert plain.window.bytes == 60_000 * 9 // 10
