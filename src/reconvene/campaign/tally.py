"""What a campaign's outcomes add up to, as tables."""

from collections import Counter
from collections.abc import Iterable

from reconvene.campaign.seeds import Outcome

__all__ = ["CASES_WANTED", "STEPS", "Tally"]

CASES_WANTED = 1_000
"""A check that looked at less has shown little."""

STEPS = (
    "operational",
    "gathering",
    "forming: sync",
    "forming: states",
    "recovering: exchange",
    "recovering: wait",
)
"""Where in its phases a site can be met by a fault."""

_NOT_HERE = ("evs.primary.", "vs.")
"""Checks of primary components and of process groups, which group communication among sites alone does not have."""


class Tally:
    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self.seeds = 0
        self.events = 0
        self.messages = 0
        self.configurations = 0
        self.faults = 0
        self.cpu_s = 0.0
        self.cases: Counter[str] = Counter()
        self.coverage: Counter[tuple[str, str]] = Counter()
        self.failed: list[Outcome] = []
        for outcome in outcomes:
            self._add(outcome)

    def _add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.events += outcome.events
        self.messages += outcome.messages
        self.configurations += outcome.configurations
        self.faults += outcome.faults
        self.cpu_s += outcome.cpu_s
        self.cases.update(outcome.cases)
        for step, kind, count in outcome.coverage:
            self.coverage[step, kind] += count
        if not outcome.ok:
            self.failed.append(outcome)

    def kinds(self) -> list[str]:
        return sorted({kind for _, kind in self.coverage})

    def thin(self) -> list[str]:
        """Checks that looked at too little."""
        return [
            check for check, cases in self.cases.items() if cases < CASES_WANTED and not check.startswith(_NOT_HERE)
        ]

    def unmet(self) -> list[tuple[str, str]]:
        """Pairs of step and fault that never met."""
        return [(step, kind) for step in STEPS for kind in self.kinds() if not self.coverage[step, kind]]

    def lines(self) -> list[str]:
        """For people: the sums, what each check looked at, which fault met which step, and what failed."""
        kinds = self.kinds()
        out = [
            f"{self.seeds:,} seeds, {self.faults:,} faults, {self.configurations:,} configurations, "
            f"{self.messages:,} messages, {self.events:,} events, {self.cpu_s:,.0f} core-seconds",
            "",
            "cases by check",
        ]
        out += [f"  {check:<24}{cases:>14,}" for check, cases in self.cases.items()]
        out += ["", "faults by the step in which they met a site", " " * 22 + "".join(f"{k:>11}" for k in kinds)]
        out += [f"  {step:<20}" + "".join(f"{self.coverage[step, k]:>11,}" for k in kinds) for step in STEPS]
        out.append("")
        for outcome in self.failed:
            out.append(
                f"FAILED seed {outcome.seed} of profile {outcome.profile}: {outcome.nodes} sites, {outcome.order}"
            )
            if outcome.error is not None:
                out.append(outcome.error.rstrip())
            out += [f"  {check}: {witness}" for check, found in outcome.violations.items() for witness in found[:3]]
        return out
