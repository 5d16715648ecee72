"""A waiter that gives up is forgotten: in a minority nothing else ends its wait."""

import asyncio
from pathlib import Path

import pytest
from tests.durable import durable
from tests.runtime.log.test_service import configs, first, in_primary, of, until

from reconvene.runtime.log import barriers as log_barriers
from reconvene.runtime.node.main import running


def test_what_is_given_up_in_a_minority_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_barriers, "_MOST", 2_000)

    async def main() -> None:
        told = configs(tmp_path, "abc")
        async with running(told[0]) as a:
            log = of(a)
            await until(lambda: log.status()["phase"] == "open")
            counter = first(log, [b"x"])
            await durable(log, counter)
            kept, ordered = log.barrier(), log.ordered(counter)
            for number in range(5_000):
                log.barrier().cancel()
                log.ordered(counter).cancel()
                if number % 500 == 0:
                    await asyncio.sleep(0)
            assert log._places.waiting < 2_100
            async with running(told[1]):
                await until(in_primary(a, 2))
                await asyncio.wait_for(kept, 10)
                assert await asyncio.wait_for(ordered, 10) == 0
                barriers = log._barriers
                assert barriers.waiting == len(barriers._asking) + sum(map(len, barriers._asked.values()))
                await asyncio.wait_for(log.barrier(), 10)
                assert barriers.waiting == 0

    asyncio.run(main())
