"""A client session of the program's own, as an object."""

import asyncio
from typing import Any

import pytest
from tests.client.places import cluster, short_dir
from tests.client.test_log import connected, until

import reconvene
from reconvene import OutcomeUnknown, Rejected, Unavailable, blocking


def test_numbers_of_the_caller() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            till = log.session(b"till 7")
            first = await till.append(b"coffee", number=1)
            again = await till.append(b"coffee", number=1)
            many = await till.append_many([b"coffee", b"tea"], number=1)
            assert (first.duplicate, again.duplicate, many.duplicate) == (False, True, 1)
            assert (till.name, till.last, till.unknown) == (b"till 7", None, [])
            assert [taken[1:] for taken in here.fake.appends] == [(b"till 7", 1)] * 3

    asyncio.run(scenario())


def test_numbers_of_its_own() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            till = log.session(b"till 7", after=4)
            await till.append(b"5")
            await till.append_many([b"6", b"7"])
            await till.append(b"8")
            assert [taken[2] for taken in here.fake.appends] == [5, 6, 8]
            assert till.last == 8
            # After a restart: the program has kept its last number.
            assert (await log.session(b"till 7", after=till.last).append(b"9")).duplicate is False
            assert [entry.data for entry in await log.read()] == [b"5", b"6", b"7", b"8", b"9"]

    asyncio.run(scenario())


def test_a_number_that_was_not_used_is_used_next() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            till = log.session(b"till 7", after=0)
            wrong: Any = "text"
            with pytest.raises(TypeError):
                await till.append(wrong)
            with pytest.raises(Rejected):
                await till.append(bytes(1_000_001))
            here.fake.trouble = "the disk is full"
            with pytest.raises(Unavailable):
                await till.append(b"x")
            here.fake.trouble = None
            await till.append(b"1")
            await till.append(b"2")
            assert (here.fake.appends[-2:], till.last, till.unknown) == (
                [(1, b"till 7", 1), (1, b"till 7", 2)],
                2,
                [],
            )

    asyncio.run(scenario())


def test_a_number_whose_outcome_is_unknown_is_for_the_same_message() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            till = log.session(b"till 7", after=0)
            here.fake.sync = False
            with pytest.raises(OutcomeUnknown) as late:
                await till.append(b"1", timeout=0.05)
            assert isinstance(late.value, TimeoutError)
            with pytest.raises(TimeoutError):
                await till.append_many([b"2", b"3"], timeout=0.05)
            assert (till.unknown, till.last) == ([1, 2, 3], 3)
            here.fake.sync = True
            here.fake.turn()
            assert (await till.append(b"1", number=1)).duplicate
            assert (await till.append_many([b"2", b"3"], number=2)).duplicate == 2
            assert till.unknown == []
            await till.append(b"4")
            assert [entry.data for entry in await log.read()] == [b"1", b"2", b"3", b"4"]

    asyncio.run(scenario())


def test_a_cancelled_append_may_have_happened() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            till = log.session(b"till 7", after=0)
            here.fake.sync = False
            appending = asyncio.create_task(till.append(b"1"))
            await until(lambda: bool(here.fake.appends))
            appending.cancel()
            await asyncio.wait([appending])
            assert till.unknown == [1]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "error", "line"),
    [
        (None, TypeError, "session: bytes expected, not NoneType"),
        ("till 7", TypeError, "session: bytes expected, not str"),
        (b"", ValueError, "session: 1 to 64 bytes expected, not 0"),
    ],
)
def test_names_that_no_session_has(name: Any, error: type[Exception], line: str) -> None:
    with short_dir() as directory, blocking.open(cluster(directory)[0]) as site, pytest.raises(error, match=line):
        site.log.session(name)


def test_without_asyncio() -> None:
    with short_dir() as directory:
        (config,) = cluster(directory)
        with blocking.open(config) as site:
            till = site.log.session(b"till 7", after=0)
            assert till.append(b"one").ordered(10) == 0
            assert list(till.append_many(data for data in (b"two", b"three")).ordered(10)) == [1, 2]
            assert till.append(b"three", number=3).duplicate
            with pytest.raises(ValueError, match="number"):
                site.log.session(b"till 8").append(b"one")
            assert (till.last, [entry.data for entry in site.log.read()]) == (3, [b"one", b"two", b"three"])
            assert isinstance(site.status(), reconvene.SiteStatus)
