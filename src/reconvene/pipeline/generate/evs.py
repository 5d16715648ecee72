"""A made run of group communication: every service, several senders, configurations that part and merge.

In round r a node sends its frame, then delivers all frames of round r - 1: first those of fifo and causal messages,
each receiver in a way of its own, then those of agreed and safe ones in the order of their timestamps. What is sent
in a spell's last round is delivered by those who go on together: its fifo and causal messages in the regular
configuration, the others in the transitional one.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.generate.plan import Plan, by_section

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["evs_stride", "make_evs"]

ALONE, JOINING, ENTER, SEND, DELIVER, DELIVER_LAST, LEAVE, DELIVER_LATE = range(8)


def evs_stride(nodes: int, pack: int) -> int:
    return pack * (1 + 2 * nodes) + 4


def make_evs(spark: "SparkSession", plan: Plan, rows: int) -> "DataFrame":
    """The events, as `finish` takes them."""
    last, final = f"round = {plan.rounds - 1}", f"spell = {plan.spells - 1}"
    frame = plan.node_rounds(spark, rows)
    frame = frame.withColumns({
        "loose": F.expr("size div 2"),
        "members_here": F.expr(f"if(round = 0, {plan.members('spell', 'part')}, null)"),
        "members_with": F.expr(f"if({last} and not {final}, {plan.members('with_spell', 'with_part')}, null)"),
    })  # fmt: skip
    frame = by_section(frame, {
        "alone": "if(turn = 0, 1, 0)",
        "joining": "if(turn = 0, 1, 0)",
        "enter": "if(round = 0, 1, 0)",
        "send": f"{plan.pack}",
        "deliver": f"if(round > 0, size * {plan.pack}, 0)",
        "deliver last": f"if({last}, if({final}, size, loose) * {plan.pack}, 0)",
        "leave": f"if({last} and not {final}, 1, 0)",
        "deliver late": f"if({last} and not {final}, (size - loose) * {plan.pack}, 0)",
    })  # fmt: skip
    frame = _with_messages(frame, plan)
    together = f"{plan.part('with_spell', 'sender_number')} = with_part"
    frame = frame.where(f"section not in ({DELIVER_LAST}, {DELIVER_LATE}) or {final} or {together}")
    delivered = f"section in ({DELIVER}, {DELIVER_LAST}, {DELIVER_LATE})"
    return frame.select(
        "run", "node", "turn", "k",
        F.expr(plan.clock(f"section >= {DELIVER}")).alias("t"),
        F.lit("evs").alias("layer"),
        F.expr(
            f"case when {delivered} then 'deliver' when section = {SEND} then 'send' else 'conf' end"
        ).alias("kind"),
        F.expr(
            f"case section when {ALONE} then cast(node_number + 1 as string)"
            f" when {JOINING} then concat(node_number + 1, '+', number)"
            f" when {LEAVE} then leaving when {DELIVER_LATE} then leaving else conf end"
        ).alias("conf"),
        F.expr(
            f"case when section in ({JOINING}, {LEAVE}) then 'transitional'"
            f" when section in ({ALONE}, {ENTER}) then 'regular' end"
        ).alias("conf_kind"),
        F.expr(
            f"case when section in ({ALONE}, {JOINING}) then array(node)"
            f" when section = {ENTER} then members_here when section = {LEAVE} then members_with end"
        ).alias("members"),
        F.expr(
            f"case section when {JOINING} then cast(node_number + 1 as string) when {LEAVE} then conf end"
        ).alias("reg"),
        F.expr("concat(sender, ':1:', counter)").alias("msg"),
        F.expr(f"if({delivered}, sender, null)").alias("sender"),
        F.expr(
            "case when slot < loose then if((slot + sent_round div size) % 2 = 0, 'fifo', 'causal')"
            " when slot >= loose then if((slot + sent_round div size) % 3 = 0, 'safe', 'agreed') end"
        ).alias("service"),
        F.expr(
            f"if({delivered} and slot >= loose, array(number, 0L, sent_round * size + slot, at), null)"
        ).alias("ts"),
    )  # fmt: skip


def _with_messages(frame: "DataFrame", plan: Plan) -> "DataFrame":
    """With the message that an event is about, if it is: sent_round, slot (its frame's place in the order of that
    round), at (its place in the frame), sender_number, sender, counter."""
    return (
        frame.withColumns({
            "sent_round": F.expr(f"if(section = {DELIVER}, round - 1, round)"),
            "at": F.expr(f"d % {plan.pack}"),
            "frame": F.expr(f"if(section = {DELIVER_LATE}, loose, 0) + d div {plan.pack}"),
        })
        .withColumn("slot", F.expr(
            f"case when section = {SEND} then (index + round) % size"
            f" when section in ({DELIVER}, {DELIVER_LAST}) and frame < loose then (frame + node_number) % loose"
            f" when section in ({DELIVER}, {DELIVER_LAST}, {DELIVER_LATE}) then frame end"
        ))
        .withColumn("sender_number", F.expr(f"pmod(pmod(slot - sent_round, size) + offset, {plan.nodes})"))
        .withColumns({
            "sender": F.expr(plan.node_name("sender_number")),
            "counter": F.expr(plan.counter("spell", "sent_round", "at")),
        })
    )  # fmt: skip
