"""What a process checks of the casts that it receives, and what several compare."""

from reconvene.client.events import Process
from reconvene.client.isis_events import Action, Cast, GroupView
from reconvene.lab.ledger.isis import LABELLED, ORDERED, PLAIN, IsisLedger, differing, head

A, B = Process("a", 1, 1), Process("b", 1, 1)


def cast(number: int, kind: int = PLAIN, sender: Process = A, stream: int = 0) -> Cast:
    data = head(0, stream, kind, number) + b"payload"
    name = "abcast" if kind == ORDERED else "cbcast"
    return Cast(data, sender, name, "g", 1, number, 0, None)  # type: ignore[arg-type]


def view(number: int, *members: Process, failed: tuple[Process, ...] = ()) -> GroupView:
    return GroupView("g", number, members, {}, (), (), failed)


def reader(number: int, *casts: Cast) -> IsisLedger:
    ledger = IsisLedger(number)
    ledger.begin("g")
    for each in casts:
        ledger.cast(each)
    return ledger


def test_numbers_that_go_on() -> None:
    ledger = reader(1, cast(3), cast(0, LABELLED), cast(4), cast(1, LABELLED), cast(9, ORDERED), cast(2, ORDERED))
    ledger.cast(cast(0, stream=1))
    ledger.cast(cast(7, sender=B))
    ledger.left("g")
    ledger.cast(cast(7))
    ledger.killed()
    ledger.cast(cast(1))
    assert ledger.reading.faults == []
    assert ledger.reading.casts == 10


def test_what_is_missing_late_or_twice() -> None:
    for casts, word in (
        ((cast(0), cast(2)), "something is missing"),
        ((cast(5), cast(4)), "twice or late"),
        ((cast(5, LABELLED), cast(5, LABELLED)), "twice or late"),
        ((cast(5, ORDERED), cast(6, ORDERED), cast(5, ORDERED)), "came twice"),
    ):
        (fault,) = reader(1, *casts).reading.faults
        assert word in fault


def test_from_the_dead() -> None:
    ledger = reader(1, cast(0))
    ledger.view(view(2, B, failed=(A,)))
    ledger.cast(cast(1))
    (fault,) = ledger.reading.faults
    assert "its sender had failed" in fault


def test_the_same_casts_in_any_causal_order() -> None:
    one, other = reader(1, cast(0), cast(0, LABELLED), cast(0, ORDERED)), IsisLedger(2)
    other.begin("g")
    other.take("g", [reader(3).digests["g"].pack()])
    for each in (cast(0, ORDERED), cast(0), cast(0, LABELLED)):
        other.cast(each)
    one.take("g", [other.digests["g"].pack()])  # in the same line
    one.view(view(2, A, B))
    other.view(view(2, A, B))
    assert differing([one.reading, other.reading]) == (1, [])


def test_other_casts_before_a_view_or_an_action() -> None:
    one, other = reader(1), reader(2)
    other.take("g", [one.digests["g"].pack()])
    for ledger, order in ((one, (0, 1)), (other, (1, 0))):
        for number in order:
            ledger.cast(cast(number, ORDERED))
        ledger.view(view(2, A, B))
    shared, (found,) = differing([one.reading, other.reading])
    assert shared == 1
    assert "group g, 2/" in found
    one, other = reader(1, cast(0)), reader(2)
    other.take("g", [reader(3).digests["g"].pack()])
    one.take("g", [other.digests["g"].pack()])
    one.cast(cast(1))
    for ledger in (one, other):
        ledger.action(Action(b"act", A, "g", 1, 7))
    assert len(differing([one.reading, other.reading])[1]) == 1


def test_states_that_were_not_taken() -> None:
    one, other = reader(1), reader(2)
    for ledger in (one, other):
        ledger.view(view(1, A, B))
    (found,) = differing([one.reading, other.reading])[1]
    assert "at the end the processes have different states" in found
    for ledger in (one, other):
        ledger.view(view(1 + ledger.reading.reader, A, B))
    assert differing([one.reading, other.reading])[1] == [], "nobody was left who had the state: later views differ"
