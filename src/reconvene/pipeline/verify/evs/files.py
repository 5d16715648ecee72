"""Along each node's file: what the rows before an event tell of it. One shuffle and one sort, by node and place.

Given: coded events of any layer. Promised: of each sending and delivery, what `messages` compares between them; and
of each node the last row of its file, which carries the whole file's counts.

Counts of messages are kept of the whole file, and what they were when the node entered its regular configuration is
subtracted: so one order of the rows serves all of them. A count holds two numbers: fifo messages in its upper half,
all others in its lower half.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reconvene.pipeline.verify.coded import KINDS, SERVICES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "CONF",
    "COUNTERS",
    "DELIVER",
    "FAIL",
    "HIDDEN",
    "LOWER",
    "SEND",
    "STOP",
    "find_wrong_rows",
    "follow_files",
    "heard",
]

CONF, HIDDEN, SEND, DELIVER = (KINDS["evs", kind] for kind in ("conf", "hidden", "send", "deliver"))
FAIL, STOP = KINDS["evs", "fail"], KINDS["evs", "stop"]
_FIFO, _AGREED = SERVICES["fifo"], SERVICES["agreed"]

COUNTERS = ("rows", "unnumbered", "backwards", "outside", "stamps", "disordered")
"""What the last row of a file carries, of all its rows: how many; with an `n` that does not grow; with a clock that
goes back; sendings and deliveries outside the node's configuration; deliveries with a timestamp that are not the
node's first such; and those of them whose timestamp is not above the one before."""

_HALF = 32
LOWER = (1 << _HALF) - 1
"""The lower half of a count."""


def heard(node: int) -> str:
    """The column that counts deliveries of this node's messages."""
    return f"heard_{node}"


def follow_files(coded: "DataFrame", nodes: int) -> "DataFrame":
    """`nodes`: how many the largest run has. Columns: rid, node, kind, msg, place, t, conf, root, whole (is that
    configuration regular), origin, index, heard_0 …, ts, ordered, and COUNTERS, which are null but in a file's last
    row."""
    return _message_rows(_within_roots(_state(_needed(coded), nodes), nodes), nodes)


def find_wrong_rows(coded: "DataFrame") -> "DataFrame":
    """The rows that make COUNTERS of what is wrong: rid, node, place, msg; place_before, of the row before;
    msg_before, of the last delivery with a timestamp before; and whether the row is unnumbered, outside or
    disordered."""
    file = Window.partitionBy("rid", "node").orderBy("place")
    before = file.rowsBetween(Window.unboundedPreceding, -1)
    wrong = ("unnumbered", "outside", "disordered")
    stamped = F.when(F.col("ts").isNotNull(), F.col("msg"))
    return (
        _state(_needed(coded), 0)
        .withColumns({
            "place_before": F.lag("place").over(file),
            "msg_before": F.last(stamped, ignorenulls=True).over(before),
            **{name: F.coalesce(_told()[name], F.lit(False)) for name in wrong},
        })
        .where(F.col("unnumbered") | F.col("outside") | F.col("disordered"))
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
        (deliver & ordered).alias("ordered"),
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
        "at": F.last(moved, ignorenulls=True).over(so_far),
        "ts_before": F.last("ts", ignorenulls=True).over(before),
        "sent": F.sum(F.when(kind == SEND, one).otherwise(0)).over(so_far),
        **counts,
    })  # fmt: skip


def _within_roots(rows: "DataFrame", nodes: int) -> "DataFrame":
    """With the counts at the entering of the regular configuration, and the file's counters at its last row."""
    file = Window.partitionBy("rid", "node").orderBy("place")
    so_far = file.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    entered = F.when(
        (F.col("kind") == CONF) & F.col("reg").isNull(), F.struct("sent", *(heard(node) for node in range(nodes)))
    )
    return rows.withColumns({
        "base": F.last(entered, ignorenulls=True).over(so_far),
        "is_last": F.lead("place").over(file).isNull(),
        **{name: F.count(F.when(told, 1)).over(so_far) for name, told in _told().items()},
    })  # fmt: skip


def _told() -> "dict[str, Column]":
    """Which rows each of COUNTERS counts."""
    at = F.col("at")
    inside = F.coalesce(at["up"] & (at["conf"] == F.col("conf")) & (at["inc"] == F.col("inc")), F.lit(False))
    stamped = F.col("ts").isNotNull() & F.col("ts_before").isNotNull()
    return {
        "rows": F.lit(True),
        "unnumbered": F.col("n") <= F.col("n_before"),
        "backwards": F.col("t") < F.col("t_before"),
        "outside": _is_message() & ~inside,
        "stamps": stamped,
        "disordered": stamped & (F.col("ts") <= F.col("ts_before")),
    }


def _message_rows(rows: "DataFrame", nodes: int) -> "DataFrame":
    kind, node, at, base = F.col("kind"), F.col("node"), F.col("at"), F.col("base")
    send, fifo = kind == SEND, F.col("service") == _FIFO
    since = {heard(other): F.col(heard(other)) - F.coalesce(base[heard(other)], F.lit(0)) for other in range(nodes)}
    sent = F.col("sent") - F.coalesce(base["sent"], F.lit(0))
    of_sender = F.coalesce(*(F.when(F.col("sender") == other, since[heard(other)]) for other in range(nodes)))
    own = F.when(send, sent).otherwise(of_sender)
    # Of a sending, its own component is its index; of fifo messages, nothing that was delivered before is asked for.
    asked = {
        name: F.when(send & (fifo | (node == other)), F.lit(0)).otherwise(count.bitwiseAND(F.lit(LOWER)))
        for other, (name, count) in enumerate(since.items())
    }
    return rows.where(_is_message() | F.col("is_last")).select(
        "rid",
        "node",
        "kind",
        "msg",
        "place",
        "t",
        "conf",
        F.when(send, F.col("conf")).when(kind == DELIVER, at["root"]).alias("root"),
        (F.col("conf") == at["root"]).alias("whole"),
        (F.col("sender") * 4 + F.col("service")).cast("long").alias("origin"),
        F.when(fifo, F.shiftright(own, _HALF)).otherwise(own.bitwiseAND(F.lit(LOWER))).alias("index"),
        *(column.alias(name) for name, column in asked.items()),
        "ordered",
        "ts",
        *(F.when(F.col("is_last"), F.col(name)).alias(name) for name in COUNTERS),
    )
