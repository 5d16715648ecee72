"""`site.isis` of sites with real sockets: inside the program, behind a socket, and without asyncio."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.client.places import cluster, short_dir
from tests.sim.chunks import few

import reconvene
from reconvene import ALL, Cast, Config, GroupView, Killed, Reply, blocking
from reconvene.isis.limits import least_message
from reconvene.runtime.config.settings import IsisSettings, Limits, LogSettings, Trace
from reconvene.trace.reader import read_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History


def configs(directory: Path, names: str = "a") -> list[Config]:
    return [
        structs.replace(
            config,
            isis=IsisSettings(enabled=True),
            log=LogSettings(enabled=False),
            trace=Trace(dir=directory / "trace"),
        )
        for config in cluster(directory, names)
    ]


def judge(directory: Path) -> None:
    trace = read_trace(directory / "trace")
    report = verify([History.of(trace.run, trace.rows)])
    assert report.ok, [check for check in report.checks if check.violations]
    assert trace.run.stack == "isis"


async def until(isis: reconvene.Isis, wanted: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(30):
        async for event in isis:
            if wanted(event):
                return event
    raise AssertionError("the end")


@pytest.mark.parametrize("casts", few([1_200, 3_000], 1))
def test_three_sites_inside_and_a_client(casts: int) -> None:
    async def scenario(directory: Path) -> None:
        async with AsyncExitStack() as stack:
            files = configs(directory, "abc")
            a, b, c = await asyncio.gather(*(stack.enter_async_context(reconvene.open(config)) for config in files))
            groups = await asyncio.gather(*(site.isis.join("bank") for site in (a, b, c)))
            async with reconvene.connect(files[0].unix_socket) as client:
                call = await client.isis.abcast(b"?", to="bank", replies=ALL)
                for site in (a, b, c):
                    cast = await until(site.isis, lambda event: isinstance(event, Cast))
                    await cast.reply(site.name.encode())
                    with pytest.raises(reconvene.Rejected, match="second reply"):
                        await cast.reply(b"again")
                assert sorted(reply.data for reply in await call.replies() if isinstance(reply, Reply)) == [
                    b"a", b"b", b"c",
                ]  # fmt: skip
                await asyncio.gather(*(groups[0].cbcast(b"%d" % number) for number in range(casts)))
                seen: list[int] = []
                while len(seen) < casts:
                    event = await c.isis.next(timeout=30)
                    if isinstance(event, Cast):
                        seen.append(int(event.data))
                assert seen == list(range(casts))
                await a.isis.flush(timeout=30)
                status = await b.status()
                assert status.isis is not None
                assert status.counters["isis_casts"] == 0
                assert (await a.status()).counters["isis_casts"] == casts + 1
        judge(directory)

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_without_asyncio() -> None:
    with short_dir() as directory:
        (config,) = configs(directory)
        with blocking.open(config) as site:
            bank = site.isis.join("bank")
            with blocking.connect(config.unix_socket) as other:
                theirs = other.isis.join("bank", timeout=30)
                call = bank.cbcast(b"?", replies=ALL)
                for isis in (site.isis, other.isis):
                    for event in isis:
                        if isinstance(event, Cast):
                            event.reply(b"yes")
                            break
                assert [reply.data for reply in call if isinstance(reply, Reply)] == [b"yes", b"yes"]
                with theirs:
                    theirs.set(mode=b"ro")
                assert [event for event in other.isis.events(timeout=0.2) if isinstance(event, GroupView)]
            last = [event for event in site.isis.events(timeout=0.2) if isinstance(event, GroupView)][-1]
            assert (last.members, last.properties, last.failed) == ((site.isis.me,), {"mode": b"ro"}, ())
        judge(directory)


def test_a_client_whose_site_restarts_is_another_process() -> None:
    async def scenario(directory: Path) -> None:
        (config,) = configs(directory)
        async with AsyncExitStack() as outer:
            async with reconvene.open(config):
                client = await outer.enter_async_context(reconvene.connect(config.unix_socket))
                bank = await client.isis.join("bank")
                was = client.isis.me
            async with reconvene.open(config):
                killed = await until(client.isis, lambda event: isinstance(event, Killed))
                assert (killed.was, killed.me) == (was, client.isis.me)
                assert killed.me.incarnation == was.incarnation + 1
                with pytest.raises(reconvene.Unavailable):
                    await bank.cbcast(b"in no group")
                await client.isis.join("bank", timeout=30)
        judge(directory)

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_site_that_takes_no_part() -> None:
    async def scenario(directory: Path) -> None:
        (config,) = cluster(directory)
        async with reconvene.open(config) as site, reconvene.connect(config.unix_socket) as client:
            with pytest.raises(reconvene.Rejected, match=r"site a takes no part in ISIS: see isis\.enabled"):
                _ = site.isis
            with pytest.raises(reconvene.Rejected, match=r"site a takes no part in ISIS: see isis\.enabled"):
                await client.isis.join("bank")

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_newcomer_where_messages_are_as_short_as_they_may_be() -> None:
    """It is told a group with all its properties, which is one entry of the table."""
    limits = Limits(message_bytes=least_message(3))

    async def run(directory: Path) -> None:
        one, two, three = [structs.replace(config, limits=limits) for config in configs(directory, "abc")]
        async with reconvene.open(one) as first, reconvene.open(two):
            bank = await first.isis.join("bank", timeout=30)
            for number in range(64):
                await bank.set(**{f"p{number}": bytes(1_020)})
            await until(first.isis, lambda event: isinstance(event, GroupView) and len(event.properties) == 64)
            async with reconvene.open(three) as third:
                late = await third.isis.join("bank", timeout=30)
                assert late.view.properties == bank.view.properties
                assert len(late.view.members) == 2

    with short_dir() as directory:
        asyncio.run(run(directory))
        judge(directory)
