"""Along each node's file: what the rows before an event show of it, piece by piece of the file.

Given: coded events of any layer. Promised: of each sending and delivery, what `messages` compares between them, and
what is wrong with it by its own file alone; and the other rows with which something is wrong.

Messages are counted from the entering of a regular configuration on. A count holds two numbers: fifo messages in its
upper half, all others in its lower half.
"""

from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.along import Along, Greatest, Last, Total
from reconvene.verify.codes import CONF, DELIVER, FAIL, KINDS, SEND, SERVICES
from reconvene.verify.evs.patterns import MARKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from reconvene.pipeline.verify.carrying import How

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
    return _message_rows(_state(_needed(coded), nodes), nodes)


def find_wrong_rows(coded: "DataFrame") -> "DataFrame":
    """The rows with which something is wrong: rid, node, place, msg; place_before, of the row before; msg_before, of
    the last delivery with a timestamp before; and whether the row is unnumbered, outside, stray or
    disordered."""
    wrong = ("unnumbered", "outside", "stray", "disordered")
    rows = _needed(coded).withColumn("stamped", F.when(F.col("ts").isNotNull(), F.col("msg")))
    more = {"place_before": Last("place", before=True), "msg_before": Last("stamped", before=True)}
    return (
        _state(rows, 0, more)
        .withColumns({name: _marks()[name] for name in wrong})
        .where(F.col("unnumbered") | F.col("outside") | F.col("stray") | F.col("disordered"))
        .select("rid", "node", "place", "msg", "place_before", "msg_before", *wrong)
    )


def _is_message() -> "Column":
    return F.col("kind").isin(SEND, DELIVER)


def _needed(coded: "DataFrame") -> "DataFrame":
    deliver, ordered = F.col("kind") == DELIVER, F.col("service") >= _AGREED
    return coded.select(
        "rid",
        "node",
        "place",
        "split",
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


def _state(rows: "DataFrame", nodes: int, more: "Mapping[str, How] | None" = None) -> "DataFrame":
    """With the last row that moved the node, the timestamp delivered last, counts of messages since the node entered
    its regular configuration, and more."""
    kind = F.col("kind")
    one = F.when(F.col("service") == _FIFO, F.lit(1 << _HALF)).otherwise(F.lit(1))
    moved = F.struct("conf", F.coalesce("reg", "conf").alias("root"), "inc", (kind == CONF).alias("up"))
    told = rows.withColumns({
        "moved": F.when(kind.isin(CONF, FAIL, STOP), moved),
        "own_inc": F.when(kind <= STOP, F.col("inc")),
        "entered": (kind == CONF) & F.col("reg").isNull(),
        "one_sent": F.when(kind == SEND, one).otherwise(F.lit(0)),
        "one_heard": F.when(kind == DELIVER, one).otherwise(F.lit(0)),
    })  # fmt: skip
    heard_of = {"heard": Total("one_heard", by="sender", size=nodes, since="entered")} if nodes else {}
    along = Along(
        keys=("rid", "node"),
        carried={
            "n_before": Last("n", before=True),
            "t_before": Last("t", before=True),
            "inc_before": Greatest("inc", before=True),
            "own_before": Greatest("own_inc", before=True),
            "at": Last("moved"),
            "ts_before": Last("ts", before=True),
            "sent": Total("one_sent", since="entered"),
            **heard_of,
            **(more or {}),
        },
    )
    keep = ("rid", "node", "place", "n", "t", "inc", "kind", "conf", "msg", "sender", "service", "ts")
    return along.follow(told, keep)


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
    kind, node, at = F.col("kind"), F.col("node"), F.col("at")
    send, fifo = kind == SEND, F.col("service") == _FIFO
    counts = {heard(other): F.col(heard(other)) for other in range(nodes)}
    of_sender = F.coalesce(*(F.when(F.col("sender") == other, counts[heard(other)]) for other in range(nodes)))
    own = F.when(send, F.col("sent")).otherwise(of_sender)
    # Of a sending, its own component is its index; of fifo messages, nothing that was delivered before is asked for.
    asked = {
        name: F.when(send & (fifo | (node == other)), F.lit(0)).otherwise(count.bitwiseAND(F.lit(_LOWER)))
        for other, (name, count) in enumerate(counts.items())
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
