"""Messages that fared alike, as one row: sent by the same node, in the same configuration, with the same service,
and delivered by the same nodes, in the regular configuration or after it. These are few, however many messages
there are.

A node is in one transitional configuration after a regular one at most, so which one need not be said here.
"""

from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from reconvene.pipeline.verify.evs.files import heard
from reconvene.pipeline.verify.evs.messages import STAMP, sets_of
from reconvene.verify.codes import SERVICES
from reconvene.verify.evs.patterns import SUMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["PATTERN", "describe_messages", "group_messages", "lead"]

_FIFO, _AGREED = SERVICES["fifo"], SERVICES["agreed"]

PATTERN = T.StructType([
    T.StructField("stamp", T.LongType(), True),
    T.StructField("root", T.LongType(), True),
    T.StructField("origin", T.LongType(), True),
    T.StructField("regular", T.ArrayType(T.LongType()), True),
    T.StructField("late", T.ArrayType(T.LongType()), True),
    T.StructField("messages", T.LongType(), False),
    T.StructField("sums", T.ArrayType(T.LongType()), True),
    T.StructField("first", T.ArrayType(T.LongType()), True),
    T.StructField("last", T.ArrayType(T.LongType()), True),
    T.StructField("leads", T.ArrayType(T.LongType()), True),
])  # fmt: skip
"""stamp: null; or, of a row that stands for a timestamp of several messages, its hash. root: the regular
configuration. origin: the sender's code times four, plus the service. regular, late: which nodes delivered the
messages in the root, and which in the transitional configuration after it; sets of nodes, in words of WORD bits.
messages: how many. sums: SUMS. first, last: their lowest and highest timestamp. leads: of each node, by how much its
clock, at a delivery in the root, was ahead of the sender's clock at the sending, at least; null for the sender and
nodes that delivered none there."""


def group_messages(messages: "DataFrame", nodes: int) -> "DataFrame":
    """rid, and the columns of PATTERN."""
    sets = {name: sets_of(name, nodes) for name in ("regular", "late")}
    keys = ["root", "origin", *sets["regular"], *sets["late"]]
    leads = [lead(node) for node in range(nodes)]
    arrays = {**sets, "sums": SUMS, "leads": leads}
    nothing = F.lit(None).cast("long")
    # A message with a timestamp makes two rows: what it is like, and what its timestamp is.
    stamps = F.when(F.col("stamped") > 0, F.array(nothing, F.col("hashed"))).otherwise(F.array(nothing))
    rows = describe_messages(messages, nodes).select("*", F.explode(stamps).alias("stamp"))
    alike = F.col("stamp").isNull()
    columns = [*keys, *SUMS, "ts", *leads]
    return (
        rows.select("rid", "stamp", *(F.when(alike, F.col(name)).alias(name) for name in columns))
        .groupBy("rid", "stamp", *keys)
        .agg(
            F.count(F.lit(1)).alias("messages"),
            *(F.sum(name).alias(name) for name in SUMS),
            F.min("ts").alias("first"),
            F.max("ts").alias("last"),
            *(F.min(name).alias(name) for name in leads),
        )
        .where(F.col("stamp").isNull() | (F.col("messages") > 1))
        .select("rid", *(F.array(*arrays[name]).alias(name) if name in arrays else name for name in PATTERN.names))
    )


def lead(node: int) -> str:
    """The column of this node's lead."""
    return f"lead_{node}"


def describe_messages(messages: "DataFrame", nodes: int) -> "DataFrame":
    """With root, origin, SUMS of each message, its timestamp `ts`, the hash of that, and its leads."""
    sends, deliveries, stamped, unstamped = (F.col(name) for name in ("sends", "deliveries", "stamped", "unstamped"))
    same = {name: F.col(f"least_{name}") == F.col(f"greatest_{name}") for name in ("origin", "root", "index")}
    delivered, service = deliveries > 0, F.col("least_origin").bitwiseAND(F.lit(3))
    both = zip(sets_of("regular", nodes), sets_of("late", nodes), strict=True)
    by = reduce(add, (F.bit_count(F.col(regular).bitwiseOR(F.col(late))) for regular, late in both))
    unheard = reduce(or_, (F.col(heard(node)) < F.col(f"asked_{node}") for node in range(nodes)))
    blurred, early = ~(same["origin"] & same["root"]), F.coalesce(F.col("own_at") < F.col("sent_at"), F.lit(False))
    numbers = F.array(*(f"ts_{part}" for part in range(STAMP)))
    counts = {
        "sent": sends > 0,
        "caused": F.when(sends > 0, deliveries),
        "several": (service >= _AGREED) & (deliveries > 1),
        "marked": (sends > 0) & (stamped > 0),
        "stamping": (stamped > 0).cast("int") + (unstamped > 0).cast("int"),
        "strange": F.when(delivered & ((sends == 0) | blurred | early), deliveries),
        "blurred": blurred,
        "early": early,
        "resent": sends > 1,
        "again": deliveries > by,
        "uncausal": F.when(delivered & (~same["index"] | unheard), deliveries),
        "crossing": (service == _FIFO) & (F.col("elsewhere") > 0),
        "unlike": F.col("least_ts") != F.col("greatest_ts"),
        "long": F.col("length") > STAMP,
    }
    return messages.withColumns({
        "root": F.col("least_root"),
        "origin": F.col("least_origin"),
        "hashed": F.col("least_ts"),
        "ts": F.when(stamped > 0, F.slice(numbers, F.lit(1), F.least("length", F.lit(STAMP)))),
        **{lead(node): F.col(f"t_{node}") - F.col("sent_t") for node in range(nodes)},
        **{name: F.coalesce(count.cast("int"), F.lit(0)) for name, count in counts.items()},
    })  # fmt: skip
