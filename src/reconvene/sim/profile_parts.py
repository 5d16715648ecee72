"""What the scenarios of all profiles have alike."""

from collections.abc import Iterable
from random import Random
from typing import TypedDict

from reconvene.sim.scenario import ChaosPlan

__all__ = ["MS", "SECOND", "Outline", "outline", "storm"]

MS = 1_000_000
SECOND = 1_000 * MS


class Outline(TypedDict):
    """Fields of `Scenario`."""

    name: str
    nodes: tuple[str, ...]
    seed: int
    stack: str
    order: str
    duration_ns: int
    settle_ns: int


def outline(
    profile: str, stack: str, seed: int, nodes: tuple[str, ...], duration_ns: int, settle_ns: int
) -> Outline:  # fmt: skip
    """Neighbouring seeds have different order engines."""
    return Outline(
        name=profile, nodes=nodes, seed=seed, stack=stack, order=("atop", "all-ack")[seed % 2],
        duration_ns=duration_ns, settle_ns=settle_ns,
    )  # fmt: skip


def storm(
    random: Random,
    kinds: Iterable[str],
    duration_ns: int,
    ambush: float,
    steps: tuple[str, ...] = (),
    least: int = 120,
) -> ChaosPlan:
    """Faults of these kinds until the end. `ambush`: so many of them wait for one of the steps; `least`: ms between
    two of them, in the densest runs."""
    return ChaosPlan(
        from_ns=500 * MS,
        until_ns=duration_ns,
        faults=tuple(sorted(kinds)),
        mean_gap_ns=random.choice((least, 300, 700)) * MS,
        ambush=ambush,
        ambush_steps=steps,
    )
