"""By message: its sending compared with its deliveries. One shuffle, and sums that need no order.

Each column of the rows that has to be the same in all rows of a message (origin: sender and service; root: the
regular configuration; index: the place among the sender's messages there) is compared by its least and its greatest
value.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.evs.files import heard
from reconvene.pipeline.verify.found import spread
from reconvene.verify.codes import DELIVER, SEND, SERVICES
from reconvene.verify.evs.patterns import MARKS, WORD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["STAMP", "compare_messages", "sets_of", "words"]

STAMP = 6
"""Numbers of a timestamp that are looked at. A longer one is not proven right."""


def words(nodes: int) -> int:
    return -(-nodes // WORD)


def sets_of(name: str, nodes: int) -> list[str]:
    """The columns that hold a set of nodes."""
    return [f"{name}_{word}" for word in range(words(nodes))]


def compare_messages(rows: "DataFrame", nodes: int) -> "DataFrame":
    """One row a message; and one a run, with a null `msg`, for marked rows that are about no message."""
    send, deliver = F.col("kind") == SEND, F.col("kind") == DELIVER
    own = F.col("origin").bitwiseAND(F.lit(~3)) == F.col("node") * 4
    ordered = F.col("origin").bitwiseAND(F.lit(3)) >= SERVICES["agreed"]
    by_other = ~own & F.col("whole")
    hashed = F.when(F.col("ts").isNotNull(), F.xxhash64("ts"))
    return (
        spread(rows, "rid", "msg")
        .groupBy("rid", "msg")
        .agg(
            F.count(F.when(send, 1)).alias("sends"),
            F.count(F.when(deliver, 1)).alias("deliveries"),
            F.count(F.when(deliver & ~own, 1)).alias("elsewhere"),
            *_least_and_greatest("origin", "root", "index"),
            F.max(F.when(send, F.col("place"))).alias("sent_at"),
            F.min(F.when(deliver & own, F.col("place"))).alias("own_at"),
            F.max(F.when(send, F.col("t"))).alias("sent_t"),
            *(
                F.min(F.when(deliver & by_other & (F.col("node") == node), F.col("t"))).alias(f"t_{node}")
                for node in range(nodes)
            ),
            *(F.max(F.when(send, F.col(heard(node)))).alias(f"asked_{node}") for node in range(nodes)),
            *(F.min(F.when(deliver, F.col(heard(node)))).alias(heard(node)) for node in range(nodes)),
            *(
                F.coalesce(F.bit_or(F.when(deliver & there, _bit(word))), F.lit(0).cast("long")).alias(
                    f"{name}_{word}"
                )
                for name, there in (("regular", F.col("whole")), ("late", ~F.col("whole")))
                for word in range(words(nodes))
            ),
            F.count(F.when(deliver & ordered & F.col("ts").isNull(), 1)).alias("unstamped"),
            F.count(hashed).alias("stamped"),
            F.min(hashed).alias("least_ts"),
            F.max(hashed).alias("greatest_ts"),
            F.max(F.size("ts")).alias("length"),
            *(F.max(F.get("ts", F.lit(part))).alias(f"ts_{part}") for part in range(STAMP)),
            *(
                F.count(F.when(F.col("marks").bitwiseAND(F.lit(1 << bit)) > 0, 1)).alias(name)
                for bit, name in enumerate(MARKS)
            ),
        )
    )


def _least_and_greatest(*names: str) -> "list[Column]":
    return [of(name).alias(f"{how}_{name}") for name in names for how, of in (("least", F.min), ("greatest", F.max))]


def _bit(word: int) -> "Column":
    node = F.col("node")
    here = (node >= word * WORD) & (node < (word + 1) * WORD)
    return F.when(here, F.expr(f"shiftleft(1L, node - {word * WORD})")).otherwise(F.lit(0).cast("long"))
