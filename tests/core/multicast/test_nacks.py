"""When to ask again: at once for a loss, then less and less often, but never further apart than a bound."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.core.multicast.nacks import Nacks
from reconvene.core.options import Timing

quick = settings(max_examples=80, derandomize=True, deadline=None)
MS = 1_000_000
TIMING = Timing()


def ask_times(nacks: Nacks, q: int, until: int) -> list[int]:
    times: list[int] = []
    while (at := nacks.deadline()) is not None and at <= until:
        times += [at for member, _ in nacks.due(at) if member == q]
    return times


@quick
@given(st.integers(0, 500 * MS))
def test_back_off_doubles_and_is_bounded(trip: int) -> None:
    nacks = Nacks(2, TIMING)
    nacks.round_trip_ns = [trip, trip]
    nacks.gap(1, 0, 3, 1, 0)
    times = ask_times(nacks, 1, 20_000 * MS)
    assert times[0] == 0, "the sender's own frame shows a loss: asked for at once"
    gaps = [after - before for before, after in pairwise(times)]
    most = TIMING.nack_most_ns + 2 * trip
    assert gaps[0] == min(TIMING.nack_base_ns + trip * 3 // 2, most)
    assert all(after == min(before * 2, most) for before, after in pairwise(gaps))


def test_what_others_name_gets_time_to_arrive() -> None:
    nacks = Nacks(3, TIMING)
    nacks.round_trip_ns = [8 * MS] * 3
    nacks.gap(1, 0, 1, 2, 0)
    assert nacks.deadline() == 6 * MS
    nacks.gap(1, 0, 2, 1, 1 * MS)
    assert nacks.deadline() == 1 * MS, "now the sender itself shows it"


def test_what_has_come_is_not_asked_for() -> None:
    nacks = Nacks(2, TIMING)
    nacks.gap(1, 0, 2, 1, 0)
    nacks.progress(1, 1)
    assert nacks.pending == 1
    nacks.progress(1, 2)
    assert nacks.pending == 0
    assert nacks.deadline() is None
    assert nacks.due(1_000 * MS) == []


@quick
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=40))
def test_pending_counts_what_is_due(steps: list[tuple[int, int, int, bool]]) -> None:
    nacks = Nacks(3, TIMING)
    for now, (q, high, namer, settle) in enumerate(steps):
        nacks.gap(q, 2, high, namer, now)
        if settle:
            nacks.settle(q)
        assert nacks.pending == sum(at is not None for at in nacks._due_at)
        nacks.due(now)


def test_a_copy_under_way_is_not_sent_again_and_memory_is_bounded() -> None:
    nacks = Nacks(2, TIMING)
    nacks.round_trip_ns = [5 * MS, 5 * MS]
    assert nacks.may_resend(1, 0, 1, 0)
    assert not nacks.may_resend(1, 0, 1, 4 * MS)
    assert nacks.may_resend(1, 0, 1, 5 * MS)
    for seq in range(20_000):
        nacks.may_resend(1, 0, seq, 10 * MS)
    assert len(nacks._resent) <= 8_192
