"""bench frame: what it measures; its times are not tested."""

import pytest

from reconvene.core.options import Options
from reconvene.lab.bench.frame import bare_us, cost_us, layers, submit_us
from reconvene.lab.bench.wired import Wired


@pytest.mark.parametrize("order", ["atop", "all-ack"])
@pytest.mark.parametrize("a_turn_each", [False, True])
def test_every_round_is_a_frame_of_each(order: str, a_turn_each: bool) -> None:
    wired = Wired(3, Options(order=order))
    before = [site.current.multicast.received[rank] for rank, site in enumerate(wired.sites)]
    assert wired.play([b"x" * 100] * 5, 40, a_turn_each) > 0
    wired.settle()
    assert wired.delivered == 40 * 5 * 9
    for rank, site in enumerate(wired.sites):
        assert 40 <= site.current.multicast.received[rank] - before[rank] <= 50
        assert site.counters.nacks == site.counters.malformed == 0


def test_costs_are_positive() -> None:
    wired = Wired(2, Options())
    assert cost_us(wired, 2, 10, 1) > 0
    assert bare_us(wired, 2, 10, 1) > 0
    assert submit_us(wired, 10, 1) > 0
    shares = layers(wired, 1, 20)
    assert {"multicast", "order", "evs", "site"} <= set(shares)
    assert sum(shares.values()) == pytest.approx(1)
