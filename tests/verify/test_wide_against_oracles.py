"""The checks of domains against slow ones. Runs of the ideal domains are taken, and broken at random."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs
from tests.verify.wide_oracles import NEED_AN_ORDER, ORACLES, Told

from reconvene.lab.ideal.wide_run import random_wide_run
from reconvene.trace.domains import WideTrace
from reconvene.trace.events import Row
from reconvene.trace.shapes import check_row, check_wide_row
from reconvene.verify.checks import ids_of
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.load import wide_histories
from reconvene.verify.report import Report

IDS = tuple(check for check in ids_of("wide") if not check.startswith("wide.cast-"))
"""Those of casts have no rows in these runs; what precedes what is judged by the code of `isis.causal`."""


def judge(trace: WideTrace) -> Report:
    levels = {name: History.of(level.run, level.rows) for name, level in trace.levels.items()}
    return verify(wide_histories(trace.domains, levels, trace.wide))


def broken_run(seed: int, mutations: int, steps: int = 60) -> WideTrace:
    trace = random_wide_run(seed, steps)
    random = Random(seed)
    for _ in range(mutations):
        if random.random() < 0.15:
            _drop_at_a_level(random, trace)
        else:
            _mutate(random, trace.wide.rows)
    return trace


def _drop_at_a_level(random: Random, trace: WideTrace) -> None:
    """A site did not deliver a safe message of its cluster, or of the level above."""
    level = trace.levels[random.choice(sorted(trace.levels))].rows
    mine = level[random.choice(sorted(level))]
    places = [place for place, row in enumerate(mine) if row.kind == "deliver" and row.service == "safe"]
    if places:
        del mine[random.choice(places)]


def _mutate(random: Random, rows: dict[str, list[Row]]) -> None:
    mine = rows[random.choice(sorted(rows))]
    if not mine:
        return
    every = [row for name in sorted(rows) for row in rows[name]]
    place = random.randrange(len(mine))
    change = random.randrange(12)
    rare = [i for i, each in enumerate(mine) if each.kind == "lost"]
    if rare and random.random() < 0.2:
        place, change = random.choice(rare), random.choice((0, 3, 11))
    row = mine[place] = structs.replace(mine[place])
    alike = [each for each in every if each.kind == row.kind]
    other = random.choice(alike)
    match change:
        case 0 | 1:
            del mine[place]
        case 2:
            mine.insert(random.randrange(len(mine)), structs.replace(row))
        case 3 | 4:
            to = max(0, min(len(mine) - 1, place + random.randint(-3, 3)))
            mine[place], mine[to] = mine[to], mine[place]
        case 5 if row.ts is not UNSET and other.ts is not UNSET:
            row.ts = other.ts
        case 6 if row.view is not UNSET:
            row.view += random.choice([-1, 1])
        case 7 if row.members is not UNSET and other.members is not UNSET:
            row.members = other.members
        case 8 if row.sender is not UNSET and other.sender is not UNSET:
            row.sender = other.sender
        case 9 if row.scope is not UNSET:
            row.scope = random.choice(["wide", "cluster"])
        case 10 if row.group is not UNSET:
            row.group = random.choice(["bank", "shop", "home"])
        case 11 if row.kind == "lost":
            row.reg = random.choice([each.conf for each in every if each.kind == "rep"])
        case _ if row.msg is not UNSET:
            row.msg = other.msg
    numbers = sorted(each.n for each in mine)
    for n, each in zip(numbers, mine, strict=True):
        each.n = n


def test_every_check_has_an_oracle() -> None:
    assert set(ORACLES) == set(IDS)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(0, 4))
def test_cases_and_violations_are_the_oracle_s(seed: int, mutations: int) -> None:
    compare(broken_run(seed, mutations))


@pytest.mark.long("the same for more runs, and longer ones")
@settings(max_examples=250, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(0, 6))
def test_cases_and_violations_are_the_oracle_s_in_longer_runs(seed: int, mutations: int) -> None:
    compare(broken_run(seed, mutations, steps=120))


def compare(trace: WideTrace) -> None:
    report = judge(trace)
    told = Told(trace)
    circle = told.has_circle()
    for check, oracle in ORACLES.items():
        if not (circle and check in NEED_AN_ORDER):
            found = report.check(check)
            assert (found.cases, found.violations) == oracle(told), check


def test_mutations_break_every_check() -> None:
    """So that what is compared is not only what is right."""
    unbroken = set(IDS)
    for seed in range(200):
        unbroken -= set(judge(broken_run(seed, 8, steps=120)).violated())
        if not unbroken:
            return
    raise AssertionError(f"nothing broke {sorted(unbroken)}")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1_499))
def test_ideal_domains_keep_every_promise(seed: int) -> None:
    trace = random_wide_run(seed, steps=150)
    for level in trace.levels.values():
        assert [problem for mine in level.rows.values() for row in mine if (problem := check_row(row))] == []
    assert [problem for mine in trace.wide.rows.values() for row in mine if (problem := check_wide_row(row))] == []
    assert judge(trace).violated() == []


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(5, 40))
def test_no_check_falls_over_a_strange_trace(seed: int, mutations: int) -> None:
    for check in judge(broken_run(seed, mutations)).checks:
        assert check.witnesses == sorted(check.witnesses)
        assert check.cases >= check.violations
