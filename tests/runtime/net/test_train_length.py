"""The length of a train follows the loss."""

import random

import pytest

from reconvene.runtime.net.train_length import COPIES, LEAST_SENT, TrainLength

MOST = 42


def run(length: TrainLength, loss: float, decisions: int, seed: int = 1) -> list[int]:
    """The length after each decision on a path that loses this share of all packets."""
    chance = random.Random(seed)
    sent, resent = length._sent, length._resent
    seen = []
    for _ in range(decisions):
        for _ in range(LEAST_SENT):
            sent += 1
            if any(chance.random() < loss for _ in range(length.packets)):
                resent += 1
        length.observe(sent, resent)
        seen.append(length.packets)
    return seen


def test_it_grows_where_nothing_is_lost() -> None:
    assert run(TrainLength(MOST), 0.0, 8) == [2, 4, 8, 16, 32, 42, 42, 42]


@pytest.mark.parametrize(
    ("loss", "least", "most"), [(0.0001, 42, 42), (0.001, 16, 42), (0.01, 1, 8), (0.05, 1, 2), (0.2, 1, 1)]
)
def test_it_settles_by_the_loss(loss: float, least: int, most: int) -> None:
    usual = sorted(run(TrainLength(MOST), loss, 300)[20:])
    assert least <= usual[len(usual) // 2] <= most


def test_a_path_that_becomes_bad_and_good_again() -> None:
    length = TrainLength(MOST)
    run(length, 0.0, 8)
    assert run(length, 0.2, 2)[0] == 1, "at once"
    assert length.copies == COPIES
    assert run(length, 0.0, 8)[-1] == MOST
    assert length.copies == 1


def test_many_resends_are_judged_before_much_is_sent() -> None:
    length = TrainLength(MOST)
    run(length, 0.0, 8)
    length.observe(length._sent + 10, length._resent + 20)
    assert length.packets == 1


def test_too_little_is_no_reason_to_change() -> None:
    length = TrainLength(MOST)
    length.observe(LEAST_SENT - 1, 0)
    assert length.packets == 1
    length.observe(LEAST_SENT, 0)
    assert length.packets == 2
