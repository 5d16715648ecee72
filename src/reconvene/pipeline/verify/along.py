"""What the rows before a row show of it, along files of any length, in as many tasks as there are pieces of them.

Given: rows of which those with one `split` lie together in one task, in the order of their places, with no other row
of their key between them (`Traces.ordered`). Promised: each row with what is carried to it from the rows before it
that have the same key, such as those of its node.

A *piece* is a part of a key's rows in one split. Two passes, neither of which shuffles or sorts the rows:

1. Each piece is summed up: one row a piece. What is carried into a piece is the sum of those before it: a window over
   pieces, which are few.
2. Each piece is gone through, from what is carried into it, which comes with its first row.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.window import Window

from reconvene.errors import Unavailable
from reconvene.pipeline.verify.carrying import Fold, Greatest, How, Last, Total, folds_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Along", "Greatest", "Last", "Total"]

PIECE_ROWS = 1 << 20
"""A piece of more rows is divided. Tests make it tiny."""
_MANY = 32
"""Changes of the key in a batch from which on its rows are sorted by key first."""

_FIRST, _LAST, _CARRY = "first_place", "last_place", "carried_in"

_Batches = Iterable[pa.RecordBatch]
_Task = Callable[[_Batches], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Along:
    """What is to be carried along rows. `keys`: integers, never null."""

    keys: Sequence[str]
    carried: Mapping[str, How]
    """By the column that is made."""
    final: str | None = None
    """The column to be made with the place of the key's last row."""

    def follow(self, rows: "DataFrame", keep: Sequence[str]) -> "DataFrame":
        """The columns `keep` of the rows, and what is carried. Given besides: `place`, `split`, and the columns that
        are carried."""
        into = self._carried_into(rows)
        names = {key: f"of_{key}" for key in self.keys}
        carried = F.struct(*(name for name in into.columns if name not in self.keys)).alias(_CARRY)
        coming = into.select(*(F.col(key).alias(name) for key, name in names.items()), _FIRST, carried)
        begins = [F.col(key) == F.col(name) for key, name in names.items()] + [F.col("place") == F.col(_FIRST)]
        used = dict.fromkeys((*self.keys, "place", *keep, *self._used()))
        joined = rows.select(*used).join(F.broadcast(coming), begins, "left").select(*used, _CARRY)
        schema = T.StructType([*(rows.schema[name] for name in keep), *self._made(rows.schema)])
        if self.final is not None:
            schema.add(self.final, T.LongType())
        folds = folds_of(self.carried, rows.schema)
        return joined.mapInArrow(_following(self.keys, folds, keep, to_arrow_schema(schema), self.final), schema)

    def _used(self) -> list[str]:
        return [name for how in self.carried.values() for name in how.used()]

    def _made(self, schema: T.StructType) -> list[T.StructField]:
        return [T.StructField(name, kind) for of, how in self.carried.items() for name, kind in how.made(of, schema)]

    def _carried_into(self, rows: "DataFrame") -> "DataFrame":
        """One row a piece: its key, the place of its first row, and what is carried into it."""
        reset = {of: f"reset_{of}" for of, how in self.carried.items() if isinstance(how, Total) and how.since}
        schema = T.StructType([
            *(rows.schema[key] for key in self.keys),
            *(T.StructField(name, T.LongType()) for name in (_FIRST, _LAST)),
            *self._made(rows.schema),
            *(T.StructField(name, T.BooleanType()) for name in reset.values()),
        ])  # fmt: skip
        used = dict.fromkeys((*self.keys, "place", "split", *self._used()))
        task = _summing(self.keys, folds_of(self.carried, rows.schema), to_arrow_schema(schema), PIECE_ROWS)
        # By a plan of its own: as a part of another one it would be made anew there.
        pieces = rows.select(*used).mapInArrow(task, schema).localCheckpoint()
        all_ = Window.partitionBy(*self.keys)
        before = all_.orderBy(_FIRST).rowsBetween(Window.unboundedPreceding, -1)
        so_far = all_.orderBy(_FIRST).rowsBetween(Window.unboundedPreceding, Window.currentRow)
        into: dict[str, Column] = {}
        bases: dict[str, Column] = {}
        for of, how in self.carried.items():
            for name, _ in how.made(of, rows.schema):
                match how:
                    case Last():
                        into[name] = F.last(name, ignorenulls=True).over(before)
                    case Greatest():
                        into[name] = F.max(name).over(before)
                    case Total():
                        into[name] = F.coalesce(F.sum(name).over(before), F.lit(0))
                        if of in reset:
                            # The sum of all pieces before the last one in which the sums begin anew.
                            bases[f"base_{name}"] = F.when(F.col(reset[of]), F.sum(name).over(so_far) - F.col(name))
                            base = F.last(f"base_{name}", ignorenulls=True).over(before)
                            into[name] -= F.coalesce(base, F.lit(0))
        if self.final is not None:
            into[self.final] = F.max(_LAST).over(all_)
        with_bases = pieces.withColumns(bases) if bases else pieces
        return with_bases.select(*self.keys, _FIRST, *(column.alias(name) for name, column in into.items()))


# -- in a task ----------------------------------------------------------------------------------------------------


def _summing(keys: Sequence[str], folds: Sequence[Fold], schema: pa.Schema, most: int) -> _Task:
    """One row a piece."""

    def of_batches(batches: _Batches) -> Iterator[pa.RecordBatch]:
        pieces: dict[tuple[int, ...], _Piece] = {}
        for batch in batches:
            for key, rows in _by_key(batch, keys):
                for part in _by_split(rows, most):
                    split: int = part["split"][0].as_py()
                    piece = pieces.get(key)
                    if piece is None or piece.split != split or piece.rows >= most:
                        if piece is not None:
                            yield piece.row(key, schema)
                        piece = pieces[key] = _Piece([fold.begin(None) for fold in folds], split, _place(part, 0))
                    piece.add(part)
        for key, piece in pieces.items():
            yield piece.row(key, schema)

    return of_batches


@dataclass
class _Piece:
    folds: list[Fold]
    split: int
    first: int
    last: int = 0
    rows: int = 0

    def add(self, rows: pa.RecordBatch) -> None:
        for fold in self.folds:
            fold.sum(rows)
        self.last = _place(rows, len(rows) - 1)
        self.rows += len(rows)

    def row(self, key: tuple[int, ...], schema: pa.Schema) -> pa.RecordBatch:
        arrays = [pa.array([number]) for number in (*key, self.first, self.last)]
        arrays += [held for fold in self.folds for held in fold.state()]
        arrays += [pa.array([fold.was_reset]) for fold in self.folds if fold.resets]
        return _batch(arrays, schema)


def _following(
    keys: Sequence[str], folds: Sequence[Fold], keep: Sequence[str], schema: pa.Schema, final: str | None
) -> _Task:
    """Each row with what is carried to it."""

    def of_batches(batches: _Batches) -> Iterator[pa.RecordBatch]:
        pieces: dict[tuple[int, ...], tuple[list[Fold], int | None]] = {}
        for batch in batches:
            for key, rows in _by_key(batch, keys):
                for part in _by_beginning(rows):
                    carried = part[_CARRY].slice(0, 1)
                    if carried.null_count == 0:
                        last = None if final is None else carried.field(final)[0].as_py()
                        pieces[key] = [fold.begin(carried) for fold in folds], last
                    if key not in pieces:
                        raise Unavailable("the traces were changed while they were verified; verify them again")
                    going, last = pieces[key]
                    made = [column for fold in going for column in fold.follow(part)]
                    if final is not None:
                        made.append(pa.repeat(pa.scalar(last, pa.int64()), len(part)))
                    yield _batch([*(part[name] for name in keep), *made], schema)

    return of_batches


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    typed = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(typed, schema=schema)


def _place(rows: pa.RecordBatch, at: int) -> int:
    place: int = rows["place"][at].as_py()
    return place


def _by_key(batch: pa.RecordBatch, keys: Sequence[str]) -> Iterator[tuple[tuple[int, ...], pa.RecordBatch]]:
    """The rows of each key, in their order; perhaps in several parts."""
    columns = [batch[key].to_numpy(zero_copy_only=False) for key in keys]
    begins = _begins(columns)
    if len(begins) > _MANY:
        order = np.lexsort(columns[::-1])  # a stable sort: the rows of a key stay in their order
        batch, columns = batch.take(pa.array(order)), [column[order] for column in columns]
        begins = _begins(columns)
    for part, begin in zip(_cut(batch, begins), begins, strict=True):
        yield tuple(int(column[begin]) for column in columns), part


def _by_split(rows: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """Parts of at most so many rows, each of one split."""
    for part in _cut(rows, _begins([rows["split"].to_numpy(zero_copy_only=False)])):
        yield from _cut(part, range(0, len(part), most))


def _by_beginning(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts in which nothing but the first row may begin a piece."""
    begins = np.flatnonzero(rows[_CARRY].is_valid().to_numpy(zero_copy_only=False))
    return _cut(rows, [0, *(int(at) for at in begins if at)])


def _begins(columns: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]) -> list[int]:
    """Where these columns are not as in the row before."""
    if not len(columns[0]):
        return []
    changed = np.zeros(len(columns[0]), np.bool_)
    changed[0] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return [int(at) for at in np.flatnonzero(changed)]


def _cut(rows: pa.RecordBatch, begins: Sequence[int]) -> Iterator[pa.RecordBatch]:
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        yield rows.slice(begin, end - begin)
