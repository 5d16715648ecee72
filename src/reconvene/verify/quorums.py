"""Which sets of nodes hold a quorum, by run.json."""

from typing import cast

from reconvene.errors import Malformed
from reconvene.quorum import Grid, Majority, Quorum, Weighted, make_quorum
from reconvene.trace.events import Run, is_changed

__all__ = ["quorum_of"]


def quorum_of(run: Run) -> Quorum | None:
    """None where run.json does not say: with dynamic voting a quorum depends on what was a primary component before,
    and where the replicas or the quorum were changed it depends on when. Raises Malformed.

    A judge takes more than a log does: weights may be any numbers that are not negative, a node without one has none,
    and a grid may leave nodes out.
    """
    kind = run.quorum.get("kind")
    if kind == "dynamic" or is_changed(run):
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
