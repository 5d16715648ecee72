"""Of runs with suspects that are too large to be judged whole: the messages and events that show what is wrong.

Messages by what is wrong with themselves (the facts that a check declares); besides, what a delivery lacked before it
(`lacking`), messages that share a timestamp (`alike`), the messages of suspicious patterns, and, of an edge that goes
back by the clock, whatever happened between its two ends (`between`): the rest of a cycle goes forward, so it lies
there.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reconvene.pipeline.verify.evs.files import find_wrong_rows, heard
from reconvene.pipeline.verify.evs.gathered import name_patterns
from reconvene.pipeline.verify.evs.messages import sets_of
from reconvene.pipeline.verify.evs.patterns import lead
from reconvene.pipeline.verify.found import CONCERNED, checks_with
from reconvene.verify.codes import SERVICES
from reconvene.verify.evs.patterns import EvsCheck

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["name_all"]

_FACTS = (
    "strange", "blurred", "early", "resent", "again", "uncausal", "crossing", "tardy", "unlike", "unstamped", "long",
)  # fmt: skip
"""What can be wrong with a message by itself."""
_MOST = 200
"""Messages of a run from which others are looked for."""
_FIFO = SERVICES["fifo"]


def name_all(
    coded: DataFrame, gathered: DataFrame, messages: DataFrame, nodes: int, checks: Sequence[EvsCheck]
) -> DataFrame:
    """CONCERNED. Given: what is gathered of each run; and every message, as `describe_messages` describes it."""
    # Several ways lead from the messages: they are kept, and freed with the answer.
    kept = (
        messages.where(F.col("msg").isNotNull()).withColumn("tardy", _is_tardy(nodes).cast("int")).localCheckpoint()
    )
    suspects = name_patterns(gathered, checks).localCheckpoint()
    tables = [
        _wrong_rows(find_wrong_rows(coded), checks),
        _name(kept, *(F.when(F.col(fact) > 0, checks_with(fact, checks)) for fact in _FACTS)),
        _name(_alike(kept), checks_with("alike", checks)),
        _name(_lacking(kept, nodes), checks_with("lacking", checks)),
        _name(_between(kept, nodes), checks_with("between", checks)),
        *(_name(of, F.array("check")) for of in _of_patterns(kept, suspects, nodes)),
    ]
    return reduce(DataFrame.union, (table.select(*CONCERNED.names) for table in tables))


def _name(messages: DataFrame, *checks: "Column") -> DataFrame:
    """These messages, for each check in these arrays. Their place is the sending's: the lowest are chosen."""
    nothing = F.array().cast("array<string>")
    named = F.array_distinct(F.concat(*(F.coalesce(of, nothing) for of in checks)))
    nobody = F.lit(None).cast("int").alias("node")
    return messages.select("rid", F.explode(named).alias("check"), "msg", nobody, F.col("sent_at").alias("place"))


def _wrong_rows(rows: DataFrame, checks: Sequence[EvsCheck]) -> DataFrame:
    message, node, place = F.col("msg"), F.col("node"), F.col("place")
    both = [_row(node, F.col("place_before")), _row(node, place)]
    shown = {
        "unnumbered": both,
        "outside": [_row(node, place)],
        "stray": both,
        "disordered": [_message(F.col("msg_before"), place), _message(message, place)],
    }
    named = F.concat(
        *(
            F.when(F.col(fact), F.array(*(F.struct(checks_with(fact, checks).alias("checks"), *of) for of in what)))
            .otherwise(F.array().cast(_NAMED))
            for fact, what in shown.items()
        )
    )  # fmt: skip
    of_rows = rows.select("rid", F.explode(named).alias("of")).select("rid", "of.*")
    return of_rows.withColumn("check", F.explode("checks"))


_NAMED = "array<struct<checks: array<string>, msg: bigint, node: int, place: bigint>>"


def _row(node: "Column", place: "Column") -> "tuple[Column, ...]":
    return F.lit(None).cast("long").alias("msg"), node.alias("node"), place.alias("place")


def _message(message: "Column", place: "Column") -> "tuple[Column, ...]":
    return message.alias("msg"), F.lit(None).cast("int").alias("node"), place.alias("place")


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
    # Where the counts differ, the greatest is that of the sending: a node that delivers too early has counted less.
    return messages.select("*", is_fifo, sender.alias("of"), F.col("greatest_index").alias("number")).join(
        F.broadcast(wanted), ["rid", "root", "fifo", *fields], "left_semi"
    )


def _is_tardy(nodes: int) -> "Column":
    return reduce(or_, (F.coalesce(F.col(lead(node)) <= 0, F.lit(False)) for node in range(nodes)))


def _between(messages: DataFrame, nodes: int) -> DataFrame:
    """Messages whose sending or a delivery lies, by the clocks, between the ends of an edge that goes back."""
    times = F.array(*(f"t_{node}" for node in range(nodes)))
    back = _lowest(messages.where(F.col("tardy") > 0)).select(
        F.col("rid").alias("of"), F.array_min(times).alias("begin"), F.col("sent_t").alias("end")
    )
    inside = F.exists(F.concat(F.array("sent_t"), times), lambda t: t.between(F.col("begin"), F.col("end")))
    return messages.join(F.broadcast(back), (F.col("rid") == F.col("of")) & inside, "left_semi")


def _of_patterns(messages: DataFrame, named: DataFrame, nodes: int) -> list[DataFrame]:
    with_sets = messages.withColumns({name: F.array(*sets_of(name, nodes)) for name in ("regular", "late")})
    keys = ["rid", "root", "origin", "regular", "late"]
    patterns = named.where(F.col("ts").isNull()).select("check", *keys)
    stamps = named.where(F.col("ts").isNotNull()).select("rid", "check", F.xxhash64("ts").alias("hashed"))
    return [with_sets.join(F.broadcast(patterns), keys), messages.join(F.broadcast(stamps), ["rid", "hashed"])]
