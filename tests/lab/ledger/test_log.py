"""The comparison of receipts with the log: it accepts a correct log, and reports each kind of error."""

import pytest

from reconvene.corel.batch import Kind
from reconvene.entries import EntryBatch
from reconvene.lab.ledger.digest import EACH, Digest, LogDigest, differences
from reconvene.lab.ledger.log import Append, Index, Judgement, judge, payload, written_by

TIME = 1_001


def batch(position: int, first: int, *numbers: int, void: tuple[int, ...] = (), author: str = "a") -> EntryBatch:
    """Messages of writer 1."""
    return EntryBatch(position, author, 1, first, TIME, Kind.DATA, [payload(1, number) for number in numbers], void)


def judged(appends: list[Append], *batches: EntryBatch) -> Judgement:
    index = Index()
    for each in batches:
        index.add(each)
    return judge(appends, index)


def receipt(number: int, *ids: str, again: int = 0, runs: list[tuple[int | None, int]] | None = None) -> Append:
    return Append(1, number, len(ids), "receipt", list(ids), again, runs)


def test_payloads_are_their_writers() -> None:
    sizes = {len(payload(1, number)) for number in range(5_000)}
    assert min(sizes) >= 60
    assert max(sizes) > 20_000
    assert written_by(payload(7, 9)) == (7, 9)
    assert written_by(payload(7, 9) + b"x") is None
    assert written_by(b"x") is None


def test_what_is_kept() -> None:
    found = judged(
        [
            receipt(1, "a:1:1", "a:1:2", runs=[(0, 2)]),
            receipt(3, "b:1:1", runs=[(2, 1)]),
            Append(1, 4, 2, "unknown"),
            Append(1, 6, 1, "refused"),
        ],
        batch(0, 1, 1, 2),
        batch(2, 3, 3, 4),
        batch(4, 1, 3, void=(0,), author="b"),
    )
    assert found == Judgement(receipts=3, placed=3, unknown=2, arrived=1, refused=1, voids=1)


def test_a_retry_whose_position_is_not_known_any_more() -> None:
    found = judged([receipt(1, "", again=1, runs=[(None, 1)]), receipt(2, "a:1:2")], batch(0, 1, 1, 2))
    assert (found.faults, found.again, found.placed, found.forgotten) == (0, 1, 0, 1)
    found = judged([receipt(1, "", again=1, runs=[(1, 1)]), receipt(2, "a:1:2")], batch(0, 1, 1, 2))
    assert found.findings == ["messages 1 to 1 of writer 1: number 1 is at 0, and `ordered` returned 1"]


def test_only_an_outpost_forgets_the_position_of_a_first_copy() -> None:
    first = receipt(1, "a:1:1", "a:1:2", again=1, runs=[(None, 2)])
    found = judged([first], batch(0, 1, 1, 2))
    assert found.findings == ["messages 1 to 2 of writer 1: 2 positions are forgotten, and 1 are duplicates"]
    first.outpost = True
    assert judged([first], batch(0, 1, 1, 2)).findings == []


@pytest.mark.parametrize(
    ("appends", "batches", "finding"),
    [
        ([receipt(1, "a:1:1", "a:1:2")], [batch(0, 1, 1)], "1 have a receipt and are not in the log, 2 is the first"),
        ([receipt(1, "a:1:1")], [batch(0, 1, 1, void=(0,))], "1 have a receipt and are not in the log"),
        ([receipt(1, "a:1:1")], [batch(0, 1, 1), batch(1, 2, 1)], "message 1 of writer 1 counts at 0 too"),
        (
            [receipt(1, "a:1:1")],
            [batch(0, 2, 1)],
            "is a:1:1 by its receipt, which is another message",
        ),
        ([receipt(1, "a:1:1", runs=[(1, 1)])], [batch(0, 1, 1)], "is at 0, and `ordered` returned 1"),
        (
            [receipt(1, "b:1:1", runs=[(1, 1)])],
            [batch(0, 1, 1), batch(1, 1, 1, void=(0,), author="b")],
            "is at 0, and `ordered` returned 1 (a void copy)",
        ),
        ([receipt(1, "a:1:1", runs=[])], [batch(0, 1, 1)], "`ordered` returned 0 positions"),
        ([Append(1, 1, 1, "refused")], [batch(0, 1, 1)], "1 were refused, and are in the log"),
        ([Append(1, 1, 1, "unknown")], [batch(0, 1, 1), batch(1, 2, 1)], "counts at 0 too"),
        ([], [batch(0, 1, 1)], "no writer appended it"),
        ([receipt(1, "a:1:1")], [batch(0, 1, 1), batch(2, 2)], "position 2 came, expected 1"),
        ([], [EntryBatch(0, "a", 1, 1, 0, Kind.DATA, [b"what is this"])], "a:1:1 is no message of any writer"),
        ([Append(1, 1, 2, "unknown")], [batch(0, 1, 1), batch(1, 1, 2)], "a:1:1 is in the log already"),
    ],
)
def test_what_is_not(appends: list[Append], batches: list[EntryBatch], finding: str) -> None:
    found = judged(appends, *batches)
    assert found.faults == 1
    assert finding in found.findings[0]


def digest(*batches: EntryBatch) -> Digest:
    made = LogDigest()
    for each in batches:
        made.add(each)
    return made.digest()


def test_logs_that_are_the_same() -> None:
    cut = digest(batch(0, 1, 1, 2, void=(1,)), batch(2, 3, 3))
    assert differences({"site a": digest(batch(0, 1, 1, 2, 3, void=(1,))), "site b": cut}) == []


@pytest.mark.parametrize(
    "other",
    [
        [batch(0, 1, 1, 2, 4)],
        [batch(0, 1, 1, 3, 2)],
        [batch(0, 1, 1, 2, 3, void=(2,))],
        [batch(0, 2, 1, 2, 3)],
        [batch(0, 1, 1, 2, 3, author="b")],
        [EntryBatch(0, "a", 1, 1, 7, Kind.DATA, [payload(1, number) for number in (1, 2, 3)])],
        [EntryBatch(0, "a", 2, 1, TIME, Kind.DATA, [payload(1, number) for number in (1, 2, 3)])],
        [EntryBatch(0, "a", 1, 1, TIME, Kind.CHANGE, [payload(1, number) for number in (1, 2, 3)])],
    ],
)
def test_logs_that_differ(other: list[EntryBatch]) -> None:
    found = differences({"site a": digest(batch(0, 1, 1, 2, 3)), "site b": digest(*other)})
    assert found == [f"site a and site b differ within the {EACH} entries from 0 on"]


def test_where_they_differ() -> None:
    numbers = list(range(1, EACH + 1))
    same = batch(0, 1, *numbers)
    one, two = digest(same, batch(EACH, EACH + 1, 1)), digest(same, batch(EACH, EACH + 1, 2))
    assert differences({"a": one, "b": two}) == [f"a and b differ within the {EACH} entries from {EACH} on"]
    assert differences({"a": one, "b": digest(same)}) == [
        f"a read {EACH + 1} entries, b {EACH}; the first {EACH} agree"
    ]
    gap = digest(batch(1, 1, 1))
    assert "a: position 1 came, expected 0" in differences({"a": gap})
