"""A site in its own process that appends to its log without pause and prints each receipt.

    python -m tests.real.log_process DIR NAMES NAME PORTS

Lines on stdout: `ready`; then `durable FIRST COUNT` and `ordered FIRST COUNT POSITION` for each receipt. A line on
stdin stops the appends: the process prints `quiet GREEN` once none of its own messages waits, and again whenever the
green line moves.
"""

import asyncio
import sys
from pathlib import Path

from tests.durable import durable

from reconvene.errors import Unavailable
from reconvene.runtime.config.settings import Config, LogSettings, Seal, Timing, Trace
from reconvene.runtime.node.main import new_event_loop, running
from reconvene.runtime.site.engine import SiteEngine
from reconvene.wire.client_log import Append

__all__ = ["config_of"]

QUICK = Timing(beacon_every_ns=20_000_000, suspect_base_ns=150_000_000, round_patience_ns=100_000_000)
MESSAGES = 5
GAP_S = 0.01


def config_of(directory: Path, names: str, name: str, ports: list[int], *, trace: bool = True) -> Config:
    return Config(
        cluster="restarts",
        name=name,
        sites={each: ("127.0.0.1", port) for each, port in zip(names, ports, strict=True)},
        dir=directory / name,
        seal=Seal(insecure=True),
        timing=QUICK,
        trace=Trace(dir=directory / "trace") if trace else Trace(),
        log=LogSettings(batch_bytes=600, begin=True),
    )


def say(*words: object) -> None:
    print(*words, flush=True)


async def append(engine: SiteEngine, quiet: asyncio.Event) -> None:
    log = engine.log
    assert log is not None
    waiting: set[asyncio.Task[None]] = set()

    async def follow(first: int, count: int) -> None:
        assert log is not None
        await durable(log, first + count - 1)
        say("durable", first, count)
        say("ordered", first, count, await log.ordered(first + count - 1) - count + 1)

    number = 0
    while not quiet.is_set():
        try:
            taken = log.append(
                Append(0, [b"%s %d" % (engine.config.name.encode(), number + i) for i in range(MESSAGES)])
            )
        except Unavailable:
            await log.room.wait(MESSAGES)
            await asyncio.sleep(GAP_S)
            continue
        number += MESSAGES
        task = asyncio.create_task(follow(taken.parts[0].first, MESSAGES))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.sleep(GAP_S)


async def main(config: Config) -> None:
    quiet = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hush() -> None:
        loop.remove_reader(sys.stdin.fileno())
        quiet.set()

    loop.add_reader(sys.stdin.fileno(), hush)
    async with running(config) as engine:
        say("ready")
        await append(engine, quiet)
        log = engine.log
        assert log is not None
        told = -1
        while True:
            await asyncio.sleep(0.1)
            if log.status()["own"] == {"messages": 0, "bytes": 0} and log.green != told:
                told = log.green
                say("quiet", told)


if __name__ == "__main__":
    directory, names, name, ports = sys.argv[1:]
    config = config_of(Path(directory), names, name, [int(port) for port in ports.split(",")])
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main(config))
