"""Stack `wide` with process groups in the manner of ISIS: a site of one of several clusters, and its processes.

A process that joins a group joins it in its cluster, and across clusters if the group's casts leave the domain.
"""

from collections.abc import Sequence
from dataclasses import replace

from reconvene.core.groups.events import Process
from reconvene.core.groups.groups import Groups
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.options import Options
from reconvene.core.site import Site
from reconvene.domains.port import Site as DomainSite
from reconvene.errors import Unavailable
from reconvene.isis.events import CastId
from reconvene.isis.far import Far
from reconvene.isis.far_events import FarProcess
from reconvene.isis.far_messages import PREFIX
from reconvene.isis.isis import Isis
from reconvene.sim.isis_scenario import Label
from reconvene.sim.wide_site import WideCore, WideSite
from reconvene.stack.far import join_isis
from reconvene.stack.stack import Stack

__all__ = ["WideFace", "WideIsisCore", "WideIsisSite"]


class WideFace:
    """Requests of processes: within the cluster as of stack isis, and across clusters (sim.isis_face.FarFace)."""

    def __init__(self, isis: Isis, far: Far, domain: DomainSite) -> None:
        self._isis = isis
        self._far = far
        self._passes = domain.domain.passes_out
        self.open = isis.open
        self.kill = isis.kill
        self.cbcast = isis.cbcast
        self.abcast = isis.abcast
        self.leave = isis.leave
        self.gbcast = isis.gbcast
        self.rank = isis.rank
        self.flush = isis.flush
        self.watch = isis.watch
        self.give = isis.give
        self.far_watch = far.watch
        self.far_reply = far.casting.reply

    @property
    def blocked(self) -> bool:
        return self._isis.blocked

    def reply(self, process: Process, request: CastId, payload: bytes) -> None:
        self._isis.reply(process, request, payload)

    def join(self, process: Process, group: str) -> None:
        self._isis.join(process, group)
        if self._passes(PREFIX + group):
            self._far.casting.join(process, group)

    def far_cast(
        self, process: Process, kind: str, to: str | Sequence[FarProcess], payload: bytes, label: Label, replies: int
    ) -> None:
        if kind == "cbcast":
            self._far.casting.cbcast(process, to, payload, label, replies)
        else:
            assert label is None or isinstance(label, str), "an ABCAST's label is text"
            self._far.casting.abcast(process, to, payload, label or "", replies)


class WideIsisSite(WideSite):
    def __init__(self, site: Site, groups: Groups, domain: DomainSite, isis: Isis) -> None:
        self.domain = domain
        layers = join_isis(domain, isis)
        assert isis.far is not None, "it was joined"
        self.isis = WideFace(isis, isis.far, domain)
        Stack.__init__(self, site, groups, layers)
        self.layer = isis

    def submit(self, service: object, payload: bytes, now: int) -> None:
        raise Unavailable("plain messages are not sent beside those of domains")

    def withdraw(self) -> int:
        """What processes have asked for within the cluster. What is on its way to other clusters stays: some of it is
        the layer's own."""
        return self.layer.withdraw()


class WideIsisCore(WideCore):
    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> WideIsisSite:
        # What the channels may have under way and what the multicast window may have share one receive buffer.
        channels = ChannelLimits()
        options = replace(options, limits=replace(options.limits, channel_bytes=channels.buffer_bytes))
        site, groups = self._site(options, ordinal, sites, record, now)
        domain = self._domain_site(ordinal, site.incarnation)
        return WideIsisSite(site, groups, domain, Isis(ordinal, site.incarnation, channels=channels))
