"""What a site writes into run.json when it stops: whether the log's replicas are those that it began with."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.client.places import short_dir
from tests.runtime.log.test_service import configs, of, sites

from reconvene.runtime.config.settings import Trace
from reconvene.runtime.site.engine import SiteEngine
from reconvene.trace.reader import was_changed


async def no_change(engine: SiteEngine) -> None:
    pass


async def pending_change(engine: SiteEngine) -> None:
    """It never becomes green: as soon as it is logged here, nothing comes back from the others any more."""
    changing = of(engine).change_replicas(quorum={"kind": "dynamic", "minimum": 2})
    async with asyncio.timeout(20):
        while len(of(engine)._replica.pending_sets()) == 1:
            assert not changing.done()
            await asyncio.sleep(0)
    engine._block(frozenset({1, 2}), frozenset())
    changing.cancel()


@pytest.mark.parametrize(("change", "changed"), [(no_change, False), (pending_change, True)])
def test_a_pending_change_is_marked_when_the_site_stops(
    change: Callable[[SiteEngine], Awaitable[None]], changed: bool
) -> None:
    async def scenario(directory: Path) -> None:
        told = [
            replace(config, trace=Trace(dir=directory / f"trace-{config.name}"))
            for config in configs(directory, "abc")
        ]
        async with sites(*told) as engines:
            await change(engines[0])
            await engines[0].stop()
            assert len(of(engines[0])._replica.pending_sets()) == (2 if changed else 1)
            assert was_changed(directory / "trace-a") is changed

    with short_dir() as directory:
        asyncio.run(scenario(directory))
