"""Trace directories packed into Parquet and unpacked again: the same traces, whole runs only."""

import contextlib
import filecmp
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from reconvene.cli import main
from reconvene.errors import Malformed
from reconvene.pipeline.pack import Packed, pack_traces
from reconvene.trace.parquet import read_parquet_runs
from reconvene.trace.parquet_form import event_files
from reconvene.trace.reader import read_trace
from reconvene.trace.writer import write_trace

GOOD = Path(__file__).parent.parent / "golden" / "good"
REFUSED = Path(__file__).parent.parent / "golden" / "refused"
NAMES = ("chain", "log-snapshots", "pair")


@pytest.fixture
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the tests' session, which is not stopped."""
    monkeypatch.setattr("reconvene.pipeline.session.open_session", lambda *_, **__: contextlib.nullcontext(spark))


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def files(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


def test_packed_and_unpacked_a_trace_is_the_same_bytes(
    session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = [GOOD / name for name in NAMES]
    assert command("trace", "pack", *traces, "--to", tmp_path / "packed") == 0
    assert capsys.readouterr().out.startswith("3 runs, ")
    before = files(tmp_path / "packed")
    assert command("trace", "pack", *traces, "--to", tmp_path / "packed", "--json") == 0
    assert msgspec.json.decode(capsys.readouterr().out) == {
        "runs": 0,
        "events": 0,
        "skipped": 3,
        "to": str(tmp_path / "packed"),
    }
    assert files(tmp_path / "packed") == before, "what is there is not packed again"
    assert all(not Path(name).name.startswith(".") for name in before)
    assert command("trace", "unpack", tmp_path / "packed", "--to", tmp_path / "again") == 0
    for name in NAMES:
        names = [path.name for path in (GOOD / name).iterdir()]
        same, different, missing = filecmp.cmpfiles(GOOD / name, tmp_path / "again" / name, names, shallow=False)
        assert sorted(same) == sorted(names)
        assert (different, missing) == ([], [])
    assert command("trace", "unpack", tmp_path / "packed", "--to", tmp_path / "one", "--run", "pair") == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["pair"]


def test_a_large_run_has_a_file_for_each_node(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconvene.pipeline.pack.LARGE_BYTES", 100)
    heard: list[tuple[int, int]] = []
    told = pack_traces(spark, [GOOD / "chain"], tmp_path, progress=lambda *at: heard.append(at))
    assert [file.name for file in event_files(tmp_path)["chain"]] == [
        f"part-{place:05}.parquet" for place in range(3)
    ]
    assert [(run, rows) for run, rows in read_parquet_runs(tmp_path)] == [
        (read_trace(GOOD / "chain").run, read_trace(GOOD / "chain").rows)
    ]
    assert told == Packed(runs=1, events=sum(map(len, read_trace(GOOD / "chain").rows.values())), skipped=0)
    assert heard[-1][0] == heard[-1][1] > 0


def test_a_pack_that_was_cut_off_goes_on_with_what_is_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconvene.pipeline.pack.LARGE_BYTES", 100)
    pack_traces(spark, [GOOD / "chain"], tmp_path)
    events = tmp_path / "events"
    # As a kill leaves it: the run has no name yet, and one of its files is not there.
    (events / "run=chain").rename(events / ".run=chain")
    (tmp_path / "runs" / "run-chain.parquet").unlink()
    (events / ".run=chain" / "part-00001.parquet").unlink()
    (events / ".run=chain" / ".left-over.tmp").write_bytes(b"half a file")
    kept = (events / ".run=chain" / "part-00000.parquet").stat().st_ino
    pack_traces(spark, [GOOD / "chain"], tmp_path)
    assert (events / "run=chain" / "part-00000.parquet").stat().st_ino == kept
    assert [rows for _, rows in read_parquet_runs(tmp_path)] == [read_trace(GOOD / "chain").rows]


def test_files_are_compressed(spark: SparkSession, tmp_path: Path) -> None:
    pack_traces(spark, [GOOD / "pair"], tmp_path)
    (file,) = event_files(tmp_path)["pair"]
    assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"


def test_another_trace_of_that_name_is_not_lost(
    session: None, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack_traces(spark, [GOOD / "pair"], tmp_path / "packed")
    trace = read_trace(GOOD / "pair")
    write_trace(tmp_path / "pair", trace.run, {**trace.rows, "q": trace.rows["q"][:-1]})
    assert command("trace", "pack", tmp_path / "pair", "--to", tmp_path / "packed") == 2
    assert "has another run 'pair' already" in capsys.readouterr().err
    assert command("trace", "pack", tmp_path / "pair", "--to", tmp_path / "packed", "--replace") == 0
    ((_, rows),) = read_parquet_runs(tmp_path / "packed")
    assert rows["q"] == trace.rows["q"][:-1]


def test_what_can_not_be_judged_is_not_packed(
    session: None, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = REFUSED / "unknown-service"
    assert command("trace", "pack", GOOD / "chain", bad, "--to", tmp_path / "packed") == 2
    err = capsys.readouterr().err
    assert err.startswith("reconvene: ")
    assert err.count("\n") == 1
    assert "unknown-service/q.jsonl:4: `service` is 'slow'" in err
    assert list((tmp_path / "packed" / "events").glob("run=*")) == []
    assert list((tmp_path / "packed").glob("runs/*")) == []
    with pytest.raises(Malformed, match="its run is 'pair', and so is that of"):
        pack_traces(spark, [GOOD / "pair", GOOD / "torn-last-line"], tmp_path / "packed")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pack", "nowhere", "--to", "x"], "nowhere: expected a trace directory"),
        (["pack", str(GOOD / "pair"), "--to", str(GOOD / "pair" / "q.jsonl")], "is a file; expected a directory"),
        (["pack", str(GOOD / "pair"), "--to", str(GOOD / "pair")], "is a trace directory; expected one for Parquet"),
        (["unpack", str(GOOD / "pair"), "--to", "x"], "expected a directory with events/ and runs/"),
    ],
)
def test_bad_usage_is_one_line(
    session: None, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("trace", *arguments) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
