"""The checks of virtual synchrony against slow ones that read like the sentences of docs/checks.md.

Runs of the ideal filter are taken as they are and broken at random; each oracle looks at every pair or triple.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, structs

from reconvene.lab.ideal.vs import random_filtered_run
from reconvene.trace.events import Row, Run
from reconvene.verify.checks import ids_of
from reconvene.verify.engine import verify
from reconvene.verify.history import History

Rows = dict[str, list[Row]]
Count = tuple[int, int]
"""(cases, violations)"""
ORDERED = ("agreed", "safe")
IDS = ids_of("vs")


# -- breaking -----------------------------------------------------------------------------------------------------


def broken_run(seed: int, mutations: int) -> tuple[Run, Rows]:
    run, rows = random_filtered_run(seed, steps=28)
    random = Random(seed)
    if random.random() < 0.5:
        _change_view(random, rows)
    for _ in range(mutations):
        _mutate(random, rows)
    for mine in rows.values():
        for n, row in enumerate(mine):
            row.n = n
    return run, rows


def _change_view(random: Random, rows: Rows) -> None:
    """Where an agreed or safe message is delivered, a new view begins just before it."""
    every = [row for name in sorted(rows) for row in rows[name] if row.layer == "vs"]
    ordered = [row for row in every if row.kind == "deliver" and row.ts is not UNSET]
    if not ordered:
        return
    first = random.choice(ordered)
    group, view = first.group, first.view
    assert view is not UNSET
    model = next(row for row in every if row.kind == "view" and (row.group, row.view) == (group, view))
    for name, mine in rows.items():
        passed: set[Any] = set()
        told: list[Row] = []
        for row in mine:
            if (row.group, row.view) == (group, view):
                if row.kind == "deliver" and row.msg == first.msg and row.process not in passed:
                    passed.add(row.process)
                    fields = {"node": name, "inc": row.inc, "process": row.process, "view": view + 1}
                    told.append(structs.replace(model, **fields))
                if row.process in passed:
                    row = structs.replace(row, view=view + 1)
            told.append(row)
        mine[:] = told


def _mutate(random: Random, rows: Rows) -> None:
    mine = rows[random.choice(sorted(rows))]
    every = [row for name in sorted(rows) for row in rows[name] if row.layer == "vs"]
    places = [place for place, row in enumerate(mine) if row.layer == "vs"]
    if not places:
        return
    place = random.choice(places)
    row = mine[place] = structs.replace(mine[place])
    match random.randrange(12):
        case 0:
            del mine[place]
        case 1:
            mine.insert(random.randrange(len(mine)), structs.replace(row))
        case 2 | 3:
            other = places[max(0, min(len(places) - 1, places.index(place) + random.randint(-3, 3)))]
            mine[place], mine[other] = mine[other], mine[place]
        case 4:
            mine.insert(random.randrange(1, len(mine)), mine.pop(place))
        case 5:
            other_row = random.choice(every)
            row.group, row.view = other_row.group, other_row.view
        case 6:
            row.process = random.choice([r.process for r in mine if r.layer == "vs" and r.inc == row.inc])
        case 7 if row.service is not UNSET:
            row.service = random.choice(["fifo", "causal", "agreed", "safe"])
        case 8 if row.ts is not UNSET:
            row.ts = random.choice(every).ts
        case 9 if row.members is not UNSET:
            labels = sorted({str(r.process) for r in every})
            row.members = sorted({*row.members, random.choice(labels)} - {random.choice(labels)})
        case 10 if row.kind == "view":
            row.primary = random.choice([r.primary for r in every if r.kind == "view"])
            row.conf = random.choice([r.conf for r in every if r.kind == "view"])
        case 11 if row.sender is not UNSET:
            row.sender = random.choice(every).process
        case _ if row.msg is not UNSET:
            row.msg = random.choice([other.msg for other in every if other.msg is not UNSET])


# -- reading ------------------------------------------------------------------------------------------------------


class Told:
    """The run as the sentences speak of it. Events stand by site, then by place in the file: lowest first."""

    def __init__(self, run: Run, rows: Rows) -> None:
        self.run = run
        self.rows = rows
        self.events = [row for name in sorted(rows) for row in rows[name] if row.layer == "vs"]
        self.views = [e for e in self.events if e.kind == "view"]
        self.deliveries = [e for e in self.events if e.kind == "deliver"]

    def before(self, one: Row, other: Row) -> bool:
        """Of the same process, earlier."""
        return one.process == other.process and one.n < other.n

    def cast(self, msg: Any) -> Row | None:
        return next((e for e in self.events if e.kind == "cast" and e.msg == msg), None)

    def service(self, msg: Any) -> Any:
        told = self.cast(msg) or next(e for e in self.deliveries if e.msg == msg)
        return told.service

    def members(self, group: Any, view: Any) -> set[str]:
        lowest = next((e for e in self.views if (e.group, e.view) == (group, view)), None)
        return set() if lowest is None or lowest.members is UNSET else set(lowest.members)

    def installed(self, label: Any, group: Any) -> set[int]:
        return {e.view for e in self.views if e.process == label and e.group == group and e.view is not UNSET}

    def primary(self, group: Any, view: Any) -> Any:
        return next((e.primary for e in self.views if (e.group, e.view) == (group, view)), None)

    def home(self, msg: Any) -> tuple[Any, Any]:
        """The view of its lowest delivery, or, if there is none, of its cast."""
        told = next((d for d in self.deliveries if d.msg == msg), None) or self.cast(msg)
        assert told is not None
        return told.group, told.view

    def groups(self) -> set[tuple[Any, Any]]:
        return {(e.group, e.view) for e in self.views}

    def is_late(self, event: Row) -> bool:
        """Is its process over when it happens?"""
        earlier = [row for row in self.rows[event.node] if row.n < event.n]
        return any(
            (row.layer == "evs" and row.kind in ("fail", "stop") and row.inc == event.inc)
            or (row.layer == "evs" and row.kind == "conf" and row.inc > event.inc)
            or (row.layer == "vs" and row.kind == "stop" and (row.process, row.group) == (event.process, event.group))
            for row in earlier
        )

    def ends_in(self, label: Any, group: Any, view: Any) -> bool:
        """Where the run is settled: the view is its highest, and it is not over at the end."""
        if view != max(self.installed(label, group), default=None):
            return False
        return self.is_there_at_the_end(next(e for e in self.views if e.process == label and e.group == group))

    def is_there_at_the_end(self, event: Row) -> bool:
        """Where the run is settled: is the event's process not over, in its group, at the end?"""
        end = structs.replace(event, n=len(self.rows[event.node]))
        return self.run.settled and not self.is_late(end) and event.node not in self.run.down

    def together(self, one: Any, other: Any, group: Any, view: Any) -> bool:
        """Does `one`, who installed the view, go on from it with `other`?"""
        later = [v for v in self.installed(one, group) if v > view]
        both = [v for v in later if v in self.installed(other, group)]
        return any({one, other} <= self.members(group, v) for v in both) or (
            self.ends_in(one, group, view) and other in self.members(group, view) and self.ends_in(other, group, view)
        )

    def goes_on(self, label: Any, group: Any, view: Any) -> bool:
        later = [v for v in self.installed(label, group) if v > view]
        return view in self.installed(label, group) and (
            any(label in self.members(group, v) for v in later) or self.ends_in(label, group, view)
        )

    def leads(self, inside: list[Row], names: list[Any]) -> dict[Any, set[Any]]:
        """From each event to all that it precedes; those of one name are one, and an event is no cause of itself."""
        casts = [self.cast(e.msg) if e.kind == "deliver" else None for e in inside]
        edges: dict[Any, set[Any]] = {name: set() for name in names}
        for i, one in enumerate(inside):
            for j, other in enumerate(inside):
                if self.before(one, other) or casts[j] is one:
                    edges[names[i]].add(names[j])
        found: dict[Any, set[Any]] = {}
        for name in edges:
            todo, seen = list(edges[name]), set(edges[name])
            while todo:
                fresh = edges[todo.pop()] - seen
                seen |= fresh
                todo.extend(fresh)
            found[name] = seen
        return found


# -- oracles ------------------------------------------------------------------------------------------------------


def causes(told: Told) -> Count:
    cases = wrong = 0
    past: dict[Any, set[Any]] = {}
    for group, view in {(e.group, e.view) for e in told.events}:
        inside = [
            e
            for e in told.events
            if e.kind in ("cast", "deliver")
            and told.home(e.msg) == (group, view)
            and told.service(e.msg) != "fifo"
            and (cast := told.cast(e.msg)) is not None
            and ((e.group, e.view) == (group, view) if e.kind == "deliver" else cast is e)
        ]
        leads = told.leads(inside, list(range(len(inside))))
        for j, later in enumerate(inside):
            if later.kind == "cast":
                found = {e.msg for i, e in enumerate(inside) if e.kind == "cast" and j in leads[i]}
                past[later.msg] = found - {later.msg}
    for event in told.deliveries:
        cases += 1
        cast = told.cast(event.msg)
        if cast is None:
            wrong += 1
            continue
        bad = (cast.process, cast.group, cast.service) != (event.sender, event.group, event.service)
        bad = bad or told.before(event, cast)
        if told.home(event.msg) == (event.group, event.view):
            if told.service(event.msg) == "fifo":
                needed = {
                    e.msg
                    for e in told.events
                    if e.kind == "cast"
                    and told.before(e, cast)
                    and told.home(e.msg) == (event.group, event.view)
                    and told.cast(e.msg) is e
                    and e.service == "fifo"
                }
            else:
                needed = past[event.msg]
            bad = bad or any(
                not any(
                    d.msg == msg and told.before(d, event) and (d.group, d.view) == (event.group, event.view)
                    for d in told.deliveries
                )
                for msg in needed
            )
        wrong += bad
    for group, view in told.groups():
        for label in told.members(group, view):
            views = told.installed(label, group)
            if views:
                cases += 1
                wrong += view not in views and (max(views) > view or told.ends_in(label, group, max(views)))
    return cases, wrong


def delivered_by_caster(told: Told) -> Count:
    casts = [e for e in told.events if e.kind == "cast"]
    wrong = sum(any(d.msg == e.msg and told.before(d, e) for d in told.deliveries) for e in told.deliveries)
    for cast in casts:
        delivered = any(d.msg == cast.msg and d.process == cast.process for d in told.deliveries)
        primary = told.primary(cast.group, cast.view)
        outlives = told.is_there_at_the_end(cast) or (
            primary is not None
            and any(told.primary(cast.group, v) > primary for v in told.installed(cast.process, cast.group))
        )
        wrong += told.cast(cast.msg) is not cast or (not delivered and outlives)
    return len(casts) + len(told.deliveries), wrong


def delivered_by_all(told: Told) -> Count:
    cases = wrong = 0
    for group, view in told.groups():
        there = [d for d in told.deliveries if (d.group, d.view) == (group, view)]
        for label in {e.process for e in told.views if (e.group, e.view) == (group, view)}:
            if not told.goes_on(label, group, view):
                continue
            members = told.members(group, view)
            owed = {
                d.msg
                for d in there
                if d.process == label
                or told.service(d.msg) == "safe"
                or (d.process in members and told.together(label, d.process, group, view))
            }
            cases += len(owed)
            wrong += len(owed - {d.msg for d in there if d.process == label})
    return cases, wrong


def knots(leads: dict[Any, set[Any]]) -> int:
    """How many sets of events there are of which each leads to each."""
    return len({frozenset(w for w in leads if w in leads[v] and v in leads[w]) for v in leads if v in leads[v]})


def causal_time(told: Told) -> Count:
    return len(told.events), knots(told.leads(told.events, list(range(len(told.events)))))


def distinct_times(told: Told) -> Count:
    inside = [e for e in told.events if e.msg is UNSET or told.service(e.msg) != "fifo"]
    names: list[Any] = []
    for i, e in enumerate(inside):
        if e.kind == "view":
            names.append((e.group, e.view))
        elif e.kind == "deliver" and told.service(e.msg) in ORDERED:
            names.append(e.msg)
        else:
            names.append(i)
    return len(inside), knots(told.leads(inside, names))


def one_sequence(told: Told) -> Count:
    wrong = 0
    for event in told.views:
        lowest = next(e for e in told.views if (e.group, e.view) == (event.group, event.view))
        members = set(event.members or ())
        earlier = [e for e in told.views if e.group == event.group and told.before(e, event)]
        bad = told.is_late(event) or event.process not in members
        bad = bad or (members, event.primary, event.conf) != (set(lowest.members or ()), lowest.primary, lowest.conf)
        if earlier:
            bad = bad or event.view <= earlier[-1].view or len(members - set(earlier[-1].members or ())) > 1  # type: ignore[operator]
        if event is lowest:
            numbers = sorted(view for group, view in told.groups() if group == event.group and view < event.view)
            if numbers:
                known = set().union(*(told.members(event.group, view) for view in numbers))
                bad = bad or bool((members & known) - told.members(event.group, numbers[-1]))
        wrong += bad
    return len(told.views), wrong


def in_one_view(told: Told) -> Count:
    cases = wrong = 0
    for event in told.events:
        if event.kind not in ("cast", "deliver"):
            continue
        cases += 1
        views = [e.view for e in told.views if e.group == event.group and told.before(e, event)]
        bad = told.is_late(event) or not views or views[-1] != event.view
        if event.kind == "deliver":
            bad = bad or told.home(event.msg) != (event.group, event.view)
            cast = told.cast(event.msg)
            if cast is not None and (cast.group, cast.view) != (event.group, event.view):
                same = told.primary(cast.group, cast.view) == told.primary(event.group, event.view)
                bad = bad or cast.group != event.group or not same or cast.view > event.view  # type: ignore[operator]
        wrong += bad
    return cases, wrong


def at_one_time(told: Told) -> Count:
    ordered = [d for d in told.deliveries if d.service in ORDERED]
    stamped = [d for d in ordered if d.ts is not UNSET]
    wrong = 0
    for event in ordered:
        if event.ts is UNSET:
            wrong += 1
            continue
        earlier = [d for d in stamped if told.before(d, event) and d.group == event.group]
        wrong += (
            next(d for d in stamped if d.msg == event.msg).ts != event.ts
            or next(d for d in stamped if d.ts == event.ts).msg != event.msg
            or (bool(earlier) and not earlier[-1].ts < event.ts)  # type: ignore[operator]
        )
    return len(ordered), wrong


ORACLES: dict[str, Callable[[Told], Count]] = {
    "vs.C1": causes,
    "vs.C2": delivered_by_caster,
    "vs.C3": delivered_by_all,
    "vs.L1": causal_time,
    "vs.L2": distinct_times,
    "vs.L3": one_sequence,
    "vs.L4": in_one_view,
    "vs.L5": at_one_time,
}


# -- comparing ----------------------------------------------------------------------------------------------------


def test_every_check_has_an_oracle() -> None:
    assert tuple(ORACLES) == IDS


@pytest.mark.parametrize("check", ORACLES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(0, 4))
def test_cases_and_violations_are_the_oracle_s(check: str, seed: int, mutations: int) -> None:
    run, rows = broken_run(seed, mutations)
    report = verify([History.of(run, rows)])
    if report.check("vs.L1").violations and check == "vs.C1":
        return  # what precedes what has no meaning then
    found = report.check(check)
    assert (found.cases, found.violations) == ORACLES[check](Told(run, rows))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_ideal_filter_keeps_every_promise(seed: int) -> None:
    assert verify([History.of(*random_filtered_run(seed, names="abcd", steps=60))]).violated() == []


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(5, 40))
def test_no_check_falls_over_a_strange_trace(seed: int, mutations: int) -> None:
    report = verify([History.of(*broken_run(seed, mutations))])
    for check in report.checks:
        assert check.witnesses == sorted(check.witnesses)
        if check.id in IDS:
            assert check.cases >= check.violations


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), mutations=st.integers(0, 10))
def test_other_families_do_not_look_at_the_filter(seed: int, mutations: int) -> None:
    run, rows = broken_run(seed, mutations)
    with_filter = verify([History.of(run, rows)])
    without = verify([History.of(run, {name: [r for r in rows[name] if r.layer != "vs"] for name in rows})])
    for check in without.checks:
        if check.id in IDS or check.id.startswith("evs.primary"):
            assert check.cases == check.violations == 0
        elif check.id not in ("evs.1.2", "evs.2.2"):  # which look at the rows of every layer
            assert check == with_filter.check(check.id)
