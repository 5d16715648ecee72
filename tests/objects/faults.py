"""Faults for objects on ISIS, in virtual time."""

import asyncio
import random

from reconvene.testing import Cluster

__all__ = ["ISIS", "break_something"]

ISIS = {"isis": {"enabled": True}, "log": {"enabled": False}}


async def break_something(net: Cluster, *, most_s: float = 8.0) -> None:
    """One fault for a while, or the crash of a site with the programs beside it; then all is mended."""
    name = random.choice(net.names)
    match random.randrange(4):
        case 0:
            net.partition([[name], [other for other in net.names if other != name]])
        case 1:
            net.crash(name)
        case 2:
            net.pause(name)
        case _:
            net.network(loss=0.2)
    await asyncio.sleep(random.uniform(0.1, most_s))
    net.network(loss=0.0)
    await net.repair()
