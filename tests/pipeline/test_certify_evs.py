"""The certificates of extended virtual synchrony against the local engine: golden traces, random histories broken at
random, the simulator's.

Whatever the local engine calls violated has a suspect; what has none is right, with as many cases; and right runs
have no suspects.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.pipeline.told import Told, broken, golden, tell

from reconvene.lab.ideal.evs import random_run
from reconvene.pipeline.traces import Traces
from reconvene.pipeline.verify.coded import code_events, code_name
from reconvene.pipeline.verify.evs import certify, concerned
from reconvene.pipeline.verify.found import Tables
from reconvene.pipeline.verify.skeleton import confs_of, ends_of, found_of, skeletons
from reconvene.sim.profiles import random_scenario
from reconvene.sim.runner import Runner
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import verify
from reconvene.verify.evs.clocks import can_be_set
from reconvene.verify.history import History
from reconvene.verify.report import Report

pytestmark = pytest.mark.slow

BROKEN, IDEAL = 60, 30
EVS_CHECKS = [check for check in CHECKS if check.layer == "evs"]
IDS = {check.id for check in EVS_CHECKS}
PROVEN = {check.id for check in EVS_CHECKS if check.prove}
"""Checks of which more is proven than what configurations show."""
CLOCKS = {"evs.1.1", "evs.2.3", "evs.2.4", "evs.5", "to.causal"}
"""Proven by clocks, where messages do not tell enough; the last two since they rest on the first."""


@dataclass
class Compared:
    told: dict[str, Told]
    local: dict[str, Report]
    cases: Mapping[tuple[str, str], int]
    suspects: Mapping[tuple[str, str], int]
    excerpts: dict[str, Told]
    """Of golden traces that are bad: what the judge would see of them, were they large."""

    def differences(self) -> list[str]:
        found = []
        for run, report in self.local.items():
            for check in (check for check in report.checks if check.id in IDS):
                cases, suspects = self.cases[run, check.id], self.suspects[run, check.id]
                if check.violations and not suspects:
                    found.append(f"{run}: {check.id} is violated, without a suspect")
                if not suspects and cases != check.cases:
                    found.append(f"{run}: {check.id} has {check.cases} cases, not {cases}")
        return found

    def wrongly_suspect(self) -> dict[str, list[str]]:
        """Of each run in which nothing is wrong, the checks that have suspects."""
        found = {
            run: [check for check in IDS if self.suspects[run, check]]
            for run, report in self.local.items()
            if report.ok
        }
        return {run: checks for run, checks in found.items() if checks}


def ideal() -> Iterator[Told]:
    for seed in range(IDEAL):
        run, rows = random_run(seed, names="abcd", steps=60)
        yield structs.replace(run, run=f"ideal {seed}"), rows


def simulated() -> Iterator[Told]:
    for profile in ("chaos", "log"):
        result = Runner(random_scenario(1, profile)).run()
        yield structs.replace(result.meta, run=f"{profile} 1"), result.rows


@pytest.fixture(scope="module")
def compared(spark: SparkSession) -> Compared:
    told = {told[0].run: told for told in (*golden(), *broken(range(BROKEN)), *ideal(), *simulated())}
    traces = tell(spark, told.values())
    shapes = skeletons(traces, EVS_CHECKS).persist()
    tables = Tables(code_events(traces), confs_of(shapes), ends_of(shapes), traces.runs)
    cases: Counter[tuple[str, str]] = Counter()
    suspects: Counter[tuple[str, str]] = Counter()
    found = certify(tables, EVS_CHECKS).union(found_of(shapes))
    names = traces.runs.select("run", code_name(F.col("run")).alias("rid"))
    for row in found.join(names, "rid").collect():
        cases[row.run, row.check] += row.cases
        suspects[row.run, row.check] += row.suspects
    local = {run: verify([History.of(*of)]) for run, of in told.items()}
    excerpts = _excerpts(told, traces, concerned(tables, EVS_CHECKS).join(names, "rid"))
    shapes.unpersist()
    return Compared(told, local, cases, suspects, excerpts)


def _excerpts(told: Mapping[str, Told], traces: Traces, named: DataFrame) -> dict[str, Told]:
    """All rows that are not about messages, and those that are named, by the places that `tell` gives them."""
    bad = F.col("run").startswith("bad/")
    codes = {
        row.msg: row.code
        for row in traces.events.where(bad).select("msg", code_name(F.col("msg")).alias("code")).distinct().collect()
    }
    messages: set[tuple[str, int]] = set()
    places: set[tuple[str, int, int]] = set()
    for row in named.where(bad).select("run", "msg", "node", "place").distinct().collect():
        if row.msg is not None:
            messages.add((row.run, row.msg))
        else:
            places.add((row.run, row.node, row.place))
    found: dict[str, Told] = {}
    for name in (name for name in told if name.startswith("bad/")):
        run, rows = told[name]
        found[name] = (
            run,
            {
                node: [
                    row
                    for index, row in enumerate(rows[node])
                    if row.msg is UNSET or (name, codes[row.msg]) in messages or (name, code, index * 7 + 3) in places
                ]
                for code, node in enumerate(sorted(run.nodes))
            },
        )
    return found


def test_what_is_violated_is_suspect_and_what_is_not_is_right(compared: Compared) -> None:
    assert compared.differences() == []


def test_right_runs_are_proven_right(compared: Compared) -> None:
    # With fifo messages nothing but clocks tells what came first, and the clocks of these are made up.
    suspect = {run for run in compared.wrongly_suspect() if not run.startswith("vs")}
    assert suspect <= {"good/services"}
    assert all(set(checks) <= CLOCKS for checks in compared.wrongly_suspect().values())


def test_an_excerpt_shows_what_is_wrong(compared: Compared) -> None:
    unseen = [
        (run, check)
        for run, told in compared.excerpts.items()
        if (check := run.removeprefix("bad/").split("--")[0]) in PROVEN
        and not verify([History.of(*told)]).check(check).violations
    ]
    assert unseen == []


def test_clocks_that_are_only_ahead_of_each_other_can_be_set() -> None:
    assert can_be_set({})
    assert can_be_set({(0, 1): 5, (1, 0): 1})
    assert can_be_set({(0, 1): -995, (1, 0): 1005, (1, 2): 7, (2, 0): 1000})
    assert not can_be_set({(0, 1): -5, (1, 0): 5})
    assert not can_be_set({(0, 1): -5, (1, 2): 3, (2, 0): 4})


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(-6, 6)))
def test_clocks_can_be_set_if_some_setting_does_it(leads: dict[tuple[int, int], int]) -> None:
    leads = {pair: lead for pair, lead in leads.items() if pair[0] != pair[1]}
    # Only differences count, and none need be more than two leads and two.
    settings = ((0, *added) for added in product(range(-14, 15), repeat=2))
    assert can_be_set(leads) == any(
        all(lead + added[node] - added[sender] > 0 for (sender, node), lead in leads.items()) for added in settings
    )
