"""Quorums: which sets of sites may act for all of them. What the log decides by, and what its judge judges by.

Given: a specification, the `quorum` of run.json, and the names of the sites that it is for.
Promised of the kinds below: any two quorums have a site in common, and a quorum with more sites is one too.

    {"kind": "majority"}                                 more than half of the sites
    {"kind": "weighted", "weights": {"a": 2, "b": 1}}    more than half of the weight of all sites
    {"kind": "grid", "rows": [["a", "b"], ["c", "d"]]}   all sites of one row, and at least one of every row
    {"kind": "dynamic", "minimum": 2}                    by the primary component before: `reconvene.voting`

A site is in one row, and rows may differ in length. Why two quorums meet: docs/quorums.md.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from reconvene.errors import Malformed, Rejected
from reconvene.ids import MAX_SITES
from reconvene.voting import Evidence, Session, Voters, default_minimum, may_attempt

__all__ = [
    "MAX_WEIGHT",
    "Dynamic",
    "Factory",
    "Grid",
    "Majority",
    "Quorum",
    "Spec",
    "Weighted",
    "full_spec",
    "kinds",
    "make_quorum",
    "register",
]

Spec = Mapping[str, object]

MAX_WEIGHT = (1 << 32) - 1
"""Of one site."""


class Quorum(Protocol):
    def holds(self, sites: Collection[str]) -> bool:
        """Whether these sites, or some of them, are a quorum. Names that the quorum does not know count nothing."""
        ...

    def spec(self) -> dict[str, object]:
        """What `make_quorum` makes the same one of."""
        ...


class Majority:
    """More than half of the sites."""

    def __init__(self, sites: Collection[str]) -> None:
        self.sites = frozenset(sites)

    def holds(self, sites: Collection[str]) -> bool:
        return 2 * len(self.sites.intersection(sites)) > len(self.sites)

    def spec(self) -> dict[str, object]:
        return {"kind": "majority"}


class Weighted:
    """More than half of the weight of all sites."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.weights = dict(weights)
        self.total = sum(self.weights.values())

    def holds(self, sites: Collection[str]) -> bool:
        return 2 * sum(self.weights.get(name, 0) for name in frozenset(sites)) > self.total

    def spec(self) -> dict[str, object]:
        return {"kind": "weighted", "weights": dict(sorted(self.weights.items()))}


class Grid:
    """All sites of one row, and at least one site of every row."""

    def __init__(self, rows: Sequence[Collection[str]]) -> None:
        self.rows = tuple(frozenset(row) for row in rows)

    def holds(self, sites: Collection[str]) -> bool:
        there = frozenset(sites)
        return any(row <= there for row in self.rows) and not any(row.isdisjoint(there) for row in self.rows)

    def spec(self) -> dict[str, object]:
        return {"kind": "grid", "rows": [sorted(row) for row in self.rows]}


class Dynamic:
    """Dynamic voting: which sites may act depends on which of them did before. `holds` knows nothing of that: it is
    true of those that may always act, since they meet every component that may have acted before."""

    def __init__(
        self, sites: Collection[str], minimum: int | None = None, weights: Mapping[str, int] | None = None
    ) -> None:
        self.sites = frozenset(sites)
        self.minimum = default_minimum(len(self.sites)) if minimum is None else minimum
        self.weights = None if weights is None else dict(weights)
        self._given = minimum

    def holds(self, sites: Collection[str]) -> bool:
        here = len(self.sites.intersection(sites))
        return here >= self.minimum and here > len(self.sites) - self.minimum and 2 * here > len(self.sites)

    def holds_after_all(self, sites: Collection[str]) -> bool:
        """Whether these may act where all sites did so last."""
        numbers = {name: number for number, name in enumerate(sorted(self.sites))}
        here = [numbers[name] for name in self.sites.intersection(sites)]
        every = Session(0, 0, tuple((number, self.weight(name)) for name, number in numbers.items()))
        return may_attempt(here, Voters(frozenset(numbers.values()), self.minimum), Evidence(every, ()))

    def weight(self, name: str) -> int:
        return 1 if self.weights is None else self.weights.get(name, 1)

    def spec(self) -> dict[str, object]:
        spec: dict[str, object] = {"kind": "dynamic"}
        if self._given is not None:
            spec["minimum"] = self._given
        if self.weights is not None:
            spec["weights"] = dict(sorted(self.weights.items()))
        return spec


Factory = Callable[[Spec, Sequence[str]], Quorum]
"""From a specification and the sites' sorted names. Raises Malformed where the one does not fit the other."""


def make_quorum(spec: Spec, sites: Collection[str]) -> Quorum:
    """Raises Malformed, in one line, where the specification is none, or not one for these sites."""
    if not isinstance(spec, Mapping) or not isinstance(spec.get("kind"), str):
        raise Malformed(f"quorum: expected a table with a kind, one of {', '.join(kinds())}")
    factory = _FACTORIES.get(str(spec["kind"]))
    if factory is None:
        raise Malformed(f"quorum: expected a kind that is one of {', '.join(kinds())}, not {_shown(spec['kind'])}")
    names = sorted(frozenset(sites))
    if not 1 <= len(names) <= MAX_SITES:
        raise Malformed(f"quorum: expected 1 to {MAX_SITES} sites, not {len(names)}")
    try:
        return factory(spec, names)
    except Malformed:
        raise
    except Exception as error:  # others' code, which a specification from anywhere has led astray
        raise Malformed(f"quorum: {_shown(spec['kind'])} can't be made: {_shown(error)}") from error


def full_spec(spec: Spec, sites: Collection[str]) -> dict[str, object]:
    """The same with a minimum that is left out, as run.json has it."""
    if spec.get("kind") == "dynamic" and "minimum" not in spec:
        return {**spec, "minimum": default_minimum(len(sites))}
    return dict(spec)


def register(kind: str, factory: Factory) -> None:
    """Makes another kind known: before any log that uses it is opened, and at every site alike.

    Its quorums are checked to intersect before a log takes them. Raises Rejected where the kind is known already.
    """
    if kind in _FACTORIES:
        raise Rejected(f"quorum: the kind {_shown(kind)} is known already")
    _FACTORIES[kind] = factory


def kinds() -> list[str]:
    return sorted(_FACTORIES)


def _majority(spec: Spec, sites: Sequence[str]) -> Majority:
    _keys(spec, "kind")
    return Majority(sites)


def _weighted(spec: Spec, sites: Sequence[str]) -> Weighted:
    _keys(spec, "kind", "weights")
    return Weighted(_weights(spec, sites))


def _weights(spec: Spec, sites: Sequence[str]) -> dict[str, int]:
    weights = spec.get("weights")
    if not isinstance(weights, Mapping):
        raise Malformed("quorum: weights: expected a table of name = weight")
    found: dict[str, int] = {}
    for name, weight in weights.items():
        if type(weight) is not int or not 1 <= weight <= MAX_WEIGHT:
            raise Malformed(
                f"quorum: weights: {_shown(name)}: expected a weight from 1 to {MAX_WEIGHT}, not {_shown(weight)}"
            )
        found[name] = weight
    _names("weights", list(found), sites)
    return found


def _dynamic(spec: Spec, sites: Sequence[str]) -> Dynamic:
    _keys(spec, "kind", "minimum", "weights")
    minimum = spec.get("minimum")
    if minimum is None:
        return Dynamic(sites, None, _weights(spec, sites) if "weights" in spec else None)
    if type(minimum) is not int or not 1 <= minimum <= len(sites):
        raise Malformed(
            f"quorum: minimum: expected a number of replicas from 1 to {len(sites)}, as many as there are,"
            f" not {_shown(minimum)}"
        )
    return Dynamic(sites, minimum, _weights(spec, sites) if "weights" in spec else None)


def _grid(spec: Spec, sites: Sequence[str]) -> Grid:
    _keys(spec, "kind", "rows")
    rows = spec.get("rows")
    if not isinstance(rows, list | tuple) or not rows:
        raise Malformed("quorum: rows: expected a list of rows, each a list of sites")
    for row in rows:
        if not isinstance(row, list | tuple) or not row:
            raise Malformed(f"quorum: rows: expected a row of at least one site, not {_shown(row)}")
    _names("rows", [name for row in rows for name in row], sites)
    return Grid(rows)


_FACTORIES: dict[str, Factory] = {
    "majority": _majority,
    "weighted": _weighted,
    "grid": _grid,
    "dynamic": _dynamic,
}


def _keys(spec: Spec, *known: str) -> None:
    for key in spec:
        if key not in known:
            raise Malformed(f"quorum: {spec['kind']} has no {_shown(key)}; expected {', '.join(known)}")


def _names(place: str, names: Sequence[object], sites: Sequence[str]) -> None:
    """Every site is named once, and nobody else."""
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or name not in sites:
            raise Malformed(f"quorum: {place}: {_shown(name)} is none of the sites {_listed(sites)}")
        if name in seen:
            raise Malformed(f"quorum: {place}: {_shown(name)} is named twice")
        seen.add(name)
    missing = [name for name in sites if name not in seen]
    if missing:
        raise Malformed(f"quorum: {place}: {_listed(missing)} missing")


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:8], *(["…"] if len(names) > 8 else [])])


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 128 bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
