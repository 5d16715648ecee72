"""bench membership: a change takes about as long as its timeouts."""

from statistics import median

import pytest

from reconvene.core.options import Timing
from reconvene.lab.bench.membership import limit_ns, measure


@pytest.mark.parametrize("fault", ["crash", "heal"])
def test_a_change_stays_near_its_time_outs(fault: str) -> None:
    change = measure(fault, 3, range(1, 4))
    assert len(change.took_ns) == len(change.copies) == 3
    assert 0 < median(change.took_ns) < 1.5 * limit_ns(fault, 3, Timing())


def test_limits_follow_the_options() -> None:
    timing = Timing(suspect_base_ns=100, suspect_per_site_ns=7, beacon_every_ns=5, gather_patience_ns=3)
    assert limit_ns("crash", 4, timing) == 128
    assert limit_ns("heal", 4, timing) == 8
