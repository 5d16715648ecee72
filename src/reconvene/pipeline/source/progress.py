"""How far a stream is behind the log, from what Spark reports of a query.

A Python source has no place in `StreamingQueryProgress.sources[…].metrics` (PySpark 4.3): what it can report is the
log's end, `latestOffset`. Together with `endOffset`, where the batch ended, that is the lag.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from reconvene.pipeline.source.offsets import Offset

__all__ = ["Lag", "lags_of"]


class Lag(Struct, frozen=True):
    """Of one source of a query, after a batch."""

    position: int
    """Where the batch ended."""
    latest: int
    """The log's end, when the batch was planned."""
    rows: int
    """That the batch had."""

    @property
    def behind(self) -> int:
        """Positions of the log that were not read then."""
        return max(0, self.latest - self.position)


T = TypeVar("T")


class _Latest(Struct):
    position: int


def lags_of(progress: Any) -> list[Lag]:
    """Of `query.lastProgress`, or a listener's `event.progress`: for each source that is a log. None before the first
    batch: no lags."""
    if progress is None:
        return []
    sources = progress["sources"] if isinstance(progress, Mapping) else progress.sources
    found = (_lag(source) for source in sources)
    return [lag for lag in found if lag is not None]


def _lag(source: Any) -> Lag | None:
    def told(name: str) -> Any:
        return source[name] if isinstance(source, Mapping) else getattr(source, name)

    try:
        end, latest = _read(told("endOffset"), Offset), _read(told("latestOffset"), _Latest)
    except (msgspec.MsgspecError, TypeError):
        return None  # another source's, or one that has found no replica yet
    return Lag(end.mark.position, latest.position, int(told("numInputRows")))


def _read(offset: Any, form: type[T]) -> T:
    """Spark has an offset as JSON, or what a listener made of that."""
    return msgspec.json.decode(offset, type=form) if isinstance(offset, str) else msgspec.convert(offset, form)
