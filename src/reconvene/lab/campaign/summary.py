"""What the outcomes of a campaign add up to: totals by profile, tables, and how to repeat each failing seed."""

from collections import Counter
from collections.abc import Iterable
from itertools import product

from msgspec import Struct

from reconvene.lab.campaign.seeds import Outcome
from reconvene.sim.scenario import FAULTS, ISIS_FAULTS, WIDE_FAULTS
from reconvene.sim.wide_profile import GATEWAY_STEPS

__all__ = ["CASES_WANTED", "STEPS", "Failing", "Summary", "Totals", "add_up", "failing"]

CASES_WANTED = 1_000
"""A check with fewer cases has shown little."""

_CHANGES = ("gathering", "forming: sync", "forming: states", "recovering: exchange", "recovering: wait")
_LOG = ("states", "priority", "claims", "reds", "attempt", "commit", "primary", "minority")
_ISIS = (
    *("idle", "blocked", "adopting", "change takeover", "change push", "change flushed"),
    *("gbcast announced", "gbcast ready", "gbcast concluded", "transfer"),
)

STEPS = {
    "evs": ("operational", *_CHANGES),
    "corel": (*_CHANGES, *(f"log: {step}" for step in _LOG)),
    "isis": (*_CHANGES, *(f"isis: {step}" for step in _ISIS)),
    "dynamic": (*_CHANGES, *(f"log: {step}" for step in (*_LOG[:6], "establish", *_LOG[6:]))),
}
STEPS["wide"] = (*_CHANGES, "wide: meeting", "wide: catching up", "wide: open", *GATEWAY_STEPS)
STEPS["followers"] = (*STEPS["corel"], *(f"follower: {step}" for step in ("idle", "opening", "pulling", "base")))
STEPS["outposts"] = (
    *STEPS["followers"],
    *(f"outpost: {step}" for step in ("connecting", "open", "resting")),
)
"""By stack: the steps of the protocol in which a fault can hit a site. `dynamic`: the log with dynamic voting;
`followers`, `outposts`: the log with these."""
_LOGS = ("corel", "dynamic", "followers", "outposts")
"""Those of the log."""

_WANTED = {
    "evs": STEPS["evs"],
    "corel": tuple(step for step in STEPS["corel"] if step.startswith("log: ")),
    "isis": tuple(step for step in STEPS["isis"] if step.startswith("isis: ")),
    "dynamic": tuple(f"log: {step}" for step in ("states", "attempt", "commit", "establish", "primary", "minority")),
    "followers": ("follower: idle", "follower: pulling"),
    "outposts": ("outpost: open", "outpost: resting"),
    "wide": GATEWAY_STEPS,
}
"""Steps in which every kind of fault has to hit a site. Where there is a layer above the site, only that layer's."""
_KINDS: dict[str, tuple[str, ...]] = {
    "evs": (),
    "corel": FAULTS,
    "isis": ISIS_FAULTS,
    "dynamic": FAULTS,
    "followers": FAULTS,
    "outposts": FAULTS,
    "wide": WIDE_FAULTS,
}
"""Kinds of fault that are listed though they hit no site."""
_ELSEWHERE = {"isis": ("sync",), "wide": ("handover",)}
"""Kinds that hit no site in these steps: the site writes only while it changes its configuration; and a hand-over,
which is no fault."""


def _can_not_hit(step: str, kind: str) -> bool:
    """A gateway's sites write only when they answer a proposal."""
    return kind == "sync" and step.startswith(("gateway: ", "upper: ")) and not step.endswith(": sync")


_DOMAINS = ("wide.", "live.wide")
_NOT_HERE = {
    "evs": ("evs.primary.", "corel.", "vs.", "isis.", *_DOMAINS),
    "corel": ("vs.", "isis.", "corel.dynamic.", "corel.follow", *_DOMAINS),
    "dynamic": ("vs.", "isis.", "corel.follow", *_DOMAINS),
    "followers": ("vs.", "isis.", "corel.dynamic.", *_DOMAINS),
    "outposts": ("vs.", "isis.", "corel.dynamic.", *_DOMAINS),
    "isis": ("evs.primary.", "corel.", "vs.", *_DOMAINS),
    "wide": ("evs.primary.", "corel.", "vs.", "isis.", "wide.cast-"),
}
"""Prefixes of checks that can have no cases: of layers that the stack does not have."""
_SELDOM = ("evs.primary.continuity", "corel.dynamic.live", "wide.lost")
"""Checks with few cases in a run: a tenth of what the others need is enough."""
_ERROR = "error"
"""Listed among the failed checks of a run that an exception ended."""


class Totals(Struct, kw_only=True):
    """The sums over all runs of one profile."""

    profile: str
    runs: int = 0
    faults: int = 0
    events: int = 0
    configurations: int = 0
    messages: int = 0
    violations: int = 0
    failed: int = 0
    """Runs that violated a check, or that an exception ended."""
    core_seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.faults += outcome.faults
        self.events += outcome.events
        self.configurations += outcome.configurations
        self.messages += outcome.messages
        self.violations += outcome.violated
        self.failed += not outcome.ok
        self.core_seconds = round(self.core_seconds + outcome.cpu_s, 3)


def add_up(outcomes: Iterable[Outcome]) -> list[Totals]:
    """By profile, in the order of their names."""
    found: dict[str, Totals] = {}
    for outcome in outcomes:
        found.setdefault(outcome.profile, Totals(profile=outcome.profile)).add(outcome)
    return [found[profile] for profile in sorted(found)]


class Failing(Struct, kw_only=True):
    """A failing seed."""

    profile: str
    seed: int
    checks: list[str]
    command: str
    """Runs this seed again, alone and without Spark."""
    detail: str
    """The first witness, or the exception."""


def failing(outcomes: Iterable[Outcome], nodes: int | None) -> list[Failing]:
    bad = sorted(
        (outcome for outcome in outcomes if not outcome.ok), key=lambda outcome: (outcome.profile, outcome.seed)
    )
    size = "" if nodes is None else f" --nodes {nodes}"
    return [
        Failing(
            profile=outcome.profile,
            seed=outcome.seed,
            checks=[*outcome.violations, *([_ERROR] if outcome.error is not None else [])],
            command=f"reconvene campaign --repeat {outcome.profile}:{outcome.seed}{size}",
            detail=_detail(outcome),
        )
        for outcome in bad
    ]


def _detail(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.strip().splitlines()[-1]
    return next((witnesses[0] for witnesses in outcome.violations.values() if witnesses), "")


class Summary:
    """The runs of one profile: what was tested, and what failed."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self.totals = Totals(profile="")
        self.accepted = 0
        self.ordered = 0
        self.cases: Counter[str] = Counter()
        self.coverage: Counter[tuple[str, str]] = Counter()
        self.failed: list[Outcome] = []
        self.stack = "evs"
        for outcome in outcomes:
            self._add(outcome)

    def _add(self, outcome: Outcome) -> None:
        self.totals.add(outcome)
        self.stack = outcome.profile if outcome.profile in _LOGS else outcome.stack
        self.accepted += outcome.accepted
        self.ordered += outcome.ordered
        self.cases.update(outcome.cases)
        for step, kind, count in outcome.coverage:
            self.coverage[step, kind] += count
        if not outcome.ok:
            self.failed.append(outcome)

    def kinds(self) -> list[str]:
        seen = {kind for _, kind in self.coverage}
        return sorted(seen.union(_KINDS[self.stack]))

    def thin(self) -> list[str]:
        """Checks that had too few cases."""
        return [check for check, cases in self.cases.items() if cases < self.wanted(check)]

    def wanted(self, check: str) -> int:
        """How many cases the check needs."""
        if check.startswith(_NOT_HERE[self.stack]):
            return 0
        return CASES_WANTED // 10 if check in _SELDOM else CASES_WANTED

    def unmet(self) -> list[tuple[str, str]]:
        """Pairs of step and fault of which no run had one."""
        elsewhere = _ELSEWHERE.get(self.stack, ())
        pairs = product(_WANTED[self.stack], [kind for kind in self.kinds() if kind not in elsewhere])
        return [pair for pair in pairs if not self.coverage[pair] and not _can_not_hit(*pair)]

    def _ordered_line(self) -> str:
        left = self.accepted - self.ordered
        return (
            f"{self.accepted:,} messages accepted, {self.ordered:,} green in the end"
            f" ({left:,} at replicas that were down or without a quorum then)"
        )

    def lines(self) -> list[str]:
        """For people: the totals, the cases of each check, which fault hit which step, and what failed."""
        kinds, steps, totals = self.kinds(), STEPS[self.stack], self.totals
        width = max(map(len, steps))
        out = [
            f"{totals.runs:,} seeds, {totals.faults:,} faults, {totals.configurations:,} configurations, "
            f"{totals.messages:,} messages, {totals.events:,} events, {totals.core_seconds:,.0f} core-seconds",
            *([self._ordered_line()] if self.stack in _LOGS else []),
            "",
            "cases by check",
        ]
        out += [f"  {check:<24}{cases:>14,}" for check, cases in self.cases.items()]
        heads = "".join(f"{kind:>10}" for kind in kinds)
        out += ["", "faults by the step in which they hit a site", " " * (width + 2) + heads]
        out += [f"  {step:<{width}}" + "".join(f"{self.coverage[step, k]:>10,}" for k in kinds) for step in steps]
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
