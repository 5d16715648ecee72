"""Runs in memory as the tables that the pipeline reads: golden traces, and random ones broken at random."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec import structs
from pyspark.sql import SparkSession
from tests.verify import test_against_oracles, test_corel_against_oracles, test_vs_against_oracles

from reconvene.pipeline.columns import events_batch, runs_table
from reconvene.pipeline.schema import ARROW_EVENTS
from reconvene.pipeline.traces import Traces
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import read_trace

__all__ = ["GOLDEN", "Told", "broken", "golden", "tell"]

GOLDEN = Path(__file__).parent.parent / "golden"

_NOTHING = pa.Table.from_pylist([], schema=ARROW_EVENTS)

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
    # Each batch would be a partition, and so a task of every scan.
    events = pa.Table.from_batches(batches, schema=ARROW_EVENTS).combine_chunks() if batches else _NOTHING
    return Traces(runs=spark.createDataFrame(runs_table(runs)), events=spark.createDataFrame(events))


def golden() -> Iterator[Told]:
    """The golden traces, good and bad."""
    for kind in ("good", "bad"):
        for directory in sorted((GOLDEN / kind).iterdir()):
            trace = read_trace(directory)
            yield structs.replace(trace.run, run=f"{kind}/{directory.name}"), trace.rows


def broken(seeds: Iterable[int], mutations: int = 6) -> Iterator[Told]:
    """Ideal runs of each stack, with up to so many mutations each."""
    for seed in seeds:
        for stack, break_ in (
            ("evs", test_against_oracles.broken_run),
            ("corel", test_corel_against_oracles.broken_log),
            ("isis", test_vs_against_oracles.broken_run),
        ):
            run, rows = break_(seed, seed % (mutations + 1))
            yield structs.replace(run, run=f"{stack} {seed}"), rows
