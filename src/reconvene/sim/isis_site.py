"""The stack `isis` of the simulator: a site with process groups in the manner of ISIS.

It is the same stack as in a real process. Its application are the processes of `sim.isis_application`; there are no
plain messages beside theirs.
"""

from dataclasses import replace

from reconvene.core.groups.groups import Groups
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.errors import Unavailable
from reconvene.ids import Service
from reconvene.isis.isis import Isis
from reconvene.isis.limits import IsisLimits
from reconvene.stack.isis import IsisLayer
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn
from reconvene.storage.tables import Reader

__all__ = ["IsisSite", "RealIsisCore"]


class IsisSite(Stack):
    def __init__(self, site: Site, groups: Groups, isis: Isis) -> None:
        self.isis = isis
        super().__init__(site, groups, (IsisLayer(isis),))

    @property
    def step(self) -> str:
        """The site's own while it changes its configuration, then the layer's."""
        step = self.site.step
        return self.isis.step if step == "operational" else step

    def flush(self, now: int, time: int, *, asked: bool = False) -> Turn:
        """Nothing is ever requested of groups."""
        return super().flush(now, time, asked=asked)

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        raise Unavailable("plain messages are not sent beside process groups")

    def room(self) -> int:
        return 0

    def withdraw(self) -> int:
        return self.isis.withdraw()


class RealIsisCore:
    """How they are made. Tests put other layers in their place."""

    def __init__(
        self, isis: type[Isis] = Isis, limits: IsisLimits | None = None, channels: ChannelLimits | None = None
    ) -> None:
        self._isis = isis
        self._limits = limits
        self._channels = channels or ChannelLimits()
        self._tables: dict[int, Reader] = {}
        """By ordinal."""

    def keep(self, ordinal: int, tables: Reader) -> None:
        self._tables[ordinal] = tables

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return boot(stored, ordinal, token)

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> IsisSite:
        # What the channels may have under way and what the multicast window may have share one receive buffer.
        limits = replace(options.limits, channel_bytes=self._channels.buffer_bytes)
        site = Site(replace(options, return_unsent=True, limits=limits), ordinal, sites, record, now)
        isis = self._isis(ordinal, site.incarnation, self._limits, self._channels, self._tables.get(ordinal))
        return IsisSite(site, Groups(site, sites), isis)
