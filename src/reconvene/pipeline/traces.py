"""One reader for every form of a trace: directories and Parquet, mixed, into two tables.

    with read_traces(spark, ["out/trace", "campaign/"]) as traces:
        traces.events.groupBy("kind").count().show()

Everything is looked at before the tables are handed out: what can't be judged is refused with one line that names
file and line, and actions on the tables do not fail over their content.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from reconvene.errors import Malformed
from reconvene.pipeline.columns import runs_table
from reconvene.pipeline.jsonl import plan_parts, read_jsonl
from reconvene.pipeline.schema import EVENTS
from reconvene.trace.events import Run
from reconvene.trace.reader import read_run
from reconvene.trace.writer import RUN_FILE

__all__ = ["Traces", "read_traces"]


@dataclass(frozen=True)
class Traces:
    """`runs`, one row each (schema `RUNS`), and `events` (schema `EVENTS`); a run's name is unique."""

    runs: DataFrame
    events: DataFrame
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


def read_traces(spark: SparkSession, paths: Sequence[str | Path]) -> Traces:
    """All traces at these paths: trace directories, directories of them, and Parquet forms. May raise Malformed."""
    directories = _trace_directories(paths)
    runs = [read_run(directory) for directory in directories]
    _check_names([(run.run, str(directory)) for directory, run in zip(directories, runs, strict=True)])
    events = _directories(spark, list(zip(directories, runs, strict=True)))
    return Traces(
        runs=spark.createDataFrame(runs_table(runs)), events=events.select(EVENTS.fieldNames()), kept=(events,)
    )


def _trace_directories(paths: Iterable[str | Path]) -> list[Path]:
    """Those that the paths name or hold. One that is named twice is read once."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        inside = [] if (path / RUN_FILE).exists() or not path.is_dir() else sorted(path.glob(f"*/{RUN_FILE}"))
        for directory in [file.parent for file in inside] or [path]:
            found.setdefault(directory.resolve(), directory)
    return list(found.values())


def _check_names(named: Iterable[tuple[str, str]]) -> None:
    places: dict[str, str] = {}
    for name, place in named:
        other = places.setdefault(name, place)
        if other != place:
            raise Malformed(f"{place}: its run is {name!r}, and so is that of {other}; expected one run of a name")


def _directories(spark: SparkSession, traces: list[tuple[Path, Run]]) -> DataFrame:
    try:
        return read_jsonl(spark, plan_parts(traces))
    except Malformed as error:
        line = str(error)
        for directory, _ in traces:
            # Tasks know the absolute path; whoever reads the line knows the one that was given.
            line = line.replace(f"{directory.absolute()}/", f"{directory}/")
        raise Malformed(line) from None
