"""Where a fact was seen that no right run has: the first rows to look at, while the exact verdict is not there
yet."""

from msgspec import Struct

__all__ = ["MOST", "Sighting", "add_sighting"]

MOST = 20
"""Sightings that are kept of a run's layer: the first ones."""


class Sighting(Struct, frozen=True):
    fact: str
    """As the Spark engine's tables call it: see `Check.facts`."""
    node: str
    n: int
    what: str


def add_sighting(seen: list[Sighting], sighting: Sighting) -> None:
    if len(seen) < MOST:
        seen.append(sighting)
