"""Along each process's life: what the events before one show of it. One shuffle, by process, and a sort.

Given: coded events of the filter. Promised: of each cast and delivery, what `messages` compares between them; and of
each process a few *marks*, which show where its views stand among what it delivers.

Two orders serve all: that of a process's events, for clocks and timestamps; and that of its events in one group, for
views and counts. Where every process is in one group they are the same, and one sort does. Counts of messages are
kept of a process's whole time in a group, and what they were when it installed its view is subtracted. A count holds
two numbers: fifo messages in its upper half, all others in its lower half.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window, WindowSpec

from reconvene.pipeline.verify.coded import code_name
from reconvene.verify.codes import KINDS, SERVICES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["CAST", "DELIVER", "STOP", "VIEW", "Shape", "find_wrong_rows", "follow_lives", "heard", "shape_of"]

VIEW, CAST, DELIVER, STOP = (KINDS["vs", kind] for kind in ("view", "cast", "deliver", "stop"))
_FIFO, _AGREED = SERVICES["fifo"], SERVICES["agreed"]

_HALF = 32
_LOWER = (1 << _HALF) - 1


@dataclass(frozen=True)
class Shape:
    """What has to be known of all runs before a plan can be made."""

    seats: int
    """Members of the largest view. A process's *seat* is its place in a view."""
    several: bool
    """Is any process in several groups?"""


def shape_of(coded: "DataFrame") -> Shape:
    processes = (
        coded.where(F.col("kind") == VIEW)
        .groupBy("rid", code_name(F.col("process")))
        .agg(F.max(F.size("members")).alias("seats"), F.count_distinct("group").alias("groups"))
    )
    (row,) = processes.agg(F.max("seats").alias("seats"), F.max("groups").alias("groups")).collect()
    return Shape(seats=max(1, row.seats or 1), several=(row.groups or 1) > 1)


def heard(seat: int) -> str:
    """The column that counts deliveries of the messages of the member with this seat."""
    return f"heard_{seat}"


def follow_lives(coded: "DataFrame", shape: Shape) -> "DataFrame":
    """Columns: rid, process, node, place, t, kind, group, view, msg, caster, service, number (the message's, at
    its caster; of a delivery, among those of its caster in the view), heard_0 …, own (its process's seat), seat
    (its caster's), far (it comes from another node), ordered, ts; outside, backwards, disordered: what is wrong
    with it; mark: does it stand for what a process does, and not for a message? A mark of kind DELIVER is the
    first delivery with a timestamp after a view. A mark's ts is that timestamp, or the last one before the
    mark; spoke is where the process last cast or delivered; is_last: nothing comes after."""
    rows = _with_views(_with_before(_needed(coded), shape))
    return _told(_with_base(_with_counts(rows, shape), shape), shape)


def find_wrong_rows(coded: "DataFrame", shape: Shape) -> "DataFrame":
    """Casts and deliveries outside their view, and deliveries whose timestamp is not above the one before: rid, node,
    place, msg, msg_before (of that one), outside, disordered."""
    before = _life(shape).rowsBetween(Window.unboundedPreceding, -1)
    stamped = F.when(F.col("ts").isNotNull(), F.col("msg"))
    rows = _with_before(_needed(coded), shape).withColumn(
        "msg_before", F.last(stamped, ignorenulls=True).over(before)
    )
    wrong = ("outside", "disordered")
    return (
        _with_views(rows)
        .withColumns({name: F.coalesce(_wrong()[name], F.lit(False)) for name in wrong})
        .where(F.col("outside") | F.col("disordered"))
        .select("rid", "node", "place", "msg", "msg_before", *wrong)
    )


def _is_message() -> "Column":
    return F.col("kind").isin(CAST, DELIVER)


def _needed(coded: "DataFrame") -> "DataFrame":
    view, cast, deliver = (F.col("kind") == kind for kind in (VIEW, CAST, DELIVER))
    ordered = deliver & (F.col("service") >= _AGREED)
    members = F.array_sort(F.array_distinct(F.transform("members", code_name)))
    return coded.where(F.col("kind").between(VIEW, STOP)).select(
        "rid",
        code_name(F.col("process")).alias("process"),
        "group",
        "view",
        "node",
        "place",
        "t",
        "kind",
        F.when(_is_message(), F.col("msg")).alias("msg"),
        F.when(cast, code_name(F.col("process"))).when(deliver, F.col("caster")).alias("caster"),
        (deliver & (F.col("sender") != F.col("node"))).alias("far"),
        "service",
        ordered.alias("ordered"),
        F.when(ordered, F.col("ts")).alias("ts"),
        F.when(view, members).alias("members"),
    )


def _in_group() -> WindowSpec:
    return Window.partitionBy("rid", "process", "group").orderBy("place")


def _life(shape: Shape) -> WindowSpec:
    return Window.partitionBy("rid", "process").orderBy("place") if shape.several else _in_group()


def _so_far(order: WindowSpec) -> WindowSpec:
    return order.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _with_before(rows: "DataFrame", shape: Shape) -> "DataFrame":
    """With what came before in the process's life, whatever the group."""
    life = _life(shape)
    before = life.rowsBetween(Window.unboundedPreceding, -1)
    merged = F.when((F.col("kind") == VIEW) | F.col("ts").isNotNull(), F.col("kind"))
    return rows.withColumns({
        "t_before": F.lag("t").over(life),
        "ts_before": F.last("ts", ignorenulls=True).over(before),
        "merged_before": F.last(merged, ignorenulls=True).over(before),
        "spoke": F.last(F.when(_is_message(), F.col("place")), ignorenulls=True).over(_so_far(life)),
        "is_last": F.lead("place").over(life).isNull(),
    })  # fmt: skip


def _with_views(rows: "DataFrame") -> "DataFrame":
    """With the view that the process is in, in the group, and the seats of itself and of a message's caster there."""
    moved = F.when(F.col("kind").isin(VIEW, STOP), F.struct("view", "members", (F.col("kind") == VIEW).alias("up")))
    at = F.col("at")
    return (
        rows.withColumn("at", F.last(moved, ignorenulls=True).over(_so_far(_in_group())))
        .withColumn("inside", F.coalesce(at["up"] & (at["view"] == F.col("view")), F.lit(False)))
        .withColumns({
            name: F.when(F.col("inside"), F.array_position(at["members"], F.col(of)) - 1)
            for name, of in (("own", "process"), ("seat", "caster"))
        })
        .drop("at", "members")
    )  # fmt: skip


def _with_counts(rows: "DataFrame", shape: Shape) -> "DataFrame":
    so_far = _so_far(_in_group())
    one = F.when(F.col("service") == _FIFO, F.lit(1 << _HALF)).otherwise(F.lit(1))
    deliver = F.col("kind") == DELIVER
    return rows.withColumns({
        "sent": F.sum(F.when(F.col("kind") == CAST, one).otherwise(0)).over(so_far),
        **{
            heard(seat): F.sum(F.when(deliver & (F.col("seat") == seat), one).otherwise(0)).over(so_far)
            for seat in range(shape.seats)
        },
    })  # fmt: skip


def _with_base(rows: "DataFrame", shape: Shape) -> "DataFrame":
    """Counts of deliveries since the process installed its view."""
    every = [heard(seat) for seat in range(shape.seats)]
    installed = F.when(F.col("kind") == VIEW, F.struct(*every))
    rows = rows.withColumn("base", F.last(installed, ignorenulls=True).over(_so_far(_in_group())))
    return rows.withColumns({name: F.col(name) - F.coalesce(F.col("base")[name], F.lit(0)) for name in every})


def _told(rows: "DataFrame", shape: Shape) -> "DataFrame":
    cast, fifo = F.col("kind") == CAST, F.col("service") == _FIFO
    of_caster = F.coalesce(*(F.when(F.col("seat") == seat, F.col(heard(seat))) for seat in range(shape.seats)))
    number = F.when(cast, F.col("sent")).otherwise(of_caster)
    # Of a fifo message, nothing that was delivered before is asked for.
    asked = {
        heard(seat): F.when(cast & fifo, F.lit(0)).otherwise(F.col(heard(seat)).bitwiseAND(F.lit(_LOWER)))
        for seat in range(shape.seats)
    }
    fresh = F.coalesce(F.col("ts").isNotNull() & (F.col("merged_before") == VIEW), F.lit(False))
    marked = ~_is_message() | F.col("is_last") | fresh
    both = F.array(F.lit(False), F.lit(True))
    roles = F.when(~_is_message(), F.array(F.lit(True))).when(marked, both).otherwise(F.array(F.lit(False)))
    mark = F.col("mark")
    return rows.select("*", F.explode(roles).alias("mark")).select(
        "rid",
        "process",
        "node",
        "place",
        "t",
        F.when(mark & _is_message() & ~fresh, F.lit(CAST)).otherwise(F.col("kind")).alias("kind"),
        "group",
        "view",
        F.when(~mark, F.col("msg")).alias("msg"),
        "caster",
        "service",
        F.when(fifo, F.shiftright(number, _HALF)).otherwise(number.bitwiseAND(F.lit(_LOWER))).alias("number"),
        *(column.alias(name) for name, column in asked.items()),
        "own",
        "seat",
        "far",
        "ordered",
        F.when(mark & ~fresh, F.coalesce("ts", "ts_before")).otherwise(F.col("ts")).alias("ts"),
        (mark & F.col("is_last")).alias("is_last"),
        "spoke",
        *(F.coalesce(told, F.lit(False)).cast("int").alias(name) for name, told in _wrong().items()),
        "mark",
    )


def _wrong() -> "dict[str, Column]":
    return {
        "outside": _is_message() & ~(F.col("inside") & (F.col("own") >= 0)),
        "backwards": F.col("t") < F.col("t_before"),
        "disordered": F.col("ts") <= F.col("ts_before"),
    }
