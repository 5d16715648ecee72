"""Adaptation policies, one file each, behind one interface."""

from reconvene.core.order.policies.book_keeper import BookKeeper, Tuning
from reconvene.core.order.policies.damped import Damped
from reconvene.core.order.policies.declared import Declared, Patterns, Schedule
from reconvene.core.order.policies.policy import NoAdaptation, Policy
from reconvene.core.order.policies.round_trip import RoundTrip

__all__ = [
    "BookKeeper",
    "Damped",
    "Declared",
    "NoAdaptation",
    "Policy",
    "RoundTrip",
    "Schedule",
    "Tuning",
    "make_policy",
]


def make_policy(
    name: str,
    members: tuple[int, ...],
    rank: int,
    patterns: Patterns = (),
    schedule: Schedule = (),
    day_offset_ns: int = 0,
) -> Policy:
    match name:
        case "none":
            return NoAdaptation()
        case "book-keeper":
            return BookKeeper(len(members), rank)
        case "round-trip":
            return RoundTrip(len(members), rank)
        case "damped":
            return Damped(len(members), rank)
        case "declared":
            return Declared(members, rank, patterns, schedule, day_offset_ns)
        case _:
            raise ValueError(f"unknown policy {name!r}")
