"""Which traces a path names: itself, or those in it."""

from pathlib import Path

from reconvene.trace.parquet_form import is_parquet
from reconvene.trace.writer import RUN_FILE

__all__ = ["find_traces"]


def find_traces(path: Path) -> list[Path]:
    """Trace directories and Parquet forms, at this path or directly below it, by their names.

    Where there are none, the path itself: reading it then raises Malformed, which says what is wrong.
    """
    if not path.is_dir() or _is_trace(path):
        return [path]
    return sorted(each for each in path.iterdir() if _is_trace(each)) or [path]


def _is_trace(path: Path) -> bool:
    return (path / RUN_FILE).exists() or is_parquet(path)
