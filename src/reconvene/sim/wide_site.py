"""The stack `wide` of the simulator: a site of one of several clusters, and a gateway's site in the cluster above.

They are the same stacks as in a real process.
"""

from collections.abc import Sequence
from dataclasses import replace

from reconvene.core.groups.groups import Groups
from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.domains.author import Limits
from reconvene.domains.gateway import Gateway
from reconvene.domains.port import Site as DomainSite
from reconvene.domains.tree import Tree
from reconvene.errors import Unavailable
from reconvene.ids import Service
from reconvene.stack.domains import DomainLayer, UpperLayer
from reconvene.stack.stack import Stack

__all__ = ["UpperCore", "UpperSite", "WideCore", "WideSite"]


class _Site(Stack):
    """Applications send through the layer, with a group and a scope."""

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        raise Unavailable("plain messages are not sent beside those of domains")

    def room(self) -> int:
        return 0

    def withdraw(self) -> int:
        return 0


class WideSite(_Site):
    def __init__(self, site: Site, groups: Groups, domain: DomainSite) -> None:
        self.domain = domain
        super().__init__(site, groups, (DomainLayer(domain),))

    @property
    def step(self) -> str:
        """The site's own while it changes its configuration, then the layer's."""
        step = self.site.step
        return f"wide: {self.domain.phase.value}" if step == "operational" else step

    def withdraw(self) -> int:
        return self.domain.withdraw()


class UpperSite(_Site):
    def __init__(self, site: Site, groups: Groups, gateway: Gateway) -> None:
        self.upper = UpperLayer(gateway)
        super().__init__(site, groups, (self.upper,))

    @property
    def formed(self) -> bool:
        """Every gateway of its configuration has said what it has seen."""
        return self.upper.gateway.formed


class _Core:
    """How they are made."""

    def __init__(self, gateways: dict[str, Gateway]) -> None:
        """`gateways`: by DOMAIN.SITE, the one of the process that is about to start."""
        self._gateways = gateways

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        return boot(stored, ordinal, token)

    @staticmethod
    def _site(options: Options, ordinal: int, sites: int, record: bytes, now: int) -> tuple[Site, Groups]:
        site = Site(replace(options, return_unsent=True), ordinal, sites, record, now)
        return site, Groups(site, sites)


class WideCore(_Core):
    def __init__(
        self,
        tree: Tree,
        domain: str,
        gateways: dict[str, Gateway],
        limits: Limits | None = None,
        make: type[DomainSite] = DomainSite,
    ) -> None:
        super().__init__(gateways)
        self._tree = tree
        self._domain = domain
        self._names: Sequence[str] = tree.domains[domain].sites
        self._limits = limits
        self._make = make

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> WideSite:
        site, groups = self._site(options, ordinal, sites, record, now)
        return WideSite(site, groups, self._domain_site(ordinal, site.incarnation))

    def _domain_site(self, ordinal: int, incarnation: int) -> DomainSite:
        gateway = self._gateways.get(f"{self._domain}.{self._names[ordinal]}")
        return self._make(self._tree, self._domain, ordinal, incarnation, gateway, self._limits)


class UpperCore(_Core):
    def __init__(self, tree: Tree, gateways: dict[str, Gateway]) -> None:
        super().__init__(gateways)
        self._tree = tree

    def site(self, options: Options, ordinal: int, sites: int, record: bytes, now: int) -> UpperSite:
        site, groups = self._site(options, ordinal, sites, record, now)
        return UpperSite(site, groups, self._gateways[self._tree.upper[ordinal]])
