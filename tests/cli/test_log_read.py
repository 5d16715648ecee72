"""reconvene log read: what a site prints of messages that were just ordered at another one, in virtual time."""

import asyncio

import pytest

from reconvene.cli.log_read import _caught_up
from reconvene.testing import Cluster


def test_it_prints_what_was_ordered_at_another_site_before() -> None:
    async def scenario(net: Cluster) -> int:
        behind = 0
        async with net.connect("a") as a, net.connect("c") as c:
            for position in range(20):
                assert await (await a.log.append(b"x")).ordered() == position
                behind += (await c.log.status()).green <= position
                assert await _caught_up(c.log, None) == position + 1
        return behind

    assert Cluster("abc", seed=1, latency="1ms", jitter="5ms").run(scenario), "c was never behind: this test is blind"


def test_it_does_not_wait_for_more_than_it_prints() -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as a:
            assert await (await a.log.append(b"x")).ordered() == 0
            net.partition([["a"], ["b", "c"]])
            began = asyncio.get_running_loop().time()
            assert await _caught_up(a.log, 1) == 1
            assert asyncio.get_running_loop().time() - began < 1

    Cluster("abc", seed=1).run(scenario)


def test_the_wait_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(net: Cluster) -> tuple[int, int]:
        async with net.connect("a") as a:
            assert await (await a.log.append(b"x")).ordered() == 0
            net.partition([["a"], ["b", "c"]])
            cut_off = await _caught_up(a.log, None)
            assert "did not answer within 5 s" in capsys.readouterr().err
            began = asyncio.get_running_loop().time()
            in_minority = await _caught_up(a.log, None)
            assert asyncio.get_running_loop().time() - began < 1
            return cut_off, in_minority

    assert Cluster("abc", seed=1).run(scenario) == (1, 1)
