"""Payloads into columns: JSON or msgpack, by a schema that the user gave.

A payload that is not what the schema says is *bad*: all its columns are null, and the payload stays as it was; or, in
mode failFast, the read ends with one line that names it. A field that is missing is null; one that the schema does
not name is left out.
"""

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import msgspec
import pyarrow as pa
from msgspec import Meta
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from reconvene.errors import Malformed
from reconvene.pipeline.source.options import Decoding

__all__ = ["Decoder", "check_fields"]

_SIMPLE: dict[type[DataType], Any] = {
    StringType: str,
    BooleanType: bool,
    FloatType: float,
    DoubleType: float,
    DecimalType: decimal.Decimal,
    BinaryType: bytes,
    DateType: datetime.date,
    TimestampType: datetime.datetime,
    TimestampNTZType: datetime.datetime,
}
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_BAD = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
_NOT_ARROW = (pa.ArrowException, ValueError, TypeError, OverflowError)


class Decoder:
    def __init__(self, decoding: Decoding, fields: Sequence[StructField]) -> None:
        """`fields`: what `decoding.schema` says, as Spark has read it. Raises Malformed where there is a type that no
        payload can hold."""
        self._fail_fast = decoding.fail_fast
        self._into = decoding.into
        self._names = [field.name for field in fields]
        struct = StructType(list(fields))
        self._type = to_arrow_type(struct, timezone="UTC")
        form = _form(struct, "")
        decoder = msgspec.json.Decoder(form) if decoding.format == "json" else msgspec.msgpack.Decoder(form)
        self._format = decoding.format
        self._decode: Callable[[bytes], Any] = decoder.decode

    def columns(self, payloads: Sequence[bytes], ids: pa.Array) -> dict[str, pa.Array]:
        """By name. `ids` name the messages: an error about a bad one shows its id."""
        found = [self._decoded(payload, ids, at) for at, payload in enumerate(payloads)]
        try:
            column = pa.array(found, self._type)
        except _NOT_ARROW:
            column = pa.array([self._fitting(one, ids, at) for at, one in enumerate(found)], self._type)
        if self._into is not None:
            return {self._into: column}
        return dict(zip(self._names, column.flatten(), strict=True))

    def _decoded(self, payload: bytes, ids: pa.Array, at: int) -> Any:
        try:
            return self._decode(payload)
        except _BAD as error:
            return self._bad(ids, at, error)

    def _fitting(self, found: Any, ids: pa.Array, at: int) -> Any:
        """What its column can hold: a decimal of too many digits, a date before the first."""
        try:
            pa.array([found], self._type)
        except _NOT_ARROW as error:
            return self._bad(ids, at, error)
        return found

    def _bad(self, ids: pa.Array, at: int, error: Exception) -> None:
        if self._fail_fast:
            why = str(error).partition("\n")[0]
            raise Malformed(f"message {ids[at]}: its payload is not the {self._format} that the schema says: {why}")


def check_fields(fields: Sequence[StructField], taken: Sequence[str]) -> None:
    """Raises Malformed where they can't be columns beside those that are `taken`."""
    names = [field.name for field in fields]
    for field in fields:
        if field.name in taken:
            raise Malformed(
                f"schema: {field.name} is a column of the log itself; set `into` to the name of one column for all "
                "that is decoded"
            )
        if names.count(field.name) > 1:
            raise Malformed(f"schema: {field.name} is named twice")
        if not field.nullable:
            raise Malformed(f"schema: {field.name} can't be NOT NULL: a payload may lack it")
        _form(field.dataType, field.name)


def _form(spark: DataType, path: str) -> Any:
    """What msgspec is to decode."""
    kind = type(spark)
    if kind in _BITS:
        most = 1 << (_BITS[kind] - 1)
        return Annotated[int, Meta(ge=-most, le=most - 1)]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(spark, ArrayType):
        return list[_form(spark.elementType, f"{path}[]") | None]  # type: ignore[misc]
    if isinstance(spark, MapType) and isinstance(spark.keyType, StringType):
        return dict[str, _form(spark.valueType, f"{path}{{}}") | None]  # type: ignore[misc]
    if isinstance(spark, StructType):
        fields = {field.name: _form(field.dataType, f"{path}.{field.name}") | None for field in spark.fields}
        return TypedDict("_Fields", fields, total=False)  # type: ignore[operator]
    raise Malformed(f"schema: {path} {spark.simpleString()}: can't be decoded from a payload")
