"""A wrong frame is ignored, by a rule whose outcome is the same at every member."""

from typing import Any

import pytest

from reconvene.core.order import AllAck, Atop
from reconvene.core.order.distributions import MAX_STEP, MAX_TOTAL
from reconvene.core.order.policies import NoAdaptation
from reconvene.wire.messages import Frame

GENERATORS = ["low-discrepancy", "pseudo-random"]


def frame(sender: int, seq: int = 1, **parts: Any) -> Frame:
    fields = {"clock": seq, "acks": [], "messages": [b"x"], **parts}
    return Frame(conf=1, sender=sender, seq=seq, service=2, part=0, first=0, **fields)


def engine(generator: str = "low-discrepancy") -> Atop:
    return Atop(1, 3, 2, generator, NoAdaptation())


def owned(made: Atop, rank: int, above: int = -1) -> int:
    return made._sequences[rank].next_own(rank, above)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize(
    "parts",
    [
        {"dist": 3, "weights": [1, 1]},
        {"dist": 3, "weights": [1, 1, 1, 1]},
        {"dist": 3, "weights": [1, 0, 1]},
        {"dist": 3, "weights": [MAX_TOTAL, 1, 1]},
        {"dist": 4, "weights": [1, 1, 1]},
        {"dist": 0, "weights": [1, 1, 1]},
        {"dist": MAX_STEP * 3, "weights": [1, 1, 1]},
        {"dist": 3, "slot": 0},
        {"dist": 3},
        {"slot": 1 << 60},
        {"slot": -1, "passes": MAX_STEP * 2},
    ],
)
def test_an_insane_frame_changes_nothing(generator: str, parts: dict[str, Any]) -> None:
    made = engine(generator)
    made.receive(frame(0, **parts), 0)
    assert made.ignored == 1
    assert made.peek() is None
    assert made.note(0) is None
    assert made.stamp(0, 0) == engine(generator).stamp(0, 0)
    made.invariants()
    made.skip_empty()
    assert made.peek() is None


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_slot_must_be_its_senders_and_above_its_last(generator: str) -> None:
    made = engine(generator)
    mine, foreign = owned(made, 0, 5), owned(made, 1, 5)
    made.receive(frame(0, 1, slot=foreign), 0)
    assert made.ignored == 1
    made.receive(frame(0, 2, slot=mine), 0)
    made.receive(frame(0, 3, slot=mine), 0)
    made.receive(frame(0, 4, slot=owned(made, 0)), 0)
    assert made.ignored == 3
    made.skip_empty()
    assert made.peek() == ((0, mine), frame(0, 2, slot=mine))
    made.advance()
    assert made.peek() is None


def test_no_one_tags_what_it_has_not_acknowledged() -> None:
    """Else members that happen to have the introduction would take the frame, and others not."""
    late, early = engine(), engine()
    introduction = frame(0, slot=-1, dist=3, weights=[1, 1, 1])
    wrong = frame(1, slot=1, dist=3)
    early.receive(introduction, 0)
    for made in (early, late):
        made.receive(wrong, 0)
    late.receive(introduction, 0)
    right = frame(1, 2, slot=1, dist=3, acks=[0, 1])
    for made in (early, late):
        assert made.ignored == 1
        made.receive(right, 0)
        assert made.ignored == 1
        made.skip_empty()
        assert made.peek() == ((3, 1), right)


def test_no_one_goes_back_to_a_lower_distribution() -> None:
    made = engine()
    made.receive(frame(0, slot=-1, dist=3, weights=[1, 1, 1]), 0)
    made.receive(frame(0, 2, slot=0, dist=0), 0)
    made.receive(frame(0, 3, slot=-1, dist=3, weights=[2, 1, 1]), 0)
    made.receive(frame(0, 4, slot=-1, dist=0, passes=9), 0)
    assert made.ignored == 3


def test_a_stranger_is_ignored() -> None:
    made, all_ack = engine(), AllAck(1, 3, 2)
    made.receive(frame(3, slot=0), 0)
    all_ack.receive(frame(3, slot=1), 0)
    all_ack.heard(3, 7)
    assert made.ignored == all_ack.ignored == 1
    all_ack.merge([1, 1, 1, 1, 1])
    assert all_ack.clocks() == [1, 1, 1]


def test_a_clock_goes_up() -> None:
    all_ack = AllAck(1, 3, 2)
    all_ack.receive(frame(0, 5, slot=5), 0)
    all_ack.receive(frame(0, 5, slot=5), 0)
    all_ack.receive(frame(0, 4, slot=4), 0)
    assert all_ack.ignored == 2
    all_ack.invariants()


def test_who_jumps_far_does_not_make_others_insane() -> None:
    """Each step is bounded, and a member that follows a long one takes bounded steps too."""
    made, other = engine(), Atop(1, 3, 1, "low-discrepancy", NoAdaptation())
    far = owned(made, 0, MAX_STEP - 10)
    jump = frame(0, slot=far)
    for one in (made, other):
        one.receive(jump, 0)
        assert one.ignored == 0
    for seq in range(1, 6):
        own = frame(2, seq, **made.stamp(0, 0)._asdict())
        for one in (made, other):
            one.receive(own, 0)
            assert one.ignored == 0
    assert not made.awaited()
    for seq in range(1, 9):
        note = other.note(0)
        if note is None:
            break
        other.receive(frame(1, seq, messages=[], slot=-1, dist=note.dist, passes=note.passes), 0)
    assert not other.awaited()
    assert other.ignored == 0


def test_distributions_do_not_pile_up() -> None:
    """One that everyone has gone beyond is forgotten."""
    made = engine()
    for seq in range(1, 500):
        made.receive(frame(0, seq, slot=-1, dist=3 * seq, weights=[1, seq % 5 + 1, 1]), 0)
        for member in (1, 2):
            made.receive(frame(member, seq, slot=-1, dist=3 * seq, acks=[0, seq]), 0)
        made.invariants()
        assert len(made._distributions._known) == 1
        assert not made._distributions.open
