"""The table on disk: whole batches of the stream in directories `batch=N`.

Given: batches with numbers that grow, the last one perhaps again after a crash. Promised: a reader that lists the
directory at any moment, also after a kill, sees each batch that was added wholly, once, or not at all.

A large batch has a directory of its own. A small one joins the last directory, if that is small as well: the one file
there is written anew with the rows of both. So `batch=M` holds the batches from M up to the next directory's number,
and there never are old and new files beside each other. The file's metadata lists how many rows are of which batch:
one that comes again takes the place of its own rows.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from reconvene.errors import Malformed
from reconvene.pipeline.export.swap import put_directory, put_file, sync_directory

__all__ = ["SMALL_BYTES", "LogTable"]

SMALL_BYTES = 8 << 20
"""A directory below this takes in the next batch, if that is below it too."""

_STAGING = "_staging"
_FILE = "part-0.parquet"
_NEW = ".part-0.new"
"""No reader takes it for a part of the table: it begins with a dot and does not end as Parquet files do."""
_HELD = b"reconvene.batches"

Held = list[tuple[int, int]]
"""(batch, rows), in the file's order."""


def _nothing(step: str) -> None:
    pass


class LogTable:
    """`on_step` is told before each step that a crash could come before: tests crash there."""

    def __init__(self, root: Path, small_bytes: int = SMALL_BYTES, on_step: Callable[[str], None] = _nothing) -> None:
        self.root = root
        self._small_bytes = small_bytes
        self._on_step = on_step
        self._staging = root.parent / _STAGING

    def prepare(self) -> None:
        """Makes the directories, and clears away what a crash left half made."""
        self.root.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir()
        for left in self.root.glob(f"batch=*/{_NEW}"):
            left.unlink()
        sync_directory(self.root.parent)

    def staging(self, batch: int) -> Path:
        """Where a batch's files are to be written before `add`."""
        return self._staging / f"batch={batch}"

    def last(self) -> int | None:
        """The number of the last batch that the table holds."""
        place = self._last_directory()
        if place is None:
            return None
        held = _held(place / _FILE)
        return held[-1][0] if held else _number(place)

    def add(self, batch: int) -> None:
        """Takes what was staged for the batch into the table, instead of what the table has of it. Raises Malformed
        where later batches are there already."""
        staged = self.staging(batch)
        files = sorted(staged.glob("*.parquet"))
        last = self.last()
        if last is not None and last > batch:
            raise Malformed(
                f"{self.root}: it holds batch {last}, but its checkpoint is at {batch}: not of one export"
            )
        place = self._last_directory()
        held = [] if place is None else _held(place / _FILE)
        again = bool(held) and held[-1][0] == batch
        # What joined others stays with them when it comes again, also where it is written in other files then.
        if not again and sum(file.stat().st_size for file in files) >= self._small_bytes:
            self._put_large(batch, staged)
        elif again or sum(pq.read_metadata(file).num_rows for file in files):
            rows = pa.concat_tables(pq.read_table(file, partitioning=None) for file in files)
            if place is not None and (again or (held and (place / _FILE).stat().st_size < self._small_bytes)):
                self._join(place, held, batch, rows)
            else:
                self._put_alone(batch, rows)
        shutil.rmtree(staged, ignore_errors=True)

    def _put_large(self, batch: int, staged: Path) -> None:
        for file in staged.iterdir():
            if file.suffix != ".parquet" or file.name.startswith((".", "_")):
                file.unlink()
        self._on_step("put directory")
        put_directory(staged, self.root / f"batch={batch}")

    def _put_alone(self, batch: int, rows: pa.Table) -> None:
        staged = self._staging / f"small={batch}"
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        _write(rows, [(batch, rows.num_rows)], staged / _FILE)
        self._on_step("put directory")
        put_directory(staged, self.root / f"batch={batch}")

    def _join(self, place: Path, held: Held, batch: int, rows: pa.Table) -> None:
        """The file gets the rows of all batches before this one, and then these."""
        kept = [(number, count) for number, count in held if number < batch]
        old = pq.read_table(place / _FILE, partitioning=None).slice(0, sum(count for _, count in kept))
        if old.schema.names != rows.schema.names or old.schema.types != rows.schema.types:
            raise Malformed(f"{place}: its columns are {old.schema.names}, and now they are {rows.schema.names}")
        new = place / _NEW
        _write(pa.concat_tables([old.cast(rows.schema), rows]), [*kept, (batch, rows.num_rows)], new)
        self._on_step("put file")
        put_file(new, place / _FILE)

    def _last_directory(self) -> Path | None:
        places = [place for place in self.root.glob("batch=*") if place.name[6:].isdecimal()]
        return max(places, key=_number, default=None)


def _number(place: Path) -> int:
    return int(place.name[6:])


def _held(file: Path) -> Held:
    """Of a file of small batches; empty where it is none."""
    if not file.exists():
        return []
    told = (pq.read_schema(file).metadata or {}).get(_HELD)
    return [] if told is None else msgspec.json.decode(told, type=Held)


def _write(rows: pa.Table, held: Held, file: Path) -> None:
    metadata = {**(rows.schema.metadata or {}), _HELD: msgspec.json.encode(held)}
    pq.write_table(rows.replace_schema_metadata(metadata), file, compression="zstd")
