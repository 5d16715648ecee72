"""The objects, at three real sites that part and meet again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.test_cluster import Three, three

from reconvene import Entry, OutcomeUnknown, Unavailable
from reconvene.objects import ReplicatedMap, Tally
from reconvene.objects.replicated_map import MapState
from reconvene.objects.tally import TallyState


@asynccontextmanager
async def sites() -> AsyncIterator[Three]:
    async with asyncio.timeout(60), three() as found:
        yield found


async def part(found: Three, alone: str) -> None:
    """Cuts a site off, and waits until it knows."""
    for site in found.sites:
        others = [name for name in site.sites if (name == alone) != (site.name == alone)]
        await site.block(others, others)
    for site in found.sites:
        while await site.health() != ("minority" if site.name == alone else "primary"):
            await asyncio.sleep(0.02)


async def meet(found: Three) -> None:
    for site in found.sites:
        await site.block()


def test_a_map_is_the_same_everywhere() -> None:
    async def scenario() -> None:
        async with sites() as found:
            a, b, c = (ReplicatedMap(site.log, "prices") for site in found.sites)
            async with a, b, c:
                await a.set("coffee", 300)
                assert await b.get("coffee", ordered=True) == 300
                won = await asyncio.gather(a.add("seat 1", "a"), b.add("seat 1", "b"))
                assert sorted(won) == [False, True]
                await part(found, "c")
                await c.set("coffee", 310)
                await a.set("tea", 250, ordered=True)
                assert await c.get("coffee") == 300
                assert await c.get("coffee", optimistic=True) == 310
                assert await a.get("coffee", optimistic=True) == 300
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await c.get("tea", ordered=True)
                await meet(found)
                assert await c.get("tea", ordered=True) == 250
                while await a.get("coffee", ordered=True) != 310:
                    await asyncio.sleep(0.05)
                await b.remove("tea", ordered=True)
                everything = [await one.items(ordered=True) for one in (a, b, c)]
                assert everything[0] == everything[1] == everything[2]
                assert sorted(everything[0]) == ["coffee", "seat 1"]

    asyncio.run(scenario())


def test_every_winner_is_told_so() -> None:
    """However many of one client's adds are under way at once."""

    async def scenario() -> None:
        async with sites() as found:
            a, b = (ReplicatedMap(site.log, "seats") for site in found.sites[:2])
            async with a, b:
                won = await asyncio.gather(*(a.add(f"seat {seat}", "a") for seat in range(5_000)))
                assert won == [True] * 5_000
                lost = await asyncio.gather(*(b.add(f"seat {seat}", "b") for seat in range(0, 5_000, 2)))
                assert lost == [False] * 2_500
                assert await b.items(ordered=True) == {f"seat {seat}": "a" for seat in range(5_000)}
                assert (a.state.asked, b.state.asked) == ({}, {})

    asyncio.run(scenario())


def test_an_answer_that_is_not_known_is_no_answer() -> None:
    """The copy took over a snapshot, which holds the answers of the last changes only."""

    async def scenario() -> None:
        async with sites() as found, ReplicatedMap(found.sites[0].log, "seats") as seats:
            others = MapState("seats")
            others.items = {"seat 2": "someone", "seat 3": "someone"}
            theirs = others.snapshot()
            apply = seats.state.apply
            seats.state.apply = lambda entry: seats.state.restore(theirs)  # type: ignore[method-assign]
            with pytest.raises(OutcomeUnknown, match="seat 2"):
                await seats.add("seat 2", "me")
            seats.state.apply = apply  # type: ignore[method-assign]
            assert not await seats.add("seat 2", "me")
            assert await seats.add("seat 1", "me")

    asyncio.run(scenario())


def test_what_was_appended_is_never_said_to_have_failed() -> None:
    """The copy stops while a change waits for its place: the change is in the log all the same."""

    async def scenario() -> None:
        async with sites() as found:
            log = found.sites[0].log
            await part(found, "a")
            async with ReplicatedMap(log, "seats") as seats, Tally(log, "sold") as sold:
                changes = (seats.add("1", "me"), seats.set("2", "me", ordered=True), sold.add("3", ordered=True))
                waiting = [asyncio.create_task(change) for change in changes]
                while len(await log.pending()) < 3:
                    await asyncio.sleep(0.01)
            await meet(found)
            for one in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(one, OutcomeUnknown), one
            for late in (seats.add("4", "me"), seats.set("5", "me", ordered=True), sold.add("6", ordered=True)):
                with pytest.raises(Unavailable, match="not run"):
                    await late
            await log.barrier()
            assert len(await log.read()) == 3

    asyncio.run(scenario())


def test_a_tally_loses_nobody() -> None:
    async def scenario() -> None:
        async with sites() as found:
            a, b, c = (Tally(site.log, "visitors") for site in found.sites)
            async with a, b, c:
                await a.add("door", 2, ordered=True)
                await part(found, "c")
                await c.add("door", 5)
                await b.add("door", ordered=True)
                assert await c.total("door", optimistic=True) == 7
                assert await a.total("door", ordered=True) == 3
                await meet(found)
                while await a.total("door", ordered=True) != 8:
                    await asyncio.sleep(0.05)
                assert await c.totals(ordered=True) == {"door": 8}
                assert await b.total("window") == 0
                first = await a.add("window", session=b"ticket 7", number=1)
                again = await b.add("window", session=b"ticket 7", number=1, ordered=True)
                assert (first.duplicate, await again.ordered()) == (False, await first.ordered())
                assert await c.total("window", ordered=True) == 1, "the same ticket counts once"

    asyncio.run(scenario())


def entry(position: int, data: bytes) -> Entry:
    return Entry(position, data, "a", 1, position + 1, 0)


def test_states_pass_over_what_is_not_theirs_and_come_back_from_a_snapshot() -> None:
    for state in (MapState("x"), TallyState("x")):
        for position, data in enumerate(
            (
                b"", b"\xff", b"text", b"\x93\xa5tally\xa1y\xa1k", b"\x93\xa3map\xa1y\xa1k",
                b"\x93\xa3map\xa1\xff\xa1k", b"\x94\xa5tally\xa1\xff\xa1k\x01",
                b"\x94\xa3map\xa1y\xa1k" + 5_000 * b"\x91" + b"\x90",
            )
        ):  # fmt: skip
            state.apply(entry(position, data))
        other = type(state)("x")
        other.restore(state.snapshot())
        assert vars(other) == vars(state)
        assert state.kind != type(state)("y").kind
    tally = TallyState("x")
    tally.totals["k"] = 1 << 80
    copy = TallyState("x")
    copy.restore(tally.snapshot())
    assert copy.totals == {"k": 1 << 80}
