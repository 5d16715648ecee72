"""What `conclude` is told of a run, as one table, and what it says of each run."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from reconvene.pipeline.verify.evs.conclude import MOST_PATTERNS, Conclusion
from reconvene.pipeline.verify.evs.patterns import PATTERN
from reconvene.pipeline.verify.evs.ways import WAY, way_rows
from reconvene.pipeline.verify.found import CONFS, ENDS, FOUND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["conclude", "name_patterns", "tell"]

_TOLD = {
    "pattern": PATTERN,
    "way": WAY,
    "conf": T.StructType([field for field in CONFS if field.name != "rid"]),
    "end": T.StructType([field for field in ENDS if field.name != "rid"]),
}
"""What is told of a run: each row has one of these."""

_NAMED = T.StructType([
    T.StructField("rid", T.LongType(), False),
    T.StructField("check", T.StringType(), False),
    T.StructField("root", T.LongType(), True),
    T.StructField("origin", T.LongType(), True),
    T.StructField("regular", T.ArrayType(T.LongType()), True),
    T.StructField("late", T.ArrayType(T.LongType()), True),
    T.StructField("ts", T.ArrayType(T.LongType()), True),
])  # fmt: skip
"""What a check is suspicious of: a pattern, or the message of a timestamp."""

_ARROW_FOUND, _ARROW_NAMED = to_arrow_schema(FOUND), to_arrow_schema(_NAMED)


def tell(
    patterns: "DataFrame", coded: "DataFrame", confs: "DataFrame", ends: "DataFrame", runs: "DataFrame"
) -> "DataFrame":
    """One table of all that is told of each run. Of too many patterns, so many that it shows."""
    order = Window.partitionBy("rid").orderBy(F.desc("messages"))
    bounded = patterns.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= MOST_PATTERNS + 1)
    tables = {"pattern": bounded, "way": way_rows(coded, runs), "conf": confs, "end": ends}
    whole: DataFrame | None = None
    for name, table in tables.items():
        columns = (
            (F.struct(*of.names) if name == other else F.lit(None).cast(of)).alias(other)
            for other, of in _TOLD.items()
        )
        part = table.select("rid", *columns)
        whole = part if whole is None else whole.union(part)
    assert whole is not None
    return whole


def conclude(told: "DataFrame") -> "DataFrame":
    """FOUND of each run."""
    return _by_run(told).mapInArrow(_found, FOUND)


def name_patterns(told: "DataFrame") -> "DataFrame":
    """Of each run, the patterns and timestamps of messages that checks are suspicious of."""
    return _by_run(told).mapInArrow(_named, _NAMED)


def _by_run(told: "DataFrame") -> "DataFrame":
    """A run's rows one after the other: with many small runs, one batch of rows tells of many."""
    return told.repartition("rid").sortWithinPartitions("rid")


# -- in a task ----------------------------------------------------------------------------------------------------


def _conclusions(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Conclusion]]:
    for rid, rows in groupby(chain.from_iterable(map(_rows, batches)), itemgetter(0)):
        told: dict[str, list[dict[str, Any]]] = {name: [] for name in _TOLD}
        for _, *row in rows:
            for name, of in zip(_TOLD, row, strict=True):
                if of is not None:
                    told[name].append(of)
        yield rid, Conclusion(told["pattern"], told["way"], told["conf"], told["end"])


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch[name].to_pylist() for name in ("rid", *_TOLD)), strict=True)


def _found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rid, conclusion in _conclusions(batches):
        rows = [
            {"rid": rid, "check": check, "cases": cases, "suspects": conclusion.suspects[check]}
            for check, cases in conclusion.cases.items()
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_FOUND)


def _named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    keys = ("root", "origin", "regular", "late")
    for rid, conclusion in _conclusions(batches):
        rows = [{"rid": rid, "check": check, **{key: row[key] for key in keys}} for check, row in conclusion.patterns]
        rows += [{"rid": rid, "check": check, "ts": stamp} for check, stamp in conclusion.stamps]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_NAMED)
