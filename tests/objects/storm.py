"""Faults for objects on process groups: sites crash, programs are killed, the network parts, machines stand still."""

import asyncio
import random
from collections.abc import Sequence

from reconvene.testing import Cluster, Program

__all__ = ["ISIS", "storm"]

ISIS = {"isis": {"enabled": True}, "log": {"enabled": False}}
"""Settings of the sites."""
FAULTS = ("crash", "kill", "part", "pause")


async def storm(
    net: Cluster,
    programs: Sequence[Program],
    rounds: int,
    kinds: Sequence[str] = FAULTS,
    unaware: set[str] | None = None,
) -> None:
    """One fault after the other, each over before the next. In the end all is well again. `unaware` gets the sites
    that were cut off or stood still."""
    for _ in range(rounds):
        await asyncio.sleep(random.uniform(0.2, 1.0))
        kind = random.choice(kinds)
        site = random.choice(net.names)
        lasts_s = random.uniform(0.2, 4.0)
        if unaware is not None and kind in ("part", "pause"):
            unaware.add(site)
        if kind == "crash":
            net.crash(site)
            await asyncio.sleep(lasts_s)
            await net.restart(site)
        elif kind == "kill":
            program = random.choice(programs)
            program.kill()
            await asyncio.sleep(lasts_s / 4)
            program.start()
        elif kind == "part":
            net.partition([[site], [name for name in net.names if name != site]])
            await asyncio.sleep(lasts_s)
            net.heal()
        else:
            net.pause(site)
            await asyncio.sleep(lasts_s)
            net.resume(site)
    await net.repair()
