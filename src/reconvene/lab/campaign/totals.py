"""What a campaign adds up to by profile, and how each failing seed is repeated."""

from collections.abc import Iterable

from msgspec import Struct

from reconvene.lab.campaign.seeds import Outcome

__all__ = ["Failing", "Totals", "add_up", "failing", "repeat_command"]

_ERROR = "error"
"""Stands among the checks for a run that an exception ended."""


class Totals(Struct, kw_only=True):
    """Of one profile."""

    profile: str
    runs: int = 0
    faults: int = 0
    events: int = 0
    configurations: int = 0
    messages: int = 0
    violations: int = 0
    failed: int = 0
    """Runs in which something was violated, or that an exception ended."""
    core_seconds: float = 0.0


class Failing(Struct, kw_only=True):
    profile: str
    seed: int
    checks: list[str]
    command: str
    detail: str
    """The first witness, or the exception."""


def add_up(outcomes: Iterable[Outcome]) -> list[Totals]:
    """By profile, in the order of their names."""
    found: dict[str, Totals] = {}
    for outcome in outcomes:
        totals = found.setdefault(outcome.profile, Totals(profile=outcome.profile))
        totals.runs += 1
        totals.faults += outcome.faults
        totals.events += outcome.events
        totals.configurations += outcome.configurations
        totals.messages += outcome.messages
        totals.violations += outcome.violated
        totals.failed += not outcome.ok
        totals.core_seconds = round(totals.core_seconds + outcome.cpu_s, 3)
    return [found[profile] for profile in sorted(found)]


def failing(outcomes: Iterable[Outcome], nodes: int | None) -> list[Failing]:
    bad = sorted(
        (outcome for outcome in outcomes if not outcome.ok), key=lambda outcome: (outcome.profile, outcome.seed)
    )
    return [
        Failing(
            profile=outcome.profile,
            seed=outcome.seed,
            checks=[*outcome.violations, *([_ERROR] if outcome.error is not None else [])],
            command=repeat_command(outcome.profile, outcome.seed, nodes),
            detail=_detail(outcome),
        )
        for outcome in bad
    ]


def _detail(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error.strip().splitlines()[-1]
    return next((witnesses[0] for witnesses in outcome.violations.values() if witnesses), "")


def repeat_command(profile: str, seed: int, nodes: int | None) -> str:
    """What runs this seed again, alone and without Spark."""
    size = "" if nodes is None else f" --nodes {nodes}"
    return f"reconvene campaign --repeat {profile}:{seed}{size}"
