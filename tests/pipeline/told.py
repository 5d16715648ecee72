"""Runs in memory as the tables that the pipeline reads: golden traces, and random ones broken at random."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.pipeline.test_generate import rows_of
from tests.verify import (
    test_against_oracles,
    test_corel_against_oracles,
    test_isis_against_oracles,
    test_vs_against_oracles,
)

from reconvene.lab.generate import MUTATIONS, recipe
from reconvene.pipeline.columns import events_batch, runs_table
from reconvene.pipeline.schema import ARROW_EVENTS, EVENTS, RUNS
from reconvene.pipeline.traces import Traces
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import read_trace

__all__ = ["GOLDEN", "Told", "broken", "golden", "made", "tell"]

GOLDEN = Path(__file__).parent.parent / "golden"

_PLACE = TemporaryDirectory(prefix="told")
_NUMBERS = count()

Told = tuple[Run, Mapping[str, Sequence[Row]]]
"""A run and its rows by node."""


def tell(spark: SparkSession, told: Iterable[Told]) -> Traces:
    """Traces of these runs, whose names differ. A row's place is not its index, as it is not in a file either."""
    runs: list[Run] = []
    batches: list[pa.RecordBatch] = []
    for run, rows in told:
        runs.append(run)
        batches += [
            events_batch(run.run, mine, np.arange(len(mine), dtype=np.int64) * 7 + 3)
            for mine in rows.values()
            if mine
        ]
    # As files: rows within a plan would be copied, and computed with, wherever the plan names them.
    place = Path(_PLACE.name, str(next(_NUMBERS)))
    place.mkdir()
    pq.write_table(pa.Table.from_batches(batches, schema=ARROW_EVENTS), place / "events.parquet")
    pq.write_table(runs_table(runs), place / "runs.parquet")
    runs_read, events_read = (
        spark.read.schema(schema).parquet(str(place / f"{name}.parquet"))
        for name, schema in (("runs", RUNS), ("events", EVENTS))
    )
    # Of one small file, which one task reads, a node's rows one after the other.
    return Traces(runs=runs_read, events=events_read, ordered=events_read.withColumn("split", F.lit(0).cast("long")))


def golden(*, isis: bool | None = None) -> Iterator[Told]:
    """The golden traces, good and bad, but for those with followers or outposts: of these nothing is certified.
    `isis`: only those of that layer, or only the others."""
    for kind in ("good", "bad"):
        for directory in sorted((GOLDEN / kind).iterdir()):
            if isis is not None and directory.name.startswith("isis") is not isis:
                continue
            trace = read_trace(directory)
            if trace.run.followers or trace.run.outposts:
                continue
            yield structs.replace(trace.run, run=f"{kind}/{directory.name}"), trace.rows


def made(stacks: Iterable[str] = MUTATIONS) -> Iterator[Told]:
    """Made traces: of each stack one that is right, and one for each mutation; as `made STACK MUTATION`."""
    for stack in stacks:
        for name in ("right", *MUTATIONS[stack]):
            how = recipe(1_500, stack=stack, changes=4, mutation=None if name == "right" else name)
            rows = rows_of(event for batch in how.make(np.arange(how.turns)) for event in batch.to_pylist())
            run = how.run(0)
            yield structs.replace(run, run=f"made {stack} {name}"), rows[run.run]


def broken(seeds: Iterable[int], mutations: int = 6) -> Iterator[Told]:
    """Ideal runs of each stack, with up to so many mutations each."""
    for seed in seeds:
        for stack, break_ in (
            ("evs", test_against_oracles.broken_run),
            ("corel", test_corel_against_oracles.broken_log),
            ("vs", test_vs_against_oracles.broken_run),
            ("isis", test_isis_against_oracles.broken_run),
        ):
            run, rows = break_(seed, seed % (mutations + 1))
            yield structs.replace(run, run=f"{stack} {seed}"), rows
