"""By message: its cast compared with its deliveries. One shuffle, and sums that need no order. Then by pattern.

What has to be the same in all rows of a message (caster, service, group; the view it is delivered in) is compared by
its least and its greatest value. Marks, which are about no message, go along.
"""

from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from reconvene.pipeline.verify.found import spread
from reconvene.pipeline.verify.vs.lives import CAST, DELIVER, Shape, heard
from reconvene.verify.codes import SERVICES
from reconvene.verify.vs.patterns import SUMS, WORD
from reconvene.verify.vs.times import STAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["PATTERN", "compare_messages", "describe_messages", "group_messages", "sets_of"]

_FIFO = SERVICES["fifo"]
_MARK = ("process", "place", "kind", "is_last", "spoke", "length", *(f"ts_{part}" for part in range(STAMP)))

_COUNTED = ("outside", "backwards", "disordered")
_LONG = T.LongType()

PATTERN = T.StructType([
    T.StructField("stamp", _LONG, True),
    T.StructField("caster", _LONG, True),
    T.StructField("group", _LONG, True),
    T.StructField("view", _LONG, True),
    T.StructField("home", _LONG, True),
    T.StructField("service", T.ByteType(), True),
    T.StructField("by", T.ArrayType(_LONG), True),
    T.StructField("messages", _LONG, False),
    T.StructField("first", _LONG, True),
    T.StructField("least", _LONG, True),
    T.StructField("greatest", _LONG, True),
    *(T.StructField(name, _LONG, True) for name in SUMS),
    *(
        T.StructField(f"mark_{name}", T.BooleanType() if name == "is_last" else _LONG, True) for name in _MARK
    ),
])  # fmt: skip
"""stamp: null; or, of a row that stands for a timestamp of several messages, its hash. view: the one of the cast.
home: the one that the messages are of. by: which members delivered them; a set of seats, in words of WORD bits.
messages: how many. first: the least number that one has at its caster. least, greatest: by how much the numbers that
messages have at their caster are above those that they have where they are delivered. A row with a mark_process is a
mark, and no message."""


def words(seats: int) -> int:
    return -(-seats // WORD)


def sets_of(name: str, seats: int) -> list[str]:
    """The columns that hold a set of seats."""
    return [f"{name}_{word}" for word in range(words(seats))]


def compare_messages(rows: "DataFrame", shape: Shape) -> "DataFrame":
    """One row a message, and one a mark."""
    cast, deliver = (F.col("kind") == CAST) & ~F.col("mark"), (F.col("kind") == DELIVER) & ~F.col("mark")
    mine = F.col("process") == F.col("caster")
    hashed = F.when(deliver & F.col("ts").isNotNull(), F.xxhash64("ts"))
    marked = {f"mark_{name}": F.when(F.col("mark"), F.col(name)) for name in ("process", "place")}
    rows = rows.withColumns(marked)
    numbers = {f"ts_{part}": F.get("ts", F.lit(part)) for part in range(STAMP)}
    carried = {"kind": F.col("kind"), "is_last": F.col("is_last"), "spoke": F.col("spoke"), **numbers}
    return (
        spread(rows, "rid", "msg")
        .groupBy("rid", "msg", *marked)
        .agg(
            F.count(F.when(cast, 1)).alias("casts"),
            F.count(F.when(deliver, 1)).alias("deliveries"),
            F.count(F.when(deliver & ~mine, 1)).alias("elsewhere"),
            *_least_and_greatest("caster", "service", "group"),
            F.max(F.when(cast, F.col("view"))).alias("view"),
            F.min(F.when(deliver, F.col("view"))).alias("least_home"),
            F.max(F.when(deliver, F.col("view"))).alias("greatest_home"),
            F.min(F.when(cast, F.col("number"))).alias("number"),
            F.min(F.when(deliver, F.col("number"))).alias("least_number"),
            F.max(F.when(deliver, F.col("number"))).alias("greatest_number"),
            F.count(F.when(deliver & F.col("number").isNull(), 1)).alias("unnumbered"),
            F.max(F.when(deliver, F.col("seat"))).alias("seat"),
            F.max(F.when(cast, F.col("place"))).alias("cast_at"),
            F.min(F.when(deliver & mine, F.col("place"))).alias("own_at"),
            F.min(F.when(deliver & ~F.col("far"), F.col("place"))).alias("near_at"),
            F.max(F.when(cast, F.col("t"))).alias("cast_t"),
            F.min(F.when(deliver & ~F.col("far"), F.col("t"))).alias("near_t"),
            F.min(F.when(deliver & F.col("far"), F.col("t"))).alias("far_t"),
            *(F.max(F.when(cast, F.col(heard(seat)))).alias(f"asked_{seat}") for seat in range(shape.seats)),
            *(F.min(F.when(deliver, F.col(heard(seat)))).alias(heard(seat)) for seat in range(shape.seats)),
            *(
                F.coalesce(F.bit_or(F.when(deliver, _bit(word))), F.lit(0).cast("long")).alias(name)
                for word, name in enumerate(sets_of("by", shape.seats))
            ),
            F.count(F.when(deliver & F.col("ordered") & F.col("ts").isNull(), 1)).alias("unstamped"),
            F.count(hashed).alias("stamped"),
            F.min(hashed).alias("least_ts"),
            F.max(hashed).alias("greatest_ts"),
            *(F.sum(F.when(~F.col("mark") | ~_is_message(), F.col(name))).alias(name) for name in _COUNTED),
            F.max(F.size("ts")).alias("length"),
            *(F.max(F.when(F.col("mark"), column)).alias(f"mark_{name}") for name, column in carried.items()),
        )
    )  # fmt: skip


def _is_message() -> "Column":
    return F.col("kind").isin(CAST, DELIVER)


def _least_and_greatest(*names: str) -> "list[Column]":
    return [
        of(F.when(~F.col("mark"), F.col(name))).alias(f"{how}_{name}")
        for name in names
        for how, of in (("least", F.min), ("greatest", F.max))
    ]


def _bit(word: int) -> "Column":
    own = F.col("own")
    here = (own >= word * WORD) & (own < (word + 1) * WORD)
    return F.when(here, F.expr(f"shiftleft(1L, cast(own as int) - {word * WORD})")).otherwise(F.lit(0).cast("long"))


def describe_messages(messages: "DataFrame", shape: Shape) -> "DataFrame":
    """With caster, group, service, home and SUMS of each message."""
    casts, deliveries, stamped = (F.col(name) for name in ("casts", "deliveries", "stamped"))
    same = {
        name: F.col(f"least_{name}") == F.col(f"greatest_{name}")
        for name in ("caster", "service", "group", "home", "number")
    }
    delivered = deliveries > 0
    by = reduce(add, (F.bit_count(F.col(name)) for name in sets_of("by", shape.seats)))
    unheard = reduce(or_, (F.col(heard(seat)) < F.col(f"asked_{seat}") for seat in range(shape.seats)))
    blurred = ~(same["caster"] & same["service"] & same["group"])
    early = F.coalesce(F.col("own_at") < F.col("cast_at"), F.lit(False))
    uncausal = ~same["number"] | (F.col("unnumbered") > 0) | ((F.col("view") == F.col("least_home")) & unheard)
    tardy = F.coalesce(F.col("far_t") <= F.col("cast_t"), F.lit(False)) | F.coalesce(
        (F.col("near_t") < F.col("cast_t")) | (F.col("near_at") <= F.col("cast_at")), F.lit(False)
    )
    counts = {
        "strange": F.when(delivered & ((casts == 0) | blurred | early), deliveries),
        "blurred": blurred,
        "early": early,
        "resent": casts > 1,
        "again": deliveries > by,
        "spread": delivered & ~same["home"],
        "uncausal": F.when(delivered & uncausal, deliveries),
        "tardy": tardy,
        "crossing": (F.col("least_service") == _FIFO) & (F.col("elsewhere") > 0),
        "unlike": F.col("least_ts") != F.col("greatest_ts"),
        "long": F.col("length") > STAMP,
    }
    return messages.withColumns({
        "caster": F.col("least_caster"),
        "group": F.col("least_group"),
        "service": F.col("least_service"),
        "home": F.coalesce("least_home", "view"),
        "ahead": F.when(delivered, F.col("number") - F.col("least_number")),
        "hashed": F.when(stamped > 0, F.col("least_ts")),
        **{name: F.coalesce(count.cast("long"), F.lit(0)) for name, count in counts.items()},
    })  # fmt: skip


def group_messages(messages: "DataFrame", shape: Shape) -> "DataFrame":
    """rid, and the columns of PATTERN. Given: what `describe_messages` returns."""
    sets = sets_of("by", shape.seats)
    marks = [f"mark_{name}" for name in _MARK if name != "length"]
    keys = ["caster", "group", "view", "home", "service", *sets, *marks]
    nothing = F.lit(None).cast("long")
    # A message with a timestamp makes two rows: what it is like, and what its timestamp is.
    stamps = F.when(F.col("stamped") > 0, F.array(nothing, F.col("hashed"))).otherwise(F.array(nothing))
    alike = F.col("stamp").isNull()
    counted = (*SUMS, "number", "ahead", "length")
    return (
        messages.select("*", F.explode(stamps).alias("stamp"))
        .select("rid", "stamp", *(F.when(alike, F.col(name)).alias(name) for name in (*keys, *counted)))
        .groupBy("rid", "stamp", *keys)
        .agg(
            F.count(F.lit(1)).alias("messages"),
            F.min("number").alias("first"),
            F.min("ahead").alias("least"),
            F.max("ahead").alias("greatest"),
            F.max("length").alias("mark_length"),
            *(F.sum(name).alias(name) for name in SUMS),
        )
        .where(F.col("stamp").isNull() | (F.col("messages") > 1))
        .withColumn("by", F.array(*sets))
        .select("rid", *(F.col(field.name).cast(field.dataType).alias(field.name) for field in PATTERN))
    )
