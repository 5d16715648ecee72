"""A trace that is written while a site runs: torn lines, restarts, the size limit."""

from pathlib import Path

import pytest

from reconvene.core.effects import Changed, ConfKind, Delivered, Event, Sent
from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.runtime.site.journal import Journal, Past, run_quorum, write_run
from reconvene.trace.events import Row
from reconvene.trace.reader import read_rows, read_run
from reconvene.trace.recorder import Recorder

FIRST: list[Event] = [Changed(ConfKind.REGULAR, "65536", (0,)), Sent("65536", Service.AGREED, 1, 2)]
DELIVERED = Delivered("65536", 0, 1, Service.AGREED, 1, [b"x", b"y"], (65536, 0, 1))


def open_journal(directory: Path, max_bytes: int = 1 << 20) -> tuple[Journal, list[str]]:
    said: list[str] = []
    return Journal(directory, "a", max_bytes, said.append), said


def record(journal: Journal, incarnation: int, events: list[Event]) -> Recorder:
    recorder = Recorder("a", ("a", "b"), journal.append, journal.past.next_n)
    if not journal.past.ended:
        recorder.resume(journal.past.incarnation, journal.past.conf)
        recorder.fail(0)
    recorder.begin(incarnation)
    recorder.events(0, events)
    journal.flush()
    return recorder


def rows(directory: Path) -> list[Row]:
    return read_rows(directory, "a")


def test_rows_are_in_the_file_when_flushed(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    assert journal.past == Past()
    recorder = record(journal, 1, [*FIRST, DELIVERED])
    assert [row.kind for row in rows(tmp_path)] == ["conf", "send", "send", "deliver", "deliver"]
    recorder.stop(0)
    journal.close()
    assert rows(tmp_path)[-1].kind == "stop"
    assert open_journal(tmp_path)[0].past == Past(6, 1, "65536", True)


def test_a_restart_records_the_failure_first(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path)
    record(journal, 1, [*FIRST, Changed(ConfKind.HIDDEN, "131072", (0, 1))])
    journal.close()
    journal, _ = open_journal(tmp_path)
    assert journal.past == Past(4, 1, "65536", False)
    record(journal, 2, [Changed(ConfKind.REGULAR, "196608", (0,))])
    journal.close()
    fail, conf = rows(tmp_path)[-2:]
    assert (fail.kind, fail.inc, fail.n, fail.conf) == ("fail", 1, 4, "65536")
    assert (conf.kind, conf.inc, conf.n) == ("conf", 2, 5)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_torn_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    journal, _ = open_journal(tmp_path)
    record(journal, 1, [*FIRST, DELIVERED])
    journal.close()
    file = tmp_path / "a.jsonl"
    data = file.read_bytes()
    file.write_bytes(data[:-cut])
    journal, _ = open_journal(tmp_path)
    whole = 5 if cut == 1 else 4  # a line that lacks only its newline is complete
    assert journal.past == Past(whole, 1, "65536", False)
    record(journal, 2, [Changed(ConfKind.REGULAR, "196608", (0,))])
    journal.close()
    assert [row.n for row in rows(tmp_path)] == list(range(whole + 2))


def test_a_file_of_one_torn_line_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"node":"a","inc":1,')
    journal, _ = open_journal(tmp_path)
    assert journal.past == Past()
    journal.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b""


def test_long_lines_are_found_from_the_end(tmp_path: Path) -> None:
    journal, _ = open_journal(tmp_path, 1 << 30)
    names = tuple(f"{index:03}-{'n' * 200}" for index in range(1000))
    recorder = Recorder(names[0], names, journal.append)
    recorder.begin(1)
    recorder.events(0, [Changed(ConfKind.REGULAR, "65536", (0,))])
    recorder.events(0, [Changed(ConfKind.HIDDEN, "131072", tuple(range(1000)))] * 3)
    journal.close()
    assert open_journal(tmp_path)[0].past == Past(4, 1, "65536", False)


def test_at_its_limit_a_trace_stops_for_good(tmp_path: Path) -> None:
    journal, said = open_journal(tmp_path, 500)
    record(journal, 1, FIRST)
    before = rows(tmp_path)
    journal.past = Past(3, 1, "65536", True)
    record(journal, 2, [DELIVERED] * 10)
    record(journal, 3, [DELIVERED])
    assert journal.stopped
    assert len(said) == 1
    assert "limit of 500 bytes" in said[0]
    journal.close()
    assert rows(tmp_path) == before
    journal, said = open_journal(tmp_path, 1 << 20)
    assert journal.stopped
    record(journal, 4, [DELIVERED])
    journal.close()
    assert rows(tmp_path) == before


def test_a_full_disk_stops_the_trace_and_not_the_site(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("/dev/full")
    journal, said = open_journal(tmp_path)
    record(journal, 1, FIRST)
    assert journal.stopped
    assert "No space left" in said[0]


def test_the_run_is_described_once(tmp_path: Path) -> None:
    quorum: dict[str, object] = {"kind": "weighted", "weights": {"a": 2, "b": 1}}
    write_run(tmp_path, "wired", ("a", "b"), "atop", "corel", quorum)
    write_run(tmp_path, "other", ("a", "b"), "atop", "evs", {"kind": "majority"})
    run = read_run(tmp_path)
    assert (run.run, run.nodes, run.settled) == ("wired", ["a", "b"], False)
    assert (run.stack, run.quorum) == ("corel", quorum)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl", "run.json"]


def test_a_trace_that_stopped_is_not_judged(tmp_path: Path) -> None:
    write_run(tmp_path, "wired", ("a", "b"), "atop", "corel", {"kind": "majority"})
    journal, _ = open_journal(tmp_path, 10)
    record(journal, 1, FIRST)
    journal.close()
    with pytest.raises(Malformed, match=r"a\.jsonl: the trace of a is not whole; it was stopped: "):
        read_run(tmp_path)


def test_a_quorum_of_some_sites_is_told_as_weights() -> None:
    majority = {"kind": "majority"}
    assert run_quorum(("a", "b", "c"), (), majority) == majority
    assert run_quorum(("a", "b", "c"), ("a", "b", "c"), majority) == majority
    assert run_quorum(("a", "b", "c"), ("c", "a"), majority) == {"kind": "weighted", "weights": {"a": 1, "c": 1}}
    grid = {"kind": "grid", "rows": [["a"], ["b"]]}
    assert run_quorum(("a", "b", "c"), ("a", "b"), grid) == grid
