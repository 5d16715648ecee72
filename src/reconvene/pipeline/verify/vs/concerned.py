"""Of runs with suspects that are too large to be judged whole: the messages and events that show what is wrong.

Messages by what is wrong with themselves (the facts that a check declares); besides, what a delivery lacked before it
(`lacking`), messages that share a timestamp (`alike`), the messages of suspicious patterns, and, of an edge that goes
back by the clock, whatever happened between its two ends (`between`): the rest of a cycle goes forward, so it lies
there.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reconvene.pipeline.verify.found import CONCERNED, checks_with
from reconvene.pipeline.verify.vs.gathered import PATTERN_KEYS
from reconvene.pipeline.verify.vs.lives import Shape, find_wrong_rows, heard
from reconvene.pipeline.verify.vs.messages import sets_of
from reconvene.verify.codes import SERVICES
from reconvene.verify.vs.patterns import ViewCheck

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["name_all"]

_FACTS = (
    "strange", "blurred", "early", "resent", "again", "spread", "uncausal", "tardy", "crossing", "unlike",
    "unstamped", "long",
)  # fmt: skip
"""What can be wrong with a message by itself."""
_MOST = 200
"""Messages of a run from which others are looked for."""
_FIFO = SERVICES["fifo"]


def name_all(
    coded: DataFrame, messages: DataFrame, suspects: DataFrame, shape: Shape, checks: Sequence[ViewCheck]
) -> DataFrame:
    """CONCERNED. Given: every message, as `describe_messages` describes it; and the patterns that checks suspect."""

    def with_fact(fact: str, of: DataFrame) -> DataFrame:
        return _named(of, F.explode(checks_with(fact, checks)))

    tables = [
        *_wrong_rows(find_wrong_rows(coded, shape), checks),
        *(with_fact(fact, messages.where(F.col(fact) > 0)) for fact in _FACTS if _is_declared(fact, checks)),
        with_fact("alike", _alike(messages)),
        with_fact("lacking", _lacking(messages, shape)),
        with_fact("between", _between(messages)),
        _of_patterns(messages, suspects, shape),
    ]
    return reduce(DataFrame.union, (table.select(*CONCERNED.names) for table in tables))


def _is_declared(fact: str, checks: Sequence[ViewCheck]) -> bool:
    return any(fact in check.facts for check in checks)


def _named(messages: DataFrame, check: "Column") -> DataFrame:
    """These messages, for the check. Their place is that of the cast, by which the lowest are chosen."""
    nobody = F.lit(None).cast("int").alias("node")
    return messages.select("rid", check.alias("check"), "msg", nobody, F.col("cast_at").alias("place"))


def _wrong_rows(rows: DataFrame, checks: Sequence[ViewCheck]) -> list[DataFrame]:
    nobody = F.lit(None).cast("int").alias("node")
    shown = {"outside": F.array("msg"), "disordered": F.array("msg_before", "msg")}
    return [
        rows.where(fact)
        .select("rid", F.explode(messages).alias("msg"), nobody, "place")
        .withColumn("check", F.explode(checks_with(fact, checks)))
        for fact, messages in shown.items()
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
    # Where the counts differ, the greatest is the right one: a process that delivers too early has counted less.
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
