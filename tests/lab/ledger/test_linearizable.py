"""The search, compared with all orders of short histories, and on histories that are clearly right or wrong."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.lab.ledger.linearizable import Call, fits, not_linearizable


def test_calls_one_after_the_other() -> None:
    assert fits(
        [
            Call("k", "get", found=None, began_ns=0, ended_ns=1),
            Call("k", "add", 1, True, 2, 3),
            Call("k", "add", 2, False, 4, 5),
            Call("k", "get", found=1, began_ns=6, ended_ns=7),
            Call("k", "remove", began_ns=8, ended_ns=9),
            Call("k", "set", 3, None, 10, 11),
            Call("k", "get", found=3, began_ns=12, ended_ns=13),
        ]
    )


def test_a_stale_read() -> None:
    calls = [
        Call("k", "set", 1, None, 0, 1),
        Call("k", "set", 2, None, 2, 3),
        Call("k", "get", found=1, began_ns=4, ended_ns=5),
    ]
    assert not_linearizable(calls) == ["key k: its 3 calls are not linearizable"]
    assert not_linearizable([*calls[:2], Call("k", "get", found=1, began_ns=3, ended_ns=5)]) == [], "it began in time"


def test_of_two_adds_one_wins() -> None:
    both = [Call("k", "add", 1, True, 0, 9), Call("k", "add", 2, True, 0, 9)]
    none = [Call("k", "add", 1, False, 0, 9), Call("k", "add", 2, False, 0, 9)]
    assert not fits(both)
    assert not fits(none)
    assert not_linearizable([both[0], Call("j", "add", 2, True, 0, 9)]) == [], "keys are for themselves"


def test_an_unknown_outcome_may_come_late_or_never() -> None:
    unknown = Call("k", "set", 1, None, 0)
    assert fits([unknown, Call("k", "get", found=None, began_ns=5, ended_ns=6)])
    late = [unknown, Call("k", "set", 2, None, 7, 8), Call("k", "get", found=1, began_ns=9, ended_ns=10)]
    assert fits(late)
    assert not fits([*late, Call("k", "get", found=2, began_ns=11, ended_ns=12)]), "not twice"
    before = [Call("k", "get", found=1, began_ns=0, ended_ns=1), Call("k", "set", 1, None, 2)]
    assert not fits(before), "not before it began"


def naive(calls: list[Call]) -> bool:
    known = [call for call in calls if call.ended_ns is not None]
    unknown = [call for call in calls if call.ended_ns is None and call.what != "get"]
    for chosen in range(1 << len(unknown)):
        some = [*known, *(call for at, call in enumerate(unknown) if chosen >> at & 1)]
        if any(_in_time(order) and _replays(order) for order in permutations(some)):
            return True
    return False


def _in_time(order: tuple[Call, ...]) -> bool:
    return all(
        later.ended_ns is None or later.ended_ns >= earlier.began_ns
        for at, earlier in enumerate(order)
        for later in order[at + 1 :]
    )


def _replays(order: tuple[Call, ...]) -> bool:
    value: int | None = None
    for call in order:
        if call.what == "get" and call.found != value:
            return False
        if call.what == "add" and call.ended_ns is not None and call.found is not (value is None):
            return False
        if call.what == "set" or (call.what == "add" and value is None):
            value = call.value
        elif call.what == "remove":
            value = None
    return True


@st.composite
def histories(draw: st.DrawFn) -> list[Call]:
    calls = []
    for value in range(1, draw(st.integers(1, 6)) + 1):
        what = draw(st.sampled_from(["get", "set", "add", "remove"]))
        began = draw(st.integers(0, 8))
        ended = draw(st.one_of(st.none(), st.integers(began, began + 4)))
        found = {"get": st.one_of(st.none(), st.integers(1, 3)), "add": st.booleans()}.get(what, st.none())
        calls.append(Call("k", what, value, draw(found), began, ended))
    return calls


@settings(max_examples=400, deadline=None)
@given(histories())
def test_as_all_orders_say(calls: list[Call]) -> None:
    assert fits(calls) is naive(calls)
