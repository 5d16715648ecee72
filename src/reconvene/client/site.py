"""A site, as an application has it: inside the program or behind a socket, the same object."""

from collections.abc import Iterable

from reconvene.client.arguments import check_names, check_text
from reconvene.client.group import Group
from reconvene.client.isis import Isis
from reconvene.client.link import Link
from reconvene.client.log import Log
from reconvene.client.membership import Membership
from reconvene.client.status import Health, SiteStatus, health_of, site_status
from reconvene.client.time_limits import in_time
from reconvene.errors import Rejected

__all__ = ["Site"]

_NAME = 1_024
"""The longest group name that any site can be configured to take."""


class Site:
    """One process of a site. From `reconvene.open` or `reconvene.connect`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._log = None if link.log is None else Log(link.log)
        self._isis = None if link.isis is None else Isis(link.isis)

    @property
    def name(self) -> str:
        """Of the site; another one after a client has failed over."""
        return self._link.name

    @property
    def connected(self) -> bool:
        """False while a client whose connection was lost looks for another."""
        return self._link.is_connected

    @property
    def cluster(self) -> str:
        return self._link.cluster

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of all sites of the cluster, whether they can be reached or not."""
        return self._link.roll.names

    @property
    def log(self) -> Log:
        """The durable, totally ordered log. Raises Rejected where the site takes no part in it."""
        if self._log is None:
            raise Rejected(f"site {self.name} takes no part in the log: see log.enabled")
        return self._log

    @property
    def isis(self) -> Isis:
        """Process groups in the manner of ISIS, as one process. Raises Rejected where the site takes no part in
        them; a client behind a socket gets that with its first request."""
        if self._isis is None:
            raise Rejected(f"site {self.name} takes no part in ISIS: see isis.enabled")
        return self._isis

    async def join(
        self,
        name: str,
        *,
        primary: bool = False,
        receive: bool = True,
        wide: bool = False,
        timeout: float | None = None,
    ) -> Group:
        """Joins a group, and waits for the first view with this process in it. `async with await site.join("x") as
        group:` leaves it at the end of the block.

        primary: with the virtual-synchrony filter: the group exists in the primary component only, and a process
        outside of it gets Blocked. All members of a group have to agree on this.
        wide: the group spans all joined clusters (see domains.md): its views are WideViews, and only messages sent to
        it as a wide group reach it. Can't be combined with primary.
        receive: False for a process that only sends: messages are not kept for it, and it need not read.
        timeout: s. Raises TimeoutError if there is no view by then; the group is not joined.
        Also raises Rejected for a group that this process is in, and Unavailable at a limit.
        """
        if not isinstance(name, str):
            raise TypeError(f"a group's name is text, not {type(name).__name__}")
        check_text(name, "a group's name", _NAME)
        if wide and primary:
            raise Rejected("primary=True can't be had across clusters: a wide group has no primary component")
        why = "" if timeout is None else f"group {name!r}: not joined within {timeout} s"
        return await in_time(timeout, self._join(name, bool(primary), bool(receive), bool(wide)), why)

    async def _join(self, name: str, primary: bool, receive: bool, wide: bool) -> Group:
        place = Membership(self._link, name, primary, receive, wide)
        try:
            await self._link.groups.join(place)
            group = Group(self._link, place)
            await group.begin()
        except BaseException:
            self._link.groups.abandon(place)
            place.inbox.end(None)
            raise
        return group

    async def status(self) -> SiteStatus:
        """What the site is doing."""
        return site_status(await self._link.status())

    async def health(self) -> Health:
        """Whether the site is together with a majority of the sites."""
        return health_of(await self._link.health())

    async def block(self, incoming: Iterable[str] = (), outgoing: Iterable[str] = ()) -> None:
        """Fault injection: from now on the site drops datagrams from, and to, these sites, and no others.

        Raises Rejected where the configuration does not allow it, or the client is no admin.
        """
        await self._link.block(check_names(incoming, "incoming"), check_names(outgoing, "outgoing"))

    async def stop(self) -> None:
        """Asks the site to leave its cluster and end. Raises Rejected where the client is no admin."""
        await self._link.stop()
