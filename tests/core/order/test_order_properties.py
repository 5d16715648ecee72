"""Both engines over a causal broadcast made by hand: any interleaving, any configuration change.

What must hold: one order with the same timestamps everywhere, which respects causality (ATOP paper, 1.1); members
that go on together return the same frames in the regular configuration and the same in the transitional one; a member
that departs misses nothing that lies before what it returned; everything is returned once all has been exchanged, and
then there is silence.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.core.options import Options
from reconvene.core.order import AllAck, Atop, OrderEngine, make_engine
from reconvene.core.order.policies import NoAdaptation
from reconvene.wire.messages import Frame

NUMBER = 7 << 16
Timestamp = tuple[int, ...]


class Scripted(NoAdaptation):
    """Proposes what the test sets, at any member."""

    def __init__(self) -> None:
        self.weights: list[int] | None = None

    def adopted(self, issuer: int, weights: list[int], now: int) -> None:
        self.weights = None

    def propose(self, now: int) -> list[int] | None:
        return self.weights


@dataclass
class Member:
    rank: int
    engine: OrderEngine
    vector: list[int]
    """How many frames of each member it has."""
    told: list[int]
    """What its last frame acknowledged."""
    clock: int = 0
    sent_last: Timestamp = ()
    """The timestamp of its last ordered frame."""
    alives: list[int] = field(default_factory=list)
    """How many alive frames of each member it has counted."""
    delivered: list[tuple[Timestamp, tuple[int, int]]] = field(default_factory=list)


class World:
    def __init__(self, engines: list[OrderEngine]) -> None:
        self.size = len(engines)
        self.members = [
            Member(rank, engine, [0] * self.size, [0] * self.size, alives=[0] * self.size)
            for rank, engine in enumerate(engines)
        ]
        self.frames: list[list[tuple[Frame, list[int]]]] = [[] for _ in engines]
        self.alives: list[list[tuple[int, int]]] = [[] for _ in engines]
        self.ordered: dict[tuple[int, int], Timestamp] = {}
        self.notes = 0
        self.now = 0

    def _number(self, member: Member, **parts: object) -> None:
        rank = member.rank
        acks: list[int] = []
        for other in range(self.size):
            if other != rank and member.vector[other] != member.told[other]:
                acks += [other, member.vector[other]]
        member.told = list(member.vector)
        seq = len(self.frames[rank]) + 1
        fields: dict[str, object] = {"service": 2, "part": 0, "first": 0, "messages": [], **parts}
        frame = Frame(conf=NUMBER, sender=rank, seq=seq, clock=member.clock, acks=acks, **fields)  # type: ignore[arg-type]
        self.frames[rank].append((frame, list(member.vector)))
        member.vector[rank] = seq
        member.engine.receive(frame, self.now)
        self.drain(member)

    def send(self, rank: int) -> None:
        member = self.members[rank]
        self.now += 1000
        member.clock += 1
        stamp = member.engine.stamp(member.clock, self.now)
        key = (stamp.slot, rank) if isinstance(member.engine, AllAck) else (stamp.dist, stamp.slot)
        timestamp = member.engine.timestamp(key)
        # Causality: above all that the sender had delivered or sent.
        assert timestamp > member.sent_last
        if member.delivered:
            assert timestamp > member.delivered[-1][0]
        member.sent_last = timestamp
        self.ordered[rank, len(self.frames[rank]) + 1] = timestamp
        self._number(member, messages=[b"m"], **stamp._asdict())

    def lie(self, rank: int, choice: int) -> None:
        """A frame that no engine asked for: some of it insane, some sane by accident."""
        self.members[rank].clock += 1
        parts: dict[str, object] = {
            "dist": choice % 3 * self.size + choice // 3 % self.size,
            "slot": choice % 11 - 1,
            "passes": choice % 5 * 3,
        }
        if choice % 2:
            parts["weights"] = [choice % 7 for _ in range(self.size - choice // 19)]
        self._number(self.members[rank], messages=[b"x"], **parts)

    def send_causal(self, rank: int) -> None:
        self.members[rank].clock += 1
        self._number(self.members[rank], service=1, messages=[b"c"])

    def deliverable(self, member: Member) -> list[int]:
        return [
            sender
            for sender in range(self.size)
            if member.vector[sender] < len(self.frames[sender])
            and all(
                has >= needs
                for has, needs in zip(member.vector, self.frames[sender][member.vector[sender]][1], strict=True)
            )
        ]

    def accept(self, member: Member, sender: int) -> None:
        self.now += 1000
        frame, _ = self.frames[sender][member.vector[sender]]
        member.vector[sender] += 1
        member.clock = max(member.clock, frame.clock)
        member.engine.receive(frame, self.now)
        self.drain(member)

    def hear(self, member: Member, sender: int) -> bool:
        """Counts the sender's next alive frame if its frames up to then are there."""
        index = member.alives[sender]
        if index == len(self.alives[sender]) or self.alives[sender][index][0] > member.vector[sender]:
            return False
        member.alives[sender] += 1
        clock = self.alives[sender][index][1]
        member.clock = max(member.clock, clock)
        member.engine.heard(sender, clock)
        self.drain(member)
        return True

    def end_turn(self, rank: int) -> bool:
        member = self.members[rank]
        said = False
        note = member.engine.note(self.now)
        if note is not None:
            member.clock += 1
            self._number(member, **note._asdict())
            self.notes += 1
            said = True
        if member.engine.wants_alive():
            self.alives[rank].append((member.vector[rank], member.clock))
            member.alives[rank] += 1
            member.engine.heard(rank, member.clock)
            self.drain(member)
            said = True
        return said

    def drain(self, member: Member) -> None:
        member.engine.invariants()
        while (found := member.engine.peek()) is not None:
            key, frame = found
            assert member.engine.peek() == found
            member.engine.advance()
            timestamp = member.engine.timestamp(key)
            assert self.ordered.setdefault((frame.sender, frame.seq), timestamp) == timestamp
            if member.delivered:
                assert timestamp > member.delivered[-1][0]
            member.delivered.append((timestamp, (frame.sender, frame.seq)))
        member.engine.invariants()

    def settle(self, who: list[int]) -> int:
        """Exchanges everything until no member has anything to send; returns how many rounds that took."""
        for rounds in range(1, 50):
            said = False
            for rank in who:
                member = self.members[rank]
                while senders := self.deliverable(member):
                    self.accept(member, senders[0])
                for sender in who:
                    while self.hear(member, sender):
                        pass
                said |= self.end_turn(rank)
            if not said:
                return rounds
        raise AssertionError("never silent")

    def check_order(self) -> None:
        longest = max((member.delivered for member in self.members), key=len)
        for member in self.members:
            assert member.delivered == longest[: len(member.delivered)]

    def change(self, components: list[list[int]], honest: bool = True) -> None:
        """A configuration change that splits the members: steps 5 and 6 of the EVS paper, in small."""
        regular: dict[int, list[tuple[Timestamp, tuple[int, int]]]] = {}
        for component in components:
            members = [self.members[rank] for rank in component]
            union = [max(member.vector[sender] for member in members) for sender in range(self.size)]
            exchanged = [member.engine.clocks() for member in members]
            merged = [max(column) for column in zip(*exchanged, strict=True)]
            for member in members:
                while senders := [s for s in self.deliverable(member) if member.vector[s] < union[s]]:
                    self.accept(member, senders[-1])
                assert member.vector == union
                member.engine.merge(merged)
                self.drain(member)
            first = members[0]
            for member in members:
                assert member.delivered == first.delivered, "the regular part is the same"
                regular[member.rank] = list(member.delivered)
            for member in members:
                member.engine.skip_empty()
                self.drain(member)
                assert member.delivered[: len(first.delivered)] == first.delivered, "the transitional part too"
                if not honest:
                    continue
                has = {(s, q) for s, q in self.ordered if q <= union[s]}
                assert {frame for _, frame in member.delivered} == has, "nothing is held back"
        for mine in regular.values():
            if mine:
                # Whatever anyone gives back that lies before it was given back here too.
                known = {frame for _, frame in mine}
                for member in self.members:
                    assert {f for ts, f in member.delivered if ts <= mine[-1][0]} <= known


def all_ack(size: int, eager: bool = True) -> list[OrderEngine]:
    return [AllAck(NUMBER, size, rank, eager) for rank in range(size)]


def atop(size: int, generator: str = "low-discrepancy") -> list[OrderEngine]:
    return [Atop(NUMBER, size, rank, generator, Scripted()) for rank in range(size)]


def atop_random(size: int) -> list[OrderEngine]:
    return atop(size, "pseudo-random")


def lazy(size: int) -> list[OrderEngine]:
    return all_ack(size, eager=False)


Make = Callable[[int], list[OrderEngine]]
KINDS: list[Make] = [all_ack, lazy, atop, atop_random]

STEPS = st.lists(
    st.tuples(
        st.sampled_from("sssscaaaaaaaattth" + "w"),
        st.integers(0, 4),
        st.integers(0, 20),
    ),
    max_size=120,
)
STEPS_WITH_LIES = st.lists(
    st.tuples(st.sampled_from("sssaaaaaaaatthwxx"), st.integers(0, 4), st.integers(0, 20)), max_size=120
)


def play(world: World, steps: list[tuple[str, int, int]]) -> None:
    for step, who, choice in steps:
        rank = who % world.size
        member = world.members[rank]
        match step:
            case "s":
                world.send(rank)
            case "c":
                world.send_causal(rank)
            case "a":
                if senders := world.deliverable(member):
                    world.accept(member, senders[choice % len(senders)])
            case "h":
                world.hear(member, choice % world.size)
            case "t":
                world.end_turn(rank)
            case "x":
                world.lie(0, choice)
            case "w":
                if isinstance(member.engine, Atop):
                    policy = member.engine.policy
                    assert isinstance(policy, Scripted)
                    policy.weights = [1 + (choice * (other + 1)) % 7 for other in range(world.size)]
                    world.end_turn(rank)


@pytest.mark.parametrize("make", KINDS)
@given(size=st.integers(1, 5), steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_one_order_everywhere(make: Make, size: int, steps: list[tuple[str, int, int]]) -> None:
    """ATOP paper, section 1.1: same timestamps, delivery in their order, causal."""
    world = World(make(size))
    play(world, steps)
    world.check_order()


@pytest.mark.parametrize("make", [all_ack, atop, atop_random])
@given(size=st.integers(1, 5), steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_all_is_given_back_and_then_there_is_silence(
    make: Make, size: int, steps: list[tuple[str, int, int]]
) -> None:
    """Section 3.2's liveness, without asking for messages of every member; and no member sends without a cause."""
    world = World(make(size))
    play(world, steps)
    world.settle(list(range(size)))
    world.check_order()
    for member in world.members:
        assert len(member.delivered) == len(world.ordered)
        assert not member.engine.awaited()
        world.now += 10**12
        assert member.engine.note(world.now) is None
        assert not member.engine.wants_alive()


@pytest.mark.parametrize("make", KINDS)
@given(size=st.integers(1, 5), steps=STEPS, split=st.lists(st.integers(0, 2), min_size=5, max_size=5))
@settings(max_examples=200, deadline=None)
def test_those_who_go_on_together_agree(
    make: Make, size: int, steps: list[tuple[str, int, int]], split: list[int]
) -> None:
    """EVS paper, 6.1 to 6.3; ATOP paper, figures 4 and 6 where a view is pending."""
    world = World(make(size))
    play(world, steps)
    components = [[rank for rank in range(size) if split[rank] == part] for part in range(3)]
    world.change([component for component in components if component])


@pytest.mark.parametrize("make", [atop, atop_random])
@given(size=st.integers(1, 5), steps=STEPS_WITH_LIES, split=st.lists(st.integers(0, 2), min_size=5, max_size=5))
@settings(max_examples=200, deadline=None)
def test_a_liar_is_judged_the_same_by_all(
    make: Make, size: int, steps: list[tuple[str, int, int]], split: list[int]
) -> None:
    """Insane frames are ignored by a rule, the same at all members."""
    world = World(make(size))
    play(world, steps)
    world.check_order()
    components = [[rank for rank in range(size) if split[rank] == part] for part in range(3)]
    world.change([component for component in components if component], honest=False)


class Hasty(Atop):
    """Planted: does not wait for the slowest."""

    def _horizon(self) -> int:
        return sorted(self._places)[-2:][0]


class HastyAllAck(AllAck):
    """Planted: does not wait for the slowest."""

    def _horizon(self) -> int:
        return sorted(self._clocks)[-2:][0]


class Stuck(Atop):
    """Planted: an empty slot holds up the transitional configuration."""

    def _skip(self) -> bool:
        return False


@pytest.mark.parametrize("broken", [Hasty, HastyAllAck, Stuck])
def test_planted_faults_are_caught(broken: type[Atop] | type[AllAck]) -> None:
    caught = 0
    for seed in range(40):
        choose = Random(seed)
        steps = [(choose.choice("sssscaaaaaaaattth"), choose.randrange(5), choose.randrange(20)) for _ in range(120)]
        engines: list[OrderEngine] = []
        for rank in range(3):
            if issubclass(broken, AllAck):
                engines.append(broken(NUMBER, 3, rank))
            else:
                engines.append(broken(NUMBER, 3, rank, "low-discrepancy", Scripted()))
        world = World(engines)
        try:
            play(world, steps)
            world.check_order()
            world.change([[0, 1], [2]])
        except AssertionError:
            caught += 1
    assert caught >= 10


@pytest.mark.parametrize("order", ["atop", "all-ack"])
def test_one_busy_sender_costs_few_dummies(order: str) -> None:
    """Section 5, and beyond: a silent member passes once for each half lead that the order moves on.

    At equal weights a frame of the only sender moves it by as many slots as there are members.
    """
    size, frames = 5, 2000
    world = World([make_engine(Options(order=order, policy="none"), NUMBER, (1, 3, 5, 7, 9), r) for r in range(size)])
    for _ in range(frames):
        world.send(2)
        world.settle(list(range(size)))
        assert all(len(member.delivered) == len(world.ordered) for member in world.members)
    if order == "atop":
        assert world.notes <= (size - 1) * (2 + (frames + 1) // 16)


def test_after_adaptation_a_busy_sender_costs_fewer_dummies() -> None:
    size, frames = 5, 4000
    world = World([make_engine(Options(), NUMBER, tuple(range(size)), rank) for rank in range(size)])
    for _ in range(frames):
        world.send(2)
        world.now += 1_000_000
        world.settle(list(range(size)))
    keeper = world.members[0].engine
    assert isinstance(keeper, Atop)
    assert keeper.introduced == 1
    assert all(len(member.delivered) == frames for member in world.members)
    assert world.notes <= frames // 8
