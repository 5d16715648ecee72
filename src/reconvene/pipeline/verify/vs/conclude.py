"""Of one run, from its few patterns, marks and views: every check's cases and suspects.

What depends on views alone is judged by the local engine's own code, on the rows that tell of views and of who is
over. Where something basic is wrong (an event outside its view, a message whose rows differ, views that are not one
sequence), what is told of messages can't be relied on: then every check that needs it has a suspect.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconvene.pipeline.verify.coded import KINDS, SERVICES
from reconvene.pipeline.verify.vs.lives import VIEW
from reconvene.pipeline.verify.vs.messages import SUMS, WORD
from reconvene.pipeline.verify.vs.times import Times
from reconvene.trace.events import Row
from reconvene.verify.precedes import Precedes
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tallies
from reconvene.verify.vs import IDS, causes, legal, views
from reconvene.verify.vs.extend import Extend

__all__ = ["MOST_PATTERNS", "Conclusion", "Skeleton"]

MOST_PATTERNS = 100_000
"""Patterns of one run that are looked at. A run with more is not proven right."""

_CONF, _HIDDEN, _FAIL, _LEAVE = (KINDS["evs", kind] for kind in ("conf", "hidden", "fail", "stop"))
_FIFO, _AGREED, _SAFE = SERVICES["fifo"], SERVICES["agreed"], SERVICES["safe"]

Told = Mapping[str, Any]


class Skeleton:
    """A run's processes and views, without messages. Given: rows of BONE. Names are codes, as text."""

    def __init__(self, bones: Iterable[Told], nodes: int, down: Iterable[int], settled: bool) -> None:
        self.over: dict[tuple[int, int], int] = {}
        """By node and incarnation: the place in the node's file after which its processes are over."""
        self.home: dict[int, tuple[int, int]] = {}
        """Of each process that installed a view: node and incarnation."""
        self.processes = p = Processes([str(node) for node in range(nodes)])
        incarnations: dict[int, set[int]] = {}
        for bone in sorted(bones, key=lambda bone: (bone["node"], bone["place"])):
            node, inc, place = bone["node"], bone["inc"], bone["place"]
            if node < 0:
                continue
            incarnations.setdefault(node, set()).add(inc)
            if bone["kind"] in (_CONF, _HIDDEN):
                p.begin(node, inc)
                for before in incarnations[node]:
                    if before < inc:
                        self.over.setdefault((node, before), place)
            elif bone["kind"] in (_FAIL, _LEAVE):
                p.fail(node, inc)
                self.over.setdefault((node, inc), place)
            else:
                p.add(node, _row(bone))
                self.home[bone["label"]] = (node, inc)
        p.finish(set(down))
        self.extend = Extend(p, settled)
        self.index = {int(name): process for process, name in enumerate(p.names)}
        self.views = {(int(p.groups[view.group]), view.number): index for index, view in enumerate(p.confs)}
        self.seats = [sorted(int(p.names[member]) for member in view.members) for view in p.confs]
        """Of each view, its members in the order of their seats."""

    def judge(self) -> Tallies:
        """What depends on views alone."""
        p, tallies = self.processes, Tallies(IDS)
        order = Precedes(p)
        causes.check("", p, self.extend, order, tallies["vs.C1"])
        legal.check("", p, order, tallies)
        views.check("", p, tallies["vs.L3"])
        return tallies


def _row(bone: Told) -> Row:
    row = Row(
        node=str(bone["node"]),
        inc=bone["inc"],
        n=bone["place"],
        t=0,
        layer="isis",
        kind="view" if bone["kind"] == VIEW else "stop",
        group=str(bone["group"]),
        label=str(bone["label"]),
        view=bone["view"],
    )
    if bone["kind"] == VIEW:
        row.members, row.primary, row.conf = [*map(str, bone["members"])], bone["primary"], str(bone["conf"])
    return row


class _Pattern:
    __slots__ = ("by", "caster", "delivered", "home", "messages", "row", "service", "view")

    def __init__(self, row: Told, skeleton: Skeleton) -> None:
        self.row = row
        self.caster: int = skeleton.index[row["caster"]]
        self.service: int = row["service"]
        self.messages: int = row["messages"]
        self.view: int | None = None if row["view"] is None else skeleton.views[row["group"], row["view"]]
        """That it was cast in."""
        self.home = skeleton.views[row["group"], row["home"]]
        self.delivered = row["deliveries"] > 0
        seats = skeleton.seats[self.home]
        self.by = frozenset(
            skeleton.index[seats[WORD * index + bit]]
            for index, word in enumerate(row["by"])
            if word
            for bit in range(WORD)
            if word >> bit & 1
        )


class Conclusion:
    """What is found of a run. Given: rows of PATTERN and of BONE, and what the table `runs` says of it."""

    def __init__(
        self, patterns: Sequence[Told], bones: Iterable[Told], nodes: int, down: Iterable[int], settled: bool
    ) -> None:
        self.cases = dict.fromkeys(IDS, 0)
        self.suspects = dict.fromkeys(IDS, 0)
        self.patterns: list[tuple[str, Told]] = []
        """Of checks, the patterns of messages that are suspect."""
        self._skeleton = Skeleton(bones, nodes, down, settled)
        self.is_empty = not patterns and not self._skeleton.processes.kind
        told = [row for row in patterns if row["stamp"] is None]
        self._marks = [row for row in told if row["mark_label"] is not None]
        of_messages = [row for row in told if row["mark_label"] is None]
        self._sums = {name: sum(row[name] or 0 for row in told) for name in SUMS}
        self._shared = len(patterns) - len(told)
        self._count(of_messages)
        if self._is_unclear(patterns):
            self._doubt("vs.C1", "vs.C2", "vs.C3", "vs.L1", "vs.L2", "vs.L4")
            return
        self._patterns = [_Pattern(row, self._skeleton) for row in of_messages]
        self._check_views()
        self._check_times()

    def _add(self, check: str, cases: int = 0, suspects: int = 0, pattern: _Pattern | None = None) -> None:
        self.cases[check] += cases
        self.suspects[check] += suspects
        if suspects and pattern is not None:
            self.patterns.append((check, pattern.row))

    def _doubt(self, *checks: str) -> None:
        for check in checks:
            self.suspects[check] = max(1, self.suspects[check])

    def _count(self, of_messages: Iterable[Told]) -> None:
        """What is decided by views alone, or for each row or message by itself."""
        sums = self._sums
        for result in self._skeleton.judge().results():
            self._add(result.id, result.cases, result.violations)
        both = sums["casts"] + sums["deliveries"]
        fifo = sum(row["casts"] + row["deliveries"] for row in of_messages if row["service"] == _FIFO)
        self._add("vs.C1", sums["deliveries"], sums["strange"] + sums["uncausal"])
        self._add("vs.C2", both, sums["resent"] + sums["again"])
        self._add("vs.L1", both)
        self._add("vs.L2", both - fifo)
        self._add("vs.L4", both, sums["outside"] + sums["spread"])
        unstamped = sums["unstamped"] + sums["unlike"]
        self._add("vs.L5", sums["stamped"] + sums["unstamped"], unstamped + sums["disordered"] + self._shared)

    def _is_unclear(self, patterns: Sequence[Told]) -> bool:
        sums = self._sums
        wrong = sums["blurred"] + sums["outside"] + sums["spread"] + self.suspects["vs.L3"]
        return wrong > 0 or len(patterns) > MOST_PATTERNS or self._is_late()

    def _is_late(self) -> bool:
        """Did a process cast or deliver when it was over?"""
        skeleton = self._skeleton
        for mark in self._marks:
            home = skeleton.home.get(mark["mark_label"])
            over = None if home is None else skeleton.over.get(home)
            if over is not None and mark["mark_spoke"] is not None and mark["mark_spoke"] > over:
                return True
        return False

    # -- by views

    def _check_views(self) -> None:
        going_on: dict[int, list[int]] = {}
        for process, view in self._skeleton.extend.going_on():
            going_on.setdefault(view, []).append(process)
        for pattern in self._patterns:
            self._check_own(pattern)
            if pattern.delivered:
                self._check_place(pattern)
                for process in going_on.get(pattern.home, ()):
                    self._check_common(pattern, process)
        self._check_numbers()

    def _check_own(self, pattern: _Pattern) -> None:
        """C2: its caster delivered it, or can't any more."""
        if pattern.view is None or pattern.caster in pattern.by:
            return
        if self._skeleton.extend.outlives(pattern.caster, pattern.view):
            self._add("vs.C2", suspects=pattern.messages, pattern=pattern)

    def _check_place(self, pattern: _Pattern) -> None:
        """L4: it is delivered in the view of its cast, or in a later one of the same primary component."""
        if pattern.view is None or pattern.view == pattern.home:
            return
        there, here = (self._skeleton.processes.confs[view] for view in (pattern.view, pattern.home))
        if (there.group, there.primary) != (here.group, here.primary) or there.number >= here.number:
            self._add("vs.L4", suspects=pattern.messages, pattern=pattern)

    def _check_common(self, pattern: _Pattern, process: int) -> None:
        """C3, of a process that goes on from the view."""
        together = self._skeleton.extend.together(process, pattern.home)
        if process in pattern.by:
            self._add("vs.C3", pattern.messages)
        elif pattern.service == _SAFE or not pattern.by.isdisjoint(together):
            self._add("vs.C3", pattern.messages, pattern.messages, pattern)

    def _check_numbers(self) -> None:
        """C1: what a process delivers of a caster in a view begins with the first of its messages of that view, and
        goes on without a gap."""
        first: dict[tuple[int, int, bool], int] = {}
        for pattern in self._patterns:
            if pattern.view is not None:
                key = (pattern.caster, pattern.home, pattern.service == _FIFO)
                number = pattern.row["first"]
                first[key] = min(first.get(key, number), number)
        for pattern in self._patterns:
            if pattern.delivered and pattern.view is not None:
                ahead = first[pattern.caster, pattern.home, pattern.service == _FIFO] - 1
                if (pattern.row["least"], pattern.row["greatest"]) != (ahead, ahead):
                    self._add("vs.C1", suspects=pattern.messages, pattern=pattern)

    # -- by timestamps and clocks

    def _check_times(self) -> None:
        sums = self._sums
        once = not (sums["strange"] or sums["resent"] or sums["again"])
        by_clock = not (sums["backwards"] or sums["tardy"] or sums["early"] or sums["resent"])
        by_order = (
            once
            and not (self.suspects["vs.C1"] or self.suspects["vs.L4"] or self.suspects["vs.L5"] or sums["long"])
            and not self.suspects["vs.L2"]
            and self._in_one_order(by_clock)
        )
        if not by_order:
            self._doubt("vs.L2")
        if not (by_clock or (by_order and not sums["crossing"])):
            self._doubt("vs.L1", "vs.C1")

    def _in_one_order(self, by_clock: bool) -> bool:
        times = Times(self._skeleton.processes, self._marks, self._skeleton.index)
        if times.is_broken or (times.several and not by_clock):
            return False
        return all(self._is_after_its_cast(pattern, times) for pattern in self._patterns)

    def _is_after_its_cast(self, pattern: _Pattern, times: Times) -> bool:
        """Are the deliveries of these messages not before their casts?"""
        if pattern.service == _FIFO or pattern.by <= {pattern.caster}:
            return True
        if pattern.view == pattern.home:
            own = pattern.service >= _AGREED and pattern.caster in pattern.by
            return own or pattern.caster not in times.several
        came = {
            self._skeleton.processes.node[event] for event in self._skeleton.processes.confs[pattern.home].entered
        }
        return pattern.caster in came or times.ends_before(pattern.caster, pattern.home)
