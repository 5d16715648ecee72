"""What is opened ends with its block; what waits ends in time; what a site reports is typed."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.places import cluster, short_dir
from tests.client.test_log import connected, until

import reconvene
from reconvene import Health, LogStatus, SiteStatus, TimedOut, Unavailable, blocking
from reconvene.client.status import document, log_status, site_status


def test_a_group_is_left_at_the_end_of_its_block() -> None:
    async def scenario() -> None:
        with short_dir() as directory:
            async with reconvene.open(cluster(directory)[0]) as site:
                async with await site.join("x") as group:
                    await group.next()
                assert [event async for event in group] == []
                with pytest.raises(Unavailable):
                    await group.send(b"too late")
                async with await site.join("x") as again, await site.join("y") as other:
                    assert again.view.members == (again.me,)
                    await other.leave()
            # The site was closed within the block of the group.
            async with reconvene.open(cluster(directory)[0]) as site:
                late = await site.join("x")
                await late.__aenter__()
            await late.__aexit__(None, None, None)

    asyncio.run(scenario())


def test_followers_watches_and_transactions() -> None:
    async def scenario() -> None:
        async with connected() as (log, here):
            await log.append_many([b"%d" % number for number in range(10)])
            async with log.follow() as follow:
                assert (await anext(follow)).data == b"0"
            async with log.colors(timeout=0.05) as changes:
                assert [change async for change in changes] == []
            await until(lambda: not here.fake.changed)
            async with log.staging() as staging:
                await staging.put([b"seen", b"together"])
                places = await staging.ordered()
            with pytest.raises(Unavailable, match="has ended"):
                await staging.put([b"too late"])
            assert (await log.commit(places)).duplicate is False
            assert [entry.data for entry in await log.read(10)] == [b"seen", b"together"]

    asyncio.run(scenario())


def test_reading_ends_in_time() -> None:
    async def scenario() -> None:
        with short_dir() as directory:
            async with reconvene.open(cluster(directory)[0]) as site:
                group, follow = await site.join("x", timeout=10), site.log.follow()
                await group.next(timeout=5)
                with pytest.raises(TimedOut, match="nothing came"):
                    await group.next(timeout=0.01)
                assert [event async for event in group.events(timeout=0.01)] == []
                assert [batch async for batch in group.batches(timeout=0.01)] == []
                with pytest.raises(TimeoutError):
                    await follow.next_batch(timeout=0.01)
                assert [entry async for entry in follow.entries(timeout=0.01)] == []
                await (await site.log.append(b"one")).ordered()
                assert [entry.data async for entry in follow.entries(timeout=0.5)] == [b"one"]
                assert [batch async for batch in site.log.follow(1).batches(timeout=0.01)] == []
                await group.send(b"after")
                assert await group.next(timeout=5)
            with pytest.raises(TimeoutError):
                async with reconvene.connect("unix:/nowhere/x.sock", wait=0.1):
                    pass

    asyncio.run(scenario())


def test_what_a_real_site_reports() -> None:
    with short_dir() as directory:
        (config,) = cluster(directory)
        with blocking.open(config) as site:
            site.log.barrier(10)
            site.log.save_snapshot(0, b"state", name="stock")
            status, log = site.status(), site.log.status()
            assert isinstance(status, SiteStatus)
            assert isinstance(log, LogStatus)
            assert (status.health, site.health(), str(site.health())) == (Health.PRIMARY, "primary", "primary")
            assert log.snapshot.names["stock"].position == 0
            assert status.log == log
            assert status.members == ["a"]
            said = json.loads(json.dumps(document(status)))
            assert {"list", "counters", "log"} < set(said)
            assert (site_status(said), log_status(document(log))) == (status, log)
    with pytest.raises(reconvene.Malformed, match="the site's answer"):
        site_status({"name": "a"})


@pytest.fixture
def own_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("reconvene")
    before = logger.handlers[:], logger.level, logger.propagate
    yield logger
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_logging_as_a_node_has_it(own_logger: logging.Logger) -> None:
    stream = io.StringIO()
    reconvene.configure_logging(level="warning", format="json", stream=stream)
    own_logger.getChild("test").info("not this")
    own_logger.getChild("test").warning("this")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["this"]
    with pytest.raises(ValueError, match="level: "):
        reconvene.configure_logging(level="loud")
    with pytest.raises(ValueError, match="format: "):
        reconvene.configure_logging(format="xml")
    nowhere: Any = 5
    with pytest.raises(TypeError, match="stream: a text file to write to expected, not int"):
        reconvene.configure_logging(stream=nowhere)
