"""ISIS across clusters: where a site's ISIS layer meets its part in the tree of clusters.

What ISIS says to other clusters crosses as messages of groups `isis:NAME`. They are sent beside those of
applications, in the same order, and are handed to ISIS where others are shown to applications.
"""

from collections.abc import Sequence

from reconvene.core.effects import LayerEvent
from reconvene.domains.events import Lost, Unreachable, WideChanged, WideDelivered, WideEvent, WideView
from reconvene.domains.port import Site
from reconvene.domains.seen import SenderId
from reconvene.ids import Service
from reconvene.isis.far import Far
from reconvene.isis.far_events import FarProcess, Origin
from reconvene.isis.far_messages import is_far
from reconvene.isis.isis import Isis
from reconvene.stack.domains import DomainLayer
from reconvene.stack.isis import IsisLayer
from reconvene.stack.layer import Outlet

__all__ = ["FarDomainLayer", "FarIsisLayer", "FarLink", "join_isis"]


def join_isis(site: Site, isis: Isis) -> "tuple[FarDomainLayer, FarIsisLayer]":
    """Layers of one stack, in this order: ISIS takes what crosses before the control messages of the same turn."""
    link = FarLink(site)
    far = isis.extend(link)
    return FarDomainLayer(site, far), FarIsisLayer(isis, link)


class FarLink:
    """What ISIS needs of the site's part in the tree (`isis.far_casting.Reach`)."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.spoken = False
        """Something was requested of the site's part in the tree since this was last looked at."""

    @property
    def domain(self) -> str:
        return self._site.domain.name

    @property
    def sites(self) -> Sequence[str]:
        return self._site.domain.sites

    @property
    def message_bytes(self) -> int:
        return self._site.author.message_bytes // 2  # what is around it in a crossing has room beside it

    def passes(self, group: str) -> bool:
        return self._site.domain.passes_out(group)

    def room(self) -> int:
        return self._site.room()

    def send(self, service: Service, group: str, data: bytes) -> None:
        self._site.send(service, group, True, data)
        self.spoken = True

    def join(self, group: str, process: str) -> None:
        self._site.join(group, process)
        self.spoken = True

    def leave(self, group: str, process: str) -> None:
        self._site.leave(group, process)
        self.spoken = True

    def has(self, origin: Origin, counter: int) -> bool:
        sender = SenderId(origin.domain, origin.site)
        return self._site.is_open and self._site.flow.has_delivered(sender, origin.incarnation, counter)


class FarDomainLayer(DomainLayer):
    """Hands to ISIS what is for it, in its place."""

    def __init__(self, site: Site, far: Far) -> None:
        super().__init__(site)
        self._far = far
        self._conf = ""

    def take(self, events: Sequence[LayerEvent]) -> None:
        for event in events:
            site, told = self.site, len(self.site.events)
            super().take((event,))
            if site.local != self._conf:
                self._conf = site.local
                self._far.marks.begin(int(site.local))
            for wide in site.events[told:]:
                self._hand_on(wide, site.is_open)
            self._far.casting.told(site.views.told)

    def _hand_on(self, event: WideEvent, flows: bool) -> None:
        match event:
            case WideDelivered(conf, name, _, group, _, data) if is_far(group):
                origin = Origin(name.domain, name.site, name.incarnation)
                self._far.take(origin, name.counter, conf, data, flows=flows)
            case WideChanged(_, True, domains):
                self._far.enter(domains)
            case WideView(_, group, _, members) if is_far(group):
                self._far.casting.view(group, tuple(one for one in map(_process, members) if one is not None))
            case Unreachable(_, domain):
                self._far.watches.unreachable(domain)
            case Lost(_, domain):
                self._far.watches.ask_again(domain)
            case _:
                pass


class FarIsisLayer(IsisLayer):
    def __init__(self, isis: Isis, link: FarLink) -> None:
        super().__init__(isis)
        self._link = link

    def speak(self, outlet: Outlet) -> bool:
        spoken = super().speak(outlet)
        requested, self._link.spoken = self._link.spoken, False
        return spoken or requested


def _process(member: str) -> FarProcess | None:
    """Of a wide view: DOMAIN/LOCAL-CONFIGURATION/SITE:INCARNATION:NUMBER. None: a program without ISIS has joined a
    group of that name."""
    domain, _, rest = member.partition("/")
    site, _, numbers = rest.partition("/")[2].partition(":")
    incarnation, _, number = numbers.partition(":")
    if not (site and incarnation.isdecimal() and number.isdecimal()):
        return None
    return FarProcess(domain, site, int(incarnation), int(number))
