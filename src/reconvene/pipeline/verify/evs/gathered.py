"""All that is gathered of each run as one table, and what the checks prove of it, run by run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from reconvene.pipeline.verify.evs.patterns import PATTERN
from reconvene.pipeline.verify.evs.ways import WAY, way_rows
from reconvene.pipeline.verify.found import CONFS, ENDS, FOUND, Tables
from reconvene.verify.check import Proof, prove_all
from reconvene.verify.evs.patterns import MOST_PATTERNS, EvsCheck, EvsPatterns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["gather", "name_patterns", "prove"]

_GATHERED = {
    "pattern": PATTERN,
    "way": WAY,
    "conf": T.StructType([field for field in CONFS if field.name != "rid"]),
    "end": T.StructType([field for field in ENDS if field.name != "rid"]),
}
"""What is gathered of a run: each row has one of these."""

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


def gather(patterns: "DataFrame", of: Tables) -> "DataFrame":
    """One table of all that is known of each run. Of too many patterns, so many that it shows."""
    order = Window.partitionBy("rid").orderBy(F.desc("messages"))
    bounded = patterns.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= MOST_PATTERNS + 1)
    tables = {"pattern": bounded, "way": way_rows(of.coded, of.runs), "conf": of.confs, "end": of.ends}
    whole: DataFrame | None = None
    for name, table in tables.items():
        columns = (
            (F.struct(*schema.names) if name == other else F.lit(None).cast(schema)).alias(other)
            for other, schema in _GATHERED.items()
        )
        part = table.select("rid", *columns)
        whole = part if whole is None else whole.union(part)
    assert whole is not None
    return whole


def prove(gathered: "DataFrame", checks: Sequence[EvsCheck]) -> "DataFrame":
    """FOUND of each run."""
    return _by_run(gathered).mapInArrow(_each_run(checks, _found), FOUND)


def name_patterns(gathered: "DataFrame", checks: Sequence[EvsCheck]) -> "DataFrame":
    """Of each run, the patterns and timestamps of messages that checks are suspicious of."""
    return _by_run(gathered).mapInArrow(_each_run(checks, _named), _NAMED)


def _by_run(gathered: "DataFrame") -> "DataFrame":
    """A run's rows one after the other: with many small runs, one batch of rows is about many."""
    return gathered.repartition("rid").sortWithinPartitions("rid")


# -- in a task ----------------------------------------------------------------------------------------------------


_Batches = Iterable[pa.RecordBatch]
_Show = Callable[[int, Mapping[str, Proof]], pa.RecordBatch]


def _each_run(checks: Sequence[EvsCheck], show: _Show) -> "Callable[[_Batches], Iterator[pa.RecordBatch]]":
    """What `show` makes of the proofs of each run."""

    def of_batches(batches: _Batches) -> Iterator[pa.RecordBatch]:
        for rid, run in _runs(batches):
            yield show(rid, prove_all(checks, run.counts, run))

    return of_batches


def _runs(batches: _Batches) -> Iterator[tuple[int, EvsPatterns]]:
    for rid, rows in groupby(chain.from_iterable(map(_rows, batches)), itemgetter(0)):
        known: dict[str, list[dict[str, Any]]] = {name: [] for name in _GATHERED}
        for _, *row in rows:
            for name, of in zip(_GATHERED, row, strict=True):
                if of is not None:
                    known[name].append(of)
        yield rid, EvsPatterns(known["pattern"], known["way"], known["conf"], known["end"])


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch[name].to_pylist() for name in ("rid", *_GATHERED)), strict=True)


def _found(rid: int, proofs: Mapping[str, Proof]) -> pa.RecordBatch:
    rows = [
        {"rid": rid, "check": check, "cases": proof.cases, "suspects": proof.suspects}
        for check, proof in proofs.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_ARROW_FOUND)


def _named(rid: int, proofs: Mapping[str, Proof]) -> pa.RecordBatch:
    keys = ("root", "origin", "regular", "late")
    rows: list[dict[str, Any]] = []
    for check, proof in proofs.items():
        rows += [{"rid": rid, "check": check, **{key: row[key] for key in keys}} for row in proof.patterns]
        rows += [{"rid": rid, "check": check, "ts": stamp} for stamp in proof.stamps]
    return pa.RecordBatch.from_pylist(rows, schema=_ARROW_NAMED)
