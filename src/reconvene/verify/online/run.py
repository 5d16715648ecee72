"""One run that is judged while it goes on: what is proven of it, at any moment.

Given: run.json, and each node's rows in the order of its file, in pieces of any size and in any order between nodes.
Promised: `judge` says of every check in `JUDGED` how many cases there are, and how many of them are not proven right
(*suspects*), as if the run had ended with what has come; a check that the run breaks has a suspect. The proofs are
those of the Spark engine (`Check.prove`): here they are fed row by row.

Kept are: the rows about configurations and primary components, which are few; sums over messages that fared alike;
and the messages that some node still has to deliver, log or make green. `LIMITS` bounds each: beyond a limit the
layer is not judged any more, and `lost` says why.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from reconvene.trace.events import Row, Run
from reconvene.verify.check import Check, prove_all
from reconvene.verify.checks import CHECKS
from reconvene.verify.engine import judge as judge_locally
from reconvene.verify.evs.bones import configuration_rows, end_rows
from reconvene.verify.evs.patterns import MOST_PATTERNS, EvsPatterns
from reconvene.verify.evs.ways import Row as WayRow
from reconvene.verify.history import History
from reconvene.verify.online import log as log_rows
from reconvene.verify.online.files import NodeFile
from reconvene.verify.online.log import LogRows
from reconvene.verify.online.messages import Messages
from reconvene.verify.online.sighting import Sighting
from reconvene.verify.report import Tallies

__all__ = ["JUDGED", "LIMITS", "NOT_JUDGED", "Limits", "OnlineRun", "Sighting", "Standing"]

NOT_JUDGED = {
    "corel.3.7": "needs all that the author had before each message",
    "corel.3.8": "a promise about the end of a settled run",
    "corel.causal": "needs all that the author had before each message",
    "corel.yellow": "needs each node's colours of a message until its primary component is known everywhere",
    "corel.follow": "followers and outposts are judged with the whole log",
}
"""Checks of the layers that are judged here, but not they; and why. All checks of other layers are not judged."""

_CONTROL = ("corel.phases", "corel.dynamic.subquorum", "corel.dynamic.live")
"""Checks of the log that look at phases alone, which are all kept; `corel.phases` also looks at positions."""
_FIRST_PHASES = frozenset({"attempt", "commit", "establish", "adopt"})

_EVS: list[Check[Any, Any]] = [check for check in CHECKS if check.layer == "evs"]
_LOG: list[Check[Any, Any]] = [check for check in CHECKS if check.id in {*log_rows.JUDGED, *_CONTROL}]
JUDGED = tuple(check.id for check in CHECKS if check in _EVS or check in _LOG)


@dataclass(frozen=True, slots=True)
class Limits:
    messages: int = 500_000
    """Messages of the layer `evs` that some member has not delivered, and timestamps of such."""
    log: int = 4_000_000
    """Messages and positions of the log that some node has not logged or made green, counted at each."""
    bones: int = 200_000
    """Rows about configurations and primary components."""


LIMITS = Limits()


@dataclass(slots=True)
class Standing:
    """What is found of a run so far, by check."""

    cases: dict[str, int]
    suspects: dict[str, int]
    lost: dict[str, str]
    """By layer that can't be judged any more: why."""


class OnlineRun:
    def __init__(self, run: Run, limits: Limits = LIMITS) -> None:
        self.run = run
        self._limits = limits
        codes = {name: code for code, name in enumerate(sorted(run.nodes))}
        self._codes = codes
        self._files = {name: NodeFile(code, codes) for name, code in codes.items()}
        self._remotes = {name: NodeFile(-1, codes) for name in (*run.followers, *run.outposts)}
        self._messages = Messages(len(codes))
        self._log = LogRows(sorted(run.nodes))
        self._has_log = False
        self.needs_quorum = False
        """Are there rows of a log or of process groups? Where such a run settles, run.json has to name its quorum."""
        self._lost: dict[str, str] = {}
        self.passes = 0
        """How often all files have been read to their ends."""
        self._history: tuple[tuple[object, ...], History] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_history": None}

    @property
    def rows(self) -> int:
        return sum(file.rows for file in (*self._files.values(), *self._remotes.values()))

    @property
    def kept(self) -> int:
        """Messages, positions and rows that are kept: what bounds the memory."""
        bones = sum(len(file.bones) for file in self._files.values())
        return len(self._messages) + self._messages.stamps + len(self._log) + bones

    def verified_up_to(self) -> dict[str, tuple[int, int]]:
        """By node: the `n` and the clock `t` of the last row that has come; of those that have any."""
        files = {**self._files, **self._remotes}
        return {name: (file.n, file.t) for name, file in files.items() if file.n is not None and file.t is not None}

    def rows_of(self, name: str) -> int:
        return (self._files.get(name) or self._remotes[name]).rows

    def sightings(self) -> list[Sighting]:
        """The first rows with a fact that no right run has, but those that another file may yet explain."""
        before = self.passes - 1
        return [*self._messages.sightings(before), *self._log.sightings(before)]

    # -- what comes

    def describe(self, run: Run) -> None:
        """run.json as it is now. Its nodes are those of before."""
        self.run = run

    def read_all(self) -> None:
        """All files have been read to where they ended a moment ago."""
        self.passes += 1

    def feed(self, name: str, rows: Iterable[Row]) -> None:
        """A node's next rows, each with the fields that its kind requires."""
        if name in self._remotes:
            self._feed_remote(self._remotes[name], rows)
            return
        file, node, log, messages, now = (
            self._files[name], self._codes[name], self._log, self._messages, self.passes,
        )  # fmt: skip
        for row in rows:
            layer = row.layer
            if layer == "evs":
                file.own(row, messages, now)
                if row.kind != "send" and row.kind != "deliver" and row.conf_kind != "hidden":
                    log.move(node, row)
                continue
            if not file.follows(row):
                messages.mark(file.other(row), name, row.n, f"{layer} {row.kind}")
            if layer == "corel":
                log.add(node, row, now)
                if row.kind in _FIRST_PHASES:
                    file.bones.append(row)
            elif layer == "isis":
                self.needs_quorum = True
            elif row.kind == "establish" or (layer == "vs" and row.kind == "view"):
                file.bones.append(row)
        self._has_log = self._has_log or log.rows > 0
        self.needs_quorum = self.needs_quorum or self._has_log
        self._forget()

    def _feed_remote(self, file: NodeFile, rows: Iterable[Row]) -> None:
        for row in rows:
            marks = file.other(row)
            if marks:
                self._messages.mark(marks, row.node, row.n, f"{row.layer} {row.kind}")
            self._has_log = True

    def _forget(self) -> None:
        files = list(self._files.values())
        for root in self._messages.roots():
            members = self._messages.members(root)
            if members and all(file.is_past(root) for file in files if members >> file.node & 1):
                self._messages.leave(root)
        limits = self._limits
        if max(len(self._messages), self._messages.stamps) > limits.messages:
            self._lose("evs", f"more than {limits.messages} messages are not delivered by all members")
        if self._messages.patterns > MOST_PATTERNS or sum(len(file.bones) for file in files) > limits.bones:
            self._lose("evs", f"more than {limits.bones} rows about configurations, or {MOST_PATTERNS} patterns")
        if len(self._log) > limits.log and self._log.lost is None:
            slow = self._log.slowest()
            self._log.drop(f"node {slow} is too far behind: more than {limits.log} messages wait for it")

    def _lose(self, layer: str, why: str) -> None:
        """The state is dropped with what can't be judged any more; files are followed for `verified_up_to` alone."""
        if layer not in self._lost:
            self._lost[layer] = why
        self._messages = Messages(len(self._codes))
        for file in self._files.values():
            file.bones.clear()
            file.moves.clear()

    # -- what is found

    def judge(self, *, final: bool) -> Standing:
        """As if the run had ended with what has come. Unless it is final, what another file may yet explain is left
        out: rows that lack their cause, until there was a whole pass after the one that they came in."""
        before = None if final else self.passes - 1
        lost = dict(self._lost)
        if self._log.lost is not None:
            lost["corel"] = self._log.lost
        if "evs" in lost:
            lost["corel"] = lost.get("corel", lost["evs"])
            return Standing({}, {}, lost)
        history = self._skeleton()
        cases, suspects = self._judge_evs(history, before)
        if self._has_log and "corel" not in lost:
            self._judge_log(history, before, cases, suspects)
        return Standing(cases, suspects, lost)

    def _skeleton(self) -> History:
        """The run without its messages. It is made anew only where there is something new."""
        key = (self.run, *(len(file.bones) for file in self._files.values()))
        if self._history is None or self._history[0] != key:
            rows = {name: file.bones for name, file in self._files.items()}
            self._history = key, History.of(self.run, rows)
        return self._history[1]

    def _judge_evs(self, history: History, before: int | None) -> tuple[dict[str, int], dict[str, int]]:
        bones = Tallies(check.id for check in _EVS)
        judge_locally(history, [check for check in _EVS if check.skeleton], bones)
        others = sum(file.others for file in (*self._files.values(), *self._remotes.values()))
        moves: list[WayRow] = [move for file in self._files.values() for move in file.moves]
        moves.append({"node": None, "rows": others})
        patterns = EvsPatterns(
            self._messages.rows(before), moves, list(configuration_rows(history)), list(end_rows(history))
        )
        proofs = prove_all(_EVS, patterns.counts, patterns)
        cases = {check.id: proofs[check.id].cases + bones[check.id].cases for check in _EVS}
        suspects = {check.id: proofs[check.id].suspects + bones[check.id].violations for check in _EVS}
        return cases, suspects

    def _judge_log(
        self, history: History, before: int | None, cases: dict[str, int], suspects: dict[str, int]
    ) -> None:
        control = Tallies(_CONTROL)
        for check in _LOG:
            if check.id in _CONTROL:  # also where the log has no phases: that may be what is wrong
                check.check(history, control[check.id])
        facts = self._log.suspects(set(self.run.down), before)
        counts = self._log.counts
        for check in _LOG:
            if check.id in log_rows.JUDGED:
                cases[check.id] = check.cases(counts)
                suspects[check.id] = sum(count for fact, count in facts.items() if fact in check.facts)
            else:
                cases[check.id], suspects[check.id] = control[check.id].cases, 0
            if check.id in _CONTROL:
                suspects[check.id] += control[check.id].violations
