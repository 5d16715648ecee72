"""Along each node's file: what the rows before an event show of it. One shuffle and one sort, by node and place.

Given: coded events of any layer. Promised: of each sending and delivery, what `messages` compares between them, and
what is wrong with it by its own file alone; and the other rows with which something is wrong.

Counts of messages are kept of the whole file, and what they were when the node entered its regular configuration is
subtracted: so one order of the rows serves all of them. A count holds two numbers: fifo messages in its upper half,
all others in its lower half.
"""

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reconvene.verify.codes import CONF, DELIVER, FAIL, KINDS, SEND, SERVICES
from reconvene.verify.evs.patterns import MARKS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["STOP", "find_wrong_rows", "follow_files", "heard"]

STOP = KINDS["evs", "stop"]
_FIFO, _AGREED = SERVICES["fifo"], SERVICES["agreed"]

_HALF = 32
_LOWER = (1 << _HALF) - 1


def heard(node: int) -> str:
    """The column that counts deliveries of this node's messages."""
    return f"heard_{node}"


def follow_files(coded: "DataFrame", nodes: int) -> "DataFrame":
    """`nodes`: how many the largest run has. Columns: rid, node, kind, place, t, marks (the bits
    of MARKS, in their order); and of sendings and
    deliveries msg, root, whole (is the configuration the root itself), origin (the sender's code times four, plus the
    service), index (among the sender's messages of the root, at this node), heard_0 …, and ts."""
    return _message_rows(_within_roots(_state(_needed(coded), nodes), nodes), nodes)


def find_wrong_rows(coded: "DataFrame") -> "DataFrame":
    """The rows with which something is wrong: rid, node, place, msg; place_before, of the row before; msg_before, of
    the last delivery with a timestamp before; and whether the row is unnumbered, outside, stray or
    disordered."""
    file = Window.partitionBy("rid", "node").orderBy("place")
    before = file.rowsBetween(Window.unboundedPreceding, -1)
    wrong = ("unnumbered", "outside", "stray", "disordered")
    stamped = F.when(F.col("ts").isNotNull(), F.col("msg"))
    return (
        _state(_needed(coded), 0)
        .withColumns({
            "place_before": F.lag("place").over(file),
            "msg_before": F.last(stamped, ignorenulls=True).over(before),
            **{name: _marks()[name] for name in wrong},
        })
        .where(F.col("unnumbered") | F.col("outside") | F.col("stray") | F.col("disordered"))
        .select("rid", "node", "place", "msg", "place_before", "msg_before", *wrong)
    )  # fmt: skip


def _is_message() -> "Column":
    return F.col("kind").isin(SEND, DELIVER)


def _needed(coded: "DataFrame") -> "DataFrame":
    deliver, ordered = F.col("kind") == DELIVER, F.col("service") >= _AGREED
    return coded.select(
        "rid",
        "node",
        "place",
        "n",
        "t",
        "inc",
        "kind",
        F.when(F.col("kind") <= STOP, F.col("conf")).alias("conf"),
        F.when(F.col("kind") == CONF, F.col("reg")).alias("reg"),
        F.when(_is_message(), F.col("msg")).alias("msg"),
        F.when(F.col("kind") == SEND, F.col("node")).when(deliver, F.col("sender")).alias("sender"),
        "service",
        F.when(deliver & ordered, F.col("ts")).alias("ts"),
    )


def _state(rows: "DataFrame", nodes: int) -> "DataFrame":
    """With the last row that moved the node, the timestamp delivered last, and counts of messages so far."""
    file = Window.partitionBy("rid", "node").orderBy("place")
    so_far = file.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = file.rowsBetween(Window.unboundedPreceding, -1)
    kind = F.col("kind")
    moved = F.when(
        kind.isin(CONF, FAIL, STOP),
        F.struct("conf", F.coalesce("reg", "conf").alias("root"), "inc", (kind == CONF).alias("up")),
    )
    one = F.when(F.col("service") == _FIFO, F.lit(1 << _HALF)).otherwise(F.lit(1))
    counts = {
        heard(node): F.sum(F.when((kind == DELIVER) & (F.col("sender") == node), one).otherwise(0)).over(so_far)
        for node in range(nodes)
    }
    return rows.withColumns({
        "n_before": F.lag("n").over(file),
        "t_before": F.lag("t").over(file),
        "inc_before": F.max("inc").over(before),
        "own_before": F.max(F.when(kind <= STOP, F.col("inc"))).over(before),
        "at": F.last(moved, ignorenulls=True).over(so_far),
        "ts_before": F.last("ts", ignorenulls=True).over(before),
        "sent": F.sum(F.when(kind == SEND, one).otherwise(0)).over(so_far),
        **counts,
    })  # fmt: skip


def _within_roots(rows: "DataFrame", nodes: int) -> "DataFrame":
    """With the counts at the entering of the regular configuration."""
    file = Window.partitionBy("rid", "node").orderBy("place")
    so_far = file.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    entered = F.when(
        (F.col("kind") == CONF) & F.col("reg").isNull(), F.struct("sent", *(heard(node) for node in range(nodes)))
    )
    return rows.withColumn("base", F.last(entered, ignorenulls=True).over(so_far))


def _marks() -> "dict[str, Column]":
    at = F.col("at")
    inside = at["up"] & (at["conf"] == F.col("conf")) & (at["inc"] == F.col("inc"))
    stamped = F.col("ts").isNotNull() & F.col("ts_before").isNotNull()
    outside = _is_message() & ~F.coalesce(inside, F.lit(False))
    inc, others = F.col("inc"), F.col("kind") > STOP
    outlived = F.coalesce(inc < F.col("inc_before"), F.lit(False))
    over = F.coalesce(~at["up"] & (at["inc"] == inc), F.lit(False))
    # What rows of this layer say of their own incarnations is looked at with the ways through configurations.
    among_own = outside | F.coalesce(inc < F.col("own_before"), F.lit(False))
    marks = {
        "unnumbered": F.col("n") <= F.col("n_before"),
        "backwards": F.col("t") < F.col("t_before"),
        "outside": outside,
        "stray": F.when(others, outlived | over).otherwise(outlived & ~among_own),
        "successors": stamped,
        "disordered": stamped & (F.col("ts") <= F.col("ts_before")),
    }
    return {name: F.coalesce(marks[name], F.lit(False)) for name in MARKS}


def _message_rows(rows: "DataFrame", nodes: int) -> "DataFrame":
    kind, node, at, base = F.col("kind"), F.col("node"), F.col("at"), F.col("base")
    send, fifo = kind == SEND, F.col("service") == _FIFO
    since = {heard(other): F.col(heard(other)) - F.coalesce(base[heard(other)], F.lit(0)) for other in range(nodes)}
    sent = F.col("sent") - F.coalesce(base["sent"], F.lit(0))
    of_sender = F.coalesce(*(F.when(F.col("sender") == other, since[heard(other)]) for other in range(nodes)))
    own = F.when(send, sent).otherwise(of_sender)
    # Of a sending, its own component is its index; of fifo messages, nothing that was delivered before is asked for.
    asked = {
        name: F.when(send & (fifo | (node == other)), F.lit(0)).otherwise(count.bitwiseAND(F.lit(_LOWER)))
        for other, (name, count) in enumerate(since.items())
    }
    marks = reduce(add, (F.when(mark, 1 << bit).otherwise(0) for bit, mark in enumerate(_marks().values())))
    return (
        rows.withColumn("marks", marks)
        .where(_is_message() | (F.col("marks") > 0))
        .select(
            "rid",
            "node",
            "kind",
            "msg",
            "place",
            "t",
            F.when(send, F.col("conf")).when(kind == DELIVER, at["root"]).alias("root"),
            (F.col("conf") == at["root"]).alias("whole"),
            (F.col("sender") * 4 + F.col("service")).cast("long").alias("origin"),
            F.when(fifo, F.shiftright(own, _HALF)).otherwise(own.bitwiseAND(F.lit(_LOWER))).alias("index"),
            *(column.alias(name) for name, column in asked.items()),
            "ts",
            "marks",
        )
    )
