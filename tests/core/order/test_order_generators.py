"""Section 4.3's generator G_w, and the evenly spread one: weights, agreement and bounds."""

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconvene.core.order.generators import LowDiscrepancy, PseudoRandom, Sequence, make_sequence

KINDS = ["low-discrepancy", "pseudo-random"]
WEIGHTS = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def make(kind: str, weights: list[int], seed: tuple[int, int] = (7, 3)) -> Sequence:
    return make_sequence(kind, weights, seed)


@pytest.mark.parametrize("kind", KINDS)
@given(weights=WEIGHTS, start=st.integers(0, 10**12))
def test_next_own_and_after_say_what_owner_says(kind: str, weights: list[int], start: int) -> None:
    sequence = make(kind, weights)
    owners = {slot: sequence.owner(slot) for slot in range(start, start + 300)}
    for rank in range(len(weights)):
        own = [slot for slot, owner in owners.items() if owner == rank]
        if own:
            assert sequence.next_own(rank, start - 1) == own[0]
        for here, there in pairwise(own):
            assert sequence.after(rank, here) == sequence.next_own(rank, here) == there
        for slot in owners:
            if owners[slot] != rank:
                assert sequence.after(rank, slot) == -1


@pytest.mark.parametrize("kind", KINDS)
def test_shares_follow_the_weights(kind: str) -> None:
    weights = [1, 2, 5, 12]
    sequence = make(kind, weights)
    counts = [0] * 4
    for slot in range(20_000):
        counts[sequence.owner(slot)] += 1
    for count, weight in zip(counts, weights, strict=True):
        assert count == pytest.approx(weight * 1_000, rel=0.1)


@given(weights=WEIGHTS)
def test_low_discrepancy_bounds(weights: list[int]) -> None:
    """Of any first slots a rank has its share, give or take a half and half a slot for each member by its
    weight; so the next own one is at most total / weight + members - 1 away."""
    sequence = LowDiscrepancy(weights)
    total, members = sum(weights), len(weights)
    counts = [0] * members
    last = [-1] * members
    for slot in range(2 * total):
        rank = sequence.owner(slot)
        counts[rank] += 1
        if last[rank] >= 0:
            assert slot - last[rank] <= total / weights[rank] + members - 1
        last[rank] = slot
        for count, weight in zip(counts, weights, strict=True):
            assert abs(count - (slot + 1) * weight / total) <= 0.5 + members * weight / (2 * total) + 1e-9


def test_every_rank_has_a_slot_in_each_stretch() -> None:
    """Chance alone would bound no one's wait."""
    sequence = PseudoRandom([4000, 1, 1], (1, 1))
    stretch = PseudoRandom.STRETCH * 4002
    for turn in (0, 1, 50):
        assert [sequence.owner(turn * stretch + rank) for rank in range(3)] == [0, 1, 2]
        assert sequence.next_own(2, turn * stretch) <= turn * stretch + 2


def test_memory_is_bounded_however_far_it_runs() -> None:
    sequence = PseudoRandom([1, 1, 1], (1, 1))
    slot = -1
    for _ in range(20_000):
        slot = sequence.next_own(1, slot + 7)
    for far in (1 << 20, 1 << 40, 1 << 61):
        assert sequence.next_own(0, far) > far
    assert len(sequence._blocks) <= PseudoRandom.KEPT


def test_seeds_give_different_sequences() -> None:
    """One for each configuration and distribution."""
    starts = {
        tuple(make("pseudo-random", [1, 1, 1], seed).owner(slot) for slot in range(20, 60))
        for seed in [(1, 0), (1, 1), (2, 0), (2, 1), (1 << 61, 0)]
    }
    assert len(starts) == 5


def test_an_unknown_generator() -> None:
    with pytest.raises(ValueError, match="dice"):
        make("dice", [1])


def test_the_sequences_are_the_same_everywhere() -> None:
    """Written down, so that a change of one, which would break mixed versions, is seen; and any hash seed."""
    code = (
        "from reconvene.core.order.generators import make_sequence as m;"
        "[print(*(m(k, [3, 1, 2], (7, 3)).owner(s) for s in range(24)), sep='')"
        " for k in ('low-discrepancy', 'pseudo-random')]"
    )
    for hash_seed in ("0", "1"):
        out = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed},
        )
        assert out.stdout.split() == ["020120020120020120020120", "012022212111220220010222"]
