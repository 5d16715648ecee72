"""No datagram, in any phase, makes a site raise an error or use unbounded memory."""

from itertools import pairwise
from random import Random

import pytest
from tests.wire.hostile import STEPS, Liar, reach, weight

from reconvene.core.multicast.packing import FRAGMENT, LAST, WHOLE
from reconvene.errors import Malformed
from reconvene.wire.codec import decode
from reconvene.wire.messages import Frame

LIES = 1_000


@pytest.mark.parametrize("order", ["atop", "all-ack"])
@pytest.mark.parametrize("step", STEPS)
def test_nothing_raises(step: str, order: str) -> None:
    """Changed real datagrams, and well-formed false ones. Invariants hold for honest members only: not checked
    here."""
    target = reach(step, order)
    liar = Liar(target, Random(f"{step}{order}"))
    last = b""
    try:
        for _ in range(LIES):
            last = liar.next()
            target.feed(last, flush=liar.random.random() < 0.7)
    except Exception as error:
        raise AssertionError(f"in {target.site.step}: {last.hex()}") from error


@pytest.mark.parametrize("step", STEPS)
def test_what_is_malformed_changes_nothing(step: str) -> None:
    target = reach(step)
    liar = Liar(target, Random(step))
    before = target.site.counters.malformed
    fed = 0
    while fed < 300:
        data = liar.mutated(liar.random.choice(liar.recorded))
        try:
            decode(data)
        except Malformed:
            target.site.receive(data, target.now)
            fed += 1
    assert target.site.counters.malformed == before + fed
    assert target.site.step == step
    target.site.invariants()


@pytest.mark.parametrize("step", STEPS)
def test_real_datagrams_again_and_out_of_order(step: str) -> None:
    """Every datagram that was ever sent to any site, twice, shuffled: stale, but not false."""
    target = reach(step)
    random = Random(step)
    replayed = target.recorded * 2
    random.shuffle(replayed)
    for data in replayed:
        target.feed(data, flush=random.random() < 0.5)
        target.site.invariants()


def test_memory_is_bounded() -> None:
    target = reach("operational")
    liar = Liar(target, Random(1))
    weights: list[int] = []
    for turn in range(20_000):
        target.feed(liar.next(), flush=turn % 3 == 0)
        if turn % 5_000 == 4_999:
            weights.append(weight(target.site))
    assert max(weights) < 2_000_000, weights
    assert any(after <= before * 1.1 for before, after in pairwise(weights)), weights


def test_the_ways_to_lie_cover_every_part() -> None:
    """The generator makes all kinds and parts; otherwise the tests above would prove little."""
    target = reach("operational")
    liar = Liar(target, Random(3))
    kinds, parts = set(), set()
    for _ in range(2_000):
        try:
            message = decode(liar.next())
        except Malformed:
            kinds.add("malformed")
            continue
        kinds.add(type(message).__name__)
        if isinstance(message, Frame):
            parts.add(message.part)
    assert parts == {WHOLE, FRAGMENT, LAST}
    assert len(kinds) == 11
