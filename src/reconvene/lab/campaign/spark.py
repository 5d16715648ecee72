"""A campaign on Spark: each task runs some seeds, writes their traces and judges them.

Given: a campaign's directory that driver and executors share. Promised: every requested seed has its trace in the
Parquet form and its outcome there; a seed that had an outcome is not run again. A failing seed is an outcome like any
other; the only thing that stops a campaign is a directory that can't be written to.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from reconvene.errors import Unavailable
from reconvene.lab.campaign.directory import CampaignDirectory, Seed
from reconvene.lab.campaign.seeds import Outcome, run_seed
from reconvene.pipeline.columns import fields_batch
from reconvene.pipeline.parquet_writer import ROW_GROUP, finish_run, scratch_directory, write_events, writing
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.watching import watched
from reconvene.sim.runner import Result
from reconvene.trace.events import Row

__all__ = ["RunSeed", "run_campaign"]

_MOST_TASKS = 2_000
"""Each task runs one seed, up to this many tasks, so that a lost executor costs little."""

_SEEDS = pa.schema([("task", pa.int32()), ("profile", pa.string()), ("seed", pa.int64())])
_DONE = "profile string, seed long, refused string"
_ARROW_DONE = pa.schema([("profile", pa.string()), ("seed", pa.int64()), ("refused", pa.string())])


class RunSeed(Protocol):
    """`run_seed`, or a test's replacement. Executors import it."""

    def __call__(
        self, profile: str, seed: int, nodes: int | None = None, keep: Callable[[Result], None] | None = None
    ) -> Outcome: ...


def run_campaign(
    spark: SparkSession,
    directory: CampaignDirectory[Outcome],
    seeds: Sequence[Seed],
    *,
    nodes: int | None = None,
    progress: Callable[[Outcome], None] | None = None,
    run: RunSeed = run_seed,
) -> None:
    """Runs those of the seeds that have no outcome. `progress` is called with each new outcome."""
    todo = directory.missing(seeds)
    if not todo:
        return
    watch = None if progress is None else _Watch(directory, todo, progress).look
    root = directory.root.absolute()
    watched(lambda: _run(spark, todo, _Work(root, nodes, run)), watch)
    if missing := directory.missing(todo):
        raise Unavailable(
            f"{directory.root}: executors wrote {len(missing)} outcomes that are not here;"
            " expected storage that the driver and all executors share"
        )


def _run(spark: SparkSession, seeds: Sequence[Seed], work: "_Work") -> None:
    tasks = min(len(seeds), _MOST_TASKS)
    rows = [{"task": place % tasks, "profile": profile, "seed": seed} for place, (profile, seed) in enumerate(seeds)]
    table = spark.createDataFrame(pa.Table.from_pylist(rows, schema=_SEEDS)).repartitionById(tasks, "task")
    with plain_errors():
        # collect, not take(1): that would start with one task alone.
        refused = table.mapInArrow(work.do, _DONE).where("refused IS NOT NULL").collect()
    if refused:
        raise Unavailable(min(row["refused"] for row in refused))


@dataclass(frozen=True, slots=True)
class _Work:
    """The work of a task."""

    root: Path
    nodes: int | None
    run: RunSeed

    def do(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                done = {"profile": row["profile"], "seed": row["seed"], "refused": None}
                try:
                    self._run_one(row["profile"], row["seed"])
                except Unavailable as error:
                    done["refused"] = str(error)
                yield pa.RecordBatch.from_pylist([done], schema=_ARROW_DONE)
                if done["refused"] is not None:
                    return

    def _run_one(self, profile: str, seed: int) -> None:
        outcome = self.run(profile, seed, self.nodes, self._keep)
        with writing(self.root):
            CampaignDirectory(self.root, Outcome).write((profile, seed), outcome)

    def _keep(self, result: Result) -> None:
        with writing(self.root):
            if result.levels is not None:
                result.write(self.root / result.run)  # there is no Parquet form of domains
                return
            rows = [row for node in result.meta.nodes for row in result.rows[node]]
            write_events(scratch_directory(self.root, result.run) / "part.parquet", _batches(rows), {})
            finish_run(self.root, result.meta, {})


def _batches(rows: list[Row]) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(rows), ROW_GROUP):
        yield fields_batch(rows[begin : begin + ROW_GROUP])


class _Watch:
    """Reports outcomes as they appear."""

    def __init__(
        self, directory: CampaignDirectory[Outcome], seeds: Sequence[Seed], progress: Callable[[Outcome], None]
    ) -> None:
        self._directory = directory
        self._left = seeds
        self._progress = progress

    def look(self) -> None:
        left = self._directory.missing(self._left)
        for seed in sorted(set(self._left).difference(left)):
            self._progress(self._directory.outcome(seed))
        self._left = left
