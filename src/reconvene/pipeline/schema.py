"""The tables that traces are read into, whatever form they come in. docs/traces.md says what the columns mean."""

import pyarrow as pa
from pyspark.sql import types as T

__all__ = ["ARROW_EVENTS", "ARROW_FIELDS", "ARROW_RUNS", "EVENTS", "FIELDS", "RUNS", "RUN_FIELDS"]

_STRING, _LONG = T.StringType(), T.LongType()
_STRINGS, _LONGS = T.ArrayType(T.StringType()), T.ArrayType(T.LongType())

FIELDS = T.StructType([
    T.StructField("node", _STRING),
    T.StructField("inc", _LONG),
    T.StructField("n", _LONG),
    T.StructField("t", _LONG),
    T.StructField("layer", _STRING),
    T.StructField("kind", _STRING),
    T.StructField("conf", _STRING),
    T.StructField("conf_kind", _STRING),
    T.StructField("members", _STRINGS),
    T.StructField("reg", _STRING),
    T.StructField("msg", _STRING),
    T.StructField("sender", _STRING),
    T.StructField("service", _STRING),
    T.StructField("ts", _LONGS),
    T.StructField("pos", _LONG),
    T.StructField("primary", _LONG),
    T.StructField("group", _STRING),
    T.StructField("view", _LONG),
    T.StructField("process", _STRING),
    T.StructField("label", _STRING),
    T.StructField("dests", _STRINGS),
    T.StructField("attempt", _LONG),
    T.StructField("replies", _LONG),
    T.StructField("scope", _STRING),
])  # fmt: skip
"""An event's fields, in the order of `reconvene.trace.events.Row`. Null: the event does not have it."""

EVENTS = T.StructType([T.StructField("run", _STRING), T.StructField("place", _LONG), *FIELDS])
"""The table `events`. `place` grows strictly along a node's events, in the order in which they happened."""

RUN_FIELDS = T.StructType([
    T.StructField("schema", _LONG),
    T.StructField("run", _STRING),
    T.StructField("nodes", _STRINGS),
    T.StructField("stack", _STRING),
    T.StructField("order", _STRING),
    T.StructField("seed", _LONG),
    T.StructField("settled", T.BooleanType()),
    T.StructField("components", T.ArrayType(_STRINGS)),
    T.StructField("down", _STRINGS),
    T.StructField("quorum", _STRING),
    T.StructField("followers", _STRINGS),
    T.StructField("outposts", _STRINGS),
])  # fmt: skip
RUNS = RUN_FIELDS
"""The table `runs`, one row each: run.json, with `quorum` as the text of a JSON object."""


def _arrow(schema: T.StructType) -> pa.Schema:
    return pa.schema([(field.name, _arrow_type(field.dataType)) for field in schema.fields])


def _arrow_type(kind: T.DataType) -> pa.DataType:
    match kind:
        case T.ArrayType():
            return pa.list_(_arrow_type(kind.elementType))
        case T.LongType():
            return pa.int64()
        case T.BooleanType():
            return pa.bool_()
        case _:
            return pa.string()


ARROW_FIELDS = _arrow(FIELDS)
ARROW_EVENTS = _arrow(EVENTS)
ARROW_RUNS = _arrow(RUNS)
