"""What each node's file says of each message: one pass along the file, then one row of a node and a message.

Along the file are carried: the configuration, the last event that begins or ends a phase of a primary component, the
next position. What begins with such an event is over where the incarnation or the configuration is another one.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.verify.coded import KINDS, code_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

__all__ = ["follow_files"]

_CONF, _FAIL, _STOP = (KINDS["evs", kind] for kind in ("conf", "fail", "stop"))
_ACCEPT, _LOG, _YELLOW, _RED, _GREEN = (
    KINDS["corel", kind] for kind in ("accept", "log", "yellow", "red", "green")
)  # fmt: skip
_ATTEMPT, _COMMIT, _ESTABLISH, _ADOPT, _SNAPSHOT = (
    KINDS["corel", kind] for kind in ("attempt", "commit", "establish", "adopt", "snapshot")
)
_LEAVES = [_CONF, _FAIL, _STOP]
_OF_MESSAGES = [_ACCEPT, _LOG, _YELLOW, _RED, _GREEN]


def follow_files(coded: "DataFrame") -> "DataFrame":
    """One row of a node and a message of the log that its file names, with places in the file:

    - accept, log, yellow, green: the first such event; last_yellow, red: the last; accepts, logs, yellows, reds,
      greens: how many there are;
    - pos, last_pos: the lowest and the highest position of its greens; misplaced: how many of them do not have the
      node's next one;
    - made: the lowest primary component that the node made it green in;
    - early, last_early, earlies: the first and the last attempt or commit during which it became yellow or green,
      though only the commit or the establish allows that, and how often;
    - stay, of its last yellow event after a commit, that commit's place; stay_primary, its number, and rank, how
      many yellow events there were since, this one included;
    - red_after: the highest number that the node had committed to when the message was red.

    A row without a message tells by `misplaced` how many snapshots are below the node's next position.
    """
    return _by_message(_carry(coded))


def _carry(coded: "DataFrame") -> "DataFrame":
    file = Window.partitionBy("rid", "node").orderBy("place")
    before = file.rowsBetween(Window.unboundedPreceding, -1)
    kind = F.col("kind")
    event = F.struct("kind", "primary", "conf", "inc", "place")
    following = F.when(kind == _GREEN, F.col("pos") + 1).when(kind == _SNAPSHOT, F.col("pos"))
    here = F.when(kind == _CONF, F.col("conf")).when(kind.isin(_FAIL, _STOP), code_name(F.lit("")))
    return (
        coded.where(kind.isin(*_LEAVES, *_OF_MESSAGES, _ATTEMPT, _COMMIT, _ESTABLISH, _ADOPT, _SNAPSHOT))
        .select("rid", "node", "place", "inc", "kind", "conf", "msg", "pos", "primary")
        .withColumns({
            "here": _last(here, file),
            "phase": _last(F.when(kind.isin(*_LEAVES, _ATTEMPT, _COMMIT, _ESTABLISH, _ADOPT), event), file),
            "term": _last(F.when(kind.isin(*_LEAVES, _ATTEMPT, _COMMIT, _ADOPT), event), file),
            "following": F.coalesce(_last(following, before), F.lit(0)),
            "turned": F.count(F.when(kind == _YELLOW, 1)).over(file),
            "committed": F.max(F.when(kind == _COMMIT, F.col("primary"))).over(file),
        })
        .withColumn("turned_before", _last(F.when(kind == _COMMIT, F.col("turned")), file))
        .where(kind.isin(*_OF_MESSAGES, _SNAPSHOT))
    )  # fmt: skip


def _last(value: "Column", window: "WindowSpec") -> "Column":
    return F.last(value, ignorenulls=True).over(window)


def _by_message(rows: "DataFrame") -> "DataFrame":
    kind, place, pos = F.col("kind"), F.col("place"), F.col("pos")
    is_yellow, is_red, is_green = kind == _YELLOW, kind == _RED, kind == _GREEN
    phase_kind = F.when(_lasts("phase"), F.col("phase.kind"))
    stays = is_yellow & _lasts("term") & (F.col("term.kind") == _COMMIT)
    too_early = (is_green & phase_kind.isin(_ATTEMPT, _COMMIT)) | (is_yellow & (phase_kind == _ATTEMPT))
    early = F.when(too_early, F.col("phase.place"))
    amiss = (is_green & (pos != F.col("following"))) | ((kind == _SNAPSHOT) & (pos < F.col("following")))
    return rows.groupBy("rid", "node", "msg").agg(
        *(
            F.min(F.when(kind == code, place)).alias(name)
            for name, code in (("accept", _ACCEPT), ("log", _LOG), ("yellow", _YELLOW), ("green", _GREEN))
        ),
        F.max(F.when(is_yellow, place)).alias("last_yellow"),
        F.max(F.when(is_red, place)).alias("red"),
        *(
            F.count(F.when(kind == code, 1)).alias(name)
            for name, code in (
                ("accepts", _ACCEPT), ("logs", _LOG), ("yellows", _YELLOW), ("reds", _RED), ("greens", _GREEN),
            )
        ),
        F.min(F.when(is_green, pos)).alias("pos"),
        F.max(F.when(is_green, pos)).alias("last_pos"),
        F.count(F.when(amiss, 1)).alias("misplaced"),
        F.min(F.when(is_green & (phase_kind == _ESTABLISH), F.col("phase.primary"))).alias("made"),
        F.min(early).alias("early"),
        F.max(early).alias("last_early"),
        F.count(early).alias("earlies"),
        F.max(F.when(stays, F.col("term.place"))).alias("stay"),
        F.max(F.when(stays, F.col("term.primary"))).alias("stay_primary"),
        (F.max(F.when(stays, F.col("turned"))) - F.max(F.when(stays, F.col("turned_before")))).alias("rank"),
        F.max(F.when(is_red, F.col("committed"))).alias("red_after"),
    )  # fmt: skip


def _lasts(event: str) -> "Column":
    """Is what began with this event not over?"""
    here = F.col("here")
    return (F.col(f"{event}.inc") == F.col("inc")) & (here.isNull() | (F.col(f"{event}.conf") == here))
