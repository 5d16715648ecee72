"""Replicas that are added, removed and given up; snapshots: through the `SiteLog` of a real site."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.client.places import short_dir
from tests.durable import durable
from tests.runtime.log.test_service import configs, first, in_primary, of, sites, until

from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.config.settings import Trace
from reconvene.runtime.log import administration
from reconvene.runtime.node.main import running
from reconvene.trace.reader import read_run
from reconvene.verify.engine import verify
from reconvene.verify.load import load_histories
from reconvene.wire.client_log import Append


def test_a_replica_is_added_and_another_removed() -> None:
    async def scenario(directory: Path) -> None:
        trace = directory / "trace"
        told = [
            replace(config, trace=Trace(dir=trace)) for config in configs(directory, "abcd", replicas=("a", "b", "c"))
        ]
        async with AsyncExitStack() as third, AsyncExitStack() as stack:
            await third.enter_async_context(running(told.pop(2)))
            a, b, d = [await stack.enter_async_context(running(config)) for config in told]
            await until(in_primary(a, 3))
            await until(lambda: len(a._site.members) == 4)
            await of(a).ordered(first(of(a), [b"before"]))
            with pytest.raises(Rejected, match="site d keeps no replica of the log"):
                of(d).append(Append(0, [b"x"]))
            with pytest.raises(Rejected, match="x is not a site of this cluster; expected one of a, b, c, d"):
                of(a).change_replicas(add="x")
            with pytest.raises(Rejected, match="expected one to add or to remove, or a quorum"):
                of(a).change_replicas()
            assert await of(a).change_replicas(add="d") == 1
            await until(lambda: in_primary(a, 4)() and of(d).green >= 2)
            await until(lambda: of(d).status()["replica"] is True and in_primary(d, 4)())
            await of(d).ordered(first(of(d), [b"of the new one"]))
            assert [m for batch in of(d).read(0, 9, 999_999) for m in batch.messages if batch.kind == "data"] == [
                b"before",
                b"of the new one",
            ]
            assert await of(a).change_replicas(remove="a") == 3, "a site that removes itself gets the answer"
            await until(lambda: in_primary(b, 3)() and of(a).status()["replica"] is False)
            with pytest.raises(Rejected, match="site a keeps no replica of the log"):
                of(a).append(Append(0, [b"x"]))
            replicas = of(b).status()["replicas"]
            assert isinstance(replicas, dict)
            assert sorted(replicas) == ["b", "c", "d"]
            assert of(b).read(0, 1, 1)[0].author == "a", "a removed replica stays the author of its messages"
            await third.aclose()
            await until(in_primary(b, 2))
        # These are two of the present replicas, and one of the replicas that run.json names.
        assert read_run(trace).quorum == {"kind": "weighted", "weights": {"a": 1, "b": 1, "c": 1}, "changed": True}
        assert verify(load_histories(trace)).violated() == []

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_change_waits_for_the_configuration_that_the_last_one_makes() -> None:
    async def scenario(directory: Path) -> None:
        told = configs(directory, "abc")
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(running(told[0]))
            await until(lambda: of(a).status()["phase"] == "open")
            waits = of(a).change_replicas(remove="c")
            given_up = of(a).change_replicas(remove="b")
            await asyncio.sleep(0)
            given_up.cancel()
            b = await stack.enter_async_context(running(told[1]))
            await waits
            await until(lambda: of(b).green == of(a).green)
            weighted: dict[str, object] = {"kind": "weighted", "weights": {"a": 2, "b": 1}}
            majority: dict[str, object] = {"kind": "majority"}
            for quorum in (weighted, majority) * 3:
                await of(a).change_replicas(quorum=quorum)
                assert of(a).status()["quorum"] == quorum
            replicas = of(a).status()["replicas"]
            assert isinstance(replicas, dict)
            assert sorted(replicas) == ["a", "b"], "a change that was cancelled has removed nothing"

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_replicas_that_are_lost_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "_CHANGE_S", 0.1)

    async def scenario(directory: Path) -> None:
        told = configs(directory, "abc")
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(running(told[0]))
            async with running(told[1]), running(told[2]):
                await until(in_primary(a, 3))
                await of(a).ordered(first(of(a), [b"one"]))
                with pytest.raises(Rejected, match="b: not lost, but in this configuration"):
                    of(a).force_lost(["b"])
            await until(lambda: of(a).status()["phase"] == "open" and of(a).status()["primary"] == 0)
            waiting = first(of(a), [b"two"])
            await durable(of(a), waiting)
            with pytest.raises(Rejected, match="a is not lost: it answers"):
                of(a).losses(["a"])
            with pytest.raises(Rejected, match="the others are a quorum without them"):
                of(a).force_lost(["b"])
            with pytest.raises(Unavailable, match="this site is in none"):
                await of(a).change_replicas(remove="b")
            losses = of(a).losses(["b", "c"])
            assert (losses["lost"], losses["kept"], losses["green"]) == (["b", "c"], ["a"], 1)
            assert isinstance(losses["may_lose"], list)
            assert len(losses["may_lose"]) >= 3
            of(a).force_lost(["b", "c"])
            assert await of(a).ordered(waiting) == 1
            assert of(a).status()["forced"] is True

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_snapshot_is_kept() -> None:
    async def scenario(directory: Path) -> None:
        (config,) = configs(directory, "a")
        state = bytes(range(256)) * 1000
        async with sites(config) as (a,):
            assert of(a).snapshot() is None
            with pytest.raises(Unavailable, match="no snapshot 'unnamed' is kept here"):
                of(a).read_snapshot(0, 1)
            await of(a).ordered(first(of(a), [b"x", b"y"]) + 1)
            with pytest.raises(Rejected, match="a snapshot of 3: expected one from 0 to 2"):
                of(a).save_snapshot(3, state)
            await of(a).save_snapshot(2, state)
            assert of(a).snapshot() == (2, len(state))
        async with sites(config) as (a,):
            assert of(a).snapshot() == (2, len(state))
            assert of(a).read_snapshot(100_000, 70_000) == state[100_000:170_000]

    with short_dir() as directory:
        asyncio.run(scenario(directory))
