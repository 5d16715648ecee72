"""Slow checks of process groups that read like the sentences of docs/checks.md, and look at every pair or triple."""

import json
from collections.abc import Callable, Iterable
from itertools import combinations, pairwise
from math import inf
from typing import Any

from msgspec import UNSET

from reconvene.trace.events import Row, Run

Rows = dict[str, list[Row]]
Count = tuple[int, int]
"""(cases, violations)"""
CASTS = ("cbcast", "abcast", "gbcast")


class Told:
    """The run as the sentences speak of it. Rows stand by site, then by place in the file: lowest first."""

    def __init__(self, run: Run, rows: Rows) -> None:
        self.run = run
        every = [row for name in sorted(rows) for row in rows[name]]
        self.place = {id(row): place for place, row in enumerate(every)}
        self.every = every
        self.events = [row for row in every if row.layer == "isis"]
        self.casts = {
            row.msg: [c for c in self.events if c.kind in CASTS and c.msg == row.msg]
            for row in self.events
            if row.kind in CASTS
        }
        self.receives = self.kind("receive")
        self.views = self.kind("view")
        names = {p for row in self.events for p in (row.process, row.sender, *(row.dests or ())) if p is not UNSET}
        names |= {p for row in self.views for p in row.members or ()}
        self.processes = sorted(names)
        self.over_at = {process: self._over(process) for process in self.processes}
        self.standing = {process for process in self.processes if self._stands(process)}
        self.gone = {process for process in self.processes if self._gone(process)}

    def kind(self, *kinds: str) -> list[Row]:
        return [row for row in self.events if row.kind in kinds]

    def at(self, row: Row) -> int:
        return self.place[id(row)]

    def before(self, one: Row, other: Row) -> bool:
        return self.at(one) < self.at(other)

    def of(self, process: Any, *kinds: str) -> list[Row]:
        return [row for row in self.events if row.process == process and (not kinds or row.kind in kinds)]

    # -- who is there

    def _over(self, process: str) -> float:
        site, inc, _ = process.rsplit(":", 2)
        ends: list[float] = [inf]
        for row in self.every:
            mine = row.node == site and row.layer == "evs"
            if (
                (row.layer == "isis" and row.kind == "end" and row.process == process)
                or (mine and row.kind in ("fail", "stop") and row.inc == int(inc))
                or (mine and row.kind == "conf" and row.inc > int(inc))
            ):
                ends.append(self.at(row))
        return min(ends)

    def _lives(self, process: str) -> bool:
        site = process.rsplit(":", 2)[0]
        return bool(self.of(process)) and self.over_at[process] == inf and site not in self.run.down

    def _stands(self, process: str) -> bool:
        site = process.rsplit(":", 2)[0]
        for component in self.run.components if self.run.settled else []:
            up = set(component) - set(self.run.down)
            if site in up and 2 * len(up) > len(self.run.nodes):
                return self._lives(process)
        return False

    def _gone(self, process: str) -> bool:
        if self.run.settled:
            return process not in self.standing
        return not self._lives(process) or self._is_cut_off(process)

    def _is_cut_off(self, process: str) -> bool:
        born = self.born(process)
        if born is None:
            return False
        return born not in self.site_view(max(row.primary for row in self.kind("site")))  # type: ignore[type-var]

    def born(self, process: str) -> str | None:
        """Its site and born, by the last site view that its site adopted in its life."""
        site, inc, _ = process.rsplit(":", 2)
        adopted = [row for row in self.kind("site") if row.node == site and row.inc == int(inc)]
        adopted = [row for row in adopted if self.at(row) < self.over_at[process]]
        if not adopted or not self.of(process):
            return None
        return self.own(adopted[-1])

    def own(self, row: Row) -> str | None:
        return next((m for m in sorted(row.members or ()) if m.rpartition(":")[0] == row.node), None)

    def site_view(self, number: Any) -> list[str]:
        """The members of the last site view up to this number."""
        numbers = [row.primary for row in self.kind("site") if row.primary <= number]
        if not numbers:
            return []
        last = max(numbers)  # type: ignore[type-var]
        return list(next(row for row in self.kind("site") if row.primary == last).members or ())

    def died_alone(self, process: str) -> bool:
        ends = [row for row in self.of(process, "end") if self.at(row) == self.over_at[process]]
        if not ends:
            return False
        later = [row for row in self.kind("site") if row.node == ends[0].node and self.before(ends[0], row)]
        return not later or self.own(later[0]) == self.born(process)

    # -- casts

    def attempt(self, msg: Any, number: Any) -> Row | None:
        return next((row for row in self.casts.get(msg, ()) if row.attempt == number), None)

    def first(self, msg: Any) -> Row:
        return min(self.casts[msg], key=lambda row: (row.attempt, self.at(row)))

    def last(self, msg: Any) -> Row:
        return max(self.casts[msg], key=lambda row: (row.attempt, -self.at(row)))

    def kind_of(self, msg: Any) -> str:
        return self.first(msg).kind

    def received(self, msg: Any) -> list[Row]:
        return [row for row in self.receives if row.msg == msg]

    def got(self, msg: Any, process: Any) -> Row | None:
        return next((row for row in self.received(msg) if row.process == process), None)

    def inside(self, event: Row) -> Row | None:
        """The process's view of the group that the event names, at the event."""
        about = [
            row
            for row in self.of(event.process, "view", "leave")
            if row.group == event.group and self.before(row, event)
        ]
        return about[-1] if about and about[-1].kind == "view" else None

    def dests(self, msg: Any) -> list[str]:
        if self.kind_of(msg) == "gbcast":
            for row in self.received(msg):
                view = self.inside(row) if row.group is not UNSET else None
                if view is not None:
                    return list(dict.fromkeys(view.members or ()))
        return list(dict.fromkeys(self.last(msg).dests or ()))

    def excused(self, msg: Any, process: str, until: Row | None = None) -> bool:
        cast = self.last(msg)
        if cast.group is UNSET:
            return False
        accepted = [
            view.view
            for row in self.received(msg)
            if row.group is not UNSET and (view := self.inside(row)) is not None
        ]

        def counts(row: Row) -> bool:
            return row.group == cast.group and (until is None or self.before(row, until))

        for leave in filter(counts, self.of(process, "leave")):
            view = self.inside(leave)
            if (0 if view is None else view.view) < cast.view:  # type: ignore[operator]
                continue
            again = [v for v in filter(counts, self.of(process, "view")) if self.before(leave, v)]
            if not (accepted and any(v.view <= min(accepted) for v in again)):  # type: ignore[operator,type-var]
                return True
        return False

    def never_sent(self, msg: Any) -> bool:
        rejected = any(row.msg == msg for row in self.kind("reject"))
        return rejected and not self.received(msg) and self.first(msg).process in self.gone

    # -- what precedes what

    def is_causal(self, msg: Any) -> bool:
        first = self.first(msg)
        return first.kind == "cbcast" or (first.kind == "abcast" and first.service == "safe")

    def is_below(self, one: Any, other: Any) -> bool:
        low = {"": -inf} if self.kind_of(one) == "abcast" else json.loads(str(self.first(one).label))
        high = {"": inf} if self.kind_of(other) == "abcast" else json.loads(str(self.first(other).label))
        return bool(low) and all(name in high and low[name] <= high[name] for name in low)

    def precedes(self) -> dict[Any, set[Any]]:
        """By cast: all that precede it."""
        causal = [msg for msg in self.casts if self.is_causal(msg)]
        direct: dict[Any, set[Any]] = {}
        for other in causal:
            sent = self.first(other)
            direct[other] = set()
            for one in causal:
                received = self.got(one, sent.process)
                knew = (
                    one != other and self.first(one).process == sent.process and self.before(self.first(one), sent)
                ) or (received is not None and self.before(received, sent))
                if knew and self.is_below(one, other):
                    direct[other].add(one)
        return {msg: reach(msg, direct) for msg in causal}

    def follows(self) -> dict[int, set[int]]:
        """From the place of each row of a process to those of the rows that directly follow it."""
        edges: dict[int, set[int]] = {self.at(row): set() for row in self.events}
        for row in self.events:
            if row.process is UNSET:
                continue
            later = [other for other in self.of(row.process) if self.before(row, other)]
            edges[self.at(row)] |= {self.at(other) for other in later[:1]}
            if row.kind == "receive":
                cast = self.attempt(row.msg, row.attempt)
                if cast is not None:
                    edges[self.at(cast)].add(self.at(row))
        return edges

    def has_circle(self) -> bool:
        """Was a cast received before it was sent, at whichever attempt, by whatever chain?"""
        edges = self.follows()
        for row in self.receives:
            if row.msg in self.casts:
                edges[self.at(self.first(row.msg))].add(self.at(row))
        return any(place in reach(place, edges) for place in edges)

    def is_unsure(self, event: Row) -> bool:
        """Did a process that is gone receive it after its last view or site?"""
        if event.process not in self.gone:
            return False
        process = str(event.process)
        site, inc, _ = process.rsplit(":", 2)
        marks = self.of(process, "view") + [r for r in self.kind("site") if r.node == site and r.inc == int(inc)]
        marks = [row for row in marks if self.at(row) < self.over_at[process]]
        return all(self.before(mark, event) for mark in marks)

    def lines(self) -> list[int]:
        """The numbers of the site views with which a line begins, but the first."""
        found = []
        numbers = sorted({row.primary for row in self.kind("site")})  # type: ignore[type-var]
        for one, other in pairwise(numbers):
            low, high = (next(r for r in self.kind("site") if r.primary == number) for number in (one, other))
            if low.members and not set(low.members) & set(high.members or ()):
                found.append(other)
        return found  # type: ignore[return-value]


def reach(start: Any, edges: dict[Any, set[Any]]) -> set[Any]:
    seen: set[Any] = set()
    todo = [start]
    while todo:
        fresh = edges[todo.pop()] - seen
        seen |= fresh
        todo.extend(fresh)
    return seen


def knots(edges: dict[Any, set[Any]]) -> int:
    """How many sets of vertices there are of which each leads to each."""
    leads = {v: reach(v, edges) for v in edges}
    return len({frozenset(w for w in leads if w in leads[v] and v in leads[w]) for v in leads if v in leads[v]})


def count(verdicts: Iterable[bool]) -> Count:
    found = list(verdicts)
    return len(found), sum(found)


# -- oracles ------------------------------------------------------------------------------------------------------


def once(told: Told) -> Count:
    def wrong(event: Row) -> bool:
        cast = told.attempt(event.msg, event.attempt)
        if cast is None or (cast.group, cast.view) != (event.group, event.view) or cast.process != event.sender:
            return True
        if cast.node == event.node and told.before(event, cast):
            return True
        if cast.kind == "gbcast":
            if told.inside(event) is None:
                return True
        elif event.process not in (cast.dests or ()):
            return True
        return told.got(event.msg, event.process) is not event or told.at(event) > told.over_at[str(event.process)]

    return count(map(wrong, told.receives))


def atomic(told: Told) -> Count:
    def verdicts() -> Iterable[bool]:
        for msg in told.casts:
            received = any(row.process in told.standing for row in told.received(msg))
            sent = told.kind_of(msg) != "gbcast" and told.first(msg).process in told.standing
            if received or sent:
                for dest in told.dests(msg):
                    if dest in told.standing and not told.excused(msg, dest):
                        yield told.got(msg, dest) is None

    return count(verdicts())


def extended(told: Told) -> Count:
    precedes = told.precedes()
    relied_on = {one for row in told.receives if row.process in told.standing for one in precedes.get(row.msg, set())}
    return count(
        told.got(msg, dest) is None
        for msg in relied_on
        if not told.never_sent(msg)
        for dest in told.dests(msg)
        if dest in told.standing and not told.excused(msg, dest)
    )


def _lacks(told: Told, precedes: dict[Any, set[Any]], event: Row, kinds: tuple[str, ...]) -> bool:
    """Did the process not receive before this event something of these kinds that precedes it and is meant for it?"""
    for msg in precedes[event.msg]:
        if told.kind_of(msg) not in kinds or told.never_sent(msg) or event.process not in told.dests(msg):
            continue
        group = told.last(msg).group
        later = group is not UNSET and event.process not in (told.first(msg).dests or ())
        if later and event.group != group:
            continue
        received = told.got(msg, event.process)
        if received is not None and told.before(received, event):
            continue
        if not told.excused(msg, str(event.process), event):
            return True
    return False


def causal(told: Told) -> Count:
    precedes = told.precedes()
    return count(
        _lacks(told, precedes, event, ("cbcast",))
        for event in told.receives
        if event.msg in told.casts and told.kind_of(event.msg) == "cbcast"
    )


def causal_abcast(told: Told) -> Count:
    precedes = told.precedes()

    def verdicts() -> Iterable[bool]:
        for event in told.receives:
            if event.msg not in precedes:
                continue
            if told.kind_of(event.msg) == "abcast":
                yield _lacks(told, precedes, event, ("cbcast", "abcast"))
            elif any(told.kind_of(msg) == "abcast" for msg in precedes[event.msg]):
                yield _lacks(told, precedes, event, ("abcast",))

    return count(verdicts())


def abcast(told: Told) -> Count:
    abcasts = [msg for msg in told.casts if told.kind_of(msg) == "abcast" and told.received(msg)]
    sure = {
        msg: [e for e in told.received(msg) if told.got(msg, e.process) is e and not told.is_unsure(e)]
        for msg in abcasts
    }
    stamps = {msg: {None if e.ts is UNSET else tuple(e.ts) for e in sure[msg]} for msg in abcasts}
    alike_everywhere = [msg for msg in abcasts if None not in stamps[msg] and len(stamps[msg]) <= 1]
    edges: dict[Any, set[Any]] = {msg: set() for msg in alike_everywhere}
    for msg in alike_everywhere:
        for other in alike_everywhere:
            alike = msg != other and told.first(msg).label == told.first(other).label
            if alike and any(e.process == f.process and told.before(e, f) for e in sure[msg] for f in sure[other]):
                edges[msg].add(other)
    return len(abcasts), len(abcasts) - len(alike_everywhere) + knots(edges)


def gbcast(told: Told) -> Count:
    lines = told.lines()
    items: dict[Any, dict[Any, Row]] = {}
    """Of each cast and view, by process: its first receive."""
    for row in told.events:
        if row.kind == "view":
            line = sum(start <= row.primary for start in lines)  # type: ignore[operator]
            key: Any = ("view", row.group, line, row.view)
        elif row.kind == "receive" and row.msg in told.casts:
            if told.kind_of(row.msg) == "abcast" and told.is_unsure(row):
                continue
            key = (told.kind_of(row.msg), row.msg)
        else:
            continue
        items.setdefault(key, {}).setdefault(row.process, row)

    def verdicts() -> Iterable[bool]:
        for x, y in combinations(items, 2):
            if {x[0], y[0]} & {"view", "gbcast"}:
                for p, q in combinations(sorted(items[x].keys() & items[y].keys()), 2):
                    yield told.before(items[x][p], items[y][p]) != told.before(items[x][q], items[y][q])

    return count(verdicts())


def failure(told: Told) -> Count:
    def known(event: Row) -> set[Any]:
        """Whom the process knows to have failed."""
        earlier = [row for row in told.of(event.process) if told.before(row, event)]
        found = {row.sender for row in earlier if row.kind == "failed"}
        for view in earlier:
            last = told.inside(view) if view.kind == "view" else None
            if last is None:
                continue
            for member in set(last.members or ()) - set(view.members or ()):
                leaves = [row for row in told.of(member, "leave") if row.group == view.group]
                numbers = [0 if (v := told.inside(row)) is None else v.view for row in leaves]
                left = any(n >= last.view for n in numbers)  # type: ignore[operator]
                if member in told.gone and not left and not may_have_left(member, view):
                    found.add(member)
        return found

    def may_have_left(member: str, view: Row) -> bool:
        if told.died_alone(member):
            return False
        home = member.rsplit(":", 1)[0]
        beside = [m for m in view.members or () if m.rsplit(":", 1)[0] == home]
        if any(told.over_at[m] >= told.over_at[member] for m in beside):
            return True
        return told.born(member) in told.site_view(view.primary)

    def wrong(event: Row) -> bool:
        earlier = [row for row in told.of(event.process) if told.before(row, event)]
        if event.sender in {row.sender for row in earlier if row.kind == "failed"}:
            return True
        for group in {row.group for row in earlier if row.kind == "view"}:
            last = [row for row in earlier if row.kind in ("view", "leave") and row.group == group][-1]
            if event.sender in (last.members or ()):
                return False
        return event.sender in known(event)

    return count(wrong(event) for event in told.receives if known(event))


def views(told: Told) -> Count:
    lines = told.lines()

    def key(view: Row) -> tuple[Any, ...]:
        return view.group, view.view, sum(start <= view.primary for start in lines)  # type: ignore[operator]

    def wrong(view: Row) -> bool:
        lowest = next(row for row in told.views if key(row) == key(view))
        if (view.members, view.dests) != (lowest.members, lowest.dests):
            return True
        if sorted(view.members or ()) != sorted(view.dests or ()) or view.process not in (view.members or ()):
            return True
        earlier = [r for r in told.of(view.process, "view") if r.group == view.group and told.before(r, view)]
        last = told.inside(view)
        if last is not None and view.view != last.view + 1:  # type: ignore[operator]
            return True
        over = told.at(view) > told.over_at[str(view.process)]
        return over or (bool(earlier) and view.view <= earlier[-1].view)  # type: ignore[operator]

    return count(map(wrong, told.views))


def members(told: Told) -> Count:
    def verdicts() -> Iterable[bool]:
        for event in told.receives:
            cast = told.attempt(event.msg, event.attempt)
            view = told.inside(event) if event.group is not UNSET else None
            if cast is not None and view is not None and told.kind_of(event.msg) != "gbcast":
                yield not set(view.members or ()) <= set(cast.dests or ())
        for event in told.kind("reject"):
            cast = told.attempt(event.msg, event.attempt)
            if cast is not None:
                yield cast.group is not UNSET and told.inside(cast) is not None

    return count(verdicts())


def reject(told: Told) -> Count:
    def sure(event: Row) -> bool:
        later = [v for v in told.of(event.process, "view") if v.group == event.group and told.before(event, v)]
        return event.process not in told.gone or bool(later)

    def wrong(cast: Row) -> bool:
        about = [e for e in told.kind("receive", "reject") if (e.msg, e.attempt) == (cast.msg, cast.attempt)]
        if {e.kind for e in about if sure(e)} == {"receive", "reject"}:
            return True
        waits = [d for d in told.dests(cast.msg) if d in told.standing and not told.excused(cast.msg, d)]
        return (
            any(e.msg == cast.msg for e in told.kind("reject"))
            and cast is told.last(cast.msg)
            and not told.received(cast.msg)
            and told.first(cast.msg).process in told.standing
            and bool(waits)
        )

    attempts = [told.attempt(msg, n) for msg in told.casts for n in sorted({c.attempt for c in told.casts[msg]})]  # type: ignore[type-var]
    return count(wrong(cast) for cast in attempts if cast is not None and cast.group is not UNSET)


def flush(told: Told) -> Count:
    edges = told.follows()

    def verdicts() -> Iterable[bool]:
        for event in told.kind("flush"):
            sent = [r.msg for r in told.of(event.process, *CASTS) if told.first(r.msg) is r and told.before(r, event)]
            covered: list[Any] = []
            for row in told.of(event.process, "flush"):
                if told.before(row, event) and row.msg in _sent_before(told, row):
                    covered += sent[: sent.index(row.msg) + 1]
            if event.msg not in sent:
                continue
            after = reach(told.at(event), edges)
            for msg in sent[: sent.index(event.msg) + 1]:
                if msg in covered:
                    continue
                for dest in told.dests(msg):
                    near = dest.rsplit(":", 2)[0] == event.node
                    received = told.got(msg, dest)
                    if received is not None:
                        yield told.before(event, received) if near else told.at(received) in after
                    elif dest in told.gone or told.excused(msg, dest):
                        continue
                    elif dest in told.standing or near or told.at(told.of(dest)[-1]) in after:
                        yield True

    return count(verdicts())


def _sent_before(told: Told, event: Row) -> list[Any]:
    return [r.msg for r in told.of(event.process, *CASTS) if told.first(r.msg) is r and told.before(r, event)]


def replies(told: Told) -> Count:
    def verdicts() -> Iterable[bool]:
        for msg in told.casts:
            asker = told.first(msg).process
            if told.first(msg).replies != -1 or asker not in told.standing:
                continue
            for dest in told.dests(msg):
                answers = [r for r in told.of(asker, "answer") if (r.msg, r.sender) == (msg, dest)]
                failed = [r for r in told.of(asker, "failed") if r.sender == dest]
                silent = not answers and not any(r.msg == msg for r in failed)
                left_first = told.got(msg, dest) is None and told.excused(msg, dest)
                if silent and left_first:
                    continue
                yield silent or (bool(answers) and bool(failed) and told.before(failed[0], answers[0]))

    return count(verdicts())


def state(told: Told) -> Count:
    def wrong(event: Row) -> bool:
        about = [r for r in told.of(event.process) if r.group == event.group and told.before(r, event)]
        gone = [i for i, r in enumerate(about) if r.kind == "leave"]
        about = about[gone[-1] + 1 if gone else 0 :]
        shown = [i for i, r in enumerate(about) if r.kind == "view"]
        if not shown:
            return True
        return any(r.kind in CASTS and told.first(r.msg) is r for r in about[shown[0] :])

    return count(map(wrong, told.kind("state")))


def sites(told: Told) -> Count:
    adopted = told.kind("site")

    def lowest(number: Any) -> Row:
        return next(row for row in adopted if row.primary == number)

    def wrong(row: Row) -> bool:
        first = lowest(row.primary)
        mine = [m for m in sorted(row.members or ()) if m.rpartition(":")[0] == row.node]
        if (row.conf, sorted(row.members or ())) != (first.conf, sorted(first.members or ())) or not mine:
            return True
        if 2 * len({m.rpartition(":")[0] for m in row.members or ()} & set(told.run.nodes)) <= len(told.run.nodes):
            return True
        earlier = [r for r in adopted if r.node == row.node and told.before(r, row)]
        if earlier:
            last = earlier[-1]
            if row.primary <= last.primary:  # type: ignore[operator]
                return True
            if row.inc != last.inc and mine[0] in (last.members or ()):
                return True
            numbers = {r.primary for r in adopted if last.primary < r.primary < row.primary}  # type: ignore[operator]
            if mine[0] in (last.members or ()) and any(mine[0] in (lowest(n).members or ()) for n in numbers):
                return True
        below = sorted({r.primary for r in adopted if r.primary < row.primary})  # type: ignore[operator,type-var]
        known = {m for number in below for m in lowest(number).members or ()}
        back = bool(below) and bool(known & set(row.members or ()) - set(lowest(below[-1]).members or ()))
        return row is first and back

    return count(map(wrong, adopted))


def live(told: Told) -> Count:
    lines = told.lines()

    def left(process: Any, group: Any) -> bool:
        about = [r for r in told.of(process, "view", "leave") if r.group == group]
        return bool(about) and about[-1].kind == "leave"

    def same(view: Row, other: Row) -> bool:
        def line(row: Row) -> int:
            return sum(start <= row.primary for start in lines)  # type: ignore[operator]

        return (view.group, view.view, line(view)) == (other.group, other.view, line(other))

    def verdicts() -> Iterable[bool]:
        for msg in told.casts:
            if told.kind_of(msg) == "gbcast" and told.first(msg).process in told.standing:
                for dest in told.dests(msg):
                    if dest in told.standing and not told.excused(msg, dest):
                        yield told.got(msg, dest) is None
        for process in told.standing:
            for join in told.of(process, "join"):
                after = [v for v in told.of(process, "view") if v.group == join.group and told.before(join, v)]
                yield not after
                for member in after[0].members or () if after else ():
                    stayed = not any(r.group == join.group for r in told.of(member, "leave"))
                    if member != process and member in told.standing and stayed:
                        yield not any(same(after[0], v) for v in told.of(member, "view"))
            for group in {v.group for v in told.of(process, "view")}:
                if not left(process, group):
                    last = [v for v in told.of(process, "view") if v.group == group][-1]
                    yield any(m not in told.standing or left(m, group) for m in last.members or ())

    return count(verdicts())


ORACLES: dict[str, Callable[[Told], Count]] = {
    "isis.once": once,
    "isis.atomic": atomic,
    "isis.extended": extended,
    "isis.causal": causal,
    "isis.causal-abcast": causal_abcast,
    "isis.abcast": abcast,
    "isis.gbcast": gbcast,
    "isis.failure": failure,
    "isis.views": views,
    "isis.members": members,
    "isis.reject": reject,
    "isis.flush": flush,
    "isis.replies": replies,
    "isis.state": state,
    "isis.sites": sites,
    "isis.live": live,
}
NEED_AN_ORDER = ("isis.extended", "isis.causal", "isis.causal-abcast", "isis.flush")
"""Where casts were received before they were sent, these mean little."""
