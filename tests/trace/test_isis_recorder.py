"""Rows of process groups: what each event of the ISIS layer becomes, and which rows are refused."""

import msgspec
import pytest
from tests.trace.isis_rows import LABELS, LIFE, NO_LABELS, record

from reconvene.trace.events import Row
from reconvene.trace.shapes import REQUIRED, check_row


def told(row: Row) -> str:
    """The row's line without what all of them share."""
    text = msgspec.json.encode(row).decode()
    head = f'{{"node":"b","inc":2,"n":{row.n},"t":99,"layer":"isis","kind":"{row.kind}"'
    assert text.startswith(head)
    return text.removeprefix(head).removesuffix("}").removeprefix(",")


def test_a_life() -> None:
    rows = record(LIFE)
    assert [row.n for row in rows] == list(range(5, 5 + len(rows)))
    assert [(row.kind, told(row)) for row in rows] == [
        # Sorted as text, as every list of members is.
        ("site", '"conf":"131073","members":["a:65536","b-c:65536","b:131073"],"primary":131073'),
        ("begin", '"process":"b:2:1","label":"x"'),
        ("begin", '"process":"b:2:2"'),
        ("join", '"group":"bank","process":"b:2:1"'),
        (
            "view",
            '"conf":"131073","members":["a:1:3","b:2:1"],"primary":131073,"group":"bank","view":4,'
            '"process":"b:2:1","dests":["b:2:1","a:1:3"]',
        ),
        ("state", '"group":"bank","view":4,"process":"b:2:1"'),
        (
            "cbcast",
            '"msg":"b:2:7","service":"causal","process":"b:2:1","label":"{\\"x\\":7}","dests":["b:2:1","a:1:3"],'
            '"attempt":0,"replies":0',
        ),
        (
            "abcast",
            '"msg":"b:2:7","service":"agreed","group":"bank","view":4,"process":"b:2:1","label":"queue",'
            '"dests":["a:1:3"],"attempt":1,"replies":2',
        ),
        (
            "abcast",
            '"msg":"b:2:7","service":"safe","group":"bank","view":4,"process":"b:2:1","label":"","dests":["a:1:3"],'
            '"attempt":0,"replies":-1',
        ),
        (
            "gbcast",
            '"msg":"b:2:7","group":"bank","view":4,"process":"b:2:1","dests":["b:2:1","a:1:3"],"attempt":0,"replies":0',
        ),
        ("receive", '"msg":"a:1:9","sender":"a:1:3","process":"b:2:1","attempt":0'),
        (
            "receive",
            '"msg":"a:1:9","sender":"a:1:3","ts":[17,2],"group":"bank","view":4,"process":"b:2:1","attempt":2',
        ),
        ("reject", '"msg":"a:1:9","sender":"a:1:3","group":"bank","view":5,"process":"b:2:1","attempt":0'),
        ("answer", '"msg":"b:2:7","sender":"a:1:3","process":"b:2:1"'),
        ("failed", '"msg":"b:2:7","sender":"a:1:3","process":"b:2:1"'),
        ("failed", '"sender":"a:1:3","process":"b:2:1"'),
        ("flush", '"msg":"b:2:7","process":"b:2:1"'),
        ("flush", '"process":"b:2:1"'),
        ("leave", '"group":"bank","process":"b:2:1"'),
        ("end", '"process":"b:2:1"'),
    ]


def test_every_row_has_its_shape_and_lacks_none_of_it() -> None:
    rows = record(LIFE)
    assert {row.kind for row in rows} == set(REQUIRED["isis"])
    for row in rows:
        assert check_row(row) is None
        for field in REQUIRED["isis"][row.kind]:
            problem = check_row(msgspec.structs.replace(row, **{field: msgspec.UNSET}))
            assert problem == f"`{field}` is missing; a {row.kind} event has it"


CBCAST, GROUPED = record(LIFE)[6:8]


@pytest.mark.parametrize(
    ("row", "fields", "problem"),
    [
        (CBCAST, {"kind": "cast"}, "`kind` is 'cast'; expected site, begin, end, join, leave, view, cbcast"),
        (CBCAST, {"inc": 0}, "`inc` expected to be 1 or more"),
        (CBCAST, {"attempt": -1}, "`attempt` is -1; expected 0 or more"),
        (CBCAST, {"replies": -2}, "`replies` is -2; expected -1 or more"),
        (CBCAST, {"service": "loud"}, "`service` is 'loud'; expected agreed, causal, fifo, safe"),
        (CBCAST, {"process": "a:2:1"}, "`process` is 'a:2:1'; expected a process of this node and incarnation, b:2:"),
        (CBCAST, {"process": "b:1:1"}, "`process` is 'b:1:1'; expected a process of this node and incarnation, b:2:"),
        (GROUPED, {"group": msgspec.UNSET}, "`group` is missing; a cast to a group has both"),
        (GROUPED, {"view": msgspec.UNSET}, "`view` is missing; a cast to a group has both"),
    ],
)
def test_what_is_no_event(row: Row, fields: dict[str, object], problem: str) -> None:
    told = check_row(msgspec.structs.replace(row, **fields))
    assert told is not None
    assert told.startswith(problem)


@pytest.mark.parametrize("label", LABELS)
def test_labels(label: str) -> None:
    assert check_row(msgspec.structs.replace(CBCAST, label=label)) is None
    assert isinstance(msgspec.json.decode(label), dict)


@pytest.mark.parametrize("label", NO_LABELS)
def test_a_label_that_is_no_label(label: str) -> None:
    told = check_row(msgspec.structs.replace(CBCAST, label=label))
    assert told == f"`label` is {label!r}; expected a JSON object of up to 16 whole numbers"
