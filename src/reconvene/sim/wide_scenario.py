"""What a scenario of stack `wide` has beside the others: clusters, and steps that concern whole clusters."""

from msgspec import Struct

__all__ = ["DEFAULT_GROUP", "UPPER", "DomainPlan", "Handover", "Split", "domain_of", "upper_name"]

UPPER = "upper"
"""The name of the domain above all others: the cluster of their gateways."""
DEFAULT_GROUP = "all"
"""Of what is sent without a group."""


class DomainPlan(Struct, frozen=True):
    """One cluster."""

    name: str
    sites: tuple[str, ...]
    """Sorted."""
    gateways: tuple[str, ...]
    """In the order in which they are preferred."""
    out: tuple[str, ...] = ("*",)
    """Patterns of groups whose messages may leave the cluster …"""
    into: tuple[str, ...] = ("*",)
    """… and of those that may come in."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """As steps name them: DOMAIN/SITE."""
        return tuple(f"{self.name}/{site}" for site in self.sites)


class Split(Struct, frozen=True):
    """Replaces all connectivity between clusters; within them nothing changes."""

    components: tuple[tuple[str, ...], ...]
    """Of domains; or of single gateways, DOMAIN/SITE, which may part from others of their cluster there."""


class Handover(Struct, frozen=True):
    """The representatives of these clusters give way to a standby."""

    domains: tuple[str, ...]


def domain_of(node: str) -> tuple[str, str]:
    """The domain and the site of DOMAIN/SITE."""
    domain, _, site = node.partition("/")
    return domain, site


def upper_name(domain: str, site: str) -> str:
    """A gateway's name in the cluster above."""
    return f"{domain}.{site}"
