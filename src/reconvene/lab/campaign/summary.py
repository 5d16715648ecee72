"""What a campaign's outcomes add up to, as tables."""

from collections import Counter
from collections.abc import Iterable
from itertools import product

from reconvene.lab.campaign.seeds import Outcome
from reconvene.sim.scenario import FAULTS

__all__ = ["CASES_WANTED", "STEPS", "Tally"]

CASES_WANTED = 1_000
"""A check that looked at less has shown little."""

_CHANGES = ("gathering", "forming: sync", "forming: states", "recovering: exchange", "recovering: wait")
_LOG = ("states", "priority", "claims", "reds", "attempt", "commit", "primary", "minority")

STEPS = {"evs": ("operational", *_CHANGES), "corel": (*_CHANGES, *(f"log: {step}" for step in _LOG))}
"""By stack: where in its phases a site can be met by a fault."""

_WANTED = {"evs": STEPS["evs"], "corel": tuple(step for step in STEPS["corel"] if step.startswith("log: "))}
"""Where every kind of fault has to meet one: runs of the log are few, and its own steps many."""

_NOT_HERE = {"evs": ("evs.primary.", "corel.", "vs."), "corel": ("vs.",)}
"""Checks of what is not there: process groups, and without the log all that it makes."""
_SELDOM = ("evs.primary.continuity",)
"""Checks with few cases in a run, where a tenth of the others' is enough."""


class Tally:
    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self.seeds = 0
        self.events = 0
        self.messages = 0
        self.accepted = 0
        self.ordered = 0
        self.configurations = 0
        self.faults = 0
        self.cpu_s = 0.0
        self.cases: Counter[str] = Counter()
        self.coverage: Counter[tuple[str, str]] = Counter()
        self.failed: list[Outcome] = []
        self.stack = "evs"
        for outcome in outcomes:
            self._add(outcome)

    def _add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.stack = outcome.stack
        self.events += outcome.events
        self.messages += outcome.messages
        self.accepted += outcome.accepted
        self.ordered += outcome.ordered
        self.configurations += outcome.configurations
        self.faults += outcome.faults
        self.cpu_s += outcome.cpu_s
        self.cases.update(outcome.cases)
        for step, kind, count in outcome.coverage:
            self.coverage[step, kind] += count
        if not outcome.ok:
            self.failed.append(outcome)

    def kinds(self) -> list[str]:
        seen = {kind for _, kind in self.coverage}
        return sorted(seen.union(FAULTS) if self.stack == "corel" else seen)

    def thin(self) -> list[str]:
        """Checks that looked at too little."""
        return [check for check, cases in self.cases.items() if cases < self.wanted(check)]

    def wanted(self, check: str) -> int:
        """How many cases show something."""
        if check.startswith(_NOT_HERE[self.stack]):
            return 0
        return CASES_WANTED // 10 if check in _SELDOM else CASES_WANTED

    def unmet(self) -> list[tuple[str, str]]:
        """Pairs of step and fault that never met."""
        pairs = product(_WANTED[self.stack], self.kinds())
        return [pair for pair in pairs if not self.coverage[pair]]

    def _ends(self) -> str:
        left = self.accepted - self.ordered
        return (
            f"{self.accepted:,} messages accepted, {self.ordered:,} green in the end"
            f" ({left:,} at replicas that were down or without a quorum then)"
        )

    def lines(self) -> list[str]:
        """For people: the sums, what each check looked at, which fault met which step, and what failed."""
        kinds, steps = self.kinds(), STEPS[self.stack]
        out = [
            f"{self.seeds:,} seeds, {self.faults:,} faults, {self.configurations:,} configurations, "
            f"{self.messages:,} messages, {self.events:,} events, {self.cpu_s:,.0f} core-seconds",
            *([self._ends()] if self.stack == "corel" else []),
            "",
            "cases by check",
        ]
        out += [f"  {check:<24}{cases:>14,}" for check, cases in self.cases.items()]
        out += ["", "faults by the step in which they met a site", " " * 22 + "".join(f"{k:>10}" for k in kinds)]
        out += [f"  {step:<20}" + "".join(f"{self.coverage[step, k]:>10,}" for k in kinds) for step in steps]
        out.append("")
        for outcome in self.failed:
            out.append(
                f"FAILED seed {outcome.seed} of profile {outcome.profile}: {outcome.nodes} sites, {outcome.order}"
            )
            out.append(f"  again: make seeds SEEDS={outcome.seed} PROFILES={outcome.profile}")
            if outcome.error is not None:
                out.append(outcome.error.rstrip())
            out += [f"  {check}: {witness}" for check, found in outcome.violations.items() for witness in found[:3]]
        return out
