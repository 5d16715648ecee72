"""One reader for both forms: what it gives equals what the local reader gives, and so does what it refuses."""

import io
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.trace.isis_rows import LABELS, LIFE, NO_LABELS, record

from reconvene.errors import Malformed, Unavailable
from reconvene.pipeline import lines
from reconvene.pipeline.columns import fields_batch, runs_table
from reconvene.pipeline.jsonl import plan_ranges, rows_of
from reconvene.pipeline.pack import pack_traces
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.schema import EVENTS, FIELDS, RUNS
from reconvene.pipeline.shapes import misshapen, rules_of_kind
from reconvene.pipeline.traces import Traces, read_traces
from reconvene.pipeline.verify.engine import verify_traces
from reconvene.trace.events import Row, Run
from reconvene.trace.parquet import problem_of, read_parquet_runs
from reconvene.trace.parquet_form import run_directory, run_file
from reconvene.trace.reader import Trace, read_rows, read_run, read_trace
from reconvene.trace.writer import write_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History

GOLDEN = Path(__file__).parent.parent / "golden"
TORN = ("torn-last-line", "no-newline-at-the-end")
"""Of the same run as `pair`."""
JUDGED = [d for kind in ("good", "bad") for d in sorted((GOLDEN / kind).iterdir()) if d.name not in TORN]
REFUSED = sorted((GOLDEN / "refused").iterdir())


def rows_by_run(traces: Traces) -> dict[str, dict[str, list[Row]]]:
    """What the tables hold, as the local reader gives it."""
    found: dict[str, dict[str, list[Row]]] = {}
    for run in traces.runs.collect():
        recorded = [*run["nodes"], *(run["followers"] or []), *(run["outposts"] or [])]
        found[run["run"]] = {node: [] for node in recorded}
    last: dict[tuple[str, str], int] = {}
    for event in sorted(traces.events.collect(), key=lambda event: (event["run"], event["node"], event["place"])):
        fields = event.asDict()
        key, place = (fields.pop("run"), fields["node"]), fields.pop("place")
        assert place > last.get(key, -1), "places grow strictly"
        last[key] = place
        told = {name: value for name, value in fields.items() if value is not None}
        found[key[0]][key[1]].append(msgspec.convert(told, Row))
    return found


@pytest.fixture(scope="module")
def packed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All golden traces that can be judged."""
    root = tmp_path_factory.mktemp("packed")
    told = pack_traces(spark, JUDGED, root)
    assert told.runs == len(JUDGED)
    assert told.skipped == 0
    return root


def expected() -> dict[str, Trace]:
    return {trace.run.run: trace for trace in map(read_trace, JUDGED)}


@pytest.mark.long("seconds of Spark")
def test_directories_and_parquet_give_what_the_local_reader_gives(spark: SparkSession, packed: Path) -> None:
    traces = expected()
    for paths in (JUDGED, [packed]):
        with read_traces(spark, paths) as read:
            assert read.events.schema.simpleString() == EVENTS.simpleString()
            assert read.runs.schema.simpleString() == RUNS.simpleString()
            assert {row["run"]: row.asDict() for row in read.runs.collect()} == {
                name: runs_table([trace.run]).to_pylist()[0] for name, trace in traces.items()
            }
            assert rows_by_run(read) == {name: trace.rows for name, trace in traces.items()}


def test_the_local_reader_takes_parquet_too(packed: Path) -> None:
    traces = expected()
    assert [(run.run, rows) for run, rows in read_parquet_runs(packed)] == [
        (name, traces[name].rows) for name in sorted(traces)
    ]


@pytest.mark.long("a second of Spark")
def test_a_torn_line_is_dropped_and_a_whole_one_kept(spark: SparkSession) -> None:
    for name in TORN:
        with read_traces(spark, [GOLDEN / "good" / name]) as read:
            assert rows_by_run(read) == {"pair": read_trace(GOLDEN / "good" / name).rows}


# -- lines ----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b""))),
    st.sampled_from([b"", b"1", b'{"a":', b'"x"']),
    st.lists(st.integers(0, 60)),
    st.integers(1, 12),
)
def test_every_line_is_in_exactly_one_range(whole: list[bytes], last: bytes, cuts: list[int], chunk: int) -> None:
    data = b"".join(line + b"\n" for line in whole) + last
    kept = data if last in (b"", b"1", b'"x"') else data[: len(data) - len(last)]
    borders = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    found: list[tuple[int, bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        for begin, end in pairwise(borders):
            for offset, piece in lines.line_chunks(io.BytesIO(data), begin, end, len(data)):
                assert begin <= offset < end
                assert data[offset : offset + len(piece)] == piece
                found.append((offset, piece))
    assert b"".join(piece for _, piece in found) == kept


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    monkeypatch.setattr(lines, "CHUNK_BYTES", 100)
    trace = read_trace(GOLDEN / "good" / "pair")
    write_trace(tmp_path, trace.run, trace.rows)
    with (tmp_path / "q.jsonl").open("ab") as file:
        file.write(b'{"node":"' + b"q" * 2000)
    with pytest.raises(Malformed, match=r"q\.jsonl:7: expected an event; this line has over"):
        read_all(tmp_path)


def read_all(directory: Path) -> list[Row]:
    return [
        row for part in plan_ranges([(directory, read_run(directory))]) for rows, _ in rows_of(part) for row in rows
    ]


# -- refusals -------------------------------------------------------------------------------------------------


def refusal_of(directory: Path) -> str:
    with pytest.raises(Malformed) as refused:
        History.load(directory)
    return str(refused.value)


@pytest.mark.parametrize("directory", [d for d in REFUSED if "quorum" not in d.name], ids=lambda d: str(d.name))
def test_a_task_refuses_with_the_local_reader_s_words(directory: Path) -> None:
    with pytest.raises(Malformed) as refused:
        read_all(directory)
    line = str(refused.value).replace(f"{directory.absolute()}/", f"{directory}/")
    assert line == refusal_of(directory)


@pytest.mark.parametrize("name", ["unknown-service", "without-its-start", "log-quorum-lacks-its-rows", "no-run-json"])
def test_reading_refuses_in_one_line(spark: SparkSession, name: str) -> None:
    good, bad = GOLDEN / "good" / "chain", GOLDEN / "refused" / name
    with pytest.raises(Malformed) as refused:
        read_traces(spark, [good, bad])
    assert str(refused.value) == refusal_of(bad)


@pytest.mark.long("seconds of Spark")
def test_the_line_is_named_wherever_in_the_file_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconvene.pipeline.jsonl.RANGE_BYTES", 2000)
    trace = read_trace(GOLDEN / "good" / "pair")
    last = trace.rows["q"][-1]
    more = [msgspec.structs.replace(last, n=last.n + place) for place in range(1, 300)]
    write_trace(tmp_path / "long", trace.run, {**trace.rows, "q": trace.rows["q"] + more})
    with read_traces(spark, [tmp_path]) as read:
        assert rows_by_run(read)["pair"]["q"] == read_rows(tmp_path / "long", "q")
    file = tmp_path / "long" / "q.jsonl"
    text = file.read_text().splitlines(keepends=True)
    text[200] = text[200].replace('"inc":1', '"inc":0')
    text[250] = "\n"
    file.write_text("".join(text))
    with pytest.raises(Malformed) as refused:
        read_traces(spark, [tmp_path])
    assert str(refused.value) == f"{file}:201: `inc` expected to be 1 or more"


def test_numbers_that_no_table_holds_are_refused_by_all(tmp_path: Path) -> None:
    trace = read_trace(GOLDEN / "good" / "pair")
    rows = [msgspec.structs.replace(trace.rows["q"][0], t=2**63), *trace.rows["q"][1:]]
    write_trace(tmp_path, trace.run, {**trace.rows, "q": rows})
    with pytest.raises(Malformed, match=r"q.jsonl:1: .*`\$.t`"):
        read_trace(tmp_path)


@pytest.mark.long("a second of Spark")
def test_two_traces_of_one_name_are_refused_and_one_named_twice_is_read_once(
    spark: SparkSession, packed: Path
) -> None:
    pair, torn = GOLDEN / "good" / "pair", GOLDEN / "good" / "torn-last-line"
    with pytest.raises(Malformed, match="its run is 'pair', and so is that of") as refused:
        read_traces(spark, [pair, torn])
    assert str(pair) in str(refused.value)
    assert str(torn) in str(refused.value)
    with pytest.raises(Malformed, match="its run is 'pair', and so is that of") as refused:
        read_traces(spark, [torn, packed])
    with read_traces(spark, [pair, str(pair), pair / ".." / "pair"]) as read:
        assert read.runs.count() == 1
        assert read.events.count() == 12
    with pytest.raises(Malformed, match="no trace is named"):
        read_traces(spark, [])


# -- the shape of rows, as an expression ----------------------------------------------------------------------


def documents() -> Iterator[dict[str, Any]]:
    """Rows of every kind, right and wrong in every way that the tables of the schema can hold."""
    random = Random(7)
    names = [field.name for field in FIELDS]
    values: dict[str, list[object]] = {
        **{name: ["", "x", "evs", "corel", "vs", "isis", "agreed", "transitional", "q:1:4", None] for name in names},
        **{name: [0, -1, 1, 7, None] for name in ("inc", "n", "t", "pos", "primary", "view", "attempt", "replies")},
        "kind": ["conf", "send", "deliver", "stop", "view", "cast", "establish", "green", "log", "cbcast", "receive",
                 "site", "odd", None],
        "process": ["q:1:4", "q:1:", "q:1:x", "q:1:-1", "q:1:٣", "p:1:1", "", None],
        "attempt": [0, -1, None],
        "replies": [0, -1, -2, None],
        "members": [[], ["p"], ["p", None], [None], None],
        "dests": [[""], [None, "p"], None],
        "ts": [[], [1, 2], [None], [1, None], None],
    }  # fmt: skip
    good = [row for d in JUDGED for rows in read_trace(d).rows.values() for row in rows]
    isis = record(LIFE)
    cbcast = next(row for row in isis if row.kind == "cbcast")
    isis += [msgspec.structs.replace(cbcast, label=label) for label in (*LABELS, *NO_LABELS)]
    for row in [*random.sample(good, 500), *random.choices(good, k=4000), *random.choices(isis, k=1500)]:
        document = {**dict.fromkeys(names), **msgspec.structs.asdict(row)}
        document = {name: None if value is msgspec.UNSET else value for name, value in document.items()}
        for name in random.sample(names, random.choice((0, 1, 1, 2))):
            document[name] = random.choice(values[name])
        yield document


def test_the_expression_refuses_what_the_local_reader_refuses(spark: SparkSession) -> None:
    rows = [{**document, "number": number} for number, document in enumerate(documents())]
    fields = fields_batch([]).schema.append(pa.field("number", pa.int64()))
    table = spark.createDataFrame(pa.Table.from_pylist(rows, schema=fields))
    found = {
        row["number"]
        for row in table.withColumn("rules", rules_of_kind())
        .where(misshapen(F.col("rules")))
        .select("number")
        .collect()
    }
    wrong = {number for number, document in enumerate(documents()) if problem_of(document) is not None}
    assert {number: rows[number] for number in found ^ wrong} == {}
    assert 500 < len(wrong) < len(rows) - 500


# -- Parquet that others wrote --------------------------------------------------------------------------------


def write_form(root: Path, trace: Trace, files: dict[str, list[Row]], **fields: object) -> Path:
    run = msgspec.structs.replace(trace.run, **fields)
    for name, rows in files.items():
        file = run_directory(root, run.run) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_batches([fields_batch(rows)]), file)
    told = run_file(root, run.run)
    told.parent.mkdir(exist_ok=True)
    pq.write_table(runs_table([run]), told)
    return root


def spoil(file: Path, change: Any) -> None:
    pq.write_table(change(pq.read_table(file)), file)


def pair() -> tuple[Trace, list[Row]]:
    trace = read_trace(GOLDEN / "good" / "pair")
    return trace, [row for rows in trace.rows.values() for row in rows]


STRANGE = "a b:c=d%e [é]'/\"{x}^"


@pytest.mark.long("seconds of Spark")
def test_rows_in_several_files_and_names_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    trace, rows = pair()
    write_form(tmp_path, trace, {"z.parquet": rows[:4], "a.parquet": rows[4:]}, run="apart")
    write_form(tmp_path, trace, {"a.parquet": rows[::2], "b.parquet": rows[1::2]}, run="overlapping")
    write_form(tmp_path, trace, {"a.parquet": rows}, run=STRANGE)
    write_form(tmp_path, trace, {"a.parquet": rows}, run="7")
    write_form(tmp_path, trace, {"a.parquet": []}, run="nothing happened")
    names = ["7", STRANGE, "apart", "nothing happened", "overlapping"]
    rows_of_run: dict[str, dict[str, list[Row]]] = {
        name: {"p": [], "q": []} if name == "nothing happened" else trace.rows for name in names
    }
    assert {run.run: rows for run, rows in read_parquet_runs(tmp_path)} == rows_of_run
    assert rows_by_run(read_traces(spark, [tmp_path])) == rows_of_run
    assert rows_by_run(read_traces(spark, [tmp_path.as_uri()])) == rows_of_run


@pytest.mark.long("seconds of Spark")
def test_the_order_is_known_unless_files_overlap(spark: SparkSession, tmp_path: Path) -> None:
    """And whether or not it is, both engines say the same."""
    trace, rows = pair()
    wanted = verify([History.of(trace.run, trace.rows)])
    for name, files in {
        "apart": {"z.parquet": rows[:4], "a.parquet": rows[4:]},
        "overlapping": {"a.parquet": rows[::2], "b.parquet": rows[1::2]},
    }.items():
        root = tmp_path / name
        write_form(root, trace, files, run=trace.run.run)
        with read_traces(spark, [root]) as traces:
            assert (traces.ordered is None) is (name == "overlapping")
            assert traces.sizes is not None
            assert [(row["run"], row["rows"], row["layers"]) for row in traces.sizes.collect()] == [
                (trace.run.run, len(rows), 1)
            ]
            if traces.ordered is not None:
                assert len({row.split for row in traces.ordered.select("split").collect()}) == len(files)
            report = verify_traces(spark, traces, whole_rows=0)
        assert structs.replace(report, engine="local") == wanted


def both_refuse(spark: SparkSession, root: Path, line: str) -> None:
    """Both engines' readers refuse this directory with this line, in which DIR stands for it."""
    for read in (lambda: list(read_parquet_runs(root)), lambda: read_traces(spark, [root])):
        with pytest.raises(Malformed) as refused:
            read()
        assert str(refused.value).replace(str(root), "DIR") == line


def both_refuse_as(spark: SparkSession, root: Path, pattern: str) -> None:
    for read in (lambda: list(read_parquet_runs(root)), lambda: read_traces(spark, [root])):
        with pytest.raises(Malformed, match=pattern):
            read()


EVENTS_FILE = "events/run=pair/a.parquet"


@pytest.mark.long("seconds of Spark")
@pytest.mark.parametrize(
    ("place", "fields", "problem"),
    [
        (3, {"conf": msgspec.UNSET}, "row 4: `conf` is missing; a send event has it"),
        (5, {"service": "slow"}, "row 6: `service` is 'slow'; expected a service"),
        (5, {"node": "z"}, "row 6: `node` is z; the run's nodes are p, q"),
        (
            0,
            {"kind": "fail"},
            "row 1: the trace lacks its start: its first event is a fail; expected a regular configuration",
        ),
    ],
)
def test_a_row_that_is_no_event_is_named(
    spark: SparkSession, tmp_path: Path, place: int, fields: dict[str, Any], problem: str
) -> None:
    trace, rows = pair()
    rows[place] = msgspec.structs.replace(rows[place], **fields)
    write_form(tmp_path, trace, {"a.parquet": rows})
    both_refuse(spark, tmp_path, f"DIR/{EVENTS_FILE}: {problem}")


@pytest.mark.long("a second of Spark")
def test_two_rows_of_one_number_in_overlapping_files_have_no_order(spark: SparkSession, tmp_path: Path) -> None:
    trace, rows = pair()
    rows[3] = msgspec.structs.replace(rows[3], n=2)
    write_form(tmp_path, trace, {"a.parquet": rows[::2], "b.parquet": rows[1::2]})
    problem = "the rows of p are spread over files whose `n` overlap, and 2 stands twice: nothing tells their order"
    both_refuse(spark, tmp_path, f"DIR/events/run=pair/b.parquet: row 2: {problem}")


def test_files_that_are_not_of_the_form_are_named(spark: SparkSession, tmp_path: Path) -> None:
    trace, rows = pair()
    number = 0

    def fresh() -> Path:
        nonlocal number
        number += 1
        return write_form(tmp_path / str(number), trace, {"a.parquet": rows})

    root = fresh()
    data = (root / EVENTS_FILE).read_bytes()
    (root / EVENTS_FILE).write_bytes(data[: len(data) // 2])
    both_refuse_as(spark, root, r"a\.parquet: is not a whole Parquet file")
    root = fresh()
    spoil(root / EVENTS_FILE, lambda t: t.set_column(2, "n", t["n"].cast(pa.string())))
    both_refuse(spark, root, f"DIR/{EVENTS_FILE}: column `n` has the type string; expected 64-bit integer")
    root = fresh()
    spoil(root / EVENTS_FILE, lambda t: t.drop_columns(["layer"]))
    both_refuse(spark, root, f"DIR/{EVENTS_FILE}: has no column `layer`; expected one of string")
    root = fresh()
    spoil(root / "runs/run-pair.parquet", lambda t: t.set_column(0, "schema", pa.array([3])))
    both_refuse(spark, root, "DIR/runs/run-pair.parquet: `schema` is 3; expected 2")
    root = fresh()
    spoil(root / "runs/run-pair.parquet", lambda t: t.set_column(8, "down", pa.array([["z"]])))
    both_refuse(spark, root, "DIR/runs/run-pair.parquet: `down` names z, which is not in `nodes`")
    root = fresh()
    (root / "runs/run-pair.parquet").unlink()
    both_refuse(spark, root, "DIR/runs: is empty; expected a table of runs")
    root = write_form(fresh(), trace, {"a.parquet": rows}, run="other")
    (root / "runs/run-pair.parquet").unlink()
    both_refuse(spark, root, "DIR/events/run=pair: runs has no run 'pair'; expected a row for it")
    root = write_form(fresh(), trace, {}, run="other")
    line = "DIR/runs/run-other.parquet: events has nothing of the run 'other'; expected DIR/events/run=other"
    both_refuse(spark, root, line)
    root = fresh()
    (root / "events/notes.txt").write_text("")
    both_refuse(spark, root, "DIR/events/notes.txt: expected a directory run=NAME with the events of a run")


@pytest.mark.long("a second of Spark")
def test_what_spark_itself_finds_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    trace, rows = pair()
    root = write_form(tmp_path / "pages", trace, {"a.parquet": rows})
    data = bytearray((root / EVENTS_FILE).read_bytes())
    data[20:200] = b"\xff" * 180
    (root / EVENTS_FILE).write_bytes(data)
    both_refuse_as(spark, root, rf"{re.escape(str(root / EVENTS_FILE))}: is not a whole Parquet file")
    root = write_form(tmp_path / "types", trace, {"a.parquet": rows})
    spoil(root / EVENTS_FILE, lambda t: t.set_column(2, "n", t["n"].cast(pa.string())))
    with pytest.raises(
        Malformed, match=rf"^{re.escape(str(root / EVENTS_FILE))}: column `n` has the type BINARY; expected bigint"
    ):
        read_traces(spark, [root.as_uri()])
    with pytest.raises(Malformed, match=rf"^{re.escape(str(tmp_path))}/nothing/runs: is not there"):
        read_traces(spark, [(tmp_path / "nothing").as_uri()])


def test_our_own_errors_come_out_of_spark_as_they_were() -> None:
    text = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/x/reader.py", line 93, in read
reconvene.errors.Unavailable: no replica answers at a:1
 SQLSTATE: 38000"""
    with pytest.raises(Unavailable) as plain, plain_errors():
        raise PySparkException(text)
    assert str(plain.value) == "no replica answers at a:1"
    with pytest.raises(Unavailable) as plain, plain_errors():
        raise PySparkException(
            "An error occurred while calling o2.collect.\n: x.SparkException: out of luck\nat java"
        )
    assert str(plain.value) == "Spark: x.SparkException: out of luck"
    with pytest.raises(KeyError), plain_errors():
        raise KeyError("of someone else")


@pytest.mark.long("a second of Spark")
def test_missing_columns_that_no_event_needs_read_as_null(spark: SparkSession, tmp_path: Path) -> None:
    trace, rows = pair()
    write_form(tmp_path, trace, {"a.parquet": rows})
    spoil(tmp_path / EVENTS_FILE, lambda t: t.drop_columns(["pos", "group", "process", "dests", "view", "primary"]))
    assert [rows for _, rows in read_parquet_runs(tmp_path)] == [trace.rows]
    assert rows_by_run(read_traces(spark, [tmp_path])) == {"pair": trace.rows}


@pytest.mark.long("a second of Spark")
def test_a_run_is_what_run_json_says(packed: Path) -> None:
    runs: dict[str, Run] = {run.run: run for run, _ in read_parquet_runs(packed)}
    for directory in JUDGED:
        document = json.loads((directory / "run.json").read_text())
        assert msgspec.to_builtins(runs[document["run"]]) == document
