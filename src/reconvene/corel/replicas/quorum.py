"""Whether a quorum may be the log's: any two quorums have to have a site in common.

Two primary components that share no replica would order the log twice. So every quorum is checked before it becomes
part of the log's state. The kinds of quorums are in `reconvene.quorum`.
"""

from collections.abc import Collection, Sequence

from reconvene.errors import Rejected
from reconvene.quorum import Dynamic, Grid, Majority, Quorum, Weighted, kinds, make_quorum, register

__all__ = [
    "MOST_ENUMERATED",
    "Dynamic",
    "Grid",
    "Majority",
    "Quorum",
    "Weighted",
    "check_intersects",
    "enumerate_disjoint",
    "kinds",
    "make_quorum",
    "register",
]

MOST_ENUMERATED = 16
"""Sites: with more, a quorum that was registered by an application has too many sets to look at each."""

_BY_CONSTRUCTION = (Majority, Weighted, Grid, Dynamic)


def check_intersects(quorum: Quorum, sites: Collection[str]) -> None:
    """Raises Rejected, naming two disjoint quorums, where two need not have a site in common.

    The kinds that come with Reconvene intersect by construction (docs/quorums.md); any other is checked set by set.
    """
    if type(quorum) in _BY_CONSTRUCTION:
        return
    found = enumerate_disjoint(quorum, sites)
    if found is not None:
        raise Rejected(
            f"quorum: {_listed(found[0])} and {_listed(found[1])} would both be quorums, with no site in common"
        )


def enumerate_disjoint(quorum: Quorum, sites: Collection[str]) -> tuple[list[str], list[str]] | None:
    """Two quorums without a common site, each without a site that it does not need; None: there are none.

    Exact, for any quorum. Raises Rejected where that can't be found out (too many sites), where a quorum with one
    more site is none, and where not even all sites are one.
    """
    names = sorted(frozenset(sites))
    if len(names) > MOST_ENUMERATED:
        raise Rejected(
            f"quorum: expected at most {MOST_ENUMERATED} sites for this kind, whose sets are looked at one by one, "
            f"not {len(names)}"
        )
    every = (1 << len(names)) - 1
    holds = [quorum.holds(_chosen(names, mask)) for mask in range(every + 1)]
    if not holds[every]:
        raise Rejected("quorum: not even all sites together are one")
    for mask in range(every + 1):
        if holds[mask]:
            for place, name in enumerate(names):
                if not holds[mask | 1 << place]:
                    raise Rejected(f"quorum: {_listed(_chosen(names, mask))} is one, but no longer with {name}")
    # As more sites never hold less, two disjoint quorums grow into a set and its complement that both are quorums.
    for mask in range(every + 1):
        if holds[mask] and holds[every ^ mask]:
            return _chosen(names, _least(holds, mask)), _chosen(names, _least(holds, every ^ mask))
    return None


def _least(holds: Sequence[bool], mask: int) -> int:
    """A quorum within this one that needs each of its sites."""
    for place in range(mask.bit_length()):
        if holds[mask & ~(1 << place)]:
            mask &= ~(1 << place)
    return mask


def _chosen(names: Sequence[str], mask: int) -> list[str]:
    return [name for place, name in enumerate(names) if mask >> place & 1]


def _listed(names: Sequence[str]) -> str:
    return "{" + ", ".join(names) + "}"
