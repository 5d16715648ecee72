"""Sites looked at again and again, and what changed between two looks."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

import reconvene
from reconvene.errors import Malformed, Unavailable
from reconvene.local import LocalCluster, SiteView

__all__ = ["Look", "MaybeDir", "Node", "addresses", "find_sites", "rates"]

MaybeDir = Annotated[Path | None, typer.Option("--dir", metavar="DIR", help="A local cluster's directory.")]
Node = Annotated[
    str | None, typer.Option("--node", metavar="ADDR", help="A site: the path of its Unix socket, or host:port.")
]
Look = Callable[[], list[SiteView]]

_RATES = {
    "sent": "sent_messages",
    "delivered": "delivered_messages",
    "datagrams_in": "datagrams_in",
    "datagrams_out": "datagrams_out",
    "bytes_in": "bytes_in",
    "bytes_out": "bytes_out",
}
"""Counters whose growth is shown, by the name under which it is."""
_TIMEOUT_S = 3.0


def find_sites(directory: Path | None, node: str | None) -> Look:
    """How to look at a local cluster, or at one site."""
    _expect_one(directory, node)
    if directory is not None:
        return LocalCluster(directory).sites
    address = str(node)
    return lambda: [asyncio.run(_ask(address))]


def addresses(directory: Path | None, node: str | None, site: str | None) -> list[str]:
    """Where to connect: the sites that are up, that one first. Raises Unavailable where there is none."""
    _expect_one(directory, node)
    if directory is None:
        return [str(node)]
    cluster = LocalCluster(directory)
    up = [name for name, state in cluster.states().items() if state == "up"]
    if site is not None:
        if cluster.state(site) != "up":
            raise Unavailable(f"site {site} is {cluster.state(site)}")
        up = [site, *(name for name in up if name != site)]
    if not up:
        raise Unavailable(f"{directory}: no site is up; `reconvene up --dir {directory}` starts them")
    return [cluster.addresses[name] for name in up]


def rates(before: Sequence[SiteView], now: Sequence[SiteView]) -> dict[str, dict[str, float]]:
    """By site, what grew how fast, a second; only of those that ran all the time in between."""
    earlier = {view.name: view.status for view in before}
    found: dict[str, dict[str, float]] = {}
    for view in now:
        old, new = earlier.get(view.name), view.status
        if old is None or new is None or old["incarnation"] != new["incarnation"]:
            continue
        seconds = new["uptime_s"] - old["uptime_s"]
        if seconds > 0:
            grown = {
                name: new["counters"].get(counter, 0) - old["counters"].get(counter, 0)
                for name, counter in _RATES.items()
            }
            found[view.name] = {name: count / seconds for name, count in grown.items()}
    return found


def _expect_one(directory: Path | None, node: str | None) -> None:
    if (directory is None) == (node is None):
        raise Malformed("expected either --dir DIR or --node ADDR")


async def _ask(address: str) -> SiteView:
    try:
        async with asyncio.timeout(_TIMEOUT_S), reconvene.connect([address]) as site:
            status = await site.status()
    except TimeoutError:
        raise Unavailable(f"{address}: no site answers there") from None
    return SiteView(str(status["name"]), "up", int(status["pid"]), status)
