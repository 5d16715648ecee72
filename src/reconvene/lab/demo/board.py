"""What every site knows of the election, as a client of it sees it."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from reconvene.client.connecting import connect
from reconvene.client.site import Site
from reconvene.errors import ReconveneError
from reconvene.ids import short_number
from reconvene.lab.demo.voters import CANDIDATES, ELECTION
from reconvene.local import LocalCluster
from reconvene.objects import Tally

__all__ = ["Board", "SiteRow", "open_board"]

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class SiteRow:
    """One site at one moment."""

    site: str
    state: str
    """primary | minority | forming | down | silent"""
    configuration: str = ""
    """Its number, as it is shown to people."""
    members: tuple[str, ...] = ()
    counted: Mapping[str, int] = field(default_factory=dict)
    """Green votes by candidate."""
    tentative: Mapping[str, int] = field(default_factory=dict)
    """Votes that are on this site's disk and have no place yet, by candidate."""
    yellow: int = 0
    red: int = 0

    @property
    def green(self) -> int:
        return sum(self.counted.values())

    @property
    def waiting(self) -> int:
        return self.yellow + self.red


class Board:
    """A client of each site, which never uses another site, with a copy of the tally."""

    def __init__(self, cluster: LocalCluster, sites: dict[str, Site], tallies: dict[str, Tally]) -> None:
        self._cluster = cluster
        self._sites = sites
        self.tallies = tallies
        self.seen: list[SiteRow] = []
        """The rows of the last `look`."""

    def site(self, name: str) -> Site:
        return self._sites[name]

    async def look(self) -> list[SiteRow]:
        states = self._cluster.states()
        self.seen = list(await asyncio.gather(*(self._row(name, state) for name, state in states.items())))
        return self.seen

    async def settled(self) -> list[SiteRow]:
        """Waits until all sites of a component show the same, and a majority has counted every vote. No vote may come
        meanwhile."""
        while not _at_rest(rows := await self.look()):
            await asyncio.sleep(_POLL_S)
        return rows

    async def back(self, name: str) -> None:
        """Waits until the client of a site that was restarted has found it."""
        while not self._sites[name].connected:
            await asyncio.sleep(_POLL_S)

    async def _row(self, name: str, state: str) -> SiteRow:
        site = self._sites[name]
        if state == "down" or not site.connected:
            return SiteRow(name, "down" if state == "down" else "silent")
        try:
            status, log = await site.status(), await site.log.status()
            both = await self.tallies[name].totals(optimistic=True)
        except ReconveneError:
            return SiteRow(name, "silent")
        counted = await self.tallies[name].totals()
        # A vote that became green after the copy was made counts as green.
        tentative = {one: max(both.get(one, 0) - counted.get(one, 0), 0) for one in CANDIDATES}
        yellow = log.yellow
        return SiteRow(
            site=name,
            state=str(status.health),
            configuration=short_number(status.configuration, site.sites),
            members=tuple(status.members),
            counted={one: counted.get(one, 0) for one in CANDIDATES},
            tentative=tentative,
            yellow=yellow,
            red=max(sum(tentative.values()) - yellow, 0),
        )


@asynccontextmanager
async def open_board(cluster: LocalCluster) -> AsyncIterator[Board]:
    async with AsyncExitStack() as stack:
        sites = {
            name: await stack.enter_async_context(connect(address)) for name, address in cluster.addresses.items()
        }
        tallies = {name: await stack.enter_async_context(Tally(site.log, ELECTION)) for name, site in sites.items()}
        yield Board(cluster, sites, tallies)


def _at_rest(rows: Sequence[SiteRow]) -> bool:
    known: dict[str, set[tuple[int, int]]] = {}
    for row in rows:
        if row.state in ("forming", "silent") or (row.state == "primary" and row.waiting):
            return False
        known.setdefault(row.configuration, set()).add((row.green, row.waiting))
    return all(len(alike) == 1 for alike in known.values())
