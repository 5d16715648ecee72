"""Events with small integers for names: what every certificate reads.

Names become codes that need no table of all names: a run, a configuration, a message, a view is a 64-bit hash of its
name, a node its place among the run's sorted nodes. Two names that meet in one hash can only make a certificate fail,
never pass: whatever fails is judged anew by names.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.schema import EVENTS
from reconvene.verify.codes import KINDS, NOBODY, SERVICES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconvene.pipeline.traces import Traces

__all__ = ["code_events", "code_name", "is_bone"]


def code_name(column: "Column") -> "Column":
    return F.xxhash64(column)


def code_events(traces: "Traces") -> "DataFrame":
    """One row an event, of every layer: rid, node, place, n, inc, t, kind, conf, conf_kind, members, reg, msg,
    sender, caster, service, ts, pos, primary, group, process, view. `members` and `process` stay names.
    Where a sender is a process, `sender` is its node, and `caster` the process.

    Besides: `split`, as in `Traces.ordered`; and `bone`, the event itself where it is about a configuration or a
    primary component."""
    events = in_order(traces).withColumn("from", F.when(_is_filter(), _home_of("sender")).otherwise(F.col("sender")))
    nodes = F.broadcast(_nodes(traces.runs))
    senders = nodes.select(F.col("run"), F.col("node").alias("from"), F.col("code").alias("sender_code"))
    kind = _one_of(KINDS, F.col("layer"), F.when(_is_hidden(), F.lit("hidden")).otherwise(F.col("kind")))
    service = F.coalesce(*(F.when(F.col("service") == name, F.lit(code)) for name, code in SERVICES.items()))
    return (
        events.join(nodes, ["run", "node"], "left")
        .join(F.broadcast(senders), ["run", "from"], "left")
        .select(
            code_name(F.col("run")).alias("rid"),
            F.coalesce("code", F.lit(NOBODY)).cast("int").alias("node"),
            "place",
            "n",
            F.col("inc").cast("int").alias("inc"),
            "t",
            kind.cast("byte").alias("kind"),
            code_name(F.col("conf")).alias("conf"),
            "conf_kind",
            "members",
            F.when(F.col("conf_kind") == "transitional", code_name(F.col("reg"))).alias("reg"),
            F.when(F.col("msg").isNotNull(), code_name(F.col("msg"))).alias("msg"),
            F.when(F.col("sender").isNotNull(), F.coalesce("sender_code", F.lit(NOBODY))).cast("int").alias("sender"),
            F.when(_is_filter() & F.col("sender").isNotNull(), code_name(F.col("sender"))).alias("caster"),
            service.cast("byte").alias("service"),
            "ts",
            "pos",
            "primary",
            F.when(F.col("group").isNotNull(), code_name(F.col("group"))).alias("group"),
            "process",
            "view",
            "split",
            F.when(is_bone(), F.struct(*EVENTS.names)).alias("bone"),
        )
    )


def in_order(traces: "Traces") -> "DataFrame":
    """`Traces.ordered`, or the events put into such an order."""
    if traces.ordered is not None:
        return traces.ordered
    order = ("run", "node", "place")
    sorted_ = traces.events.repartitionByRange(*order).sortWithinPartitions(*order)
    return sorted_.withColumn("split", F.spark_partition_id().cast("long"))


def is_bone() -> "Column":
    """Is a row of the table `events` about a configuration or a primary component?"""
    layer, kind = F.col("layer"), F.col("kind")
    return (
        ((layer == "evs") & kind.isin("conf", "fail", "stop"))
        | (kind == "establish")
        | ((layer == "vs") & (kind == "view"))
    )


def _is_hidden() -> "Column":
    return (F.col("layer") == "evs") & (F.col("kind") == "conf") & (F.col("conf_kind") == "hidden")


def _is_filter() -> "Column":
    return F.col("layer") == "vs"


def _home_of(process: str) -> "Column":
    """The node of a process, which is called NODE:INCARNATION:NUMBER."""
    return F.expr(f"left({process}, length({process}) - length(substring_index({process}, ':', -2)) - 1)")


def _one_of(codes: dict[tuple[str, str], int], layer: "Column", kind: "Column") -> "Column":
    """By one search in a list of all names: a case for each would make code that Java leaves uncompiled."""
    names = F.lit(",".join(f"{of}.{name}" for of, name in codes))
    place = F.find_in_set(F.concat(layer, F.lit("."), kind), names)
    return F.get(F.array(*map(F.lit, codes.values())), place - 1)


def _nodes(runs: "DataFrame") -> "DataFrame":
    return runs.select("run", F.posexplode(F.array_sort("nodes")).alias("code", "node"))
