"""Which sets of nodes hold a quorum, by run.json."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import cast

from reconvene.errors import Malformed
from reconvene.quorum import MAX_WEIGHT, Grid, Majority, Quorum, Weighted, make_quorum
from reconvene.trace.events import Run, is_changed
from reconvene.voting import Session, Voters, default_minimum

__all__ = ["Votes", "quorum_of", "standing_sites", "votes_of"]


def quorum_of(run: Run) -> Quorum | None:
    """None where run.json does not say: with dynamic voting a quorum depends on what was a primary component before,
    and where the replicas or the quorum were changed it depends on when. Raises Malformed.

    A judge takes more than a log does: weights may be any numbers that are not negative, a node without one has none,
    and a grid may leave nodes out.
    """
    kind = run.quorum.get("kind")
    if is_changed(run) or votes_of(run) is not None:
        return None
    if kind == "majority":
        return Majority(run.nodes)
    if kind == "weighted":
        return Weighted(_weights(run.quorum.get("weights")))
    if kind == "grid":
        return Grid(_rows(run.quorum.get("rows")))
    try:
        return make_quorum(run.quorum, run.nodes)
    except Malformed:
        raise Malformed(f"`quorum` has the kind {kind!r}; expected majority, weighted, grid or dynamic") from None


def standing_sites(run: Run, index: Mapping[str, int], down: Collection[int]) -> set[int]:
    """Where the run is settled: the nodes, by index, that are up and in the component whose nodes that are up hold a
    quorum. None, where run.json does not say what a quorum is."""
    try:
        quorum = quorum_of(run) if run.settled else None
    except Malformed:
        quorum = None
    found: set[int] = set()
    for component in run.components:
        up = [name for name in component if name in index and index[name] not in down]
        if quorum is not None and quorum.holds(up):
            found |= {index[name] for name in up}
    return found


def _weights(weights: object) -> dict[str, int]:
    if not isinstance(weights, dict) or not all(map(_is_weight, weights.values())):
        raise Malformed("`quorum` expected to have `weights`, a number for each node")
    return weights


def _is_weight(weight: object) -> bool:
    return isinstance(weight, int | float) and not isinstance(weight, bool) and weight >= 0


def _rows(rows: object) -> list[list[str]]:
    if not isinstance(rows, list) or not rows or not all(map(_is_row, rows)):
        raise Malformed("`quorum` expected to have `rows`, lists of nodes")
    return cast("list[list[str]]", rows)


def _is_row(row: object) -> bool:
    return isinstance(row, list) and bool(row) and all(isinstance(name, str) for name in row)


@dataclass(frozen=True, slots=True)
class Votes:
    """One run's replicas and their rule."""

    numbers: dict[str, int]
    """By name: a replica's place in `nodes`."""
    weights: dict[int, int]
    voters: Voters

    def session(self, number: int, members: frozenset[str]) -> Session:
        held = sorted(self.numbers[name] for name in members if name in self.numbers)
        return Session(0, number, tuple((one, self.weights[one]) for one in held))

    def first(self) -> Session:
        return self.session(0, frozenset(self.numbers))


def votes_of(run: Run) -> Votes | None:
    """None where the replicas do not vote dynamically, or where they or their quorum were changed. Raises
    Malformed."""
    if run.quorum.get("kind") != "dynamic" or is_changed(run):
        return None
    weights = run.quorum.get("weights")
    if weights is not None and not (
        isinstance(weights, dict) and all(type(one) is int and 0 <= one <= MAX_WEIGHT for one in weights.values())
    ):
        raise Malformed("`quorum` expected to have `weights`, a number for each node")
    held = {name: 1 if weights is None else int(weights.get(name, 0)) for name in run.nodes}
    numbers = {name: place for place, name in enumerate(run.nodes) if held[name]}
    minimum = run.quorum.get("minimum", default_minimum(len(numbers)))
    if type(minimum) is not int or not 1 <= minimum <= max(1, len(numbers)):
        raise Malformed(f"`quorum` expected to have a `minimum` from 1 to {len(numbers)}, the number of replicas")
    return Votes(
        numbers, {numbers[name]: held[name] for name in numbers}, Voters(frozenset(numbers.values()), minimum)
    )
