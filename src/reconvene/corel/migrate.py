"""From the layout of an older program to this one's, a version at a time.

Given: a replica's tables. Promised: after each step they are those of the next version, whole, whatever happens
meanwhile; a version that this program does not know is refused, and nothing is changed.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import DecodeError, msgpack

from reconvene.corel.layout import FORMAT, RECORD
from reconvene.errors import Malformed, Unavailable
from reconvene.storage.tables import Op, Reader

__all__ = ["STEPS", "Step", "migrations", "version_of"]

Step = Callable[[Reader], list[Op]]
"""What makes the next version of one, in one transaction; its record has the new version in it."""

STEPS: Mapping[int, Step] = {}
"""By the version that a step begins with: there is none before the first."""


def version_of(tables: Reader) -> int | None:
    """None: no log is there. Raises Malformed."""
    stored = tables.get(RECORD)
    if stored is None:
        return None
    try:
        version = msgpack.decode(stored, type=dict[str, object]).get("format")
    except (DecodeError, ValueError) as error:
        raise Malformed(f"the log's record: {error}") from None
    if not isinstance(version, int):
        raise Malformed(f"the log's record: its format is {version!r}")
    return version


def migrations(tables: Reader, steps: Mapping[int, Step] = STEPS, target: int = FORMAT) -> Iterator[list[Op]]:
    """What is to be written, one transaction after the other, each before the next is asked for.

    Raises Unavailable where the version is newer than `target`, or so old that no step leads on from it."""
    version = version_of(tables)
    while version is not None and version != target:
        if version > target:
            raise Unavailable(
                f"the log was written by a newer program: format {version}; this one knows up to {target}"
            )
        step = steps.get(version)
        if step is None:
            raise Unavailable(
                f"the log's format {version} is too old: this program knows none before {_oldest(steps)}"
            )
        yield step(tables)
        before, version = version, version_of(tables)
        if version != before + 1:
            raise Malformed(f"the log's format is {version} after a step from {before}")


def _oldest(steps: Mapping[int, Step]) -> int:
    return min(steps, default=FORMAT)
