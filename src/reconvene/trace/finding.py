"""Which traces a path names: itself, or those in it."""

from collections.abc import Iterable
from pathlib import Path

from reconvene.trace.domains import is_wide
from reconvene.trace.parquet_form import is_parquet
from reconvene.trace.writer import RUN_FILE

__all__ = ["apart_from_domains", "find_traces"]


def find_traces(path: Path) -> list[Path]:
    """Trace directories, of domains too, and Parquet forms, at this path or directly below it, by their names.

    Where there are none, the path itself: reading it then raises Malformed, which says what is wrong.
    """
    if not path.is_dir() or _is_trace(path):
        # A campaign has the Parquet form of its runs, and beside it the traces of domains, which have none.
        beside = [each for each in path.iterdir() if is_wide(each)] if is_parquet(path) else []
        return [path, *sorted(beside)]
    return sorted(each for each in path.iterdir() if _is_trace(each)) or [path]


def apart_from_domains(paths: Iterable[str]) -> tuple[list[str], list[Path]]:
    """What Spark reads of these paths and URLs, and the traces of domains among it, which it does not."""
    domains: list[Path] = []
    others: list[str] = []
    for path in paths:
        found = [] if "://" in path else find_traces(Path(path))
        wide = [each for each in found if is_wide(each)]
        domains += wide
        others += [str(each) for each in found if each not in wide] if wide else [path]
    return others, domains


def _is_trace(path: Path) -> bool:
    return (path / RUN_FILE).exists() or is_wide(path) or is_parquet(path)
