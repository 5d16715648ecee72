"""Certificates of the durable log: docs/checks.md, "The durable log".

One way through the rows: along each node's file (`files`), by message (`messages`), and back to the nodes, in the
order in which they came to have the messages (`order`). Beside it: what needs no messages (`control`), the total
order's positions (`positions`), and the few messages that were red again and again (`reds`).
"""

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reconvene.pipeline.verify.coded import KINDS
from reconvene.pipeline.verify.corel.control import tell_control
from reconvene.pipeline.verify.corel.files import follow_files
from reconvene.pipeline.verify.corel.messages import gather_messages
from reconvene.pipeline.verify.corel.order import find_misordered
from reconvene.pipeline.verify.corel.positions import find_gaps, find_shared, place_messages
from reconvene.pipeline.verify.corel.reds import find_never_yellow
from reconvene.pipeline.verify.corel.suspects import has_bit
from reconvene.pipeline.verify.found import CONCERNED, FOUND
from reconvene.verify.corel import IDS

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["certify", "concerned"]

_LOG = [code for (layer, _), code in KINDS.items() if layer == "corel"]
_COUNTED = ("accept", "log", "yellow", "red", "green", "snapshot")


def certify(coded: DataFrame, confs: DataFrame, ends: DataFrame, runs: DataFrame) -> DataFrame:
    """FOUND of the checks `corel.*`, of every run that has a log."""
    placed = place_messages(coded)
    pieces = [
        _count_events(coded),
        _count_rows(_rows(coded, runs)),
        _count(find_shared(placed), "corel.agreed", "corel.3.6"),
        _count(find_gaps(placed, coded), "corel.3.1"),
        _count(find_never_yellow(coded), "corel.yellow"),
    ]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), pieces)
    sums = [F.coalesce(F.sum(_quoted(name)), F.lit(0)).alias(name) for name in every.columns if name != "rid"]
    return _found(every.groupBy("rid").agg(*sums))


def concerned(coded: DataFrame, confs: DataFrame, ends: DataFrame, runs: DataFrame) -> DataFrame:
    """CONCERNED: the messages and events that the certificates do not prove right."""
    placed = place_messages(coded)
    rows = _rows(coded, runs)
    shared = find_shared(placed).select("rid", F.explode(F.array("msg", "other")).alias("msg"))
    tables = [
        *(_name(rows.where(has_bit(F.col("suspects"), check)), check) for check in IDS),
        _name(_of_wrong_stays(rows), "corel.yellow"),
        _name(shared, "corel.agreed"),
        _name(shared, "corel.3.6"),
        _name(find_gaps(placed, coded), "corel.3.1"),
        _name(find_never_yellow(coded), "corel.yellow"),
    ]
    return reduce(DataFrame.union, tables)


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


def _count_rows(rows: DataFrame) -> DataFrame:
    """By run: suspects, and the cases that depend on messages. First by stay after a commit, which are few."""
    stays = _by_stay(
        rows,
        *(F.count(F.when(has_bit(F.col("suspects"), check), 1)).alias(check) for check in IDS),
        *(F.sum(name).alias(name) for name in ("knows", "rests", "lost_logs", "lost_greens")),
    )
    sums = {name: F.sum(_quoted(name)) for name in (*IDS, "knows", "rests", "lost_logs", "lost_greens")}
    sums["corel.yellow"] += F.count(F.when(_is_wrong_stay(), 1))
    return stays.groupBy("rid").agg(*(value.alias(name) for name, value in sums.items()))


def _by_stay(rows: DataFrame, *columns: "Column") -> DataFrame:
    marked = F.col("marked")
    lead = F.when(marked, F.col("pos") - F.col("rank"))
    return rows.groupBy("rid", "node", "stay").agg(
        *columns,
        F.count(F.when(marked, 1)).alias("marked"),
        F.max(F.when(marked, F.col("rank"))).alias("highest"),
        F.min(lead).alias("lead"),
        F.max(lead).alias("last_lead"),
    )


def _is_wrong_stay() -> "Column":
    """Is it not so that, of the messages that became yellow there, those that were made green come first, one
    position after the other?"""
    return (F.col("marked") > 0) & (
        (F.col("highest") != F.col("marked")) | (F.col("lead") != F.col("last_lead"))
    )  # fmt: skip


def _of_wrong_stays(rows: DataFrame) -> DataFrame:
    wrong = _by_stay(rows).where(_is_wrong_stay()).select("rid", "node", "stay")
    return rows.where(F.col("stay").isNotNull()).join(wrong, ["rid", "node", "stay"], "left_semi")


def _name(rows: DataFrame, check: str) -> DataFrame:
    """All events of the messages, or, where there is none, the event."""
    has = {name: F.col(name) if name in rows.columns else F.lit(None) for name in CONCERNED.names}
    named = has | {"check": F.lit(check)}
    if "msg" in rows.columns:
        named |= {"node": F.lit(None), "place": F.lit(None)}
    types = {field.name: field.dataType for field in CONCERNED.fields}
    return rows.select(*(named[name].cast(types[name]).alias(name) for name in CONCERNED.names))


def _found(sums: DataFrame) -> DataFrame:
    """FOUND, of what a run sums up to.

    Where positions are not one after the other or not agreed on, what follows what can't be told by them; and where
    something is ordered before what it follows, not in which order a node may have them.
    """
    count = {name: F.col(_quoted(name)) for name in sums.columns}
    out_of_order = ((count["corel.3.6"] > 0) | (count["corel.green"] > 0)).cast("long")
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
    }
    suspects = {check: count[check] for check in IDS}
    suspects["corel.causal"] += (count["corel.3.7"] > 0).cast("long")
    suspects["corel.3.7"] += out_of_order
    rows = F.array(
        *(
            F.struct(F.lit(check).alias("check"), cases[check].alias("cases"), suspects[check].alias("suspects"))
            for check in IDS
        )
    )
    return sums.select("rid", F.inline(rows)).select(*FOUND.names)
