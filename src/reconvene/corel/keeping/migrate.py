"""From the layout of an older program to this one's, a version at a time.

Given: a replica's tables. Promised: each step makes them the next version's in one transaction, so that a crash
leaves the one or the other. A version that this program does not know is refused, and nothing is changed.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import DecodeError, msgpack

from reconvene.corel.keeping.layout import FORMAT, RECORD, SNAPSHOTS, name_key, table_end
from reconvene.corel.keeping.load import load_record
from reconvene.errors import Malformed, Unavailable
from reconvene.ids import UNNAMED
from reconvene.storage.tables import Op, Put, Reader
from reconvene.voting import first_kept

__all__ = ["STEPS", "Step", "migrations", "version_of"]

Step = Callable[[Reader], list[Op]]
"""What makes the next version of one, in one transaction; its record has the new version in it."""


def _name_snapshots(tables: Reader) -> list[Op]:
    """1 to 2: snapshots get names. There was one, without a name: it is `UNNAMED` from now on, and in use. Its pieces
    stay where they are (`layout.piece_key`)."""
    ops: list[Op] = [_record(tables, 2)]
    for key, value in tables.scan(SNAPSHOTS, table_end(SNAPSHOTS)):
        try:
            meta = msgpack.decode(value, type=list[object])
            whole, saved = bool(meta[6]), bool(meta[7])
        except (DecodeError, ValueError, IndexError) as error:
            raise Malformed(f"what is known of a snapshot: {error}") from None
        ops.append(Put(key, msgpack.encode([2, *meta[1:6], whole, saved, UNNAMED])))
        ops.append(Put(name_key(UNNAMED), msgpack.encode([2, UNNAMED, 0, True])))
    return ops


def _keep_sessions(tables: Reader) -> list[Op]:
    """2 to 3: replicas keep the sessions of dynamic voting. No quorum went by them so far: the session before the
    first is the one of all replicas."""
    record = load_record(tables)
    kept = first_kept(record.replicas.weights(), record.replicas.epoch)
    return [_record(tables, 3, kept=kept)]


def _record(tables: Reader, version: int, **more: object) -> Op:
    found = msgpack.decode(tables.get(RECORD) or b"", type=dict[str, object])
    return Put(RECORD, msgpack.encode({**found, **more, "format": version}))


STEPS: Mapping[int, Step] = {1: _name_snapshots, 2: _keep_sessions}
"""By the version that a step begins with."""


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
