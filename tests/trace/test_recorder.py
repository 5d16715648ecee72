"""From a site's events to rows, and from rows to files and back."""

from pathlib import Path

import msgspec
import pytest

from reconvene.core.effects import Changed, ConfKind, Delivered, Sent
from reconvene.errors import Malformed
from reconvene.ids import Service, message_id
from reconvene.lab.ideal.evs import random_run
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import read_trace
from reconvene.trace.recorder import Recorder
from reconvene.trace.writer import encode_row, write_trace


def recorded() -> list[Row]:
    rows: list[Row] = []
    recorder = Recorder("b", ["a", "b"], rows)
    recorder.begin(1)
    recorder.events(
        5,
        [
            Changed(ConfKind.REGULAR, "65537", (1,)),
            Sent("65537", Service.SAFE, 4, 2),
            Delivered("65537", 1, 1, Service.SAFE, 4, [b"x", b"y"], (65537, 0, 9)),
        ],
    )
    recorder.events(6, [Changed(ConfKind.HIDDEN, "131072", (0, 1))])
    recorder.fail(7)
    recorder.begin(3)
    recorder.events(8, [Changed(ConfKind.REGULAR, "196609", (1,))])
    recorder.events(9, [Changed(ConfKind.TRANSITIONAL, "196609+262144", (1,), "196609")])
    recorder.events(9, [Changed(ConfKind.REGULAR, "262144", (0, 1))])
    recorder.events(9, [Delivered("262144", 0, 2, Service.FIFO, 0, [b"z"], None)])
    recorder.stop(10)
    return rows


def test_one_row_for_each_message_numbered_across_incarnations() -> None:
    rows = recorded()
    assert [row.n for row in rows] == list(range(len(rows)))
    assert [row.kind for row in rows] == [
        "conf",
        "send",
        "send",
        "deliver",
        "deliver",
        "conf",
        "fail",
        "conf",
        "conf",
        "conf",
        "deliver",
        "stop",
    ]
    assert [row.msg for row in rows[1:5]] == [message_id("b", 1, counter) for counter in (4, 5, 4, 5)]
    assert [row.ts for row in rows[3:5]] == [[65537, 0, 9, 0], [65537, 0, 9, 1]]


def test_a_fail_carries_the_incarnation_and_the_configuration_that_failed() -> None:
    fail = recorded()[6]
    # The hidden configuration never became the current one.
    assert (fail.inc, fail.conf) == (1, "65537")


def test_a_row_says_only_what_its_event_has() -> None:
    fifo = msgspec.json.decode(encode_row(recorded()[10]))
    assert fifo == {
        "node": "b",
        "inc": 3,
        "n": 10,
        "t": 9,
        "layer": "evs",
        "kind": "deliver",
        "conf": "262144",
        "msg": "a:2:0",
        "sender": "a",
        "service": "fifo",
    }


def test_an_incarnation_that_left_no_trace_leaves_no_fail() -> None:
    rows: list[Row] = []
    recorder = Recorder("a", ["a"], rows.append)
    recorder.begin(1)
    recorder.fail(1)
    assert rows == []


def test_a_recorder_goes_on_where_the_file_ends() -> None:
    rows: list[Row] = []
    recorder = Recorder("a", ["a"], rows, next_n=7)
    recorder.begin(2)
    recorder.events(0, [Changed(ConfKind.REGULAR, "65536", (0,))])
    assert rows[0].n == 7


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_is_read_back_and_written_the_same(tmp_path: Path, seed: int) -> None:
    run, rows = random_run(seed)
    write_trace(tmp_path / "one", run, rows)
    trace = read_trace(tmp_path / "one")
    assert trace.run == run
    assert trace.rows == rows
    write_trace(tmp_path / "two", trace.run, trace.rows)
    for file in (tmp_path / "one").iterdir():
        assert (tmp_path / "two" / file.name).read_bytes() == file.read_bytes()


def test_a_node_that_never_started_has_an_empty_file(tmp_path: Path) -> None:
    run, rows = random_run(1)
    run = msgspec.structs.replace(run, nodes=[*run.nodes, "z"])
    write_trace(tmp_path, run, rows)
    assert read_trace(tmp_path).rows["z"] == []


def test_a_directory_without_run_json_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match=r"run\.json: is missing"):
        read_trace(tmp_path)
    with pytest.raises(Malformed, match="expected a trace directory"):
        read_trace(tmp_path / "nowhere")


def test_run_json_has_the_schema_s_fields(tmp_path: Path) -> None:
    run, rows = random_run(2)
    write_trace(tmp_path, run, rows)
    written = set(msgspec.json.decode((tmp_path / "run.json").read_bytes()))
    assert written == set(Run.__struct_fields__) - {"followers", "outposts"}, "those only where there are any"


def test_null_is_what_an_event_does_not_have(tmp_path: Path) -> None:
    run, rows = random_run(5)
    write_trace(tmp_path, run, rows)
    path = tmp_path / "a.jsonl"
    path.write_bytes(path.read_bytes().replace(b"}\n", b',"pos":null}\n'))
    assert read_trace(tmp_path).rows == rows


@pytest.mark.parametrize("junk", [b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"7\n", b"{}\n", b'{"node":"a"}\n'])
def test_junk_is_refused_and_never_a_traceback(tmp_path: Path, junk: bytes) -> None:
    run, rows = random_run(6)
    write_trace(tmp_path, run, rows)
    path = tmp_path / "a.jsonl"
    path.write_bytes(path.read_bytes() + junk)
    with pytest.raises(Malformed, match=rf"a\.jsonl:{len(rows['a']) + 1}: expected an event"):
        read_trace(tmp_path)
    (tmp_path / "run.json").write_bytes(junk)
    with pytest.raises(Malformed, match=r"run\.json"):
        read_trace(tmp_path)
