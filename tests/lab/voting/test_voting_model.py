"""Dynamic voting in a model small enough to be gone through: no two primary components conflict, however they are
interrupted. And whatever the design asks for besides the rule is needed: without it some do."""

from random import Random

import pytest

from reconvene.lab.bench.voting import BARS, Compared, compare
from reconvene.lab.voting.histories import KINDS
from reconvene.lab.voting.model import ADDITIONS, LEFT_OUT, Conflict, Model
from reconvene.lab.voting.walks import explore, walk

LONG = pytest.mark.long("minutes of exhaustive search")

WITHOUT = {
    # How many sites, the minimum, whether replicas change, whether they lose disks, weights, and a walk that breaks.
    "synced": (3, 1, False, False, None, 135),
    "members-before": (4, 1, True, False, None, 763),
    "members-after": (4, 1, True, False, None, 73),
    "strangers": (4, 1, False, False, None, 1212),
    "yellow": (5, None, True, False, (3, 1, 1, 1, 1), 192),
    "minimum": (3, None, False, False, None, None),
    "numbers": (3, None, False, True, None, None),
    "weights": (3, None, False, False, (3, 1, 1), 0),
    "live": (5, None, False, False, None, None),
    "committed-is-dead": (5, None, False, False, None, None),
    "half": (4, None, False, False, None, None),
    "inclusive": (5, None, False, False, None, None),
    "pending": (4, None, True, False, None, None),
    "learned": (5, None, False, False, None, None),
}


@pytest.mark.parametrize(
    ("size", "minimum", "configurations", "ends"),
    [
        (3, None, 3, 10_000),
        (3, 1, 2, 300),
        (4, None, 2, 3_000),
        (5, None, 1, 50),
        pytest.param(3, None, 4, 100_000, marks=LONG),
        pytest.param(3, 1, 4, 100_000, marks=LONG),
        pytest.param(4, None, 3, 100_000, marks=LONG),
        pytest.param(5, None, 2, 10_000, marks=LONG),
    ],
)
def test_every_interruption_of_every_sequence_of_configurations(
    size: int, minimum: int | None, configurations: int, ends: int
) -> None:
    assert explore(Model(size, minimum), configurations) > ends


@pytest.mark.parametrize("left_out", LEFT_OUT)
def test_what_is_left_out_is_missed(left_out: str) -> None:
    """A random walk meets a conflict, which the same walk with the whole rule does not."""
    size, minimum, changes, losses, weights, known = WITHOUT[left_out]
    for seed in range(6_000) if known is None else (known,):
        try:
            walk(Model(size, minimum, weights, (left_out,)), Random(seed), 8, changes=changes, losses=losses)
        except Conflict:
            walk(Model(size, minimum, weights), Random(seed), 8, changes=changes, losses=losses)
            return
    pytest.fail(f"nothing breaks without: {LEFT_OUT[left_out]}")


def test_every_addition_can_be_left_out() -> None:
    assert set(ADDITIONS) <= set(LEFT_OUT) == set(WITHOUT)


@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.long("a minute of walks"))])
def test_random_walks_with_changes_of_the_replicas(count: int) -> None:
    established = 0
    for seed in range(count):
        random = Random(seed)
        size = random.randint(3, 9)
        weights = [random.randint(1, 3) for _ in range(size)] if random.random() < 0.3 else None
        model = Model(size, random.choice((None, 1, 2, 3)), weights)
        changes, losses = random.random() < 0.5, random.random() < 0.3
        established += walk(model, random, random.randint(3, 14), changes=changes, losses=losses)
    assert established > count


@pytest.mark.parametrize("kind", KINDS)
def test_it_orders_for_longer_than_a_majority_does(kind: str) -> None:
    """The figures of `reconvene bench voting`, of fewer histories."""
    sums = Compared()
    for seed in range(140):
        compare(kind, 3 + seed % 7, seed, sums)
    assert sums.conflicts == 0
    assert sums.ratio >= BARS[kind]


@pytest.mark.long("thousands of histories")
def test_a_naive_rule_conflicts_in_some_histories() -> None:
    sums = Compared()
    for seed in range(5_000):
        compare(KINDS[seed % 2], 3 + seed % 7, seed, sums)
    assert sums.conflicts == 0
    assert sums.naive_conflicts > 5
