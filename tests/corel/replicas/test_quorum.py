"""Any two quorums have a site in common: for each kind by looking at all sets, for others' kinds by the check."""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene import quorum as quorums
from reconvene.corel.replicas.quorum import (
    MOST_ENUMERATED,
    Dynamic,
    Grid,
    Majority,
    Quorum,
    Weighted,
    check_intersects,
    enumerate_disjoint,
    kinds,
    make_quorum,
    register,
)
from reconvene.errors import Malformed, Rejected
from reconvene.ids import MAX_SITES
from reconvene.quorum import MAX_WEIGHT, Spec

LETTERS = "abcdefgh"


class Threshold:
    """At least so many sites, whether they intersect or not: a kind as an application might register it."""

    def __init__(self, least: int, sites: Collection[str]) -> None:
        self.least, self.sites = least, frozenset(sites)

    def holds(self, sites: Collection[str]) -> bool:
        return len(self.sites.intersection(sites)) >= self.least

    def spec(self) -> dict[str, object]:
        return {"kind": "threshold", "least": self.least}


class Listed:
    """Exactly these sets, and, if it is monotone, every set that includes one of them."""

    def __init__(self, sets: Sequence[frozenset[str]], monotone: bool = True) -> None:
        self.sets, self.monotone = sets, monotone

    def holds(self, sites: Collection[str]) -> bool:
        there = frozenset(sites)
        return any(one <= there if self.monotone else one == there for one in self.sets)

    def spec(self) -> dict[str, object]:
        return {"kind": "listed", "sets": [sorted(one) for one in self.sets]}


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorums, "_FACTORIES", dict(quorums._FACTORIES))


def subsets(sites: Collection[str]) -> Iterator[frozenset[str]]:
    for size in range(len(sites) + 1):
        yield from map(frozenset, combinations(sorted(sites), size))


def minimal(quorum: Quorum, sites: Collection[str]) -> list[frozenset[str]]:
    found: list[frozenset[str]] = []
    for chosen in subsets(sites):
        if quorum.holds(chosen) and not any(smaller <= chosen for smaller in found):
            found.append(chosen)
    return found


def naively_disjoint(quorum: Quorum, sites: Collection[str]) -> bool:
    """By brute force: every two sets that are quorums."""
    held = [chosen for chosen in subsets(sites) if quorum.holds(chosen)]
    return any(one.isdisjoint(other) for one in held for other in held)


@st.composite
def specs(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    sites = sorted(LETTERS[: draw(st.integers(1, 6))])
    kind = draw(st.sampled_from(["majority", "weighted", "grid"]))
    if kind == "majority":
        return {"kind": kind}, sites
    if kind == "weighted":
        return {"kind": kind, "weights": {site: draw(st.integers(1, 6)) for site in sites}}, sites
    order = draw(st.permutations(sites))
    cuts = sorted(draw(st.sets(st.integers(1, len(sites) - 1)))) if len(sites) > 1 else []
    return {"kind": kind, "rows": [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(sites)], strict=True)]}, sites


@settings(deadline=None)
@given(specs())
def test_any_two_quorums_of_the_kinds_here_intersect(case: tuple[dict[str, Any], list[str]]) -> None:
    spec, sites = case
    quorum = make_quorum(spec, sites)
    check_intersects(quorum, sites)
    assert not naively_disjoint(quorum, sites)
    assert enumerate_disjoint(quorum, sites) is None  # which looks at monotony too
    assert quorum.holds(sites)
    assert not quorum.holds([])


@settings(deadline=None)
@given(specs())
def test_its_own_specification_makes_the_same_quorum(case: tuple[dict[str, Any], list[str]]) -> None:
    spec, sites = case
    quorum = make_quorum(spec, sites)
    again = make_quorum(quorum.spec(), sites)
    assert again.spec() == quorum.spec()
    assert all(again.holds(chosen) == quorum.holds(chosen) for chosen in subsets(sites))


@settings(deadline=None)
@given(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_a_threshold_is_accepted_where_it_intersects(case: tuple[int, int]) -> None:
    size, least = case
    sites = LETTERS[:size]
    quorum = Threshold(least, sites)
    if 2 * least > size:
        check_intersects(quorum, sites)
    else:
        with pytest.raises(Rejected, match=r"would both be quorums, with no site in common$"):
            check_intersects(quorum, sites)


@settings(deadline=None)
@given(st.lists(st.frozensets(st.sampled_from("abcde"), max_size=4), min_size=1, max_size=6))
def test_what_is_rejected_has_a_counterexample(sets: list[frozenset[str]]) -> None:
    quorum = Listed(sets)
    found = enumerate_disjoint(quorum, "abcde")
    assert (found is not None) == naively_disjoint(quorum, "abcde")
    if found is not None:
        one, other = found
        assert set(one).isdisjoint(other)
        least = minimal(quorum, "abcde")
        assert frozenset(one) in least
        assert frozenset(other) in least


def test_the_counterexample_is_named() -> None:
    with pytest.raises(Rejected) as caught:
        check_intersects(Listed([frozenset("ab"), frozenset("de"), frozenset("abc")]), "abcde")
    assert str(caught.value) == "quorum: {a, b} and {d, e} would both be quorums, with no site in common"


def test_more_sites_never_hold_less() -> None:
    with pytest.raises(Rejected, match=r"^quorum: \{a, b\} is one, but no longer with c$"):
        check_intersects(Listed([frozenset("ab"), frozenset("abcd")], monotone=False), "abcd")


def test_all_sites_are_a_quorum() -> None:
    with pytest.raises(Rejected, match=r"^quorum: not even all sites together are one$"):
        check_intersects(Threshold(4, "abc"), "abc")


def test_others_kinds_have_a_limit() -> None:
    sites = [f"s{number:02}" for number in range(MOST_ENUMERATED + 1)]
    with pytest.raises(Rejected, match=r"^quorum: expected at most 16 sites for this kind, .* not 17$"):
        check_intersects(Threshold(9, sites), sites)


def test_the_kinds_here_have_none_but_the_clusters() -> None:
    sites = [f"s{number:02}" for number in range(MAX_SITES)]
    rows = [sites[start : start + 8] for start in range(0, MAX_SITES, 8)]
    weighted = make_quorum({"kind": "weighted", "weights": dict.fromkeys(sites, MAX_WEIGHT)}, sites)
    grid = make_quorum({"kind": "grid", "rows": rows}, sites)
    for quorum in (make_quorum({"kind": "majority"}, sites), weighted, grid):
        check_intersects(quorum, sites)
    assert not weighted.holds(sites[:32])
    assert weighted.holds(sites[:33])
    assert grid.holds([*rows[3], *(row[0] for row in rows)])  # 15 of 64
    assert not grid.holds([*rows[3], *(row[0] for row in rows[1:])])


@pytest.mark.parametrize(
    ("quorum", "smallest"),
    [
        (Majority("a"), ["a"]),
        (Majority("ab"), ["ab"]),
        (Majority("abcd"), ["abc", "abd", "acd", "bcd"]),
        (Weighted({"a": 2, "b": 1, "c": 1}), ["ab", "ac"]),
        (Weighted({"a": 3, "b": 1, "c": 1}), ["a"]),
        (Grid(["ab", "cd"]), ["abc", "abd", "acd", "bcd"]),
        (Grid(["a", "bc", "def"]), ["abd", "abe", "abf", "acd", "ace", "acf"]),
        (Grid(["abc"]), ["abc"]),
        (Grid(["a", "b"]), ["ab"]),
    ],
)
def test_the_smallest_quorums(quorum: Quorum, smallest: list[str]) -> None:
    found = ["".join(sorted(chosen)) for chosen in minimal(quorum, "abcdef")]
    assert found == smallest


@pytest.mark.parametrize(
    "quorum", [Majority("abc"), Weighted({"a": 1, "b": 1, "c": 1}), Grid(["abc"]), Dynamic("abc")]
)
def test_strangers_and_repetitions_count_nothing(quorum: Quorum) -> None:
    assert not quorum.holds(["a", "a", "a", "x", "y", "z"])
    assert quorum.holds(["x", "a", "b", "c"])


@pytest.mark.parametrize("size", range(1, 8))
def test_dynamic_voting_without_a_past(size: int) -> None:
    """Those that may always go on hold the minimum, are more than half, and meet every component with the minimum."""
    sites = LETTERS[:size]
    for minimum in range(1, size + 1):
        quorum = Dynamic(sites, minimum)
        assert enumerate_disjoint(quorum, sites) is None
        for count in range(size + 1):
            always = count >= minimum and 2 * count > size and size - count < minimum
            assert quorum.holds(sites[:count]) == always
            assert not always or quorum.holds_after_all(sites[:count])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, "quorum: expected a table with a kind, one of dynamic, grid, majority, weighted"),
        ([], "quorum: expected a table with a kind, one of dynamic, grid, majority, weighted"),
        ({"kind": 3}, "quorum: expected a table with a kind, one of dynamic, grid, majority, weighted"),
        (
            {"kind": "unanimous"},
            "quorum: expected a kind that is one of dynamic, grid, majority, weighted, not 'unanimous'",
        ),
        ({"kind": "majority", "rows": []}, "quorum: majority has no 'rows'; expected kind"),
        (
            {"kind": "dynamic", "minimum": 4},
            "quorum: minimum: expected a number of replicas from 1 to 3, as many as there are, not 4",
        ),
        (
            {"kind": "dynamic", "minimum": 0},
            "quorum: minimum: expected a number of replicas from 1 to 3, as many as there are, not 0",
        ),
        (
            {"kind": "dynamic", "minimum": True},
            "quorum: minimum: expected a number of replicas from 1 to 3, as many as there are, not True",
        ),
        ({"kind": "dynamic", "weights": {"a": 1}}, "quorum: weights: b, c missing"),
        ({"kind": "dynamic", "least": 1}, "quorum: dynamic has no 'least'; expected kind, minimum, weights"),
        ({"kind": "weighted"}, "quorum: weights: expected a table of name = weight"),
        ({"kind": "weighted", "weights": [1, 2]}, "quorum: weights: expected a table of name = weight"),
        ({"kind": "weighted", "weights": {"a": 1, "b": 1}}, "quorum: weights: c missing"),
        ({"kind": "weighted", "weights": {}}, "quorum: weights: a, b, c missing"),
        (
            {"kind": "weighted", "weights": {"a": 1, "b": 1, "c": 1, "d": 1}},
            "quorum: weights: 'd' is none of the sites a, b, c",
        ),
        (
            {"kind": "weighted", "weights": {"a": 0, "b": 1, "c": 1}},
            "quorum: weights: 'a': expected a weight from 1 to 4294967295, not 0",
        ),
        (
            {"kind": "weighted", "weights": {"a": -3, "b": 1, "c": 1}},
            "quorum: weights: 'a': expected a weight from 1 to 4294967295, not -3",
        ),
        (
            {"kind": "weighted", "weights": {"a": True, "b": 1, "c": 1}},
            "quorum: weights: 'a': expected a weight from 1 to 4294967295, not True",
        ),
        (
            {"kind": "weighted", "weights": {"a": 1.5, "b": 1, "c": 1}},
            "quorum: weights: 'a': expected a weight from 1 to 4294967295, not 1.5",
        ),
        (
            {"kind": "weighted", "weights": {"a": 10**999, "b": 1, "c": 1}},
            "quorum: weights: 'a': expected a weight from 1 to 4294967295, not a number of more than 128 bits",
        ),
        ({"kind": "weighted", "weights": {}, "rows": []}, "quorum: weighted has no 'rows'; expected kind, weights"),
        ({"kind": "grid"}, "quorum: rows: expected a list of rows, each a list of sites"),
        ({"kind": "grid", "rows": "abc"}, "quorum: rows: expected a list of rows, each a list of sites"),
        ({"kind": "grid", "rows": []}, "quorum: rows: expected a list of rows, each a list of sites"),
        ({"kind": "grid", "rows": ["abc"]}, "quorum: rows: expected a row of at least one site, not 'abc'"),
        (
            {"kind": "grid", "rows": [["a", "b", "c"], []]},
            "quorum: rows: expected a row of at least one site, not []",
        ),
        ({"kind": "grid", "rows": [["a", "b"], ["a", "c"]]}, "quorum: rows: 'a' is named twice"),
        ({"kind": "grid", "rows": [["a"], ["b"]]}, "quorum: rows: c missing"),
        ({"kind": "grid", "rows": [["a", "b", "c", "x"]]}, "quorum: rows: 'x' is none of the sites a, b, c"),
        ({"kind": "grid", "rows": [["a", "b", "c", ["d"]]]}, "quorum: rows: ['d'] is none of the sites a, b, c"),
    ],
)
def test_what_is_no_specification(spec: Any, says: str) -> None:
    with pytest.raises(Malformed) as caught:
        make_quorum(spec, "abc")
    assert str(caught.value) == says


def test_for_how_many_sites() -> None:
    with pytest.raises(Malformed, match=r"^quorum: expected 1 to 64 sites, not 0$"):
        make_quorum({"kind": "majority"}, [])
    with pytest.raises(Malformed, match=r"^quorum: expected 1 to 64 sites, not 65$"):
        make_quorum({"kind": "majority"}, [str(number) for number in range(65)])


@pytest.mark.usefixtures("clean_registry")
def test_others_plug_in() -> None:
    def threshold(spec: Spec, sites: Sequence[str]) -> Threshold:
        least: Any = spec["least"]
        return Threshold(least + 0, sites)

    register("threshold", threshold)
    assert kinds() == ["dynamic", "grid", "majority", "threshold", "weighted"]
    quorum = make_quorum({"kind": "threshold", "least": 2}, "abc")
    assert quorum.holds("ab")
    check_intersects(quorum, "abc")
    with pytest.raises(Malformed, match=r"^quorum: 'threshold' can't be made: KeyError\('least'\)$"):
        make_quorum({"kind": "threshold"}, "abc")
    with pytest.raises(Rejected, match=r"^quorum: the kind 'threshold' is known already$"):
        register("threshold", threshold)


def test_sixteen_sites_of_others_kind_are_looked_at() -> None:
    sites = [f"s{number:02}" for number in range(MOST_ENUMERATED)]
    check_intersects(Threshold(9, sites), sites)
    with pytest.raises(Rejected, match="with no site in common"):
        check_intersects(Threshold(8, sites), sites)
