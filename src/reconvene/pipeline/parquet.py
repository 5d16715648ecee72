"""The Parquet form of traces into a table.

Given: directories of the form, on a file system that driver and executors share, or URLs that Spark can read.
Promised: the events as `EVENTS` says; what can't be judged is refused by file and row, as
`reconvene.trace.parquet` refuses it without Spark.

One pass looks at everything: it returns, for each file and node, the first row that is no event, the first row of the
node's history, and the range of its numbers. Only what is suspect of that, and nodes that are spread over several
files, comes to the driver.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from reconvene.errors import Malformed
from reconvene.pipeline.refusals import plain_errors, shown_file
from reconvene.pipeline.schema import FIELDS, RUNS
from reconvene.pipeline.shapes import misshapen, rules_of_kind
from reconvene.pipeline.sizes import add_sizes, size_columns
from reconvene.trace.events import Run
from reconvene.trace.parquet import list_runs, no_order, problem_of, row_of, run_of
from reconvene.trace.parquet_form import EVENTS_DIR, RUNS_DIR, name_of
from reconvene.trace.reader import BadLine, find_start

__all__ = ["ReadEvents", "Told", "read_events", "read_runs"]

_STORED = T.StructType([*FIELDS, T.StructField("run", T.StringType())])


@dataclass(frozen=True, slots=True)
class Told:
    """A run, and which file or directory holds it."""

    run: Run
    place: str


def is_url(root: str) -> bool:
    return "://" in root


def read_runs(spark: SparkSession, root: str) -> list[Told]:
    """The runs of one directory or URL. May raise Malformed."""
    if not is_url(root):
        return [Told(listed.run, str(listed.told_by)) for listed in list_runs(Path(root))]
    with plain_errors():
        table = spark.read.schema(RUNS).parquet(f"{root.rstrip('/')}/{RUNS_DIR}")
        rows = table.select("*", F.col("_metadata.file_path").alias("file")).collect()
    told = []
    for row in rows:
        document = row.asDict()
        file = shown_file(document.pop("file"))
        told.append(Told(run_of(file, document), file))
    if not told:
        raise Malformed(f"{root}: has no runs; expected a table of them in {RUNS_DIR}")
    return told


@dataclass(frozen=True, slots=True)
class ReadEvents:
    events: DataFrame
    """With a column `split`, as in `Traces.ordered`, unless some files have a node's events in turn."""
    sizes: DataFrame
    """SIZES …"""
    kept: DataFrame
    """… which come from this, kept by executors until it is unpersisted: one row of each file and node."""


def read_events(spark: SparkSession, roots: Sequence[str], runs: Sequence[Run]) -> ReadEvents:
    """The events of these directories and URLs, which are of these runs. May raise Malformed."""
    with plain_errors():
        raw = reduce(DataFrame.union, (_raw(spark, root) for root in roots))
        _refuse_without_directory(raw, runs)
        pieces = _pieces(raw).persist()
        try:
            spread = _survey(spark, raw, pieces, runs)
        except BaseException:
            pieces.unpersist()
            raise
        return ReadEvents(_placed(spark, raw, spread), add_sizes(pieces), pieces)


def _raw(spark: SparkSession, root: str) -> DataFrame:
    """Events as they are stored, with the file and the row."""
    where = f"{root.rstrip('/')}/{EVENTS_DIR}" if is_url(root) else str(Path(root).absolute() / EVENTS_DIR)
    # A name is a name, whatever is in it, and no pattern.
    stored = spark.read.schema(_STORED).option("__globPaths__", "false").parquet(where)
    return stored.select(
        "run",
        *FIELDS.fieldNames(),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.row_index").alias("row"),
        F.col("_metadata.file_block_start").alias("block"),
    )


def _refuse_without_directory(raw: DataFrame, runs: Sequence[Run]) -> None:
    """A run in which nothing happened has a directory too, and a file without rows in it."""
    there = {name_of(part) for file in raw.inputFiles() for part in shown_file(file).split("/")}
    for run in runs:
        if run.run not in there:
            raise Malformed(f"{EVENTS_DIR} has nothing of the run {run.run!r}; expected a directory for it")


def _begins() -> Column:
    """Rows among which a node's history begins, as `find_start` looks for it …"""
    return (F.col("layer") == "evs") & ~F.col("conf_kind").eqNullSafe("hidden")


def _is_start() -> Column:
    """… and whether it may begin so."""
    return (F.col("kind") == "conf") & ~F.col("conf_kind").eqNullSafe("transitional")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A node's rows in one file."""

    file: str
    run: str
    node: str
    low: int
    high: int
    first: int
    last: int
    start: int | None
    """Twice the row with which the node's history begins here, and 1 where it may not begin so."""
    base: int | None = None
    """What is added to a row's number to give its place; None: its place is its `n`."""


def _pieces(raw: DataFrame) -> DataFrame:
    """One row of each file and node: all that has to be known of its rows before they are read again."""
    return (
        raw.withColumn("rules", rules_of_kind())
        .groupBy("file", "run", "node")
        .agg(
            F.min("n").alias("low"),
            F.max("n").alias("high"),
            F.min("row").alias("first"),
            F.max("row").alias("last"),
            # One number, so that the aggregate needs no room for strings.
            F.min(F.when(_begins(), F.col("row") * 2 + F.when(_is_start(), 0).otherwise(1))).alias("start"),
            F.min(F.when(misshapen(F.col("rules")), F.col("row"))).alias("bad"),
            *(column.alias(name) for name, column in size_columns().items()),
        )
    )


def _survey(spark: SparkSession, raw: DataFrame, pieces: DataFrame, runs: Sequence[Run]) -> list[_Piece]:
    """Refuses what can't be judged; returns the pieces of those nodes that are spread over several files."""
    named = pa.table({"run": [run.run for run in runs], "nodes": [run.recorded for run in runs]})
    known = F.broadcast(spark.createDataFrame(named))
    looked = pieces.withColumn("files", F.count("*").over(Window.partitionBy("run", "node")))
    is_node = F.coalesce(F.array_contains("nodes", F.col("node")), F.lit(False))
    suspect = F.col("bad").isNotNull() | ~is_node | (F.col("files") > 1) | (F.col("start") % 2 == 1)
    found = looked.join(known, "run", "left").where(suspect).collect()
    _refuse_bad(raw, [(row["file"], row["bad"]) for row in found if row["bad"] is not None])
    _refuse_strangers([row for row in found if row["nodes"] is None or row["node"] not in row["nodes"]])
    alone = [(row["file"], row["start"] // 2) for row in found if row["files"] == 1]
    if alone:
        raise _no_start(raw, *min(alone))
    names = [field.name for field in fields(_Piece) if field.name != "base"]
    return _order(spark, raw, [_Piece(*(row[name] for name in names)) for row in found])


def _refuse_bad(raw: DataFrame, found: list[tuple[str, int]]) -> None:
    if found:
        file, row = min(found)
        raise Malformed(f"{shown_file(file)}: row {row + 1}: {problem_of(_row_at(raw, file, row))}")


def _refuse_strangers(found: list[Any]) -> None:
    """Events of a run or a node that the runs do not name."""
    for row in sorted(found, key=lambda row: (row["file"], row["first"])):
        if row["nodes"] is None:
            raise Malformed(f"{shown_file(row['file'])}: {RUNS_DIR} has no run {row['run']!r}; expected a row for it")
        raise Malformed(
            f"{shown_file(row['file'])}: row {row['first'] + 1}: `node` is {row['node']};"
            f" the run's nodes are {', '.join(row['nodes'])}"
        )


def _order(spark: SparkSession, raw: DataFrame, found: list[_Piece]) -> list[_Piece]:
    """The pieces of nodes that are in several files, with their places; and whether their histories have a start."""
    found.sort(key=lambda piece: (piece.run, piece.node, piece.low, piece.high, piece.file))
    placed: list[_Piece] = []
    overlapping: list[_Piece] = []
    for _, group in groupby(found, key=lambda piece: (piece.run, piece.node)):
        of_node = list(group)
        if any(one.high >= other.low for one, other in pairwise(of_node)):
            overlapping += of_node
            continue
        start = next((piece for piece in of_node if piece.start is not None), None)
        if start is not None and start.start is not None and start.start % 2:
            raise _no_start(raw, start.file, start.start // 2)
        base = 0
        for piece in of_node:
            placed.append(replace(piece, base=base))
            base += piece.last + 1
    if overlapping:
        _check_by_number(spark, raw, overlapping)
    return placed + overlapping


def _check_by_number(spark: SparkSession, raw: DataFrame, pieces: Sequence[_Piece]) -> None:
    """Of nodes whose order is that of `n`: no number twice, and the start first."""
    nodes = sorted({(piece.run, piece.node) for piece in pieces})
    rows = raw.join(
        F.broadcast(spark.createDataFrame(nodes, "run string, node string")), ["run", "node"], "left_semi"
    )
    twice = rows.groupBy("run", "node", "n").agg(
        F.count("*").alias("rows"), F.max(F.struct("file", "row")).alias("at")
    )
    found = twice.where("rows > 1").orderBy("run", "node", "n").head()
    if found is not None:
        at = found["at"]
        raise Malformed(f"{shown_file(at['file'])}: row {at['row'] + 1}: {no_order(found['node'], found['n'])}")
    first = (
        rows.where(_begins())
        .groupBy("run", "node")
        .agg(F.min_by(F.struct("file", "row", _is_start().alias("fine")), "n").alias("at"))
    )
    wrong = first.where("NOT at.fine").orderBy("run", "node").select("at.file", "at.row").head()
    if wrong is not None:
        raise _no_start(raw, wrong["file"], wrong["row"])


def _no_start(raw: DataFrame, file: str, row: int) -> Malformed:
    try:
        find_start([row_of(_row_at(raw, file, row))])
    except BadLine as bad:
        return Malformed(f"{shown_file(file)}: row {row + 1}: {bad.problem}")
    raise AssertionError("the expression and find_start agree on what a start is")


def _row_at(raw: DataFrame, file: str, row: int) -> dict[str, Any]:
    found = raw.where((F.col("file") == file) & (F.col("row") == row)).select(*FIELDS.fieldNames()).head()
    assert found is not None, "it was there a moment ago"
    return found.asDict()


def _placed(spark: SparkSession, raw: DataFrame, pieces: Sequence[_Piece]) -> DataFrame:
    """Events with their places, of which these pieces' nodes are in several files; and their splits, if a file has
    nothing of a node between what another one has of it."""
    # What one task reads of one file, in its order.
    split = F.xxhash64("file", "block").alias("split")
    if not pieces:
        return raw.select("run", F.col("row").alias("place"), *FIELDS.fieldNames(), split)
    table = spark.createDataFrame(
        [(piece.file, piece.node, piece.base, True) for piece in pieces],
        "file string, node string, base long, spread boolean",
    )
    by_piece = F.coalesce(F.col("base") + F.col("row"), F.col("n"))
    place = F.when(F.col("spread"), by_piece).otherwise(F.col("row"))
    return raw.join(F.broadcast(table), ["file", "node"], "left").select(
        "run",
        place.alias("place"),
        *FIELDS.fieldNames(),
        *(() if any(piece.base is None for piece in pieces) else (split,)),
    )
