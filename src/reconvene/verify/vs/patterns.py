"""What the Spark engine gathers of one run's casts and views, and what follows from it: the ground of all proofs.

A *pattern* stands for messages that fared alike: a caster, the view of the cast, the view that they are of (*home*),
a service, and the members that delivered them. A *mark* shows where a process's views stand among what it delivers.
The *skeleton* is the run without its messages: what depends on views alone is judged there by the local checks.

Where something basic is wrong, what is known of messages can't be relied on, and the run is *unclear*: an event
outside its view, a message whose rows differ, views that are not one sequence, too many patterns. Then nothing that
needs patterns is proven.

Why the proofs hold, given that what is basic is right: each event lies in its process's view, each delivered message
was cast once, by its sender, in the same group and as the same service, and all its deliveries are in its home.

**Causes (C1).** At a cast, count by member the messages that its process has delivered in the view. If what a
process delivers of a caster in a view begins with the caster's first message of that view, and goes on as the
caster's casts do, without a gap, then it delivers them in their order; and if at every delivery its process's
counts reach those at the cast, then everything that the caster had delivered in the view was delivered before it;
and what had led to that, in the same way, was delivered before that: if what precedes what has no cycle (L1,
below), without which this is not proven either. A message that is delivered in a later view
than it was cast in has, of that view, only its caster's earlier messages before it: the caster was not there yet.

**Logical time (L2).** An event's time is, from left to right: its process's time (`times`), which is the timestamp
of the ordered message it delivered last, or its view's; then the clock. Deliveries of an ordered message have its
timestamp, and events of a view the view's time, and nothing more. Along a process this never goes back: timestamps
grow, and what is delivered after a view is above the view's time. From a cast to a delivery in the same view it
does not go back either: whatever the caster had delivered there was delivered before by each process that delivers
the message (C1), and both had installed the view. Of a caster that is in several groups that is not enough, since
others have not seen what it delivered elsewhere; of an ordered message that it delivered itself, it is: its own
timestamps grow. In a later view it does not go back since the caster installed that view after the cast, or ended
before the view's time. So all events of a cycle would have one time, and none of them is of several processes: what
follows such an event is later. What is left is casts and deliveries. If clocks never go back, and casts are before
deliveries by them, there is no cycle of these (L1). Else, where every process is in one group, the events of one
time are of one view, and counts of what was delivered there grow from each cast to each of its deliveries. Fifo
messages have no part in this.

**What precedes what (L1).** Where clocks never go back along a process, and every cast is before the deliveries at
other nodes by the clock, and at its own node by place and clock, that is such a time. Clocks are not trusted: one
that is wrong proves nothing. Else, where no fifo message is delivered by others than its caster, L2 proves it.

**Every member has it (C2, C3).** Which process goes on from a view, with which others, and which outlives it, is
known from views alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, wraps
from typing import Any

from reconvene.trace.events import SCHEMA, Row, Run
from reconvene.verify.check import Check, Proof
from reconvene.verify.codes import AGREED, CONF, FAIL, FIFO, HIDDEN, KINDS
from reconvene.verify.counts import ViewCounts
from reconvene.verify.history import History
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tallies
from reconvene.verify.vs.extend import Extend, extend_of
from reconvene.verify.vs.times import Times

__all__ = ["MOST_PATTERNS", "SUMS", "WORD", "Skeleton", "ViewCheck", "ViewPatterns", "where_clear"]

MOST_PATTERNS = 100_000
"""Patterns of one run that are looked at. A run with more is unclear."""

WORD = 62
"""Seats in one word of a set of seats."""

SUMS = (
    "casts", "deliveries", "stamped", "unstamped", "outside", "backwards", "disordered", "strange", "blurred",
    "early", "resent", "again", "spread", "uncausal", "tardy", "crossing", "unlike", "long",
)  # fmt: skip
"""Of a pattern's messages. How many casts and deliveries; ordered deliveries with a timestamp, and without.

And what is wrong. outside: casts and deliveries in another view than the process is in. backwards: rows with a clock
that goes back. disordered: deliveries whose timestamp is not above the one before. strange: deliveries of messages
that were not cast so. blurred: messages whose rows differ in caster, service or group. early: delivered by the caster
before it cast them. resent, again: cast, or delivered by one process, more than once. spread: delivered in several
views. uncausal: deliveries before which something was not delivered. tardy: messages whose cast is not before a
delivery by the clock. crossing: fifo messages that others deliver, which nothing but the clock places. unlike:
messages with several timestamps. long: with one that has too many numbers."""

_VIEW, _STOP, _LEAVE = KINDS["vs", "view"], KINDS["vs", "stop"], KINDS["evs", "stop"]

PatternRow = Mapping[str, Any]


class Skeleton:
    """A run's processes and views, without messages. Given: rows of the table BONE. Names are codes, as text."""

    def __init__(self, bones: Iterable[PatternRow], nodes: int, down: Iterable[int], settled: bool) -> None:
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
            if bone["kind"] in (CONF, HIDDEN):
                p.begin(node, inc)
                for before in incarnations[node]:
                    if before < inc:
                        self.over.setdefault((node, before), place)
            elif bone["kind"] in (FAIL, _LEAVE):
                p.fail(node, inc)
                self.over.setdefault((node, inc), place)
            else:
                p.add(node, _row(bone))
                self.home[bone["process"]] = (node, inc)
        p.finish(set(down))
        self.index = {int(name): process for process, name in enumerate(p.names)}
        self.views = {(int(p.groups[view.group]), view.number): index for index, view in enumerate(p.confs)}
        self.seats = [sorted(int(p.names[member]) for member in view.members) for view in p.confs]
        """Of each view, its members in the order of their seats."""
        self.history = History(_nameless(settled))
        self.history.processes = p

    @property
    def extend(self) -> Extend:
        return self.history.once(extend_of)


def _nameless(settled: bool) -> Run:
    return Run(
        schema=SCHEMA, run="", nodes=[], stack="evs", order="", seed=0, settled=settled, components=[], down=[],
        quorum={},
    )  # fmt: skip


def _row(bone: PatternRow) -> Row:
    row = Row(
        node=str(bone["node"]),
        inc=bone["inc"],
        n=bone["place"],
        t=0,
        layer="vs",
        kind="view" if bone["kind"] == _VIEW else "stop",
        group=str(bone["group"]),
        process=str(bone["process"]),
        view=bone["view"],
    )
    if bone["kind"] == _VIEW:
        row.members, row.primary, row.conf = [*map(str, bone["members"])], bone["primary"], str(bone["conf"])
    return row


class Pattern:
    """Messages that fared alike."""

    __slots__ = ("by", "caster", "delivered", "home", "messages", "row", "service", "view")

    def __init__(self, row: PatternRow, skeleton: Skeleton) -> None:
        self.row = row
        self.caster: int = skeleton.index[row["caster"]]
        self.service: int = row["service"]
        self.messages: int = row["messages"]
        self.view: int | None = None if row["view"] is None else skeleton.views[row["group"], row["view"]]
        """That they were cast in."""
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


class ViewPatterns:
    """One run. Given: rows of the table PATTERN, the skeleton, and what the checks found there."""

    def __init__(self, patterns: Sequence[PatternRow], skeleton: Skeleton, found: Tallies) -> None:
        self._skeleton = skeleton
        self._found = found
        self.extend = skeleton.extend
        told = [row for row in patterns if row["stamp"] is None]
        self._shared = len(patterns) - len(told)
        """Timestamps that several messages have."""
        self._marks = [row for row in told if row["mark_process"] is not None]
        of_messages = [row for row in told if row["mark_process"] is None]
        self.sums = {name: sum(row[name] or 0 for row in told) for name in SUMS}
        self.counts = self._count(of_messages)
        wrong = self.sums["blurred"] + self.sums["outside"] + self.sums["spread"] + found["vs.L3"].violations
        self.is_unclear = wrong > 0 or len(patterns) > MOST_PATTERNS or self._is_late()
        self.patterns = [] if self.is_unclear else [Pattern(row, skeleton) for row in of_messages]

    def _count(self, of_messages: Iterable[PatternRow]) -> ViewCounts:
        casts, deliveries = self.sums["casts"], self.sums["deliveries"]
        return ViewCounts(
            events=casts + deliveries,
            casts=casts,
            deliveries=deliveries,
            fifo=sum(row["casts"] + row["deliveries"] for row in of_messages if row["service"] == FIFO),
            ordered=self.sums["stamped"] + self.sums["unstamped"],
        )

    def _is_late(self) -> bool:
        """Did a process cast or deliver when it was over?"""
        skeleton = self._skeleton
        for mark in self._marks:
            home = skeleton.home.get(mark["mark_process"])
            over = None if home is None else skeleton.over.get(home)
            if over is not None and mark["mark_spoke"] is not None and mark["mark_spoke"] > over:
                return True
        return False

    # -- by views

    @cached_property
    def misplaced(self) -> list[Pattern]:
        """L4: those that are neither delivered in the view of their cast, nor in a later one of the same primary
        component."""
        views = self._skeleton.processes.confs
        found = []
        for pattern in self.patterns:
            if pattern.delivered and pattern.view is not None and pattern.view != pattern.home:
                there, here = views[pattern.view], views[pattern.home]
                if (there.group, there.primary) != (here.group, here.primary) or there.number >= here.number:
                    found.append(pattern)
        return found

    @cached_property
    def misnumbered(self) -> list[Pattern]:
        """C1: those of which a process does not deliver the first of the caster's messages of the view first, or not
        without a gap."""
        first: dict[tuple[int, int, bool], int] = {}
        for pattern in self.patterns:
            if pattern.view is not None:
                key = (pattern.caster, pattern.home, pattern.service == FIFO)
                number = pattern.row["first"]
                first[key] = min(first.get(key, number), number)
        found = []
        for pattern in self.patterns:
            if pattern.delivered and pattern.view is not None:
                ahead = first[pattern.caster, pattern.home, pattern.service == FIFO] - 1
                if (pattern.row["least"], pattern.row["greatest"]) != (ahead, ahead):
                    found.append(pattern)
        return found

    # -- by timestamps and clocks

    @cached_property
    def unstamped(self) -> int:
        """L5: messages and deliveries without a timestamp, or with a wrong one."""
        return sum(self.sums[name] for name in ("unstamped", "unlike", "disordered")) + self._shared

    @cached_property
    def _by_clock(self) -> bool:
        """Are all casts before their deliveries by clocks that never go back?"""
        return not any(self.sums[name] for name in ("backwards", "tardy", "early", "resent"))

    @cached_property
    def has_logical_time(self) -> bool:
        """L2."""
        wrong = ("strange", "resent", "again", "uncausal", "long", "outside", "spread")
        return (
            not (
                any(self.sums[name] for name in wrong)
                or any(self._found[check].violations for check in ("vs.C1", "vs.L2"))
                or self.misnumbered
                or self.misplaced
                or self.unstamped
            )
            and self._in_one_order()
        )

    @cached_property
    def is_acyclic(self) -> bool:
        """L1: no event precedes itself."""
        return self._by_clock or (self.has_logical_time and not self.sums["crossing"])

    def _in_one_order(self) -> bool:
        times = Times(self._skeleton.processes, self._marks, self._skeleton.index)
        if times.is_broken or (times.several and not self._by_clock):
            return False
        return all(self._is_after_its_cast(pattern, times) for pattern in self.patterns)

    def _is_after_its_cast(self, pattern: Pattern, times: Times) -> bool:
        """Are the deliveries of these messages not before their casts?"""
        if pattern.service == FIFO or pattern.by <= {pattern.caster}:
            return True
        if pattern.view == pattern.home:
            own = pattern.service >= AGREED and pattern.caster in pattern.by
            return own or pattern.caster not in times.several
        p = self._skeleton.processes
        came = {p.node[event] for event in p.confs[pattern.home].entered}
        return pattern.caster in came or times.ends_before(pattern.caster, pattern.home)


ViewCheck = Check[ViewCounts, ViewPatterns]
Prove = Callable[[ViewPatterns, Proof], None]


def where_clear(prove: Prove) -> Prove:
    """Where the run is unclear nothing is proven."""

    @wraps(prove)
    def guarded(run: ViewPatterns, proof: Proof) -> None:
        if run.is_unclear:
            proof.doubt()
        else:
            prove(run, proof)

    return guarded
