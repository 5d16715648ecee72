"""The tree of clusters as every site has it in its configuration: names, gateways, and what may pass.

A domain is a cluster. The cluster above it has one site for each of its gateways, which is named DOMAIN.SITE.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

__all__ = ["Domain", "Tree", "matches"]


class Domain(Struct, frozen=True):
    name: str
    sites: tuple[str, ...]
    """Sorted: a site's number in its cluster is its place here."""
    gateways: tuple[str, ...]
    """In the order in which they are preferred as representatives."""
    out: tuple[str, ...] = ("*",)
    """Patterns of groups whose messages may leave …"""
    into: tuple[str, ...] = ("*",)
    """… and of those that may come in."""

    def passes_out(self, group: str) -> bool:
        return matches(self.out, group)

    def passes_in(self, group: str) -> bool:
        return matches(self.into, group)


class Tree:
    """Clusters that are joined by one cluster above them."""

    def __init__(self, domains: Sequence[Domain]) -> None:
        self.domains: Mapping[str, Domain] = {domain.name: domain for domain in domains}
        self.numbers = {name: number for number, name in enumerate(sorted(self.domains))}
        """A number for each domain, the same at all sites."""
        upper = {f"{domain.name}.{gateway}": domain.name for domain in domains for gateway in domain.gateways}
        self.upper = tuple(sorted(upper))
        """The names of the sites above, by their number there."""
        self._domain_of = upper
        self._numbers = {name: number for number, name in enumerate(self.upper)}

    def domain_of(self, upper_site: int) -> str:
        """For whom this site of the cluster above speaks: for its own domain only."""
        return self._domain_of[self.upper[upper_site]]

    def upper_site(self, domain: str, gateway: str) -> int | None:
        """The number above of this gateway of the domain."""
        return self._numbers.get(f"{domain}.{gateway}")


def matches(patterns: Sequence[str], group: str) -> bool:
    """Whether one of the patterns fits the group; a `*` in a pattern fits any text."""
    return any(_compiled(pattern).fullmatch(group) is not None for pattern in patterns)


@lru_cache(maxsize=4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
