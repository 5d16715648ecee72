"""What each node's file holds of each message: one pass along the file, then one row of a node and a message.

Along the file are carried: the configuration, the last event that begins or ends a phase of a primary component, or a
term, which an establish event does not end; the next position. What begins with such an event is over where the
incarnation or the configuration is another one.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.pipeline.verify.along import Along, Greatest, Last, Total
from reconvene.pipeline.verify.coded import code_name
from reconvene.verify.codes import KINDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["FAILED", "follow_files", "life_of", "next_position"]

_CONF, _FAIL, _STOP = (KINDS["evs", kind] for kind in ("conf", "fail", "stop"))
_ACCEPT, _LOG, _YELLOW, _RED, _GREEN = (
    KINDS["corel", kind] for kind in ("accept", "log", "yellow", "red", "green")
)  # fmt: skip
_ATTEMPT, _COMMIT, _ESTABLISH, _ADOPT, _SNAPSHOT = (
    KINDS["corel", kind] for kind in ("attempt", "commit", "establish", "adopt", "snapshot")
)
_LEAVES = [_CONF, _FAIL, _STOP]
FAILED = 32
"""How often a node has failed is counted from this bit on; below it, how many regular configurations it entered."""
_LIFE = 20
_OF_MESSAGES = [_ACCEPT, _LOG, _YELLOW, _RED, _GREEN]


def life_of(inc: int, failures: int) -> int:
    """A number that grows whenever a node fails or begins another incarnation."""
    return (inc << _LIFE) + failures


def follow_files(coded: "DataFrame") -> "DataFrame":
    """One row of a node and a message of the log that its file names, with places in the file:

    - accept, log, yellow, green: the first such event; last_yellow, red: the last; accepts, logs, yellows, reds,
      greens: how many there are;
    - pos, last_pos: the lowest and the highest position of its greens; misplaced: how many of them do not have the
      node's next one;
    - made: the lowest primary component that the node made it green in; may: the highest that it may have made it
      green in, if that was recorded late;
    - early, last_early, earlies: the first and the last attempt or commit during which it became yellow or green,
      though only the commit or the establish allows that, and how often;
    - stay, of its last yellow event after a commit, the number of that; turned, how many yellow events the node had
      by then;
    - red_after: the highest number that the node had committed to when the message was red;
    - least_ts, greatest_ts: the hashes of the timestamps under which it was logged; accept_life, log_life: the node's
      life, see `life_of`, when it first accepted and first logged it.

    Also a row of each commit, with its place for the message, its number for the stay, and turned; and one without a
    message, of a node that has a snapshot or another phase, with, as `misplaced`, how many snapshots are below
    the node's next position.
    """
    return _by_message(_carry(coded))


def _carry(coded: "DataFrame") -> "DataFrame":
    kind = F.col("kind")
    begins_term = kind.isin(*_LEAVES, _ATTEMPT, _COMMIT, _ADOPT)
    began = F.struct("kind", "primary", "conf", "inc", "place")
    regular = (kind == _CONF) & (F.col("conf_kind") == "regular")
    moved = F.when(regular, F.lit(1)).when(kind.isin(_FAIL, _STOP), F.lit(1 << FAILED)).otherwise(F.lit(0))
    is_phase = kind.isin(_ATTEMPT, _COMMIT, _ESTABLISH, _ADOPT)
    rows = coded.where(kind.isin(*_LEAVES, *_OF_MESSAGES, _ATTEMPT, _COMMIT, _ESTABLISH, _ADOPT, _SNAPSHOT)).select(
        "rid", "node", "place", "split", "inc", "kind", "msg", "pos", "primary",
        F.when(kind == _LOG, F.xxhash64("ts")).alias("ts"),
        moved.alias("moved"),
        is_phase.alias("is_phase"),
        F.when(is_phase, F.struct("kind", "primary", "inc")).alias("own_here"),
        F.when(kind == _CONF, F.col("conf")).when(kind.isin(_FAIL, _STOP), code_name(F.lit(""))).alias("conf_here"),
        F.when(begins_term | (kind == _ESTABLISH), began).alias("phase_here"),
        F.when(begins_term, began).alias("term_here"),
        next_position().alias("following_here"),
        (kind == _YELLOW).cast("int").alias("turns"),
        F.when(kind == _COMMIT, F.col("primary")).alias("commits"),
    )  # fmt: skip
    along = Along(
        keys=("rid", "node"),
        carried={
            "moves": Total("moved"),
            "own": Last("own_here"),
            "moves_since": Total("moved", since="is_phase"),
            "here": Last("conf_here"),
            "phase": Last("phase_here"),
            "term": Last("term_here"),
            "following": Last("following_here", before=True),
            "turned": Total("turns"),
            "committed": Greatest("commits"),
        },
    )
    followed = along.follow(rows, ("rid", "node", "place", "inc", "kind", "msg", "pos", "primary", "ts"))
    return followed.where(kind.isin(*_OF_MESSAGES, _ATTEMPT, _COMMIT, _ESTABLISH, _SNAPSHOT)).withColumn(
        "following", F.coalesce("following", F.lit(0))
    )


def next_position() -> "Column":
    """The position that the node's next green message has to have after this row; null: as before it."""
    kind = F.col("kind")
    return F.when(kind == _GREEN, F.col("pos") + 1).when(kind == _SNAPSHOT, F.col("pos"))


def _by_message(rows: "DataFrame") -> "DataFrame":
    kind, place, pos = F.col("kind"), F.col("place"), F.col("pos")
    is_yellow, is_red, is_green, commits = kind == _YELLOW, kind == _RED, kind == _GREEN, kind == _COMMIT
    phase, term = (F.when(_lasts(name), F.col(f"{name}.kind")) for name in ("phase", "term"))
    stay = F.when(commits, F.col("primary")).when(is_yellow & (term == _COMMIT), F.col("term.primary"))
    too_early = (is_green & phase.isin(_ATTEMPT, _COMMIT)) | (is_yellow & (phase == _ATTEMPT))
    amiss = (is_green & (pos != F.col("following"))) | ((kind == _SNAPSHOT) & (pos < F.col("following")))
    own = F.col("own")
    may = (own["kind"] == _ESTABLISH) & (own["inc"] == F.col("inc")) & (F.col("moves_since") <= 1)
    life = F.shiftleft(F.col("inc").cast("long"), _LIFE) + F.shiftright("moves", FAILED)
    told = rows.select(
        "rid", "node", "place", "kind", "pos", "turned", "ts", life.alias("life"),
        F.when(is_green & may, own["primary"]).alias("may"),
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
        F.max("may").alias("may"),
        F.min("early").alias("early"),
        F.max("early").alias("last_early"),
        F.count("early").alias("earlies"),
        F.max("stay").alias("stay"),
        F.max(F.when(F.col("stay").isNotNull(), F.col("turned"))).alias("turned"),
        F.max("red_after").alias("red_after"),
        F.min("ts").alias("least_ts"),
        F.max("ts").alias("greatest_ts"),
        F.min(F.when(kind == _ACCEPT, F.col("life"))).alias("accept_life"),
        F.min(F.when(kind == _LOG, F.col("life"))).alias("log_life"),
    )  # fmt: skip


def _lasts(name: str) -> "Column":
    """Is this phase or term not over?"""
    here = F.col("here")
    return (F.col(f"{name}.inc") == F.col("inc")) & (here.isNull() | (F.col(f"{name}.conf") == here))
