"""What all nodes together say of each message of the log.

Given: one row of a node and a message (`files`), and CONTROL. Made of it: one row of every node of the run and every
message, whether or not the node's file names it, and one of each accept; with its facts (see
`reconvene.verify.corel.sums`), but those about the order of a node's messages.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reconvene.pipeline.verify.corel.facts import any_of, fact
from reconvene.verify.log_history import NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ACCEPTED", "HAD", "LOGGED", "NO_MESSAGE", "gather_messages"]

ACCEPTED, ACCEPTED_AGAIN, LOGGED, HAD, NO_MESSAGE = range(5)
"""What a row is: the lowest accept of its message; another accept; a log event; another way to have the message, or
that the node never has it; a commit, or all snapshots and other phases of a node."""

_SHIFT = 44
"""Places and positions are below 2**44; so a node and one of these are one number, ordered as the two are."""


def gather_messages(told: "DataFrame", control: "DataFrame") -> "DataFrame":
    """Columns: rid, msg, pos (NEVER: nowhere green), author and accept (null: nobody accepted it), had_by (since when
    which node accepted or has it); and of the row node, place (NEVER: the node never has it), what, facts, knows,
    rests (1 where it is a case of corel.yellow, corel.3.8), unaccepted_logs, unaccepted_greens (of a message that
    nobody accepted), stay, turned, marked (was it made green in a primary component that the node knew when it became
    yellow there?), phases, wrong_phase (how many the run has, and how many are violated, in one of its rows), votes,
    wrong_vote, ended_votes, stopped_vote (the same of dynamic voting, in every row of a node's file: a run may have
    no phases). Commits are rows too, which have a stay and turned, and nothing else."""
    rows = _with_message(told).join(F.broadcast(control), "rid").withColumns(_of_the_run())
    rows = rows.withColumns({
        "cover": _cover(F.col("node")),
        # A node that made it green itself, and recorded that late, has to have had it yellow then.
        "due": F.when(F.col("late") & (F.col("may") == F.col("primary")), F.col("green"))
        .otherwise(F.get("due_by_node", F.col("node"))),
        "rest": F.get("resting", F.col("node")),
    }).withColumns({
        "had": F.least("log", "cover"),
        "green_from": F.least("green", "cover"),
    })  # fmt: skip
    rows = rows.withColumns({
        "touched": _touched(),
        "knows": F.col("due").isNotNull(),
    }).withColumns({
        "rests": (F.col("rest") >= 0)
        & (F.least("accept", "had").isNotNull() | F.array_contains(F.col("touched"), F.col("rest"))),
    })  # fmt: skip
    rows = rows.withColumn("facts", _facts())
    own = F.array(_own_row())
    accept = F.when(F.col("accept").isNotNull(), F.array(_accept_row()))
    absent = F.when(F.col("is_first") & (F.size("had_by") < F.col("nodes")) & F.col("is_message"), _absent_rows())
    nothing = F.filter(own, lambda row: F.lit(False))
    every = F.concat(own, F.coalesce(accept, nothing), F.coalesce(absent, nothing))
    return rows.select(
        "rid",
        "msg",
        _or_never("ordered").alias("pos"),
        "author",
        "accepted",
        _had_since().alias("had_by"),
        F.explode(every).alias("row"),
    ).select("rid", "msg", "pos", "author", "accepted", "had_by", "row.*")


def _or_never(*places: str) -> "Column":
    return F.coalesce(*places, F.lit(NEVER))


def _with_message(told: "DataFrame") -> "DataFrame":
    """With what holds of the message as a whole."""
    same = Window.partitionBy("rid", "msg")

    def lowest(value: str) -> "Column":
        """Of the lowest node that has it."""
        return F.min(F.when(F.col(value).isNotNull(), F.shiftleft(F.col("node").cast("long"), _SHIFT) + F.col(value)))

    bits = F.lit((1 << _SHIFT) - 1)
    since = F.struct(F.col("node"), F.least("accept", "log").alias("since"))
    return told.withColumns({
        "lowest_accept": lowest("accept").over(same),
        "lowest_green": lowest("pos").over(same),
        "all_accepts": F.sum("accepts").over(same),
        "first_pos": F.min("pos").over(same),
        "final_pos": F.max("last_pos").over(same),
        "torn": F.max(F.col("pos") != F.col("last_pos")).over(same),
        "primary": F.coalesce(F.min("made").over(same), F.max("may").over(same)),
        "late": F.min("made").over(same).isNull(),
        "restamped": F.min("least_ts").over(same) != F.max("greatest_ts").over(same),
        "had_by": F.collect_list(since).over(same),
        "is_message": F.max(_is_named()).over(same),
        "is_first": F.col("node") == F.min("node").over(same),
    }).withColumns({
        "author": F.shiftright("lowest_accept", _SHIFT).cast("int"),
        "accepted": F.col("lowest_accept").bitwiseAND(bits),
        "ordered": F.col("lowest_green").bitwiseAND(bits),
    })  # fmt: skip


def _is_named() -> "Column":
    """Is the row about a message? Else about phases or snapshots."""
    return F.col("accepts") + F.col("logs") + F.col("yellows") + F.col("reds") + F.col("greens") > 0


def _of_the_run() -> "dict[str, Column]":
    place = F.array_position("primaries", F.col("primary")) - 1
    return {"due_by_node": F.when(F.col("primary").isNotNull(), F.get("dues", place.cast("int")))}


def _cover(node: "Column") -> "Column":
    """Where the node took a snapshot that covers the message."""
    covering = F.filter(F.get("snapshots_of", node), lambda taken: taken["pos"] > F.col("ordered"))
    return F.when(
        F.col("snapshots_of").isNotNull() & F.col("ordered").isNotNull(), F.get(covering, F.lit(0))["place"]
    )


def _had_since() -> "Column":
    """By node, since when it accepted or has the message, snapshots regarded; those alone that do."""
    named = F.col("had_by")

    def of(node: "Column") -> "Column":
        own = F.get(F.filter(named, lambda one: one["node"] == node), F.lit(0))["since"]
        return F.struct(node.alias("node"), F.least(own, _cover(node)).alias("since"))

    every = F.transform(F.sequence(F.lit(0), F.col("nodes") - 1), of)
    return F.filter(
        F.when(F.col("snapshots_of").isNull(), named).otherwise(every), lambda one: one["since"].isNotNull()
    )


def _touched() -> "Column":
    """The components that came to rest and of which a node accepted or has the message."""
    rests = F.transform(_had_since(), lambda one: F.get("resting", one["node"]))
    return F.when(F.col("resting").isNotNull(), rests)


def _facts() -> "Column":
    node, green, red = F.col("node"), F.col("green_from"), F.col("red")
    is_author = node == F.col("author")
    unaccepted = F.col("author").isNull() & (F.col("logs") + F.col("greens") > 0)
    too_soon = is_author & (F.least("log", "green") < F.col("accepted"))
    twice = (
        (F.col("is_first") & (F.col("all_accepts") > 1))
        | (F.col("logs") > 1)
        | (F.col("greens") > 1)
        | (F.col("cover") < F.col("green"))
    )
    before_itself = is_author & (F.col("had") < F.col("accepted"))
    return any_of(
        fact(unaccepted, "unaccepted"),
        fact(too_soon, "too_soon"),
        fact(twice, "twice"),
        fact(F.col("misplaced") > 0, "misplaced"),
        fact((F.col("misplaced") > 0) & (F.col("greens") > 0), "misplaced_green"),
        fact(before_itself, "before_itself"),
        fact(before_itself & F.col("ordered").isNotNull(), "ordered_before_itself"),
        fact(F.col("rests") & green.isNull(), "not_green"),
        fact(F.col("green").isNotNull() & (_or_never("had") > F.col("green")), "green_unhad"),
        fact((green < F.col("last_yellow")) | (green < red), "recoloured"),
        fact(F.col("is_first") & (F.col("first_pos") != F.col("final_pos")), "moved"),
        fact(_is_wrongly_yellow(), "wrongly_yellow"),
        fact(F.col("is_first") & F.col("ordered").isNotNull() & F.col("primary").isNull(), "unmade"),
        fact(F.coalesce(is_author, F.col("is_first")) & F.col("restamped") & ~_is_sent_again(), "restamped"),
        fact(F.col("is_first") & (F.col("tangled") > 0), "tangled"),
        # A node that made it green at two positions: which of them is the first one's, and covered, is not known.
        fact(F.col("torn"), "torn"),
    )


def _is_sent_again() -> "Column":
    """Of the author's row: did it fail after it accepted the message, and before it logged it?"""
    logged = F.coalesce("log_life", F.get("lives", F.col("node")))
    return F.coalesce((F.col("node") == F.col("author")) & (logged > F.col("accept_life")), F.lit(False))


def _is_wrongly_yellow() -> "Column":
    green, red, due = F.col("green_from"), F.col("red"), F.col("due")
    yellow = F.when(F.col("reds") > 0, F.col("last_yellow")).otherwise(F.col("yellow"))
    steady = F.least(
        *(F.when(red.isNull() | (place > red), place) for place in (yellow, F.col("green"), F.col("cover")))
    )
    absent = F.col("knows") & ((_or_never("had") >= due) | (F.coalesce(steady, F.lit(NEVER)) >= due))
    unfounded = F.col("yellow") < _or_never("had")
    not_yellow = red.isNotNull() & ((_or_never("yellow") > red) | (green < red))
    return (
        absent
        | unfounded
        | not_yellow
        | (F.col("yellows") > F.col("reds") + 1)
        | (F.col("red_after") >= F.col("primary"))
        | _is_too_early()
    )


def _is_too_early() -> "Column":
    excused = F.get("excused", F.col("node"))
    both = F.array_contains(excused, F.col("early")) & F.array_contains(excused, F.col("last_early"))
    few = (F.col("earlies") <= 2) | (F.col("early") == F.col("last_early"))
    return F.when(F.col("earlies") > 0, ~(both & few)).otherwise(F.lit(False))


# -- rows ---------------------------------------------------------------------------------------------------------


def _row(**columns: "Column") -> "Column":
    """A row of a node, of which what is not given is not there."""
    number, nothing = F.lit(0).cast("long"), F.lit(None).cast("long")
    full = {
        "node": F.lit(0), "place": F.lit(NEVER), "what": F.lit(HAD), "facts": F.lit(0), "knows": F.lit(0),
        "rests": F.lit(0), "unaccepted_logs": number, "unaccepted_greens": number, "stay": nothing, "turned": nothing,
        "marked": F.lit(False), "phases": number, "wrong_phase": number,
        "votes": number, "wrong_vote": number, "ended_votes": number, "stopped_vote": number,
    } | columns  # fmt: skip
    return F.struct(*(value.alias(name) for name, value in full.items()))


def _own_row() -> "Column":
    lost = F.col("author").isNull()
    logged = F.col("log").isNotNull()
    of_the_run = F.col("is_first") & F.col("msg").isNull()
    return _row(
        node=F.col("node"),
        place=_or_never("log", "cover"),
        what=F.when(logged, F.lit(LOGGED)).when(F.col("is_message"), F.lit(HAD)).otherwise(F.lit(NO_MESSAGE)),
        facts=F.col("facts"),
        knows=F.col("knows").cast("int"),
        rests=F.coalesce(F.col("rests"), F.lit(False)).cast("int"),
        unaccepted_logs=F.when(lost, F.col("logs")).otherwise(F.lit(0)),
        unaccepted_greens=F.when(lost, F.col("greens")).otherwise(F.lit(0)),
        stay=F.col("stay"),
        turned=F.col("turned"),
        marked=F.coalesce(F.col("primary") <= F.col("stay"), F.lit(False)),
        phases=F.when(of_the_run, F.col("phases")).otherwise(F.lit(0)),
        wrong_phase=F.when(of_the_run, F.size("wrong_phases").cast("long")).otherwise(F.lit(0)),
        votes=F.col("votes"),
        wrong_vote=F.size("wrong_votes").cast("long"),
        ended_votes=F.col("ended_votes"),
        stopped_vote=F.size("stopped_votes").cast("long"),
    )


def _accept_row() -> "Column":
    lowest = (F.col("node") == F.col("author")) & (F.col("accept") == F.col("accepted"))
    return _row(
        node=F.col("node"),
        place=F.col("accept"),
        what=F.when(lowest, F.lit(ACCEPTED)).otherwise(F.lit(ACCEPTED_AGAIN)),
    )


def _absent_rows() -> "Column":
    """Of the nodes whose files do not name the message."""
    named = F.transform("had_by", lambda one: one["node"])
    absent = F.array_except(F.sequence(F.lit(0), F.col("nodes") - 1), named)

    def of(node: "Column") -> "Column":
        cover, due, rest = _cover(node), F.get("due_by_node", node), F.get("resting", node)
        rests = F.coalesce((rest >= 0) & F.array_contains(F.col("touched"), rest), F.lit(False))
        return _row(
            node=node,
            place=F.coalesce(cover, F.lit(NEVER)),
            facts=any_of(
                fact(F.coalesce(cover, F.lit(NEVER)) >= due, "wrongly_yellow"),
                fact(rests & cover.isNull(), "not_green"),
            ),
            knows=due.isNotNull().cast("int"),
            rests=rests.cast("int"),
        )

    return F.transform(absent, of)
