"""bench isis: every bar, in virtual time, so that the ratios are the same on every machine."""

from itertools import pairwise

import pytest

from reconvene.ids import Service
from reconvene.lab.bench import isis_object
from reconvene.lab.bench.isis_casts import all_sending, alone, beside_a_pause, largest_pool, plain_alone
from reconvene.lab.bench.isis_groups import crash_ns, join_ns
from reconvene.lab.load.isis_simulated import network_delay_ns
from reconvene.lab.load.simulated import MS


@pytest.mark.parametrize(("kind", "most"), [("cbcast", 1.05), ("abcast", 3.2)])
def test_a_cast_alone_takes_its_network_delays(kind: str, most: float) -> None:
    cast = alone(kind, 3, None, 50, 20 * MS, 1)
    assert len(cast.took_ns) == 100
    assert cast.mean_ns / network_delay_ns() <= most


def test_only_the_sites_of_the_destinations_pay() -> None:
    few, many = (alone("cbcast", sites, (1, 2), 20, 20 * MS, 1) for sites in (3, 8))
    assert many.datagrams / few.datagrams <= 1.1
    plain = [plain_alone(Service.CAUSAL, sites, 20, 20 * MS, 1).datagrams for sites in (3, 8)]
    assert plain[1] / plain[0] > 5


@pytest.mark.parametrize("kind", ["cbcast", "abcast"])
def test_a_label_does_not_wait_for_another_ones_destination(kind: str) -> None:
    still, paused = (beside_a_pause(kind, 1_500 * MS, 1, pauses=pauses) for pauses in (False, True))
    assert paused / still <= 1.1


def test_a_payload_crosses_once_for_each_destination_and_load_is_packed() -> None:
    light, heavy = all_sending(3, 10, 20, 1), all_sending(3, 4_000, 100, 1)
    assert light.copies <= 1.3
    assert heavy.copies <= 1.3
    assert heavy.casts_a_packet / light.casts_a_packet >= 3


def test_a_join_takes_few_agreed_deliveries() -> None:
    agreed = plain_alone(Service.AGREED, 3, 20, 20 * MS, 1).mean_ns
    assert join_ns(3, 5, 1) / agreed <= 5


def test_a_crash_takes_no_longer_with_many_groups() -> None:
    assert crash_ns(3, 40, 1) / crash_ns(3, 0, 1) <= 1.2


def test_the_pool_is_bounded_by_the_window() -> None:
    assert 0 < largest_pool(3, 8_000, 100 * MS, 1) / (3 * 8_000) <= 1.5


def test_section_5_4() -> None:
    def response(copies: int, updates: int, *, synchronous: bool) -> int:
        return isis_object.measure(copies, updates, synchronous=synchronous, seed=1).response_ns

    further = [
        response(3, 3, synchronous=synchronous) - response(3, 1, synchronous=synchronous)
        for synchronous in (False, True)
    ]
    assert further[1] / further[0] >= 5
    assert response(6, 3, synchronous=False) / response(2, 3, synchronous=False) <= 1.2
    waiting = [response(copies, 3, synchronous=True) for copies in (2, 4, 6)]
    assert all(fewer < more for fewer, more in pairwise(waiting))


def test_the_asynchronous_version_goes_on_after_its_reply() -> None:
    """What the cohorts do is not on the way to the reply: with the same cost they are done about when it comes."""
    request = isis_object.measure(3, 5, synchronous=False, seed=1)
    assert abs(request.done_ns - request.response_ns) <= 2 * isis_object.COST_NS


def test_a_seed_has_the_same_figures() -> None:
    assert alone("abcast", 3, None, 10, 20 * MS, 7) == alone("abcast", 3, None, 10, 20 * MS, 7)
