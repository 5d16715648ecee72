"""The tables of which the checks of the durable log are proven: docs/checks.md, "The durable log".

One way through the rows: along each node's file (`files`), by message (`messages`), and back to the nodes, in the
order in which they came to have the messages (`order`). Beside it: what needs no messages (`control`), the total
order's positions (`positions`), and the few messages that were red again and again (`reds`). What is summed up of
each run, and which facts make a suspect of which check, is in `reconvene.verify.corel`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from reconvene.pipeline.verify.corel.control import tell_control
from reconvene.pipeline.verify.corel.facts import any_of, checks_of, fact, is_suspect
from reconvene.pipeline.verify.corel.files import follow_files
from reconvene.pipeline.verify.corel.messages import NO_MESSAGE, gather_messages
from reconvene.pipeline.verify.corel.order import find_misordered
from reconvene.pipeline.verify.corel.positions import find_gaps, find_shared, find_taking_back, place_messages
from reconvene.pipeline.verify.corel.reds import find_never_yellow
from reconvene.pipeline.verify.found import CONCERNED, FOUND, Tables, checks_with
from reconvene.verify.check import prove_all
from reconvene.verify.codes import KINDS
from reconvene.verify.corel.sums import LogCheck, LogSums
from reconvene.verify.counts import LogCounts

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["certify", "concerned"]

_LOG = [code for (layer, _), code in KINDS.items() if layer == "corel"]
_SUMMED = ("knows", "rests", "unaccepted_logs", "unaccepted_greens", "phases", "wrong_phase")
_SAME = ("votes", "ended_votes", "wrong_vote", "stopped_vote")
"""Of a run, in each of its rows."""
_COUNTED = ("accept", "log", "yellow", "red", "green", "snapshot")
_BY_RUN = ("wrong_phase", "wrong_vote", "stopped_vote", "wrong_stay", "shared", "gap", "never_yellow")
"""Facts that are counted by run. `wrong_stay` is one of rows too, where these are named."""

_ARROW_FOUND = to_arrow_schema(FOUND)


def certify(tables: Tables, checks: Sequence[LogCheck]) -> DataFrame:
    """FOUND of these checks, of every run that has a log."""
    coded, runs = tables.coded, tables.runs
    placed = place_messages(coded)
    pieces = [
        _count_events(coded),
        _count_rows(_rows(coded, runs), checks),
        _count_positions(placed),
        _count(find_gaps(placed, coded), "gap"),
        _count(find_never_yellow(coded), "never_yellow"),
    ]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), pieces)
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in every.columns if name != "rid"]
    return every.groupBy("rid").agg(*sums).mapInArrow(_prove(checks), FOUND)


def concerned(tables: Tables, checks: Sequence[LogCheck]) -> DataFrame:
    """CONCERNED: the messages and events that these checks do not prove right."""
    coded, runs = tables.coded, tables.runs
    placed = place_messages(coded)
    control = tell_control(coded, runs)
    rows = _with_wrong_stays(_rows(coded, runs)).where(F.col("facts") != 0)
    is_message = F.col("what") != NO_MESSAGE
    wrong = rows.select("rid", "facts", F.when(is_message, F.col("msg")).alias("msg"), "node")
    shared = find_shared(placed).select("rid", F.explode(F.array("msg", "other")).alias("msg"))
    named = {
        "shared": shared,
        "wrong_phase": _events(control, "wrong_phases"),
        "wrong_vote": _events(control, "wrong_votes"),
        "stopped_vote": _events(control, "stopped_votes"),
        "gap": find_gaps(placed, coded),
        "taking_back": find_taking_back(coded),
        "never_yellow": find_never_yellow(coded),
    }
    of_facts = [_name(of, checks_with(name, checks)) for name, of in named.items()]
    of_rows = _name(wrong, checks_of(F.col("facts"), checks)).withColumn("node", _at_one_node())
    return reduce(DataFrame.union, of_facts, of_rows)


def _events(control: DataFrame, name: str) -> DataFrame:
    return control.select("rid", F.explode(name).alias("of")).select("rid", "of.*")


def _at_one_node() -> "Column":
    """The node, where the check is about a message at one node, whatever others say of it."""
    return F.when(F.col("check") == "corel.green", F.col("node"))


def _rows(coded: DataFrame, runs: DataFrame) -> DataFrame:
    return find_misordered(gather_messages(follow_files(coded), tell_control(coded, runs)))


def _suspects(check: int) -> str:
    """The column that counts the suspects of the check with this place among those that are proven."""
    return f"suspects_{check}"


def _count_events(coded: DataFrame) -> DataFrame:
    """By run that has a log: how many events of each kind there are."""
    kind = F.col("kind")
    counts = (F.count(F.when(kind == KINDS["corel", name], 1)).alias(f"{name}s") for name in _COUNTED)
    return coded.where(kind.isin(_LOG)).groupBy("rid").agg(*counts)


def _count(rows: DataFrame, name: str) -> DataFrame:
    """By run: how many rows there are."""
    return rows.groupBy("rid").agg(F.count("*").alias(name))


def _count_positions(placed: DataFrame) -> DataFrame:
    """By run: its positions, and those of them that several messages have."""
    shared = F.count(F.when(F.col("msg") != F.col("other"), 1))
    return placed.groupBy("rid").agg(F.count("*").alias("positions"), shared.alias("shared"))


def _count_rows(rows: DataFrame, checks: Sequence[LogCheck]) -> DataFrame:
    """By run: suspects, and the cases that depend on messages. First by stay after a commit, which are few."""
    stays = rows.groupBy("rid", "node", "stay").agg(
        *(
            F.count(F.when(is_suspect(F.col("facts"), check), 1)).alias(_suspects(index))
            for index, check in enumerate(checks)
        ),
        *(F.sum(name).alias(name) for name in _SUMMED),
        *(F.max(name).alias(name) for name in _SAME),
        *(value.alias(name) for name, value in _of_a_stay().items()),
    )
    sums = {name: F.sum(name) for name in (*map(_suspects, range(len(checks))), *_SUMMED)} | {
        name: F.max(name) for name in _SAME
    }
    sums["wrong_stay"] = F.count(F.when(_is_wrong_stay(), 1))
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
    """The rows, of which those in a stay that is wrong have that fact."""
    stay = Window.partitionBy("rid", "node", "stay")
    described = rows.withColumns({name: value.over(stay) for name, value in _of_a_stay().items()})
    wrong = fact(F.col("stay").isNotNull() & _is_wrong_stay(), "wrong_stay")
    return described.withColumn("facts", any_of(F.col("facts"), wrong)).drop(*_of_a_stay())


def _name(rows: DataFrame, checks: "Column") -> DataFrame:
    """CONCERNED, for each of these checks: what the rows have of msg, node and place."""
    has = {name: F.col(name) if name in rows.columns else F.lit(None) for name in CONCERNED.names}
    types = {field.name: field.dataType for field in CONCERNED.fields}
    named = {name: has[name].cast(types[name]) for name in CONCERNED.names} | {"check": F.explode(checks)}
    return rows.select(*(value.alias(name) for name, value in named.items()))


# -- in a task ----------------------------------------------------------------------------------------------------


def _prove(checks: Sequence[LogCheck]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """FOUND of these checks, of the sums of each run."""

    def of_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = []
            for sums in batch.to_pylist():
                run = _sums(sums, checks)
                rows += [
                    {"rid": sums["rid"], "check": check, "cases": proof.cases, "suspects": proof.suspects}
                    for check, proof in prove_all(checks, run.counts, run).items()
                ]
            yield pa.RecordBatch.from_pylist(rows, schema=_ARROW_FOUND)

    return of_batches


def _sums(row: dict[str, int], checks: Sequence[LogCheck]) -> LogSums:
    counted = {f"{name}s": row[f"{name}s"] for name in _COUNTED}
    others = ("unaccepted_logs", "unaccepted_greens", "phases", "positions")
    return LogSums(
        counts=LogCounts(**counted, **{name: row[name] for name in others}),
        suspects={
            check.id: row[_suspects(index)] + sum(row[name] for name in _BY_RUN if name in check.facts)
            for index, check in enumerate(checks)
        },
        knows=row["knows"],
        rests=row["rests"],
        votes=row["votes"],
        ended_votes=row["ended_votes"],
    )
