"""reconvene log init: creates a new log at the operator's request."""

import asyncio
import time
from typing import Annotated

import typer

from reconvene.cli._cluster import console
from reconvene.cli._target import Key, MaybeDir, Node, OnSite, Target, Tls
from reconvene.client.site import Site
from reconvene.errors import Malformed, Unavailable

__all__ = ["init_command"]

_BEGIN_S = 30.0
_LOOK_EVERY_S = 0.05


def init_command(
    directory: MaybeDir = None,
    node: Node = None,
    site: OnSite = None,
    key: Key = None,
    tls: Tls = None,
    without: Annotated[
        str | None,
        typer.Option(
            metavar="SITES", help="Replicas that may be absent, because you know that they hold no log: c,d."
        ),
    ] = None,
) -> None:
    """Create a new log: once, when its replicas are up for the first time. An empty site never does so by itself."""
    absent = [] if without is None else [name.strip() for name in without.split(",")]
    if not all(absent) or len(set(absent)) != len(absent):
        raise Malformed(f"--without {without}: expected names of sites, such as c,d")
    members = asyncio.run(_begin(Target(directory, node, key, tls, site), absent))
    if members is None:
        console().print("the log exists already: nothing was done")
    else:
        console().print(f"log created: {' '.join(members)}", markup=False)


async def _begin(target: Target, without: list[str]) -> list[str] | None:
    """None if this site has a log already."""
    async with target.connect() as site:
        status = await site.log.status()
        if status.replica and (status.last_primary or status.green):
            return None
        await site.log.init(without)
        return await _begun(site)


async def _begun(site: Site) -> list[str]:
    give_up_at = time.monotonic() + _BEGIN_S
    while time.monotonic() < give_up_at:
        status = await site.log.status()
        if status.primary:
            return status.participants
        await asyncio.sleep(_LOOK_EVERY_S)
    raise Unavailable(f"the log was not created within {_BEGIN_S:g} s: see `reconvene log status`, and try again")
