"""How many events traces have, about, without reading them: by the length of files and of some lines, and by the
footers of Parquet files."""

from collections.abc import Iterable
from pathlib import Path

from reconvene.trace.domains import is_wide
from reconvene.trace.finding import find_traces
from reconvene.trace.parquet_form import event_files, is_parquet
from reconvene.trace.reader import read_run
from reconvene.trace.writer import node_file

__all__ = ["run_sizes"]

_LOOKED_AT = 64 << 10
"""Bytes at a file's beginning from which the length of a line is told."""


def run_sizes(paths: Iterable[Path]) -> list[int]:
    """About how many events each run at these paths has; traces of domains left out. May raise Malformed."""
    found: list[int] = []
    for path in paths:
        for place in find_traces(path):
            if is_parquet(place):
                found += (sum(map(_rows, files)) for files in event_files(place).values())
            elif not is_wide(place):
                found.append(sum(_lines(node_file(place, node)) for node in read_run(place).recorded))
    return found


def _rows(file: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowInvalid):
        return 0  # whoever reads it says what is wrong with it


def _lines(file: Path) -> int:
    try:
        with file.open("rb") as opened:
            beginning = opened.read(_LOOKED_AT)
        return file.stat().st_size * beginning.count(b"\n") // max(1, len(beginning))
    except OSError:
        return 0
