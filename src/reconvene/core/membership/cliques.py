"""Divides the sites into cliques: sets of sites that all hear each other.

Every site with the same reports computes the same cliques: the largest clique first, ties by name, then the largest
among the rest. So a one-way link or a chain a–b–c leads to stable configurations and not to endless changes.
"""

from collections.abc import Mapping

__all__ = ["component", "partition", "two_way"]

_BUDGET = 20_000
"""Steps of the search for a largest clique. Beyond it the best clique so far is taken, the same at every site."""


def two_way(hears: Mapping[int, int]) -> dict[int, int]:
    """Neighbours of each site, as masks: the sites that hear it and that it hears."""
    graph: dict[int, int] = {}
    for site, mask in hears.items():
        neighbours = 0
        for other, back in hears.items():
            if other != site and mask >> other & 1 and back >> site & 1:
                neighbours |= 1 << other
        graph[site] = neighbours
    return graph


def component(graph: Mapping[int, int], site: int) -> int:
    """The sites connected to this one, itself included, as a mask."""
    found = frontier = 1 << site
    while frontier:
        low = frontier & -frontier
        frontier ^= low
        fresh = graph.get(low.bit_length() - 1, 0) & ~found
        found |= fresh
        frontier |= fresh
    return found


def partition(graph: Mapping[int, int], sites: int) -> list[int]:
    """Cliques that together cover `sites`, as masks, in the order in which they were chosen."""
    cliques: list[int] = []
    while sites:
        clique = _largest(graph, sites)
        cliques.append(clique)
        sites &= ~clique
    return cliques


def _largest(graph: Mapping[int, int], sites: int) -> int:
    """A largest clique; of several, the one whose sorted names come first."""
    best = 0
    steps = 0

    def grow(clique: int, candidates: int) -> None:
        nonlocal best, steps
        steps += 1
        if not candidates:
            # Candidates are tried from the lowest name on, so the first of a size comes first by name.
            if clique.bit_count() > best.bit_count():
                best = clique
            return
        while candidates and steps < _BUDGET:
            if clique.bit_count() + candidates.bit_count() <= best.bit_count():
                return
            low = candidates & -candidates
            candidates ^= low
            grow(clique | low, candidates & graph.get(low.bit_length() - 1, 0))

    grow(0, sites)
    return best or sites & -sites
