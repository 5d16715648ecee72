"""Adaptation policies: section 6.1's book-keeper and section 7's others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconvene.core.options import Options
from reconvene.core.order import Atop, make_engine
from reconvene.core.order.distributions import MAX_TOTAL
from reconvene.core.order.policies import BookKeeper, Damped, Declared, RoundTrip, Tuning, make_policy
from reconvene.core.order.policies.book_keeper import to_weights, variation
from reconvene.core.order.policies.declared import DAY_NS
from reconvene.wire.messages import Frame

TUNING = Tuning(factor=16, steps=16, threshold_percent=20, every_ns=100)
HOUR = DAY_NS // 24


def feed(policy: BookKeeper, ranks: list[int], now: int = 0, rank: int | None = None) -> list[list[int]]:
    """Shows these frames one by one; the distributions that were proposed, and adopted at once."""
    proposals = []
    for sender in ranks:
        now += 10
        policy.observe(sender, 1, now)
        weights = policy.propose(now)
        if weights is not None:
            proposals.append(weights)
            policy.adopted(policy.rank if rank is None else rank, weights, now)
    return proposals


def test_nothing_is_proposed_before_the_window_is_full() -> None:
    """6.1: the window holds N times as many frames as there are members."""
    keeper = BookKeeper(4, 0, TUNING)
    assert feed(keeper, [1] * (16 * 4 - 1)) == []
    assert len(feed(keeper, [1])) == 1


def test_weights_are_the_windows_shares_plus_epsilon() -> None:
    """6.1: nobody's weight is zero."""
    keeper = BookKeeper(4, 0, TUNING)
    (weights,) = feed(keeper, [0, 0, 0, 1] * 16)
    assert weights == [49, 17, 1, 1]


def test_small_differences_are_below_the_threshold() -> None:
    keeper = BookKeeper(4, 0, TUNING)
    assert feed(keeper, [0, 1, 2, 3] * 50 + [0, 1, 2, 3, 0] * 50) == []
    assert len(feed(keeper, [0, 0, 0, 1] * 100, now=10**6)) >= 1


def test_it_settles_under_steady_traffic() -> None:
    keeper = BookKeeper(3, 0, TUNING)
    feed(keeper, [0, 1, 1, 1, 1, 2] * 20)
    assert feed(keeper, [0, 1, 1, 1, 1, 2] * 200, now=10**6) == []


def test_comparisons_are_periodic() -> None:
    keeper = BookKeeper(2, 0, Tuning(factor=4, every_ns=10**9))
    keeper.propose(0)
    assert len(feed(keeper, [1] * 8)) == 1
    assert feed(keeper, [0] * 80) == []
    assert len(feed(keeper, [0] * 8, now=2 * 10**9)) == 1


def test_only_the_lowest_rank_keeps_books() -> None:
    other = BookKeeper(4, 1, TUNING)
    assert not other.watches
    assert feed(other, [1] * 200) == []
    assert not BookKeeper(1, 0).watches


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=64))
def test_weights_are_valid_whatever_was_counted(counts: list[int]) -> None:
    weights = to_weights(counts, Tuning().steps)
    assert min(weights) >= 1
    assert sum(weights) <= MAX_TOTAL


def test_variation() -> None:
    assert variation([1, 1], [7, 7]) == 0
    assert variation([1, 0], [0, 1]) == 10_000
    assert variation([3, 1], [1, 1]) == 2_500


def test_the_member_with_the_least_variance_takes_over() -> None:
    """Section 7; by a margin, for some time, and by introducing a distribution."""
    keeper, better = (RoundTrip(3, rank, TUNING) for rank in (0, 2))
    traffic = [1] * 100
    assert feed(better, traffic) == []
    for _ in range(RoundTrip.STREAK):
        for policy in (keeper, better):
            policy.round_trips([1_000, None, 500])
    (weights,) = feed(better, traffic, now=10**6)
    keeper.adopted(2, weights, 0)
    assert better.keeper == keeper.keeper == 2
    assert feed(keeper, [0] * 200) == []
    assert len(feed(better, [0] * 200, now=2 * 10**6)) >= 1


@pytest.mark.parametrize("spreads", [[1_000, None, 800], [None, None, 5], [1_000, 4, 5], [0, 0, 0]])
def test_no_one_takes_over_without_a_clear_margin(spreads: list[int | None]) -> None:
    other = RoundTrip(3, 2, TUNING)
    for _ in range(10):
        other.round_trips(spreads)
    assert feed(other, [1] * 200) == []


def test_one_bad_report_breaks_the_streak() -> None:
    other = RoundTrip(3, 2, TUNING)
    for spreads in [[100, 100, 5], [100, 100, 5], [100, 100, 90], [100, 100, 5], [100, 100, 5]]:
        other.round_trips(list(spreads))
    assert feed(other, [1] * 200) == []


def pausing(bursts: int) -> list[int]:
    """0 is steady; 1 pauses and resumes, a window's length each."""
    traffic: list[int] = []
    for _ in range(bursts):
        traffic += [0, 1] * 40 + [0] * 80
    return traffic


def test_members_that_pause_and_resume_are_damped() -> None:
    """Section 7: the plain policy does not stabilize, the damped one does."""
    plain, damped = BookKeeper(2, 0, TUNING), Damped(2, 0, TUNING)
    assert len(feed(plain, pausing(40))) >= 40
    assert len(feed(damped, pausing(40))) <= 8
    assert feed(damped, pausing(20), now=10**6) == []


def test_damping_ends_when_the_pauses_do() -> None:
    damped = Damped(2, 0, TUNING)
    feed(damped, pausing(10))
    assert damped.halvings[1] == Damped.MOST
    assert damped.halvings[0] == 0
    proposals = feed(damped, [0, 1] * 4_000, now=10**6)
    assert damped.halvings == [0, 0]
    assert variation(proposals[-1], [1, 1]) < 2_000


PATTERNS = ((9, 1, 1, 0), (1, 1, 9, 0))


def test_a_declared_pattern_is_recognized_before_the_window_is_full() -> None:
    """Section 7: earlier than by the shares alone, and exact where they are noisy."""
    policy = Declared((0, 1, 2), 0, PATTERNS, tuning=TUNING)
    assert feed(policy, [0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0]) == [[9, 1, 1]]
    assert feed(policy, [2, 2, 2, 2, 1, 2, 2, 2, 2, 0] * 2, now=10**6) == [[1, 1, 9]]


def test_patterns_are_by_ordinal() -> None:
    policy = Declared((0, 2, 7), 0, PATTERNS)
    assert variation(policy.patterns[0], [9, 1, 0]) < 1_000
    assert min(policy.patterns[0]) >= 1
    assert make_policy("declared", (3, 9), 0, PATTERNS)


def test_traffic_like_no_pattern_is_followed_by_its_shares() -> None:
    policy = Declared((0, 1, 2), 0, PATTERNS, tuning=TUNING)
    (weights,) = feed(policy, [1] * 60)
    assert variation(weights, [0, 1, 0]) < 1_000


def test_a_pattern_may_begin_at_a_time_of_day() -> None:
    """Section 7. No clock is read: the offset makes a time of day of `now`."""
    schedule = ((8 * HOUR, 0), (20 * HOUR, 1))
    policy = Declared((0, 1, 2), 0, PATTERNS, schedule, day_offset_ns=7 * HOUR)
    assert policy.deadline() is None
    assert policy.propose(0) == [1, 1, 9]  # at seven yesterday's evening pattern still holds
    policy.adopted(0, [1, 1, 9], 0)
    assert policy.deadline() == HOUR
    assert policy.propose(HOUR - 1) is None
    assert policy.propose(HOUR) == [9, 1, 1]
    policy.adopted(0, [9, 1, 1], HOUR)
    assert policy.deadline() == 13 * HOUR
    assert policy.propose(13 * HOUR + 5) == [1, 1, 9]
    assert policy.deadline() == 25 * HOUR


def test_only_who_decides_has_a_deadline() -> None:
    policy = Declared((0, 1), 1, ((1, 2),), ((0, 0),))
    assert policy.propose(5) is None
    assert policy.deadline() is None


def test_what_is_declared_wrongly_is_refused() -> None:
    with pytest.raises(ValueError, match="schedule"):
        Declared((0, 1), 0, ((1, 2),), ((0, 1),))
    with pytest.raises(ValueError, match="negative"):
        Declared((0, 1), 0, ((1, -2),))
    with pytest.raises(ValueError, match="mood"):
        make_policy("mood", (0, 1), 0)
    with pytest.raises(ValueError, match="whim"):
        make_engine(Options(order="whim"), 1, (0,), 0)


def test_the_engine_asks_no_policy_while_a_distribution_is_taken_up() -> None:
    """Else its deadline would come again and again."""
    options = Options(policy="declared", patterns=((3, 1), (1, 3)), schedule=((0, 0), (HOUR, 1)))
    engine = make_engine(options, 1, (0, 1), 0)
    note = engine.note(0)
    assert note is not None
    assert note.weights == [3, 1]
    assert engine.deadline() == HOUR
    engine.receive(Frame(1, 0, 1, 1, [], 2, 0, 0, [], note.dist, -1, note.passes, note.weights), 0)
    assert engine.deadline() is None
    assert engine.note(2 * HOUR) is None
    engine.receive(Frame(1, 1, 1, 2, [0, 1], 2, 0, 0, [], note.dist), 2 * HOUR)
    assert engine.deadline() == HOUR
    note = engine.note(2 * HOUR)
    assert note is not None
    assert note.weights == [1, 3]


def test_dummies_are_not_observed() -> None:
    """Section 5: adaptation is based on the application's messages."""
    engine = make_engine(Options(), 1, (0, 1), 0)
    assert isinstance(engine, Atop)
    for seq in range(1, 3 * Tuning().factor * 2):
        engine.receive(Frame(1, 1, seq, seq, [], 2, 0, 0, [], 0, -1, seq * 2), seq * 10**9)
        assert engine.note(seq * 10**9) is None
