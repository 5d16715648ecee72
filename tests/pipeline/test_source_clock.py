"""The log's own clock: deterministic, never back, and not dragged away by one clock that is far ahead."""

from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.pipeline.source.clock import BOUND_NS, MOST_AUTHORS, Clock

HOUR = BOUND_NS
Seen = list[tuple[str, int]]

batches = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 20 * HOUR)), max_size=40)


def times(seen: Seen, clock: Clock | None = None) -> list[int]:
    clock = Clock() if clock is None else clock
    return [clock.see(author, time) for author, time in seen]


@settings(deadline=None)
@given(batches)
def test_it_never_goes_back_and_never_beyond_what_was_seen(seen: Seen) -> None:
    found = times(seen)
    assert found == sorted(found)
    highest = 0
    for (_, time), now in zip(seen, found, strict=True):
        highest = max(highest, time)
        assert now <= highest


@settings(deadline=None)
@given(batches, st.integers(0, 40))
def test_it_goes_on_from_its_state(seen: Seen, at: int) -> None:
    clock = Clock()
    first = times(seen[:at], clock)
    again = Clock(*clock.state)
    assert again.state == clock.state
    assert first + times(seen[at:], again) == times(seen)


@settings(deadline=None)
@given(batches, st.lists(st.integers(1, 3), min_size=40, max_size=40))
def test_parts_of_a_batch_are_as_the_whole(seen: Seen, parts: list[int]) -> None:
    clock, whole = Clock(), Clock()
    for (author, time), many in zip(seen, parts, strict=False):
        expected = whole.see(author, time)
        assert [clock.see(author, time) for _ in range(many)] == [expected] * many
        assert clock.state == whole.state


@settings(deadline=None)
@given(batches)
def test_a_batch_takes_it_forward_by_the_bound_at_most_unless_two_agree(seen: Seen) -> None:
    clock = Clock()
    latest: dict[str, int] = {}
    for author, time in seen:
        before = clock.time
        now = clock.see(author, time)
        others = [theirs for other, theirs in latest.items() if other != author]
        if before is not None and others and not any(abs(theirs - time) <= HOUR for theirs in others):
            assert now <= before + HOUR
        latest[author] = time


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, HOUR // 2)), min_size=1))
def test_clocks_that_agree_give_the_running_maximum(seen: Seen) -> None:
    highest = 0
    for (_, time), now in zip(seen, times(seen), strict=True):
        highest = max(highest, time)
        assert now == highest


def test_a_minority_that_comes_back_late_is_counted_when_it_is_ordered() -> None:
    assert times([("a", 10 * HOUR), ("b", 10 * HOUR + 5), ("c", 2 * HOUR)]) == [
        10 * HOUR,
        10 * HOUR + 5,
        10 * HOUR + 5,
    ]


def test_one_author_alone_is_the_truth() -> None:
    assert times([("a", 1), ("a", 50 * HOUR), ("a", 7)]) == [1, 50 * HOUR, 50 * HOUR]


def test_a_clock_that_is_far_ahead_is_taken_back_and_stays_so() -> None:
    year = 8_760 * HOUR
    seen = [("a", 0), ("b", 1), ("c", year), ("a", 2), ("c", year + 3), ("b", 4), ("c", year + 5)]
    assert times(seen) == [0, 1, HOUR + 1, HOUR + 1, HOUR + 4, HOUR + 4, HOUR + 6]


def test_two_that_agree_tell_of_a_silence() -> None:
    seen = [("a", 0), ("b", 1), ("a", 9 * HOUR), ("b", 9 * HOUR + 7), ("a", 9 * HOUR + 8)]
    assert times(seen) == [0, 1, HOUR + 1, 9 * HOUR + 7, 9 * HOUR + 8]


def test_who_works_alone_catches_up() -> None:
    clock = Clock()
    times([("b", 0), ("a", 1)], clock)
    days = [[("a", 24 * HOUR * day + step * HOUR // 2) for step in range(32)] for day in range(1, 31)]
    found = [times(day, clock) for day in days]
    assert found[0][0] == 1 + HOUR
    # After a day's work nothing is left of the night before: it is not behind by more, night after night.
    for day, then in zip(days[5:], found[5:], strict=True):
        assert day[0][1] - then[0] == 7 * HOUR + HOUR // 2
        assert day[-1][1] == then[-1]


def test_it_remembers_a_bounded_number_of_authors() -> None:
    clock = Clock()
    for at in range(MOST_AUTHORS + 50):
        clock.see(f"s{at}", at)
    authors = [author for author, _, _ in clock.state[1]]
    assert authors == [f"s{at}" for at in range(50, MOST_AUTHORS + 50)]
