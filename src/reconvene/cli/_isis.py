"""What the commands about process groups in the manner of ISIS share: a site that can use them, or why none can."""

import asyncio
from dataclasses import replace

from reconvene.cli._target import Target
from reconvene.client.site import Site
from reconvene.client.status import IsisStatus
from reconvene.errors import Rejected, Unavailable
from reconvene.local import LocalCluster

__all__ = ["in_primary", "ready", "why_blocked"]

_ADOPTED_S = 5.0
"""How long a site that has a majority may take until its processes can go on."""
_POLL_S = 0.05


def in_primary(target: Target) -> Target:
    """With --dir and without --site: the first site whose processes are not blocked, if there is one."""
    if target.directory is None or target.site is not None:
        return target
    for view in LocalCluster(target.directory).sites():
        isis = (view.status or {}).get("isis")
        if isis is not None and not isis["blocked"]:
            return replace(target, site=view.name)
    return target


async def ready(site: Site) -> IsisStatus:
    """Waits a moment if the site has just entered a primary component. Raises Rejected if the site takes no part in
    ISIS. The result may still be blocked: `why_blocked` says why."""
    until = asyncio.get_running_loop().time() + _ADOPTED_S
    while True:
        status = await site.status()
        if status.isis is None:
            raise Rejected(f"site {status.name} takes no part in ISIS: see isis.enabled")
        waits = status.isis.blocked and status.health != "minority" and not status.isis.refused
        if not waits or asyncio.get_running_loop().time() > until:
            return status.isis
        await asyncio.sleep(_POLL_S)


def why_blocked(site: str, status: IsisStatus) -> Unavailable | None:
    """None: its processes can go on."""
    if not status.blocked:
        return None
    if status.refused:
        named = " ".join(status.refused)
        return Unavailable(f"nobody can use ISIS while these sites take no part in it: {named}; see isis.enabled")
    return Unavailable(f"site {site} is not in the primary component: its processes neither cast nor receive")
