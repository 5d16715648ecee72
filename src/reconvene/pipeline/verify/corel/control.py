"""A run's log apart from its messages: which node knows of which primary component until when, which has to order
everything at the end, which snapshots were taken, and which phases are wrong.

The rows about it are few, so one task takes all of one run's, and the local engine's own code reads them. Of
the rows about messages it gets one of each incarnation of a node, the first, and the place of the last.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import UNSET
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from reconvene.errors import Malformed
from reconvene.pipeline.verify.coded import code_name
from reconvene.pipeline.verify.corel.files import life_of
from reconvene.pipeline.verify.histories import read_run
from reconvene.trace.events import Row
from reconvene.verify.codes import KINDS
from reconvene.verify.corel.liveness import ordering_nodes
from reconvene.verify.corel.phases import wrong_phases
from reconvene.verify.corel.voting import counted_votes, ended_votes, stopped_votes, wrong_votes
from reconvene.verify.corel.yellow import due_of, early_events, knowledge_of
from reconvene.verify.history import History
from reconvene.verify.live import components
from reconvene.verify.log_history import ATTEMPT, COMMIT, NEVER, NodeLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CONTROL", "tell_control"]

_LONG, _INT = T.LongType(), T.IntegerType()
_POINT = T.StructType([T.StructField("place", _LONG, False), T.StructField("pos", _LONG, False)])
_EVENT = T.StructType([T.StructField("node", _INT, False), T.StructField("place", _LONG, False)])

CONTROL = T.StructType([
    T.StructField("rid", _LONG, False),
    T.StructField("nodes", _INT, False),
    T.StructField("primaries", T.ArrayType(_LONG), False),
    T.StructField("dues", T.ArrayType(T.ArrayType(_LONG)), False),
    T.StructField("resting", T.ArrayType(_INT)),
    T.StructField("excused", T.ArrayType(T.ArrayType(_LONG)), False),
    T.StructField("snapshots_of", T.ArrayType(T.ArrayType(_POINT))),
    T.StructField("tangled", _INT, False),
    T.StructField("lives", T.ArrayType(_LONG), False),
    T.StructField("phases", _LONG, False),
    T.StructField("wrong_phases", T.ArrayType(_EVENT), False),
    T.StructField("votes", _LONG, False),
    T.StructField("wrong_votes", T.ArrayType(_EVENT), False),
    T.StructField("ended_votes", _LONG, False),
    T.StructField("stopped_votes", T.ArrayType(_EVENT), False),
])  # fmt: skip
"""One row of each run that has a log. nodes: how many there are.

primaries: the numbers of those that were established. dues: of each of these, by node, the place at which knowing of
it has to show; NEVER: at the end; null: the node does not know. resting: where a component with a quorum came to
rest, by node its number among these, or -1. excused: by node, the attempts and commits, by place, during which a
yellow or green event is no violation. snapshots_of: by node, in their order; null where the run has none. tangled: 1
if a node's incarnations do not follow each other. lives: by node, its life at the end, one more where that is a
failure. phases: how many attempt, commit and establish events there are; wrong_phases: those that are violated.
votes, wrong_votes, ended_votes, stopped_votes: the same of the checks of dynamic voting."""

_ARROW_CONTROL = to_arrow_schema(CONTROL)

_NAMES = {code: name for name, code in KINDS.items()}
_EVS = ("conf", "fail", "stop")
_PHASES = ("attempt", "commit", "establish", "adopt")
_TOLD = [*(KINDS["evs", kind] for kind in _EVS), *(KINDS["corel", kind] for kind in (*_PHASES, "snapshot"))]
_FIELDS = ("conf_kind", "members", "pos", "primary")
_OF_MESSAGES = [KINDS["corel", kind] for kind in ("accept", "log", "yellow", "red", "green")]


def tell_control(coded: "DataFrame", runs: "DataFrame") -> "DataFrame":
    """CONTROL."""
    rows = _bones(coded)
    named = runs.withColumn("rid", code_name(F.col("run")))
    return rows.groupBy("rid").cogroup(named.groupBy("rid")).applyInArrow(_tell, CONTROL)


def _bones(coded: "DataFrame") -> "DataFrame":
    """Each such row, and of the rows about messages of an incarnation the first and the last place: one pass,
    in which these fall into one group."""
    kind = F.col("kind")
    told = kind.isin(_TOLD)
    columns = ("kind", "conf", "conf_kind", "members", "pos", "primary")
    return (
        coded.where(told | kind.isin(_OF_MESSAGES))
        .groupBy(
            "rid", "node", "inc",
            F.when(told, F.col("place")).alias("place"), *(F.when(told, F.col(name)).alias(name) for name in columns),
        )
        .agg(F.min("place").alias("first"), F.max("place").alias("last"))
    )  # fmt: skip


# -- in a task ----------------------------------------------------------------------------------------------------


def _tell(bones: pa.Table, runs: pa.Table) -> pa.Table:
    rows = bones.sort_by([("node", "ascending"), ("first", "ascending")]).to_pylist()
    if not runs.num_rows or not any(_is_of_log(row) for row in rows):
        return _ARROW_CONTROL.empty_table()
    run = read_run(runs)
    names = sorted(run.nodes)
    told = {name: [row for row in rows if row["node"] == node] for node, name in enumerate(names)}
    history = History.of(run, {name: list(_rows(name, mine)) for name, mine in told.items()})
    node_logs = history.log.node_logs
    primaries = sorted(history.log.members)
    snapshots = [[row for row in mine if _name(row) == "snapshot"] for mine in told.values()]
    row = {
        "rid": rows[0]["rid"],
        "nodes": len(names),
        "primaries": primaries,
        "dues": _dues(history, primaries),
        "resting": _resting(history),
        "excused": [sorted(_excused(node_log)) for node_log in node_logs],
        "snapshots_of": snapshots if any(snapshots) else None,
        "tangled": int(any(map(_is_tangled, told.values()))),
        "lives": [_last_life(mine) + (name in run.down) for name, mine in told.items()],
        "phases": sum(len(node_log.named) for node_log in node_logs),
        "wrong_phases": _events(node_logs, wrong_phases(history)),
        "votes": counted_votes(history),
        "wrong_votes": _events(node_logs, wrong_votes(history)),
        "ended_votes": len(ended_votes(history)),
        "stopped_votes": _events(node_logs, stopped_votes(history)),
    }
    return pa.Table.from_pylist([row], schema=_ARROW_CONTROL)


def _events(node_logs: list[NodeLog], found: Iterator[tuple[int, int, str]]) -> list[dict[str, int]]:
    return [{"node": node, "place": _place(node_logs[node], place)} for node, place, _ in found]


def _name(row: dict[str, Any]) -> str | None:
    return None if row["kind"] is None else _NAMES[row["kind"]][1]


def _is_of_log(row: dict[str, Any]) -> bool:
    return row["kind"] is None or _NAMES[row["kind"]][0] == "corel"


def _rows(node: str, told: list[dict[str, Any]]) -> Iterator[Row]:
    """As the local engine reads them, with the place for `n`. After each attempt and commit comes a green event that
    nobody wrote: it asks whether one would be too early there."""
    for row in told:
        fixed: dict[str, Any] = {"node": node, "inc": row["inc"], "n": row["first"], "t": 0}
        if row["kind"] is None:
            yield Row(**fixed, layer="corel", kind="accept", msg="")
            continue
        layer, kind = _NAMES[row["kind"]]
        fields: dict[str, Any] = {name: UNSET if row[name] is None else row[name] for name in _FIELDS}
        yield Row(**fixed, **fields, layer=layer, kind=kind, conf=str(row["conf"]))
        if kind in ("attempt", "commit"):
            yield Row(**fixed, layer="corel", kind="green", msg="", pos=0)


def _dues(h: History, primaries: list[int]) -> list[list[int | None]]:
    known = [(node_log, knowledge_of(node_log)) for node_log in h.log.node_logs]
    return [
        [
            None if due is None else _place(node_log, due[1])
            for node_log, knows in known
            for due in (due_of(node_log, knows, primary, h.log.members[primary]),)
        ]
        for primary in primaries
    ]


def _place(node_log: NodeLog, index: int) -> int:
    return node_log.n[index] if index < len(node_log.n) else NEVER


def _excused(node_log: NodeLog) -> Iterator[int]:
    """The attempts and commits after which a green event would not be too early."""
    early = early_events(node_log)
    for index, kind in enumerate(node_log.kind):
        if kind in (ATTEMPT, COMMIT) and index + 1 not in early:
            yield node_log.n[index]


def _resting(h: History) -> list[int] | None:
    if not h.run.settled:
        return None
    try:
        ordering = [nodes for component in components(h) if (nodes := ordering_nodes(h, component))]
    except Malformed:
        return None  # such a run is refused before anything else is made of it
    found = [-1] * h.nodes
    for number, component in enumerate(ordering):
        for node in component:
            found[node] = number
    return found if ordering else None


def _last_life(told: list[dict[str, Any]]) -> int:
    failures = sum(_name(row) in ("fail", "stop") for row in told)
    return life_of(max((row["inc"] for row in told), default=0), failures)


def _is_tangled(told: list[dict[str, Any]]) -> bool:
    spans: dict[int, list[int]] = {}
    for row in told:
        span = spans.setdefault(row["inc"], [row["first"], row["last"]])
        span[0], span[1] = min(span[0], row["first"]), max(span[1], row["last"])
    ordered = sorted(spans.values())
    return any(first[1] > second[0] for first, second in pairwise(ordered))
