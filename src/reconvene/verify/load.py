"""Histories from wherever traces are: a trace directory, the Parquet form, or a directory of either."""

from collections.abc import Iterator
from pathlib import Path

from reconvene.trace.finding import find_traces
from reconvene.trace.parquet import read_parquet_runs
from reconvene.trace.parquet_form import RUNS_DIR, is_parquet
from reconvene.verify.history import History

__all__ = ["load_histories"]


def load_histories(path: Path) -> Iterator[History]:
    """Each run by itself, made when it is asked for. May raise Malformed; and Unavailable, where Parquet can't be
    read here."""
    for place in find_traces(path):
        if is_parquet(place):
            for run, rows in read_parquet_runs(place):
                history = History.of(run, rows)
                history.need_quorum(f"{place / RUNS_DIR}: run {run.run}")
                yield history
        else:
            yield History.load(place)
