"""Of runs with suspects that are too large to be judged whole: the messages and events that show what is wrong.

Messages by what is wrong with themselves; besides, what a delivery lacked before it, the messages of suspicious
patterns, and, of an edge that goes back by the clock, whatever happened between its two ends: the rest of a cycle
goes forward, so it lies there.
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reconvene.pipeline.verify.coded import SERVICES
from reconvene.pipeline.verify.found import CONCERNED
from reconvene.pipeline.verify.vs.lives import Shape, find_wrong_rows, heard
from reconvene.pipeline.verify.vs.messages import sets_of
from reconvene.pipeline.verify.vs.told import PATTERN_KEYS

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["name_all"]

_WRONG = {
    "strange": ("vs.C1", "vs.L2"),
    "blurred": ("vs.C1", "vs.L2"),
    "early": ("vs.C1", "vs.L1", "vs.L2"),
    "resent": ("vs.C2", "vs.L1", "vs.L2"),
    "again": ("vs.C2", "vs.L2"),
    "spread": ("vs.L4",),
    "uncausal": ("vs.C1", "vs.L1", "vs.L2"),
    "tardy": ("vs.L1", "vs.C1"),
    "unlike": ("vs.L5", "vs.L2"),
    "unstamped": ("vs.L5", "vs.L2"),
}
"""By what is wrong with a message, the checks that it concerns."""
_MOST = 200
"""Messages of a run from which others are looked for."""
_FIFO = SERVICES["fifo"]


def name_all(coded: DataFrame, messages: DataFrame, named: DataFrame, shape: Shape) -> DataFrame:
    """CONCERNED. Given: every message, as `tell_messages` tells of it; and the patterns that checks suspect."""
    messages = messages.where(F.col("msg").isNotNull())
    tables = [
        *_wrong_rows(find_wrong_rows(coded, shape)),
        *(_name(messages.where(F.col(wrong) > 0), *checks) for wrong, checks in _WRONG.items()),
        _name(_alike(messages), "vs.L5"),
        _name(_lacking(messages, shape), "vs.C1", "vs.L1", "vs.L2"),
        _name(_between(messages), "vs.C1", "vs.L1", "vs.L2"),
        _of_patterns(messages, named, shape),
    ]
    return reduce(DataFrame.union, (table.select(*CONCERNED.names) for table in tables))


def _name(messages: DataFrame, *checks: str) -> DataFrame:
    """These messages, for each of the checks. Their place is that of the cast, for who takes the lowest."""
    return _named(messages, F.explode(F.array(*map(F.lit, checks))))


def _named(messages: DataFrame, check: "Column") -> DataFrame:
    nobody = F.lit(None).cast("int").alias("node")
    return messages.select("rid", check.alias("check"), "msg", nobody, F.col("cast_at").alias("place"))


def _wrong_rows(rows: DataFrame) -> list[DataFrame]:
    pair = F.explode(F.array("msg_before", "msg")).alias("msg")
    disordered, nobody = rows.where("disordered"), F.lit(None).cast("int").alias("node")
    return [
        rows.where("outside").select("rid", F.lit("vs.L4").alias("check"), "msg", nobody, "place"),
        *(
            disordered.select("rid", F.lit(check).alias("check"), pair, nobody, "place")
            for check in ("vs.L5", "vs.L2")
        ),
    ]


def _alike(messages: DataFrame) -> DataFrame:
    """Messages that share a timestamp with another."""
    shared = F.count(F.lit(1)).over(Window.partitionBy("rid", "hashed"))
    return messages.where(F.col("hashed").isNotNull()).withColumn("shared", shared).where(F.col("shared") > 1)


def _lowest(messages: DataFrame) -> DataFrame:
    order = Window.partitionBy("rid").orderBy("cast_at", "msg")
    return messages.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= _MOST)


def _lacking(messages: DataFrame, shape: Shape) -> DataFrame:
    """What was not delivered before the lowest messages that were delivered too early: of the caster, the message in
    whose place one was delivered; of others, the one after the last that was."""
    is_fifo = (F.col("service") == _FIFO).alias("fifo")
    fields = ("of", "index")
    own = F.struct(F.col("seat").alias("of"), F.col("least_number").alias("index"))
    others = (
        F.when(
            F.col(heard(seat)) < F.col(f"asked_{seat}"),
            F.struct(F.lit(seat).cast("long").alias("of"), (F.col(heard(seat)) + 1).alias("index")),
        )
        for seat in range(shape.seats)
    )
    where = ("rid", "group", "home")
    wanted = (
        _lowest(messages.where(F.col("uncausal") > 0))
        .select(*where, is_fifo, F.explode(F.array(own, *others)).alias("lacking"))
        .where(F.col("lacking").isNotNull())
        .select(*where, "fifo", *(F.col("lacking")[name].alias(name) for name in fields))
        .distinct()
    )
    # Where the counts differ, the greatest is the right one: who delivers too early has counted less.
    numbered = messages.select("*", is_fifo, F.col("seat").alias("of"), F.col("greatest_number").alias("index"))
    return numbered.join(F.broadcast(wanted), [*where, "fifo", *fields], "left_semi")


def _between(messages: DataFrame) -> DataFrame:
    """Messages whose cast, or first delivery at another node, lies between the ends of an edge that goes back."""
    back = _lowest(messages.where(F.col("tardy") > 0)).select(
        F.col("rid").alias("of"),
        F.least("far_t", "near_t", "cast_t").alias("begin"),
        F.col("cast_t").alias("end"),
    )
    begin, end = F.col("begin"), F.col("end")
    inside = F.col("cast_t").between(begin, end) | F.col("far_t").between(begin, end)
    return messages.join(F.broadcast(back), (F.col("rid") == F.col("of")) & inside, "left_semi")


def _of_patterns(messages: DataFrame, named: DataFrame, shape: Shape) -> DataFrame:
    keys = ["rid", *PATTERN_KEYS]
    with_sets = messages.withColumn("by", F.array(*sets_of("by", shape.seats)))
    same = [F.col(f"message.{key}").eqNullSafe(F.col(f"pattern.{key}")) for key in keys]
    joined = with_sets.alias("message").join(F.broadcast(named).alias("pattern"), same)
    return _named(joined.select("message.*", "pattern.check"), F.col("check"))
