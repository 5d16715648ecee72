"""The checks of the durable log against slow ones that read like the sentences, on runs broken at random."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs
from tests.verify.log_oracles import ORACLES, Rows, Told

from reconvene.lab.ideal.corel import random_log
from reconvene.trace.events import Row, Run
from reconvene.verify.engine import verify
from reconvene.verify.history import History


def broken_log(seed: int, mutations: int, steps: int = 35) -> tuple[Run, Rows]:
    run, rows = random_log(seed, steps=steps)
    random = Random(seed)
    if random.random() < 0.15:
        # Without the layer below: then nothing tells of configurations.
        rows = {name: [row for row in mine if row.layer == "corel"] for name, mine in rows.items()}
    for _ in range(mutations):
        _mutate(random, rows)
    for mine in rows.values():
        for n, row in enumerate(mine):
            row.n = n
    return run, rows


def _mutate(random: Random, rows: Rows) -> None:
    mine = rows[random.choice(sorted(rows))]
    every = [row for name in sorted(rows) for row in rows[name] if row.layer == "corel"]
    places = [place for place, row in enumerate(mine) if row.layer == "corel"]
    if not places:
        return
    place = random.choice(places)
    phases = [i for i in places if mine[i].kind in ("attempt", "commit", "establish")]
    if phases and random.random() < 0.2:
        place = random.choice(phases)  # they are few
    row = mine[place] = structs.replace(mine[place])
    match random.randrange(12):
        case 0 | 1:
            del mine[place]
        case 2:
            mine.insert(random.randrange(len(mine)), structs.replace(row))
        case 3 | 4:
            other = random.choice([i for i in places if abs(i - place) <= 6])
            mine[place], mine[other] = mine[other], mine[place]
        case 5:
            mine.insert(random.randrange(len(mine)), mine.pop(place))
        case 6 if row.msg is not UNSET:
            row.msg = random.choice([other.msg for other in every if other.msg is not UNSET])
        case 7 if row.pos is not UNSET:
            row.pos = max(0, row.pos + random.choice([-2, -1, 1, 2]))
        case 8 if row.ts is not UNSET:
            row.ts = random.choice([other.ts for other in every if other.ts is not UNSET])
        case 9 if row.members is not UNSET:
            row.members = sorted(random.sample(sorted(rows), random.randint(1, len(rows))))
        case 10 if row.conf is not UNSET:
            row.conf = random.choice([other.conf for other in every if other.conf is not UNSET])
        case 11:
            row.inc = max(1, row.inc + random.choice([-1, 1]))
        case _ if row.primary is not UNSET:
            row.primary += random.choice([-1, 1])
        case _ if row.kind in ("yellow", "red"):
            row.kind = "red" if row.kind == "yellow" else "yellow"
        case _:
            line = random.randrange(8)
            mine.insert(place, Row(node=row.node, inc=row.inc, n=0, t=0, layer="corel", kind="snapshot", pos=line))


@pytest.mark.parametrize("check", ORACLES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(0, 3))
def test_counts_are_the_oracle_s(check: str, seed: int, mutations: int) -> None:
    run, rows = broken_log(seed, mutations)
    report = verify([History.of(run, rows)])
    assert report.check(check).violations == ORACLES[check](Told(run, rows))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_ideal_log_keeps_every_promise(seed: int) -> None:
    assert verify([History.of(*random_log(seed, names="abcd", steps=80))]).violated() == []


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(4, 40))
def test_no_check_falls_over_a_strange_trace(seed: int, mutations: int) -> None:
    for check in verify([History.of(*broken_log(seed, mutations))]).checks:
        if check.id.startswith("corel."):
            assert check.cases >= check.violations
            assert check.witnesses == sorted(check.witnesses)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_trace_that_breaks_off_anywhere_is_judged_alike_without_settling(seed: int) -> None:
    """Every node's file ends where the run ended: what is there so far holds."""
    run, rows = random_log(seed, steps=60, settled=False)
    assert not run.settled
    assert verify([History.of(run, rows)]).violated() == []
