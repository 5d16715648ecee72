"""Nothing that a member sends makes a layer raise: what is malformed is counted, what is false is ignored."""

from random import Random

import pytest
from tests.isis.hostile import Busy, Liar
from tests.sim.chunks import few

from reconvene.errors import Malformed
from reconvene.isis.messages import decode_control, decode_record

TURNS = 1_500


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_nothing_raises(seed: int) -> None:
    """Invariants hold for honest members only: not checked here."""
    random = Random(f"lies/{seed}")
    busy = Busy(random)
    busy.honest = False
    liar = Liar(busy, random)
    said: list[str] = []
    try:
        for _ in range(TURNS):
            for _ in range(random.randrange(3)):
                busy.act()
            if random.random() < 0.8:
                said.append(liar.lie())
            if random.random() < 0.01:
                busy.change()
            busy.run(1)
    except Exception as error:
        raise AssertionError("\n".join(["after:", *said[-5:]])) from error


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_the_same_work_without_lies(seed: int) -> None:
    random = Random(f"honest/{seed}")
    busy = Busy(random)
    for _ in range(TURNS):
        busy.act()
        if random.random() < 0.01:
            busy.change()
        busy.run(1)
    assert not any(isis.here.malformed or isis.site_views.malformed for isis in busy.sites.values())


def test_what_is_malformed_is_counted_and_changes_nothing() -> None:
    random = Random("malformed")
    busy = Busy(random)
    busy.lost = lambda: False
    liar = Liar(busy, random)
    for _ in range(100):
        busy.act()
    busy.run(100)
    steps = [isis.step for isis in busy.sites.values()]
    records = controls = 0
    while records < 200 or controls < 200:
        record, control = liar.record(), liar.control()
        if records < 200 and _is_malformed(record, control=False):
            busy.sites["b"].channels.send(0, record)
            records += 1
        if controls < 200 and _is_malformed(control, control=True):
            busy.submit("b", control)
            controls += 1
    busy.run(100)
    assert busy.sites["a"].here.malformed == records
    assert [isis.site_views.malformed for isis in busy.sites.values()] == [controls] * len(busy.sites)
    assert [isis.step for isis in busy.sites.values()] == steps


def _is_malformed(data: bytes, *, control: bool) -> bool:
    try:
        decode_control(data) if control else decode_record(data)
    except Malformed:
        return True
    return False
