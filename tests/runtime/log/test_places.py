"""The index of messages' positions, compared with a log that is kept as a list."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.fake_log import FakeLog

from reconvene.errors import OutcomeUnknown, Unavailable
from reconvene.runtime.log import places as module
from reconvene.runtime.log.places import Places
from reconvene.wire.client_log import Append, Order


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=40), st.integers(1, 50), st.data())
def test_what_is_indexed_is_right_and_the_oldest_is_forgotten(
    batches: list[tuple[str, int]], kept: int, data: st.DataObject
) -> None:
    log: list[tuple[str, int]] = []
    lasts: dict[str, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_KEPT", kept)
        places = Places()
        for author, count in batches:
            first = lasts.get(author, 0) + 1
            places.green(author, first, count, len(log))
            log += [(author, first + at) for at in range(count)]
            lasts[author] = first + count - 1
        begin = len(log) - sum(count for _, count in batches[-kept:])
        for author, last in lasts.items():
            first = data.draw(st.integers(1, last))
            count = data.draw(st.integers(1, last - first + 1))
            expected = [log.index((author, counter)) for counter in range(first, first + count)]
            found = places.find(author, first, count)
            if expected[0] < begin:
                assert found is None
            else:
                assert found is not None
                assert [position + at for position, many in found for at in range(many)] == expected
                assert all(sum(one) < two[0] for one, two in pairwise(found))


def test_each_is_woken_when_its_message_is_green() -> None:
    async def scenario() -> None:
        places = Places()
        places.restart({"a": 2})
        assert places.ordered("a", 2, 1).result() is None
        late, soon, other = places.ordered("a", 5, 1), places.ordered("a", 3, 2), places.ordered("b", 1, 1)
        places.green("a", 3, 2, 10)
        assert (soon.done(), late.done(), other.done()) == (True, False, False)
        assert soon.result() == places.find("a", 3, 2) == [(10, 2)]
        assert places.find("a", 2, 2) is None
        places.restart({"a": 7})
        assert late.result() is None
        assert places.find("a", 3, 2) is None  # a snapshot covers it
        places.fail("b", OutcomeUnknown("another replica"))
        with pytest.raises(OutcomeUnknown):
            other.result()

    asyncio.run(scenario())


def test_those_that_gave_up_are_forgotten() -> None:
    async def scenario() -> None:
        places = Places()
        kept = places.ordered("a", 1, 1)
        for _ in range(10_000):
            places.ordered("a", 1, 1).cancel()
        assert places.waiting < 1_100
        places.green("a", 1, 1, 0)
        assert kept.done()

    asyncio.run(scenario())


def test_what_is_not_indexed_is_looked_for_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(module, "_KEPT", 2)
        log = FakeLog()
        for at in range(1_000):
            log.append(Append(0, [b"%d" % at, b"again"]))
            log.order_all()
        assert log.places.find("a", 1, 4) is None
        assert await log.find(Order(0, "a", 2, 5, 0, False)) == [(1, 5)]
        with pytest.raises(Unavailable, match="a's message 2 is before position 10"):
            await log.find(Order(0, "a", 2, 1, 10, False))
        log.truncate(4)
        with pytest.raises(Unavailable, match="truncated up to 4"):
            await log.find(Order(0, "a", 2, 1, 0, False))
        assert await log.find(Order(0, "a", 1_999, 2, 0, False)) == [(1_998, 2)]

    asyncio.run(scenario())
