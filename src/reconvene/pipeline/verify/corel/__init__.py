"""Certificates of the durable log: docs/checks.md, "The durable log".

One way through the rows: along each node's file (`files`), by message (`messages`), and back to the nodes, in the
order in which they came to have the messages (`order`). Beside it: what needs no messages (`control`), the total
order's positions (`positions`), and the few messages that were red again and again (`reds`).
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from reconvene.pipeline.verify.coded import KINDS
from reconvene.pipeline.verify.corel.control import tell_control
from reconvene.pipeline.verify.corel.files import follow_files
from reconvene.pipeline.verify.corel.messages import NO_MESSAGE, gather_messages
from reconvene.pipeline.verify.corel.order import find_misordered
from reconvene.pipeline.verify.corel.positions import find_gaps, find_shared, find_taking_back, place_messages
from reconvene.pipeline.verify.corel.reds import find_never_yellow
from reconvene.pipeline.verify.corel.suspects import SHARED, any_of, checks_of, has_bit, suspect
from reconvene.pipeline.verify.found import CONCERNED, FOUND
from reconvene.verify.corel import IDS

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["certify", "concerned"]

_LOG = [code for (layer, _), code in KINDS.items() if layer == "corel"]
_SUMMED = ("knows", "rests", "lost_logs", "lost_greens", "phases", "wrong")
_COUNTED = ("accept", "log", "yellow", "red", "green", "snapshot")


def certify(coded: DataFrame, confs: DataFrame, ends: DataFrame, runs: DataFrame) -> DataFrame:
    """FOUND of the checks `corel.*`, of every run that has a log."""
    placed = place_messages(coded)
    pieces = [
        _count_events(coded),
        _count_rows(_rows(coded, runs)),
        _count_positions(placed),
        _count(find_gaps(placed, coded), "corel.3.1"),
        _count(find_never_yellow(coded), "corel.yellow"),
    ]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), pieces)
    sums = [F.coalesce(F.sum(_quoted(name)), F.lit(0)).alias(name) for name in every.columns if name != "rid"]
    return _found(every.groupBy("rid").agg(*sums))


def concerned(coded: DataFrame, confs: DataFrame, ends: DataFrame, runs: DataFrame) -> DataFrame:
    """CONCERNED: the messages and events that the certificates do not prove right."""
    placed = place_messages(coded)
    phases = tell_control(coded, runs).select("rid", F.explode("wrong_phases").alias("of")).select("rid", "of.*")
    rows = _with_wrong_stays(_rows(coded, runs)).where(F.col("suspects") != 0)
    is_message = F.col("what") != NO_MESSAGE
    wrong = rows.select("rid", "suspects", F.when(is_message, F.col("msg")).alias("msg"), "node")
    shared = find_shared(placed).select("rid", F.explode(F.array("msg", "other")).alias("msg"))
    tables = [
        _name(wrong, checks_of(F.col("suspects"))).withColumn("node", _at_one_node()),
        _name(shared, F.array(*map(F.lit, SHARED))),
        _name(phases, F.array(F.lit("corel.phases"))),
        _name(find_gaps(placed, coded), F.array(F.lit("corel.3.1"))),
        _name(find_taking_back(coded), F.array(F.lit("corel.green"), F.lit("corel.3.7"))),
        _name(find_never_yellow(coded), F.array(F.lit("corel.yellow"))),
    ]
    return reduce(DataFrame.union, tables)


def _at_one_node() -> "Column":
    """The node, where the check is about a message at one node, whatever others say of it."""
    return F.when(F.col("check") == "corel.green", F.col("node"))


def _rows(coded: DataFrame, runs: DataFrame) -> DataFrame:
    return find_misordered(gather_messages(follow_files(coded), tell_control(coded, runs)))


def _quoted(name: str) -> str:
    return f"`{name}`"


def _count_events(coded: DataFrame) -> DataFrame:
    """By run that has a log: how many events of each kind there are."""
    kind = F.col("kind")
    counts = (F.count(F.when(kind == KINDS["corel", name], 1)).alias(f"{name}s") for name in _COUNTED)
    return coded.where(kind.isin(_LOG)).groupBy("rid").agg(*counts)


def _count(rows: DataFrame, *checks: str) -> DataFrame:
    """By run: each row is a suspect of these checks."""
    return rows.groupBy("rid").agg(*(F.count("*").alias(check) for check in checks))


def _count_positions(placed: DataFrame) -> DataFrame:
    """By run: its positions, and of the checks that need each to be one message's, those that several have."""
    shared = F.count(F.when(F.col("msg") != F.col("other"), 1))
    return placed.groupBy("rid").agg(F.count("*").alias("positions"), *(shared.alias(check) for check in SHARED))


def _count_rows(rows: DataFrame) -> DataFrame:
    """By run: suspects, and the cases that depend on messages. First by stay after a commit, which are few."""
    stays = rows.groupBy("rid", "node", "stay").agg(
        *(F.count(F.when(has_bit(F.col("suspects"), check), 1)).alias(check) for check in IDS),
        *(F.sum(name).alias(name) for name in _SUMMED),
        *(value.alias(name) for name, value in _of_a_stay().items()),
    )
    sums = {name: F.sum(_quoted(name)) for name in (*IDS, *_SUMMED)}
    sums["corel.yellow"] += F.count(F.when(_is_wrong_stay(), 1))
    sums["corel.phases"] += F.sum("wrong")
    return stays.groupBy("rid").agg(*(value.alias(name) for name, value in sums.items()))


def _of_a_stay() -> "dict[str, Column]":
    """Of the messages that became yellow after one commit of a node: how those that were made green there or before
    stand among all, and by how much their positions differ from that."""
    is_marked, turned = F.col("marked"), F.col("turned")
    lead = F.when(is_marked, F.col("pos") - turned)
    return {
        "made_green": F.count(F.when(is_marked, 1)),
        "begin": F.min(F.when(F.col("what") == NO_MESSAGE, turned)),
        "end": F.max(F.when(is_marked, turned)),
        "lead": F.min(lead),
        "last_lead": F.max(lead),
    }


def _is_wrong_stay() -> "Column":
    """Is it not so that those come first, one position after the other?"""
    first = (F.col("end") - F.col("begin")).eqNullSafe(F.col("made_green"))
    return (F.col("made_green") > 0) & ~(first & (F.col("lead") == F.col("last_lead")))


def _with_wrong_stays(rows: DataFrame) -> DataFrame:
    """The rows, of which those in a stay that is wrong are suspects of corel.yellow."""
    stay = Window.partitionBy("rid", "node", "stay")
    told = rows.withColumns({name: value.over(stay) for name, value in _of_a_stay().items()})
    wrong = suspect(F.col("stay").isNotNull() & _is_wrong_stay(), "corel.yellow")
    return told.withColumn("suspects", any_of(F.col("suspects"), wrong)).drop(*_of_a_stay())


def _name(rows: DataFrame, checks: "Column") -> DataFrame:
    """CONCERNED, for each of these checks: what the rows have of msg, node and place."""
    has = {name: F.col(name) if name in rows.columns else F.lit(None) for name in CONCERNED.names}
    types = {field.name: field.dataType for field in CONCERNED.fields}
    named = {name: has[name].cast(types[name]) for name in CONCERNED.names} | {"check": F.explode(checks)}
    return rows.select(*(value.alias(name) for name, value in named.items()))


def _found(sums: DataFrame) -> DataFrame:
    """FOUND, of what a run sums up to."""
    count = {name: F.col(_quoted(name)) for name in sums.columns}
    cases = {
        "corel.3.1": count["logs"] + count["greens"] + count["snapshots"],
        "corel.3.2": count["accepts"] + count["logs"] + count["greens"],
        "corel.3.6": count["greens"],
        "corel.3.7": count["greens"] - count["lost_greens"],
        "corel.3.8": count["rests"],
        "corel.causal": count["logs"] - count["lost_logs"],
        "corel.green": count["greens"] + count["yellows"] + count["reds"] + count["snapshots"],
        "corel.agreed": count["greens"],
        "corel.yellow": count["greens"] + count["yellows"] + count["reds"] + count["knows"],
        "corel.phases": count["phases"] + count["positions"],
        "corel.ts": count["logs"],
    }
    rows = F.array(
        *(
            F.struct(F.lit(check).alias("check"), cases[check].alias("cases"), count[check].alias("suspects"))
            for check in IDS
        )
    )
    return sums.select("rid", F.inline(rows)).select(*FOUND.names)
