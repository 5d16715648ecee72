"""Rules that differ between a cluster's gateways: found, and refused.

All sites of a cluster have the same rules, if their configurations are right. If those of two gateways differ, one of
them would let cross what the other keeps at home. So each PORT has digests of its gateway's rules, and those of the
representative count; before there is one, those of the gateway that comes first in the configured order. It is a
function of the PORTs alone: also sites whose own configuration is another one refuse the same gateways.
"""

from collections.abc import Mapping
from zlib import crc32

from reconvene.domains.messages import Port, Rules
from reconvene.domains.tree import Tree

__all__ = ["counting", "differing", "ranked", "rules_of"]


def rules_of(tree: Tree, name: str) -> Rules:
    domain = tree.domains[name]
    return Rules(*(crc32("\n".join(names).encode()) for names in (
        sorted(domain.out), sorted(domain.into), domain.gateways, domain.sites, tree.upper
    )))  # fmt: skip


def ranked(ports: Mapping[str, Port]) -> list[str]:
    """The gateways in the configured order: each says its own place in it."""
    return sorted(ports, key=lambda name: (ports[name].rank, name))


def counting(ports: Mapping[str, Port], present: str | None) -> Rules | None:
    """Those that count: the representative's, or else the first gateway's."""
    chosen = present if present in ports else next(iter(ranked(ports)), None)
    return None if chosen is None else ports[chosen].rules


def differing(rules: Rules, expected: Rules) -> tuple[str, ...]:
    """What of them differs: names of fields."""
    return tuple(
        field for field in Rules.__struct_fields__ if getattr(rules, field) != getattr(expected, field)
    )  # fmt: skip
