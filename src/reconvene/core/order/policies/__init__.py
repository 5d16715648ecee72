"""Adaptation policies, one file each, behind one interface."""

from reconvene.core.order.policies.book_keeper import BookKeeper
from reconvene.core.order.policies.policy import NoAdaptation, Policy

__all__ = ["BookKeeper", "NoAdaptation", "Policy", "make_policy"]


def make_policy(name: str, members: int, rank: int) -> Policy:
    match name:
        case "none":
            return NoAdaptation()
        case "book-keeper" | "round-trip" | "damped" | "declared":
            return BookKeeper(members, rank)
        case _:
            raise ValueError(f"unknown policy {name!r}")
