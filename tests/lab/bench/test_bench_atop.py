"""The ATOP paper's statements in a small run; virtual time, so nothing here depends on the machine."""

from fractions import Fraction

import pytest

from reconvene.core.options import Options
from reconvene.lab.bench import atop, atop_beyond
from reconvene.lab.bench.atop_plots import rate_over_time, ticks
from reconvene.lab.load.simulated import SECOND, Arrivals, System, Traffic, measure


def small(system: System, slow: str) -> Arrivals:
    arrivals = measure(system, atop.rates(Fraction(slow)), warm_ns=6 * SECOND, span_ns=4 * SECOND)
    assert arrivals.missing == 0
    return arrivals


@pytest.fixture(scope="module")
def results() -> dict[tuple[str, str], Arrivals]:
    return {
        (system.name, slow): small(system, slow)
        for slow in ("10", "1")
        for system in (atop.CAUSAL, atop.ATOP, atop.LAZY)
    }


@pytest.mark.parametrize("slow", ["10", "1"])
def test_atop_stays_near_causal(results: dict[tuple[str, str], Arrivals], slow: str) -> None:
    """6.2.1: after adaptation its average is only slightly above that of causal delivery."""
    reference = results["causal", slow].mean_ms + atop.network_delay_ms()
    assert results["atop", slow].mean_ms <= atop.LIMIT * reference
    assert results["atop", slow].mean_by_sender_ms <= atop.LIMIT * reference


def test_lazy_all_ack_follows_the_slowest(results: dict[tuple[str, str], Arrivals]) -> None:
    """6.2.1: its latency grows as the slow members send less, its variance is far greater."""
    lazy = results["all-ack lazy", "1"]
    assert lazy.mean_ms > 5 * results["all-ack lazy", "10"].mean_ms
    assert lazy.variance_ms2 > 1000 * results["atop", "1"].variance_ms2


def test_causal_takes_one_way(results: dict[tuple[str, str], Arrivals]) -> None:
    assert 5 / 6 * 1.0 <= results["causal", "10"].mean_ms <= 5 / 6 * 1.2


def test_figures_7_and_8(results: dict[tuple[str, str], Arrivals]) -> None:
    """Delivery keeps up with sending, or stops and catches up at once."""
    even = rate_over_time(results["atop", "1"], 8)
    assert 6 <= min(even) <= max(even) <= 14
    assert min(rate_over_time(results["all-ack lazy", "1"], 8)) == 0
    sent, delivered = ticks(results["atop", "1"])
    assert all(there - here <= 1 for there, here in zip(sent, delivered, strict=True))
    sent, delivered = ticks(results["all-ack lazy", "1"])
    assert max(there - here for there, here in zip(sent, delivered, strict=True)) >= 5


def test_the_same_seed_gives_the_same_figures() -> None:
    runs = [measure(atop.ATOP, [5.0, 5.0, 5.0], warm_ns=0, span_ns=SECOND, seed=seed).all for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


def test_every_policy_and_both_sequences_are_compared() -> None:
    for work in atop_beyond.WORKS:
        systems = atop_beyond.systems(work)
        assert len({system.name for system in systems}) == 10


@pytest.mark.parametrize("work", atop_beyond.WORKS, ids=lambda work: work.name)
def test_nothing_is_lost_where_traffic_is_not_steady(work: atop_beyond.Work) -> None:
    arrivals = measure(atop_beyond.systems(work)[3], work.traffic(SECOND, SECOND))
    assert arrivals.missing == 0
    assert arrivals.messages > 25


def test_a_paused_member_delays_the_others() -> None:
    traffic = Traffic(((lambda _: 20.0), (lambda _: 20.0)), 0, 2 * SECOND, still=((1, SECOND // 2, SECOND),))
    arrivals = measure(System("atop", Options()), traffic)
    assert arrivals.missing == 0
    assert 300 < arrivals.percentile_ms(100) < 600
