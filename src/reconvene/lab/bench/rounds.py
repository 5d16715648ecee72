"""Measures several systems in turns, so that a disturbance of the machine affects all of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from reconvene.errors import Unavailable
from reconvene.lab.bench.sheet import Settings, Sheet

__all__ = ["ROUNDS", "OwnSitesFailed", "in_turns", "spread"]

ROUNDS = 3


class OwnSitesFailed(Unavailable):
    """Our own sites failed in a benchmark: it ends, since its figures would be those of the others."""


Key = TypeVar("Key")
Figure = TypeVar("Figure")


def in_turns(
    sheet: Sheet, settings: Settings, measures: Mapping[str, Callable[[], Mapping[Key, Figure]]]
) -> dict[Key, list[Figure]]:
    """Each system measures one or more things, once in every round; with `quick` there is one round.

    A failure of another system becomes a note, and has no figure of that round. Raises Unavailable if all failed, and
    OwnSitesFailed as soon as our own sites did.
    """
    rounds = 1 if settings.quick else ROUNDS
    found: dict[Key, list[Figure]] = {}
    for turn in range(rounds):
        for place, (name, measure) in enumerate(measures.items()):
            settings.progress(name, turn * len(measures) + place, rounds * len(measures))
            try:
                for what, figure in measure().items():
                    found.setdefault(what, []).append(figure)
            except OwnSitesFailed as error:
                raise OwnSitesFailed(f"{name}: round {turn + 1}: our own sites failed: {error}") from error
            except Unavailable as error:
                sheet.notes.append(f"{name}: no figure in round {turn + 1}: {error}")
    if not found:
        raise Unavailable(sheet.notes[-1])
    return found


def spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The lowest and the highest value, or the only one."""
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low}–{high}"
