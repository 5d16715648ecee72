"""The sites that a command works with: those of a local cluster, or one at an address."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from reconvene.client.connecting import connect
from reconvene.client.site import Site
from reconvene.client.status import document
from reconvene.errors import Malformed, Unavailable
from reconvene.local import LocalCluster, SiteState

__all__ = ["GroupName", "Key", "Look", "MaybeDir", "Node", "OnSite", "Target", "Tls"]

MaybeDir = Annotated[Path | None, typer.Option("--dir", metavar="DIR", help="A local cluster's directory.")]
Node = Annotated[
    str | None, typer.Option("--node", metavar="ADDR", help="A site: the path of its Unix socket, or host:port.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="For host:port: a file with a client key.")]
Tls = Annotated[
    Path | None, typer.Option("--tls", metavar="FILE", help="For host:port: TLS, under this authority's certificate.")
]
OnSite = Annotated[str | None, typer.Option("--site", metavar="NAME", help="With --dir: the site to connect to.")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
Look = Callable[[], list[SiteState]]

_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Target:
    """Raises Malformed unless exactly one of --dir and --node is given."""

    directory: Path | None
    node: str | None
    key: Path | None = None
    tls: Path | None = None
    site: str | None = None

    def __post_init__(self) -> None:
        if (self.directory is None) == (self.node is None):
            raise Malformed("expected either --dir DIR or --node ADDR")
        if self.site is not None and self.directory is None:
            raise Malformed(f"--site {self.site}: expected --dir DIR with it; --node ADDR names its site itself")

    def look(self) -> Look:
        """A function that returns the sites' current states each time it is called."""
        if self.directory is not None:
            return LocalCluster(self.directory).sites
        return lambda: [asyncio.run(self._ask())]

    def connect(self) -> AbstractAsyncContextManager[Site]:
        """Connects to a site. If the connection is lost, the client moves to another site of the cluster."""
        return connect(self._addresses(), key=self.key, tls=False if self.tls is None else self.tls)

    def _addresses(self) -> list[str]:
        """Addresses of the sites that are up, the requested one first. Raises Unavailable if no site is up."""
        if self.directory is None:
            return [str(self.node)]
        cluster = LocalCluster(self.directory)
        up = [name for name, state in cluster.states().items() if state == "up"]
        if not up:
            raise Unavailable(f"{self.directory}: no site is up; `reconvene up --dir {self.directory}` starts them")
        if self.site is not None:
            if cluster.state(self.site) != "up":
                raise Unavailable(f"site {self.site} is {cluster.state(self.site)}")
            up = [self.site, *(name for name in up if name != self.site)]
        return [cluster.addresses[name] for name in up]

    async def _ask(self) -> SiteState:
        try:
            async with asyncio.timeout(_TIMEOUT_S), self.connect() as site:
                status = await site.status()
        except TimeoutError:
            raise Unavailable(f"{self.node}: no site answers there") from None
        others = replace(status, processes=status.processes - 1)  # all but this connection
        return SiteState(status.name, "up", status.pid, document(others))
