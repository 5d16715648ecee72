"""What an append ends with: after a lost connection, and while other clients wait for room."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace
from tests.client.places import cluster, short_dir
from tests.ports import free_ports

import reconvene
from reconvene.runtime.config.settings import Config, FaultSettings, LogSettings, Seal
from reconvene.testing import Cluster


@pytest.mark.parametrize("seed", [0, 2])
def test_a_refusal_by_the_next_site_does_not_say_that_the_lost_one_has_not_accepted(seed: int) -> None:
    async def scenario(net: Cluster) -> tuple[list[str], list[int]]:
        async with net.connect("a", "b", timeout=5) as site:
            session = site.log.session(b"till", after=0)
            net.slow_disk("a", "200ms")
            await asyncio.sleep(1)
            appends = [asyncio.create_task(session.append(b"first")), asyncio.create_task(site.log.append(b"bare"))]
            await asyncio.sleep(0.1)
            net.crash("a")
            ends = [type(end).__name__ for end in await asyncio.gather(*appends, return_exceptions=True)]
            return ends, session.unknown

    # b keeps no replica, and refuses both.
    one = Cluster("abcd", seed=seed, settings={"log": {"replicas": ["a", "c", "d"]}})
    assert one.run(scenario, judge=False) == (["OutcomeUnknown", "OutcomeUnknown"], [1])


def test_an_append_in_the_program_goes_on_when_other_clients_have_waited_for_room() -> None:
    asyncio.run(_wait_for_room())


async def _wait_for_room() -> None:
    with short_dir() as directory:
        configs = cluster(directory, "abc", log=LogSettings(red_messages=8))
        async with AsyncExitStack() as stack, asyncio.timeout(30):
            opening = (reconvene.open(replace(config, faults=FaultSettings(allowed=True))) for config in configs)
            sites = await asyncio.gather(*(stack.enter_async_context(one) for one in opening))
            await _reach(sites, "primary")
            client = await stack.enter_async_context(reconvene.connect(f"unix:{directory}/a/site.sock"))
            for site in sites:
                others = [name for name in site.sites if name != site.name]
                await site.block(others, others)
            await _reach(sites, "minority")
            remote = [asyncio.create_task(client.log.append_many([b"remote"] * 4)) for _ in range(4)]
            while sum(task.done() for task in remote) < 2:
                await asyncio.sleep(0.01)
            embedded = asyncio.create_task(sites[0].log.append(b"embedded"))
            await asyncio.sleep(0.1)
            assert not embedded.done()
            for site in sites:
                await site.block()
            await asyncio.gather(*remote, embedded)


async def _reach(sites: "list[reconvene.Site]", health: str) -> None:
    for site in sites:
        while await site.health() != health:
            await asyncio.sleep(0.02)


def test_appends_in_the_program_wait_together_for_a_log_that_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other they would take a hundred times as long, and more than the timeout."""
    monkeypatch.setattr("reconvene.runtime.log.service._BEGIN_S", 0.3)
    asyncio.run(_wait_for_the_log())


async def _wait_for_the_log() -> None:
    with short_dir() as directory:
        sites = {name: ("127.0.0.1", port) for name, port in zip("abc", free_ports(3), strict=True)}
        begin = LogSettings(begin=True)
        config = Config(cluster="test", name="a", sites=sites, dir=directory, seal=Seal(insecure=True), log=begin)
        async with reconvene.open(config) as site, asyncio.timeout(15):
            appends = [site.log.append_many([b"x"]) for _ in range(100)]
            ends = await asyncio.gather(*appends, return_exceptions=True)
            assert {type(end) for end in ends} == {reconvene.Unavailable}
            assert {str(end).rpartition(":")[2] for end in ends} == {" b, c"}
