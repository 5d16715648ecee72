"""What all checks of the layer have in common."""

from collections.abc import Callable

from reconvene.verify.check import Check
from reconvene.verify.history import History
from reconvene.verify.isis_history import Event, IsisHistory
from reconvene.verify.report import Tally

__all__ = ["IsisCheck", "Violate", "violate_in"]

IsisCheck = Check[None, None]

Violate = Callable[[Event, str], None]
"""Adds a violation: the witness, and what is wrong with it."""


def violate_in(h: History, tally: Tally) -> Violate:
    isis: IsisHistory = h.isis

    def violate(event: Event, problem: str) -> None:
        tally.violate(h.run.run, *isis.where(event), f"{isis.describe(event)}: {problem}")

    return violate
