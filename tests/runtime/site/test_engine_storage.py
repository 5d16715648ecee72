"""A site whose disk refuses writes must not keep the others from forming configurations; a disk that was put back."""

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import pytest
from msgspec.structs import replace
from tests.client.places import cluster, short_dir

import reconvene
from reconvene.runtime.config.settings import Timing, Trace
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.tables import Op

QUICK = Timing(beacon_every_ns=20_000_000, suspect_base_ns=200_000_000, round_patience_ns=100_000_000)


async def until(site: reconvene.Site, holds: Callable[[reconvene.SiteStatus], bool]) -> reconvene.SiteStatus:
    async with asyncio.timeout(20):
        while not holds(status := await site.status()):
            await asyncio.sleep(0.02)
    return status


def test_the_others_go_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing: set[str] = set()
    write = LmdbStore.write

    def refuses(store: LmdbStore, ops: Sequence[Op]) -> None:
        if store.path.parent.name in refusing:
            raise OSError(28, "No space left on device")
        write(store, ops)

    monkeypatch.setattr(LmdbStore, "write", refuses)

    async def scenario() -> None:
        with short_dir() as directory:
            configs = [replace(config, timing=QUICK) for config in cluster(directory, "abcd")]
            async with AsyncExitStack() as stack:
                opening = [stack.enter_async_context(reconvene.open(config)) for config in configs[:3]]
                a, b, c = await asyncio.gather(*opening)
                for site in (a, b, c):
                    await until(site, lambda status: status.members == ["a", "b", "c"])
                refusing.add("c")
                async with reconvene.open(configs[3]):
                    for site in (a, b):
                        await until(site, lambda status: status.members == ["a", "b", "d"])
                    told = await until(c, lambda status: status.storage != "ok")
                    assert (told.health, told.phase) != ("primary", "operational")
                    # Once it is excluded, nothing more happens.
                    await asyncio.sleep(0.5)
                    before = (await a.status()).configurations
                    await asyncio.sleep(2.0)
                    assert (await a.status()).configurations == before
                    refusing.clear()
                    for site in (a, b, c):
                        await until(site, lambda status: status.members == ["a", "b", "c", "d"])
                    assert (await c.status()).storage == "ok"

    asyncio.run(scenario())


def test_a_directory_that_was_put_back_is_noticed_where_there_is_a_trace() -> None:
    async def scenario() -> None:
        with short_dir() as directory:
            config = replace(cluster(directory, "a")[0], trace=Trace(dir=directory / "trace"))
            async with reconvene.open(config):
                pass
            shutil.rmtree(config.dir / "store")
            with pytest.raises(reconvene.Unavailable, match=r"would begin incarnation 1, but .* already has 1"):
                async with reconvene.open(config):
                    pass

    asyncio.run(scenario())
