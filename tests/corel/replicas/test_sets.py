"""Sets of replicas: their members, how they change, and what is rejected as a set."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack
from msgspec.structs import replace

from reconvene import quorum as quorums
from reconvene.corel.replicas.quorum import Quorum
from reconvene.corel.replicas.sets import (
    MAX_NUMBER,
    MAX_QUORUM_BYTES,
    Change,
    Member,
    ReplicaSet,
    applies,
    decode_change,
    decode_replicas,
    encode_change,
    encode_replicas,
)
from reconvene.errors import Malformed, Rejected
from reconvene.quorum import Majority, Spec

ABC = ReplicaSet.first(["c", "a", "b"])
WEIGHTED = ReplicaSet.first("abc", {"kind": "weighted", "weights": {"a": 2, "b": 1, "c": 1}})
GRID = ReplicaSet.first("abcd", {"kind": "grid", "rows": [["a", "b"], ["c", "d"]]})


def shown(replicas: ReplicaSet) -> str:
    return " ".join(f"{replica.number}:{replica.name}" for replica in replicas.replicas)


def subsets(sites: Collection[str]) -> Iterator[frozenset[str]]:
    for size in range(len(sites) + 1):
        yield from map(frozenset, combinations(sorted(sites), size))


def test_the_first_set() -> None:
    assert shown(ABC) == "0:a 1:b 2:c"
    assert (ABC.epoch, ABC.version, ABC.next_number) == (0, 0, 3)
    assert ABC.names() == ["a", "b", "c"]
    assert ABC.numbers() == [0, 1, 2]
    assert ABC.number_of("b") == 1
    assert ABC.number_of("x") is None
    assert ABC.name_of(2) == "c"
    assert ABC.name_of(3) is None
    assert ABC.quorum_holds(["a", "c", "x"])
    assert not ABC.quorum_holds(["a", "x", "y"])
    assert ABC.quorum_holds_numbers([0, 2])
    assert not ABC.quorum_holds_numbers([0, 3, 4])


def test_a_number_is_never_given_again() -> None:
    changed = ABC.added("d").removed("d").added("d").removed("b").added("b")
    assert shown(changed) == "0:a 2:c 4:d 5:b"
    assert changed.age == (0, 5)
    assert changed.next_number == 6


def test_a_site_that_lost_its_disk_is_another_replica() -> None:
    changed = ABC.replaced("a", "a")
    assert shown(changed) == "1:b 2:c 3:a"
    assert ABC.quorum_holds_numbers([0, 1])
    assert not ABC.quorum_holds_numbers([3, 1]), "the new a has nothing of what the old one knew"
    assert shown(ABC.replaced("a", "z")) == "1:b 2:c 3:z"


def test_without_those_that_are_lost() -> None:
    forced = ABC.added("d").added("e").forced_without(["a", "b", "e"])
    assert shown(forced) == "2:c 3:d"
    assert forced.age == (1, 3)
    assert forced.age > ABC.added("d").added("e").added("f").added("g").age, "whoever missed it is older"
    assert forced.next_number == 5


def test_the_quorum_follows() -> None:
    assert WEIGHTED.removed("a").quorum == {"kind": "weighted", "weights": {"b": 1, "c": 1}}
    assert WEIGHTED.replaced("a", "z").quorum == {"kind": "weighted", "weights": {"z": 2, "b": 1, "c": 1}}
    assert GRID.replaced("c", "z").quorum == {"kind": "grid", "rows": [["a", "b"], ["z", "d"]]}
    assert GRID.removed("c").quorum == {"kind": "grid", "rows": [["a", "b"], ["d"]]}
    assert GRID.forced_without(["c", "d"]).quorum == {"kind": "grid", "rows": [["a", "b"]]}
    assert GRID.removed("d", {"kind": "majority"}).quorum_holds("ac")
    assert GRID.with_quorum({"kind": "majority"}).quorum_holds("abd")
    wider = WEIGHTED.added("d", {"kind": "weighted", "weights": {"a": 2, "b": 1, "c": 1, "d": 1}})
    assert wider.quorum_holds("ab")
    assert not wider.quorum_holds("bc")
    assert WEIGHTED.quorum == {"kind": "weighted", "weights": {"a": 2, "b": 1, "c": 1}}, "the old one is as it was"


NEEDS_QUORUM = "expected a quorum for the new set with the change"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda: ABC.added("a"), "replicas: a is one already"),
        (lambda: ABC.added(""), "replicas: expected a printable name of 1 to 255 bytes, not ''"),
        (lambda: ABC.added("x\ny"), "replicas: expected a printable name of 1 to 255 bytes, not 'x\\ny'"),
        (lambda: ABC.added("\ud800"), "replicas: expected a printable name of 1 to 255 bytes, not '\\ud800'"),
        (
            lambda: ABC.added("é" * 128),
            f"replicas: expected a printable name of 1 to 255 bytes, not '{'é' * 56}...",
        ),
        (lambda: ABC.removed("x"), "replicas: 'x' is none of them: a, b, c"),
        (lambda: ReplicaSet.first("a").removed("a"), "replicas: a is the last one"),
        (lambda: ABC.replaced("x", "y"), "replicas: 'x' is none of them: a, b, c"),
        (lambda: ABC.replaced("a", "b"), "replicas: b is one already"),
        (lambda: ABC.forced_without([]), "replicas: expected the names of those that are lost"),
        (lambda: ABC.forced_without(["a", "x"]), "replicas: 'x' is none of them: a, b, c"),
        (lambda: ABC.forced_without("abc"), "replicas: expected at least one that is not lost"),
        (lambda: ReplicaSet.first([]), "replicas: expected 1 to 64, not 0"),
        (lambda: ReplicaSet.first(["a", "a"]), "replicas: a is named twice"),
        (lambda: ReplicaSet.first([str(n) for n in range(65)]), "replicas: expected 1 to 64, not 65"),
        (
            lambda: ReplicaSet.first([str(n) for n in range(64)]).added("x"),
            "replicas: expected 1 to 64, not 65",
        ),
        (
            lambda: replace(ABC, next_number=MAX_NUMBER + 1).added("x"),
            "replicas: the log has given all numbers up to 65535",
        ),
        (lambda: WEIGHTED.added("d"), f"quorum: weights: d missing: {NEEDS_QUORUM}"),
        (lambda: GRID.added("e"), f"quorum: rows: e missing: {NEEDS_QUORUM}"),
        (lambda: WEIGHTED.added("d", {"kind": "grid", "rows": [["a"]]}), "quorum: rows: b, c, d missing"),
        (lambda: ABC.with_quorum({"kind": "lottery"}), "quorum: expected a kind that is one of dynamic, grid"),
        (lambda: ABC.with_quorum({}), "quorum: expected a table with a kind"),
        (lambda: ABC.with_quorum({"kind": object()}), "quorum: expected what msgpack can carry: "),
        (
            lambda: ABC.with_quorum({"kind": "x" * MAX_QUORUM_BYTES}),
            "quorum: expected at most 32768 bytes, not 32777",
        ),
    ],
)
def test_what_makes_no_sense(change: Callable[[], ReplicaSet], says: str) -> None:
    with pytest.raises(Rejected) as caught:
        change()
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


class AnyTwo(Majority):
    """Two sites of however many: of four, two pairs are disjoint."""

    def holds(self, sites: Collection[str]) -> bool:
        return len(self.sites.intersection(sites)) >= 2


def test_a_quorum_that_need_not_intersect_is_taken_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_two(spec: Spec, sites: Sequence[str]) -> Quorum:
        return AnyTwo(sites)

    monkeypatch.setattr(quorums, "_FACTORIES", {**quorums._FACTORIES, "any two": any_two})
    spec = {"kind": "any two"}
    three = ABC.with_quorum(spec)
    assert three.quorum_holds("ab")
    says = r"quorum: \{.*\} and \{.*\} would both be quorums, with no site in common"
    with pytest.raises(Rejected, match=f"^{says}: {NEEDS_QUORUM}$"):
        three.added("d")
    with pytest.raises(Rejected, match=f"^{says}$"):
        ReplicaSet.first("abcd", spec)
    with pytest.raises(Malformed, match=f"^a replica set: {says}$"):
        decode_replicas(encode_replicas(replace(GRID, quorum=spec)))


# -- changes, one after the other

NAMES = "abcde"


@st.composite
def histories(draw: st.DrawFn) -> list[ReplicaSet]:
    """Sets that each follow from the one before by one change that was accepted."""
    sites = draw(st.sets(st.sampled_from(NAMES), min_size=1))
    found = [ReplicaSet.first(sites, draw(fitting(sorted(sites))))]
    for _ in range(draw(st.integers(1, 6))):
        current = found[-1]
        there, name = draw(st.sampled_from(current.names())), draw(st.sampled_from(NAMES))
        try:
            match draw(st.sampled_from(["added", "removed", "replaced", "quorum", "forced"])):
                case "added":
                    changed = current.added(name, draw(fitting(sorted({*current.names(), name}))))
                case "removed":
                    changed = current.removed(there)
                case "replaced":
                    changed = current.replaced(there, name)
                case "quorum":
                    changed = current.with_quorum(draw(fitting(current.names())))
                case _:
                    changed = current.forced_without([there])
        except Rejected:
            continue
        found.append(changed)
    return found


def fitting(sites: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    majority = st.just({"kind": "majority"})
    weighted = st.fixed_dictionaries(dict.fromkeys(sites, st.integers(1, 5))).map(
        lambda weights: {"kind": "weighted", "weights": weights}
    )
    grid = st.integers(1, len(sites)).map(
        lambda length: {"kind": "grid", "rows": [sites[i : i + length] for i in range(0, len(sites), length)]}
    )
    return st.one_of(majority, weighted, grid)


@settings(deadline=None)
@given(histories())
def test_sets_that_follow_each_other(history: list[ReplicaSet]) -> None:
    seen: dict[int, str] = {}
    for replicas in history:
        for replica in replicas.replicas:
            assert seen.setdefault(replica.number, replica.name) == replica.name
            assert replica.number < replicas.next_number
        assert replicas.numbers() == sorted(replicas.numbers())
        held = [chosen for chosen in subsets(replicas.names()) if replicas.quorum_holds(chosen)]
        assert all(not one.isdisjoint(other) for one in held for other in held)
        assert decode_replicas(encode_replicas(replicas)) == replicas
    for old, new in pairwise(history):
        change = Change(old.age, new)
        assert new.age > old.age
        assert applies(change, old)
        assert not applies(change, new)
        assert decode_change(encode_change(change)) == change


@settings(deadline=None)
@given(histories())
def test_who_orders_a_change_meets_every_quorum_before_and_after_it(history: list[ReplicaSet]) -> None:
    """Why a change is ordered only by a quorum of the old set and of the new one."""
    for old, new in pairwise(history):
        sites = {*old.names(), *new.names()}
        before = [chosen for chosen in subsets(sites) if old.quorum_holds(chosen)]
        after = [chosen for chosen in subsets(sites) if new.quorum_holds(chosen)]
        for orders in (chosen for chosen in before if new.quorum_holds(chosen)):
            assert all(not orders.isdisjoint(other) for other in before)
            assert all(not orders.isdisjoint(other) for other in after)


@settings(deadline=None)
@given(st.sets(st.sampled_from("abcdef"), min_size=2), st.sampled_from("abcdef"))
def test_majorities_meet_across_one_replica_more_or_less(sites: set[str], name: str) -> None:
    old = ReplicaSet.first(sites)
    new = old.removed(name) if name in sites else old.added(name)
    before = [chosen for chosen in subsets(old.names()) if old.quorum_holds(chosen)]
    after = [chosen for chosen in subsets(new.names()) if new.quorum_holds(chosen)]
    assert all(not one.isdisjoint(other) for one in before for other in after)


def test_they_need_not_meet_across_a_replacement() -> None:
    old, new = ABC, ABC.replaced("c", "d")
    assert old.quorum_holds("ac")
    assert new.quorum_holds("bd")


def test_a_change_applies_to_the_set_it_was_made_for() -> None:
    grown = ABC.added("d")
    assert applies(Change(ABC.age, grown), ABC)
    assert not applies(Change(ABC.age, grown), ABC.added("e")), "another one came first"
    assert not applies(Change(grown.age, grown), grown)
    assert not applies(Change(ABC.age, replace(grown, epoch=2, version=3)), ABC)
    assert not applies(Change(ABC.age, replace(grown, next_number=2, replicas=grown.replicas[:2])), ABC)
    renumbered = replace(grown, replicas=[Member(0, "b"), Member(3, "d")])
    assert not applies(Change(ABC.age, renumbered), ABC), "a number that is another's"
    thinned = ABC.removed("b")
    back = replace(thinned, version=2, replicas=[Member(0, "a"), Member(1, "b"), Member(2, "c")])
    assert not applies(Change(thinned.age, back), thinned), "a number that was another's"


# -- bytes from outside


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([0, 0, [], 0, {"kind": "majority"}], "expected 1 to 64, not 0"),
        ([0, 0, [[0, "a"], [1, "a"]], 2, {"kind": "majority"}], "a is named twice"),
        ([0, 0, [[1, "a"], [0, "b"]], 2, {"kind": "majority"}], "expected numbers that rise"),
        ([0, 0, [[0, "a"], [0, "b"]], 2, {"kind": "majority"}], "expected numbers that rise"),
        ([0, 0, [[-1, "a"]], 2, {"kind": "majority"}], "expected numbers that rise"),
        ([0, 0, [[0, "a"], [1, "b"]], 1, {"kind": "majority"}], "expected numbers that rise"),
        ([0, 0, [[0, "a"]], 65_537, {"kind": "majority"}], "given all numbers up to 65535"),
        ([-1, 0, [[0, "a"]], 1, {"kind": "majority"}], "expected an epoch up to the version"),
        ([1, 0, [[0, "a"]], 1, {"kind": "majority"}], "expected an epoch up to the version"),
        ([0, 1 << 63, [[0, "a"]], 1, {"kind": "majority"}], "expected an epoch up to the version"),
        ([0, 0, [[0, "a"]], 1, {"kind": "novel"}], "expected a kind that is one of"),
        ([0, 0, [[0, "a"]], 1, {}], "expected a table with a kind"),
        ([0, 0, [[0, "a"]], 1], "Expected `array` of at least length 5"),
        ([0, 0, [[0, 1]], 1, {"kind": "majority"}], "Expected `str`, got `int`"),
        (None, "Expected `array`, got `None`"),
    ],
)
def test_what_is_no_set(value: object, says: str) -> None:
    with pytest.raises(Malformed, match=r"^a replica set: ") as caught:
        decode_replicas(msgpack.encode(value))
    assert says in str(caught.value)
    with pytest.raises(Malformed, match=r"^a change of the replicas: "):
        decode_change(msgpack.encode([[0, 0], value]))


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 60), st.integers(0, 10))
def test_bytes_from_anywhere(noise: bytes, start: int, cut: int) -> None:
    for good, decode in (
        (encode_replicas(GRID), decode_replicas),
        (encode_change(Change((0, 0), ABC)), decode_change),
    ):
        for data in (noise, good[:start] + noise + good[start + cut :]):
            with suppress(Malformed):
                decode(data)
