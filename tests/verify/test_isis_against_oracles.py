"""The checks of process groups against slow ones. Runs of the ideal ISIS are taken, and broken at random."""

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs
from tests.verify.isis_oracles import NEED_AN_ORDER, ORACLES, Rows, Told

from reconvene.lab.ideal.isis import random_isis_run
from reconvene.trace.events import Row, Run
from reconvene.trace.shapes import check_row
from reconvene.verify.checks import ids_of
from reconvene.verify.engine import verify
from reconvene.verify.history import History

IDS = ids_of("isis")


# -- breaking -----------------------------------------------------------------------------------------------------


def broken_run(seed: int, mutations: int) -> tuple[Run, Rows]:
    run, rows = random_isis_run(seed, steps=35)
    random = Random(seed)
    for _ in range(mutations):
        _mutate(random, rows)
    for mine in rows.values():
        for n, row in enumerate(mine):
            row.n = n
    return run, rows


def _mutate(random: Random, rows: Rows) -> None:
    mine = rows[random.choice(sorted(rows))]
    every = [row for name in sorted(rows) for row in rows[name] if row.layer == "isis"]
    places = [place for place, row in enumerate(mine) if row.layer == "isis"]
    if not places:
        return
    place = random.choice(places)
    row = mine[place] = structs.replace(mine[place])
    match random.randrange(16):
        case 0 | 1:
            del mine[place]
        case 2:
            mine.insert(random.randrange(len(mine)), structs.replace(row))
        case 3 | 4:
            other = places[max(0, min(len(places) - 1, places.index(place) + random.randint(-3, 3)))]
            mine[place], mine[other] = mine[other], mine[place]
        case 5 | 6:
            mine.insert(random.randrange(1, len(mine)), mine.pop(place))
        case 7 if row.process is not UNSET:
            homes = [r.process for r in mine if r.layer == "isis" and r.inc == row.inc and r.process is not UNSET]
            row.process = random.choice(homes)
        case 8 if row.sender is not UNSET:
            row.sender = random.choice(_processes(every))
        case 9 if row.dests is not UNSET:
            row.dests = _edited(random, row.dests, _processes(every))
            if row.kind == "view" and random.random() < 0.7:
                row.members = sorted(row.dests)
        case 10 if row.members is not UNSET:
            pool = [m for r in every if r.kind == row.kind for m in r.members or ()]
            row.members = sorted(_edited(random, row.members, pool))
        case 11 if row.view is not UNSET:
            row.view += random.choice([-1, 1])
        case 12 if row.label is not UNSET:
            row.label = random.choice([r.label for r in every if r.kind == row.kind and r.label is not UNSET])
        case 13 if row.primary is not UNSET:
            row.primary = random.choice([r.primary for r in every if r.primary is not UNSET])
        case 14 if row.attempt is not UNSET:
            row.attempt = random.choice([0, 1])
        case 15 if row.ts is not UNSET:
            row.ts = random.choice([r.ts for r in every if r.kind == "receive"])
        case _ if row.msg is not UNSET:
            row.msg = random.choice([r.msg for r in every if r.msg is not UNSET])


def _processes(rows: list[Row]) -> list[str]:
    return sorted({row.process for row in rows if row.process is not UNSET})


def _edited(random: Random, names: list[str], pool: list[str]) -> list[str]:
    """One more, one less, or in another order."""
    match random.randrange(3):
        case 0:
            return [*names, *({random.choice(pool)} - set(names))]
        case 1:
            return [name for name in names if name != random.choice(names)]
    return random.sample(names, len(names))


# -- comparing ----------------------------------------------------------------------------------------------------


def test_every_check_has_an_oracle() -> None:
    assert tuple(ORACLES) == IDS


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(0, 4))
def test_cases_and_violations_are_the_oracle_s(seed: int, mutations: int) -> None:
    run, rows = broken_run(seed, mutations)
    report = verify([History.of(run, rows)])
    told = Told(run, rows)
    circle = told.has_circle()
    for check, oracle in ORACLES.items():
        if circle and check in NEED_AN_ORDER:
            continue
        found = report.check(check)
        assert (found.cases, found.violations) == oracle(told), check


@pytest.mark.parametrize("check", IDS)
def test_mutations_break_every_check(check: str) -> None:
    """So that what is compared is not only what is right."""
    assert any(check in verify([History.of(*broken_run(seed, 4))]).violated() for seed in range(300))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_ideal_isis_keeps_every_promise(seed: int) -> None:
    run, rows = random_isis_run(seed, names="abcde", steps=90)
    assert [problem for mine in rows.values() for row in mine if (problem := check_row(row))] == []
    assert verify([History.of(run, rows)]).violated() == []


@settings(max_examples=200, deadline=None)
@example(seed=760, mutations=24)  # ABCASTs in a circle, none of which has one `ts`
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(5, 40))
def test_no_check_falls_over_a_strange_trace(seed: int, mutations: int) -> None:
    report = verify([History.of(*broken_run(seed, mutations))])
    for check in report.checks:
        assert check.witnesses == sorted(check.witnesses)
        if check.id in IDS:
            assert check.cases >= check.violations


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(0, 10))
def test_other_families_do_not_look_at_process_groups(seed: int, mutations: int) -> None:
    run, rows = broken_run(seed, mutations)
    with_isis = verify([History.of(run, rows)])
    without = verify([History.of(run, {name: [r for r in rows[name] if r.layer != "isis"] for name in rows})])
    for check in without.checks:
        if check.id in IDS:
            assert check.cases == check.violations == 0
        elif check.id not in ("evs.1.2", "evs.2.2"):  # which look at the rows of every layer
            assert check == with_isis.check(check.id)
