"""What each node's file says of each message: one pass along the file, then one row of a node and a message.

Along the file are carried: the configuration, the last event that begins or ends a phase of a primary component, or a
term, which an establish event does not end; the next position. What begins with such an event is over where the
incarnation or the configuration is another one.
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
    - stay, of its last yellow event after a commit, the number of that; turned, how many yellow events the node had
      by then;
    - red_after: the highest number that the node had committed to when the message was red.

    Also a row of each commit, with its place for the message, its number for the stay, and turned; and one without a
    message, which tells by `misplaced` how many snapshots are below the node's next position.
    """
    return _by_message(_carry(coded))


def _carry(coded: "DataFrame") -> "DataFrame":
    file = Window.partitionBy("rid", "node").orderBy("place")
    so_far = file.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = file.rowsBetween(Window.unboundedPreceding, -1)
    kind = F.col("kind")
    begins_term = kind.isin(*_LEAVES, _ATTEMPT, _COMMIT, _ADOPT)
    began = F.struct("kind", "primary", "conf", "inc", "place")
    following = F.when(kind == _GREEN, F.col("pos") + 1).when(kind == _SNAPSHOT, F.col("pos"))
    here = F.when(kind == _CONF, F.col("conf")).when(kind.isin(_FAIL, _STOP), code_name(F.lit("")))
    return (
        coded.where(kind.isin(*_LEAVES, *_OF_MESSAGES, _ATTEMPT, _COMMIT, _ESTABLISH, _ADOPT, _SNAPSHOT))
        .select("rid", "node", "place", "inc", "kind", "conf", "msg", "pos", "primary")
        .withColumns({
            "here": _last(here, so_far),
            "phase": _last(F.when(begins_term | (kind == _ESTABLISH), began), so_far),
            "term": _last(F.when(begins_term, began), so_far),
            "following": F.coalesce(_last(following, before), F.lit(0)),
            "turned": F.count(F.when(kind == _YELLOW, 1)).over(so_far),
            "committed": F.max(F.when(kind == _COMMIT, F.col("primary"))).over(so_far),
        })
        .where(kind.isin(*_OF_MESSAGES, _COMMIT, _SNAPSHOT))
    )  # fmt: skip


def _last(value: "Column", window: "WindowSpec") -> "Column":
    return F.last(value, ignorenulls=True).over(window)


def _by_message(rows: "DataFrame") -> "DataFrame":
    kind, place, pos = F.col("kind"), F.col("place"), F.col("pos")
    is_yellow, is_red, is_green, commits = kind == _YELLOW, kind == _RED, kind == _GREEN, kind == _COMMIT
    phase, term = (F.when(_lasts(name), F.col(f"{name}.kind")) for name in ("phase", "term"))
    stay = F.when(commits, F.col("primary")).when(is_yellow & (term == _COMMIT), F.col("term.primary"))
    too_early = (is_green & phase.isin(_ATTEMPT, _COMMIT)) | (is_yellow & (phase == _ATTEMPT))
    amiss = (is_green & (pos != F.col("following"))) | ((kind == _SNAPSHOT) & (pos < F.col("following")))
    told = rows.select(
        "rid", "node", "place", "kind", "pos", "turned",
        F.when(commits, place).otherwise(F.col("msg")).alias("msg"),
        F.when(amiss, 1).alias("amiss"),
        F.when(is_green & (phase == _ESTABLISH), F.col("phase.primary")).alias("made"),
        F.when(too_early, F.col("phase.place")).alias("early"),
        stay.alias("stay"),
        F.when(is_red, F.col("committed")).alias("red_after"),
    )  # fmt: skip
    return told.groupBy("rid", "node", "msg").agg(
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
        F.count("amiss").alias("misplaced"),
        F.min("made").alias("made"),
        F.min("early").alias("early"),
        F.max("early").alias("last_early"),
        F.count("early").alias("earlies"),
        F.max("stay").alias("stay"),
        F.max(F.when(F.col("stay").isNotNull(), F.col("turned"))).alias("turned"),
        F.max("red_after").alias("red_after"),
    )  # fmt: skip


def _lasts(name: str) -> "Column":
    """Is this phase or term not over?"""
    here = F.col("here")
    return (F.col(f"{name}.inc") == F.col("inc")) & (here.isNull() | (F.col(f"{name}.conf") == here))
