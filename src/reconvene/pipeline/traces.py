"""One reader for every form of a trace: directories and Parquet, mixed, into two tables.

    with read_traces(spark, ["out/trace", "campaign/"]) as traces:
        traces.events.groupBy("kind").count().show()

Everything is looked at before the tables are handed out: what can't be judged is refused with one line that names
file and line, and actions on the tables do not fail over their content.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from reconvene.errors import Malformed
from reconvene.pipeline.columns import runs_table
from reconvene.pipeline.jsonl import RANGE_BYTES, plan_ranges, read_jsonl
from reconvene.pipeline.parquet import Told, is_url, read_events, read_runs
from reconvene.pipeline.refusals import plain_errors
from reconvene.pipeline.schema import EVENTS
from reconvene.pipeline.sizes import sizes_of
from reconvene.trace.domains import refuse_wide
from reconvene.trace.events import Run
from reconvene.trace.finding import find_traces
from reconvene.trace.parquet_form import is_parquet
from reconvene.trace.reader import read_run
from reconvene.trace.writer import RUN_FILE
from reconvene.verify.quorums import quorum_of

__all__ = ["APART", "Traces", "read_traces"]

APART = "\x1f"
"""Between a run's name and the number that distinguishes it from others of the same name. No name holds it."""


@dataclass(frozen=True)
class Traces:
    """`runs`, one row each (schema `RUNS`), and `events` (schema `EVENTS`); a run's name is unique."""

    runs: DataFrame
    events: DataFrame
    ordered: DataFrame | None = None
    """`events` with one column more, `split`, an integer. The rows of a split lie together in one task, those of a
    node in the order of their places, and no other split has a row of the node whose place lies between them. None:
    nothing is known of the order."""
    sizes: DataFrame | None = None
    """Columns of SIZES, one row of each run that has events; None: to be counted."""
    kept: tuple[DataFrame, ...] = ()
    """What executors keep on their disks for `events`."""

    def close(self) -> None:
        """Frees the executors' disks. The end of the session does so too."""
        for table in self.kept:
            table.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_traces(spark: SparkSession, paths: Sequence[str | Path], *, apart: bool = False) -> Traces:
    """All traces at these paths: trace directories, Parquet forms, directories of either, and URLs of Parquet forms.

    A trace that is named twice is read once. Two whose runs have one name are refused; with `apart` those in
    directories are told apart, by APART and a number after the name. May raise Malformed.
    """
    directories, roots = _find(paths)
    if not directories and not roots:
        raise Malformed("no trace is named; expected trace directories or Parquet forms")
    traces = [(directory, read_run(directory)) for directory in directories]
    if apart:
        _name_apart([run for _, run in traces])
    in_directories = [Told(run, str(directory / RUN_FILE)) for directory, run in traces]
    in_parquet = [told for root in roots for told in read_runs(spark, root)]
    runs = in_directories + in_parquet
    _check_names(runs)
    tables: list[DataFrame] = []
    sizes: list[DataFrame] = []
    kept: list[DataFrame] = []
    if in_parquet:
        read = read_events(spark, roots, [told.run for told in in_parquet])
        tables.append(read.events)
        sizes.append(read.sizes)
        kept.append(read.kept)
    if in_directories:
        table = _read_directories(spark, traces)
        tables.append(table.select(*EVENTS.fieldNames(), F.floor(F.col("place") / RANGE_BYTES).alias("split")))
        sizes.append(sizes_of(table))
        kept.append(table)
    ordered = reduce(DataFrame.union, tables) if all("split" in table.columns for table in tables) else None
    events = reduce(DataFrame.union, (table.select(*EVENTS.fieldNames()) for table in tables))
    _check_quorums(runs, events)
    return Traces(
        runs=spark.createDataFrame(runs_table([told.run for told in runs])),
        events=events,
        ordered=ordered,
        sizes=reduce(DataFrame.union, sizes),
        kept=tuple(kept),
    )


def _find(paths: Iterable[str | Path]) -> tuple[list[Path], list[str]]:
    """Trace directories and Parquet forms, as the paths name or hold them."""
    found: dict[Path, Path] = {}
    urls: dict[str, None] = {}
    for path in paths:
        if is_url(str(path)):
            urls[str(path)] = None
            continue
        for directory in find_traces(Path(path)):
            refuse_wide(directory, "Spark")
            found.setdefault(directory.resolve(), directory)
    forms = [str(directory) for directory in found.values() if is_parquet(directory)]
    return [directory for directory in found.values() if not is_parquet(directory)], [*forms, *urls]


def _name_apart(runs: Iterable[Run]) -> None:
    seen: Counter[str] = Counter()
    for run in runs:
        name = run.run
        if seen[name]:
            run.run = f"{name}{APART}{seen[name]}"
        seen[name] += 1


def _check_names(runs: Iterable[Told]) -> None:
    places: dict[str, str] = {}
    for told in runs:
        other = places.setdefault(told.run.run, told.place)
        if other != told.place:
            raise Malformed(
                f"{told.place}: its run is {told.run.run!r}, and so is that of {other}; expected one of a name"
            )


def _check_quorums(runs: Iterable[Told], events: DataFrame) -> None:
    """Where liveness of a log or of process groups is judged, it has to be known which sets of nodes are a quorum."""
    unknown: dict[str, str] = {}
    for told in runs:
        try:
            if told.run.settled:
                quorum_of(told.run)
        except Malformed as error:
            unknown[told.run.run] = f"{told.place}: {error}"
    if unknown:
        concerned = events.where(F.col("run").isin(*unknown) & F.col("layer").isin("corel", "isis"))
        with plain_errors():
            found = concerned.orderBy("run").select("run").head()
        if found is not None:
            raise Malformed(unknown[found["run"]])


def _read_directories(spark: SparkSession, traces: list[tuple[Path, Run]]) -> DataFrame:
    try:
        return read_jsonl(spark, plan_ranges(traces))
    except Malformed as error:
        line = str(error)
        for directory, _ in traces:
            # Tasks know the absolute path; the reader of the line knows the one that was given.
            line = line.replace(f"{directory.absolute()}/", f"{directory}/")
        raise Malformed(line) from None
