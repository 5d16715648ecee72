"""What can be carried along rows, and how: in a task, batch by batch, with numpy.

Each way to carry is a sum of what rows add, in their order, whatever the parts in which they come: so a long file can
be gone through in pieces, each from the sum of those before it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

__all__ = ["Fold", "Greatest", "How", "Last", "Total", "folds_of"]

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_LEAST = -(2**63)


@dataclass(frozen=True)
class Last:
    """The last value that is not null; with `before`, that of the rows before."""

    value: str
    before: bool = False

    def used(self) -> list[str]:
        return [self.value]

    def made(self, of: str, schema: T.StructType) -> list[tuple[str, T.DataType]]:
        return [(of, _nullable(schema[self.value].dataType))]


@dataclass(frozen=True)
class Greatest:
    """The greatest value, an integer that may be null; with `before`, that of the rows before."""

    value: str
    before: bool = False

    def used(self) -> list[str]:
        return [self.value]

    def made(self, of: str, schema: T.StructType) -> list[tuple[str, T.DataType]]:
        return [(of, T.LongType())]


@dataclass(frozen=True)
class Total:
    """The sum of an integer that is never null, this row's too. by: a column with the index of the sum that it is
    added to, of `size` sums; with another number in it, to none. since: a column that says of each row whether the
    sums begin anew after it."""

    value: str
    by: str | None = None
    size: int = 1
    since: str | None = None

    def used(self) -> list[str]:
        return [name for name in (self.value, self.by, self.since) if name is not None]

    def made(self, of: str, schema: T.StructType) -> list[tuple[str, T.DataType]]:
        names = [of] if self.by is None else [f"{of}_{index}" for index in range(self.size)]
        return [(name, T.LongType()) for name in names]


How = Last | Greatest | Total


class Fold(ABC):
    """One way to carry, in one piece. `names`: the columns that it makes."""

    names: list[str]
    resets = False
    was_reset = False
    """Did the sums begin anew in this piece?"""

    @abstractmethod
    def begin(self, carried: pa.StructArray | None) -> "Fold":
        """For a piece into which this is carried, one struct with the columns; None: nothing is."""

    @abstractmethod
    def sum(self, rows: pa.RecordBatch) -> None:
        """Adds the rows."""

    @abstractmethod
    def follow(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Adds the rows, and returns what is carried to each."""

    @abstractmethod
    def state(self) -> list[pa.Array]:
        """What the rows so far have added up to, each as one value."""


def folds_of(carried: Mapping[str, How], schema: T.StructType) -> list[Fold]:
    found: list[Fold] = []
    for of, how in carried.items():
        names = [name for name, _ in how.made(of, schema)]
        match how:
            case Last():
                found.append(_Last(how, names))
            case Greatest():
                found.append(_Greatest(how, names))
            case Total():
                found.append(_Total(how, names))
    return found


class _Last(Fold):
    def __init__(self, how: Last, names: list[str], held: pa.Array | None = None) -> None:
        self.how, self.names = how, names
        self._held = held
        """One value, or None where no row has been seen."""

    def begin(self, carried: pa.StructArray | None) -> "_Last":
        return _Last(self.how, self.names, None if carried is None else _plain(carried.field(self.names[0])))

    def sum(self, rows: pa.RecordBatch) -> None:
        column = _plain(rows[self.how.value])
        there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        self._hold(column, int(there[-1]) if len(there) else 0, bool(len(there)))

    def follow(self, rows: pa.RecordBatch) -> list[pa.Array]:
        column = _plain(rows[self.how.value])
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        # 0 stands for what was held before these rows.
        at = np.maximum.accumulate(np.where(valid, np.arange(1, len(valid) + 1), 0))
        held = pa.nulls(1, column.type) if self._held is None else self._held
        shown = np.concatenate(([0], at[:-1])) if self.how.before else at
        made = pa.concat_arrays([held, column]).take(pa.array(shown))
        self._hold(column, int(at[-1]) - 1, bool(at[-1]))
        return [made]

    def _hold(self, column: pa.Array, at: int, there: bool) -> None:
        if there:
            self._held = column.take(pa.array([at]))
        elif self._held is None:
            self._held = pa.nulls(1, column.type)

    def state(self) -> list[pa.Array]:
        assert self._held is not None, "a piece has rows"
        return [self._held]


class _Greatest(Fold):
    def __init__(self, how: Greatest, names: list[str], held: int = _LEAST) -> None:
        self.how, self.names = how, names
        self._held = held

    def begin(self, carried: pa.StructArray | None) -> "_Greatest":
        held = None if carried is None else carried.field(self.names[0])[0].as_py()
        return _Greatest(self.how, self.names, _LEAST if held is None else held)

    def sum(self, rows: pa.RecordBatch) -> None:
        self._held = max(self._held, int(_integers(rows[self.how.value], _LEAST).max()))

    def follow(self, rows: pa.RecordBatch) -> list[pa.Array]:
        values = np.maximum.accumulate(np.concatenate(([self._held], _integers(rows[self.how.value], _LEAST))))
        self._held = int(values[-1])
        return [_or_null(values[:-1] if self.how.before else values[1:])]

    def state(self) -> list[pa.Array]:
        return [_or_null(np.array([self._held]))]


class _Total(Fold):
    def __init__(self, how: Total, names: list[str], held: Sequence[int] | None = None) -> None:
        self.how, self.names = how, names
        self.resets = how.since is not None
        self._held = np.zeros(len(names), np.int64) if held is None else np.array(held, np.int64)

    def begin(self, carried: pa.StructArray | None) -> "_Total":
        if carried is None:
            return _Total(self.how, self.names)
        return _Total(self.how, self.names, [carried.field(name)[0].as_py() for name in self.names])

    def sum(self, rows: pa.RecordBatch) -> None:
        if self.how.since is not None:
            anew = np.flatnonzero(rows[self.how.since].to_numpy(zero_copy_only=False))
            if len(anew):
                self.was_reset = True
                self._held[:] = 0
                rows = rows.slice(int(anew[-1]) + 1)
        self._held += self._added(rows).sum(axis=0)

    def follow(self, rows: pa.RecordBatch) -> list[pa.Array]:
        sums = self._added(rows).cumsum(axis=0)
        if self.how.since is None:
            sums += self._held
        else:
            anew = rows[self.how.since].to_numpy(zero_copy_only=False)
            at = np.maximum.accumulate(np.where(anew, np.arange(1, len(anew) + 1), 0))
            sums -= np.concatenate((-self._held[np.newaxis], sums))[at]
        self._held = sums[-1].copy()
        return [pa.array(sums[:, index]) for index in range(len(self.names))]

    def _added(self, rows: pa.RecordBatch) -> Numbers:
        """Of each row, what it adds to each sum."""
        values = _integers(rows[self.how.value], 0)
        if self.how.by is None:
            return values[:, np.newaxis]
        index = _integers(rows[self.how.by], -1)
        return np.where(index[:, np.newaxis] == np.arange(self.how.size), values[:, np.newaxis], 0)

    def state(self) -> list[pa.Array]:
        return [pa.array([int(held)]) for held in self._held]


def _nullable(kind: T.DataType) -> T.DataType:
    """The same, with fields that may be null: those of a struct that is not there are."""
    if not isinstance(kind, T.StructType):
        return kind
    return T.StructType([T.StructField(field.name, _nullable(field.dataType)) for field in kind])


def _plain(column: pa.Array) -> pa.Array:
    """The same, with fields that may be null."""
    if not pa.types.is_struct(column.type):
        return column
    children = [_plain(column.field(at)) for at in range(column.type.num_fields)]
    fields = [pa.field(of.name, child.type) for of, child in zip(column.type, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())


def _integers(column: pa.Array, instead: int) -> Numbers:
    """A column as 64-bit integers, with that in the place of nulls."""
    wide = column.cast(pa.int64())
    found: Numbers = (pc.fill_null(wide, instead) if wide.null_count else wide).to_numpy(zero_copy_only=False)
    return found


def _or_null(values: Numbers) -> pa.Array:
    return pa.array(values, mask=values == _LEAST)
