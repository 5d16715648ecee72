"""Made traces keep every promise; each mutation breaks the one that it says."""

import json
from collections.abc import Iterable

import numpy as np
import pytest
from pyspark.sql import SparkSession

from reconvene.errors import Malformed
from reconvene.lab.generate import MUTATIONS, STACKS, generate, recipe
from reconvene.lab.generate.recipe import Recipe
from reconvene.pipeline.schema import EVENTS, RUNS
from reconvene.trace.events import Row, Run
from reconvene.trace.reader import check_row, check_run
from reconvene.verify.engine import verify
from reconvene.verify.history import History

FAMILIES = {"evs": ("evs.", "transis.", "to.", "live."), "corel": ("corel.", "evs.primary."), "filter": ("vs.",)}
IDLE = {
    "evs": {"evs.primary.uniqueness", "evs.primary.continuity", "live.wide"},
    "corel": {"corel.dynamic.subquorum", "corel.dynamic.live", "corel.follow"},
}
"""What a made run of this stack has no cases of: it names no quorum, or a majority, nobody follows its log, and there
are no domains."""

Rows = dict[str, dict[str, list[Row]]]


def rows_of(events: Iterable[dict[str, object]]) -> Rows:
    """By run and node, of events in their order."""
    found: Rows = {}
    for event in events:
        fields = {name: value for name, value in event.items() if value is not None}
        run, _ = fields.pop("run"), fields.pop("place")
        row = Row(**fields)  # type: ignore[arg-type]
        assert check_row(row) is None
        found.setdefault(str(run), {}).setdefault(row.node, []).append(row)
    return found


def histories(how: Recipe) -> list[History]:
    rows = rows_of(event for batch in how.make(np.arange(how.turns)) for event in batch.to_pylist())
    runs = [how.run(number) for number in range(how.plan.runs)]
    return [History.of(run, rows[run.run]) for run in runs]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("changes", [0, 3, 4])
def test_made_traces_keep_every_promise(stack: str, nodes: int, changes: int) -> None:
    report = verify(histories(recipe(1600, stack=stack, nodes=nodes, changes=changes, runs=2)))
    assert report.violated() == []
    assert report.runs == 2


@pytest.mark.parametrize("stack", STACKS)
def test_all_checks_have_something_to_look_at(stack: str) -> None:
    report = verify(histories(recipe(4000, stack=stack, changes=4)))
    assert report.ok
    assert report.events == pytest.approx(4000, rel=0.3)
    idle = {check.id for check in report.checks if check.id.startswith(FAMILIES[stack]) and not check.cases}
    assert idle == IDLE.get(stack, set())


@pytest.mark.long("fifty traces, each made and verified")
@pytest.mark.parametrize(("stack", "name"), [(stack, name) for stack in MUTATIONS for name in MUTATIONS[stack]])
def test_each_mutation_breaks_what_it_says(stack: str, name: str) -> None:
    mutation = MUTATIONS[stack][name]
    for changes in (2,) if mutation.needs_changes else (0, 4):
        for at in (0.0, 0.45, 1.0):
            report = verify(histories(recipe(4000, stack=stack, changes=changes, mutation=name, at=at)))
            assert set(mutation.checks) <= set(report.violated()), (changes, at, report.violated())


def test_spark_makes_the_same(spark: SparkSession) -> None:
    how = recipe(900, runs=2, changes=2, mutation="deliver-twice", prefix="x")
    traces = generate(spark, how)
    assert traces.events.schema.simpleString() == EVENTS.simpleString()
    assert traces.runs.schema.simpleString() == RUNS.simpleString()
    runs = [row.asDict() for row in traces.runs.collect()]
    assert [Run(**{**run, "quorum": json.loads(run["quorum"])}) for run in runs] == [how.run(0), how.run(1)]
    for number in range(how.plan.runs):
        check_run(how.run(number))
    events = traces.events.orderBy("run", "node", "place").collect()
    assert [row.asDict() for row in events] == [
        event for batch in how.make(np.arange(how.turns)) for event in batch.to_pylist()
    ]


def test_what_can_t_be_made_is_refused() -> None:
    with pytest.raises(Malformed, match="stack is 'tcp'"):
        recipe(100, stack="tcp")
    with pytest.raises(Malformed, match="mutation is 'wish'; expected one of lose-agreed"):
        recipe(100, mutation="wish")
    with pytest.raises(Malformed, match="one or more events"):
        recipe(0)
    with pytest.raises(Malformed, match="nothing that this mutation could change"):
        recipe(100, nodes=1, mutation="cycle")
