"""COReL, sections 1 and 6: where a majority is connected and stays so, a message is ordered within two rounds."""

import pytest

from reconvene.lab.bench.append_rounds import count_rounds


@pytest.mark.parametrize("sites", [3, 5])
@pytest.mark.parametrize("order", ["atop", "all-ack"])
def test_two_rounds_from_append_to_green(order: str, sites: int) -> None:
    found = count_rounds(order, sites)
    print(found)
    assert found.batches == 1, "the first round: the message, to all"
    assert found.acknowledgements == 1, "the second: each one's acknowledgement, to all"
    assert found.acknowledged == pytest.approx(1.0, abs=0.01), "green as soon as the last of them arrives"


def test_with_atop_nothing_else_takes_time() -> None:
    assert count_rounds("atop").green == pytest.approx(2.0, abs=0.01)


def test_all_ack_hears_everyone_before_it_delivers() -> None:
    found = count_rounds("all-ack")
    assert found.delivered == pytest.approx(2.0, abs=0.01), "a round of the order's own, below the log"
    assert found.green == pytest.approx(3.0, abs=0.01)
