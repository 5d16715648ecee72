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
from reconvene.pipeline.verify.evs.files import find_wrong_rows, heard
from reconvene.pipeline.verify.evs.messages import sets_of
from reconvene.pipeline.verify.evs.told import name_patterns
from reconvene.pipeline.verify.found import CONCERNED

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["name_all"]

_ORDERS = ("evs.6.1", "evs.6.2", "to.causal")
_GRAPHS = ("evs.1.1", "evs.2.3", "evs.2.4")
_WRONG = {
    "strange": ("evs.1.3", *_GRAPHS, *_ORDERS),
    "blurred": ("evs.1.3",),
    "resent": ("evs.1.4", *_GRAPHS, *_ORDERS),
    "again": ("evs.1.4", *_ORDERS),
    "uncausal": ("evs.5", *_GRAPHS, *_ORDERS),
    "tardy": _GRAPHS,
    "unlike": ("to.same", "to.unique", *_ORDERS),
    "unstamped": ("to.unique", *_ORDERS),
    "long": ("evs.6.3", *_ORDERS),
}
"""By what is wrong with a message, the checks that it concerns."""
_MOST = 200
"""Messages of a run from which others are looked for."""
_FIFO = SERVICES["fifo"]


def name_all(coded: DataFrame, told: DataFrame, messages: DataFrame, nodes: int) -> DataFrame:
    """CONCERNED. Given: what `conclude` is told; and every message, as `tell_messages` tells of it."""
    tables = [
        *_wrong_rows(find_wrong_rows(coded)),
        *(_name(messages.where(F.col(wrong) > 0), *checks) for wrong, checks in _WRONG.items()),
        _name(_alike(messages), "to.unique"),
        _name(_lacking(messages, nodes), "evs.5", *_ORDERS, *_GRAPHS),
        _name(_between(messages), *_GRAPHS),
        *_of_patterns(messages, name_patterns(told), nodes),
    ]
    return reduce(DataFrame.union, (table.select(*CONCERNED.names) for table in tables))


def _name(messages: DataFrame, *checks: str) -> DataFrame:
    """These messages, for each of the checks. Their place is that of the sending, for who takes the lowest."""
    return _named(messages, F.explode(F.array(*map(F.lit, checks))))


def _named(messages: DataFrame, check: "Column") -> DataFrame:
    return messages.where(F.col("msg").isNotNull()).select(
        "rid",
        check.alias("check"),
        "msg",
        F.lit(None).cast("int").alias("node"),
        F.col("sent_at").alias("place"),
    )


def _wrong_rows(rows: DataFrame) -> list[DataFrame]:
    nothing = F.lit(None).cast("long").alias("msg")
    places = F.explode(F.array("place_before", "place")).alias("place")
    pair = F.explode(F.array("msg_before", "msg")).alias("msg")
    disordered, nobody = rows.where("disordered"), F.lit(None).cast("int").alias("node")
    return [
        rows.where("unnumbered").select("rid", F.lit("evs.1.2").alias("check"), nothing, "node", places),
        rows.where("outside").select("rid", F.lit("evs.2.2").alias("check"), nothing, "node", "place"),
        *(
            disordered.select("rid", F.lit(check).alias("check"), pair, nobody, "place")
            for check in ("to.order", "evs.6.3", *_ORDERS, *_GRAPHS)
        ),
    ]


def _alike(messages: DataFrame) -> DataFrame:
    """Messages that share a timestamp with another."""
    shared = F.count(F.lit(1)).over(Window.partitionBy("rid", "hashed"))
    return messages.where(F.col("hashed").isNotNull()).withColumn("shared", shared).where(F.col("shared") > 1)


def _lowest(messages: DataFrame) -> DataFrame:
    order = Window.partitionBy("rid").orderBy("sent_at", "msg")
    return messages.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= _MOST)


def _lacking(messages: DataFrame, nodes: int) -> DataFrame:
    """What was not delivered before the lowest messages that were delivered too early: of the sender, the message in
    whose place one was delivered; of others, the one after the last that was."""
    is_fifo = (F.col("origin").bitwiseAND(F.lit(3)) == _FIFO).alias("fifo")
    sender = F.shiftright("origin", 2)
    fields = ("of", "number")
    own = F.struct(sender.alias("of"), F.col("least_index").alias("number"))
    others = (
        F.when(
            F.col(heard(node)) < F.col(f"asked_{node}"),
            F.struct(F.lit(node).cast("long").alias("of"), (F.col(heard(node)) + 1).alias("number")),
        )
        for node in range(nodes)
    )
    wanted = (
        _lowest(messages.where(F.col("uncausal") > 0))
        .select("rid", "root", is_fifo, F.explode(F.array(own, *others)).alias("lacking"))
        .where(F.col("lacking").isNotNull())
        .select("rid", "root", "fifo", *(F.col("lacking")[name].alias(name) for name in fields))
        .distinct()
    )
    # Where the counts differ, the greatest is that of the sending: who delivers too early has counted less.
    return messages.select("*", is_fifo, sender.alias("of"), F.col("greatest_index").alias("number")).join(
        F.broadcast(wanted), ["rid", "root", "fifo", *fields], "left_semi"
    )


def _between(messages: DataFrame) -> DataFrame:
    """Messages whose sending, or first delivery by another node, lies between the ends of an edge that goes back."""
    back = _lowest(messages.where(F.col("tardy") > 0)).select(
        F.col("rid").alias("of"), F.col("heard_t").alias("begin"), F.col("sent_t").alias("end")
    )
    inside = F.col("sent_t").between(F.col("begin"), F.col("end")) | F.col("heard_t").between(
        F.col("begin"), F.col("end")
    )
    return messages.join(F.broadcast(back), (F.col("rid") == F.col("of")) & inside, "left_semi")


def _of_patterns(messages: DataFrame, named: DataFrame, nodes: int) -> list[DataFrame]:
    with_sets = messages.withColumns({name: F.array(*sets_of(name, nodes)) for name in ("regular", "late")})
    keys = ["rid", "root", "origin", "regular", "late"]
    patterns = named.where(F.col("ts").isNull()).select("check", *keys)
    stamps = named.where(F.col("ts").isNotNull()).select("rid", "check", F.xxhash64("ts").alias("hashed"))
    return [
        _named(with_sets.join(F.broadcast(patterns), keys), F.col("check")),
        _named(messages.join(F.broadcast(stamps), ["rid", "hashed"]), F.col("check")),
    ]
