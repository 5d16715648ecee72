"""Measurements of several systems, in turns: what disturbs the machine for a while disturbs all of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from reconvene.errors import Unavailable
from reconvene.lab.bench.sheet import Settings, Sheet

__all__ = ["ROUNDS", "in_turns", "spread"]

ROUNDS = 3

Key = TypeVar("Key")
Figure = TypeVar("Figure")


def in_turns(
    sheet: Sheet, settings: Settings, measures: Mapping[str, Callable[[], Mapping[Key, Figure]]]
) -> dict[Key, list[Figure]]:
    """Each measures one or more things; each has its turn in every round, of which there is one with `quick`.

    One that fails is told in a note, and has no figure from that round. Raises Unavailable where all did.
    """
    rounds = 1 if settings.quick else ROUNDS
    found: dict[Key, list[Figure]] = {}
    for turn in range(rounds):
        for place, (name, measure) in enumerate(measures.items()):
            settings.progress(name, turn * len(measures) + place, rounds * len(measures))
            try:
                for what, figure in measure().items():
                    found.setdefault(what, []).append(figure)
            except Unavailable as error:
                sheet.notes.append(f"{name}: no figure in round {turn + 1}: {error}")
    if not found:
        raise Unavailable(sheet.notes[-1])
    return found


def spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """Lowest to highest, or the one value."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low}–{high}"
