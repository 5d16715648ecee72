"""Which checks of the log a row is a suspect of, as the bits of one integer: nearly always none."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.verify.corel import IDS

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["SHARED", "any_of", "checks_of", "has_bit", "suspect"]

_BITS = {check: 1 << bit for bit, check in enumerate(IDS)}

SHARED = ("corel.agreed", "corel.3.6", "corel.3.7", "corel.phases")
"""The checks that need each message to have one position, and each position one message."""


def suspect(condition: "Column", *checks: str) -> "Column":
    """Of these checks (of all, where none is named) if the condition holds; a null does not hold."""
    bits = sum(_BITS[check] for check in checks or IDS)
    return F.when(condition, F.lit(bits)).otherwise(F.lit(0))


def any_of(*bits: "Column") -> "Column":
    """Of every check that one of these is a suspect of."""
    found = F.lit(0)
    for these in bits:
        found = found.bitwiseOR(these)
    return found


def has_bit(bits: "Column", check: str) -> "Column":
    return bits.bitwiseAND(F.lit(_BITS[check])) != 0


def checks_of(bits: "Column") -> "Column":
    """Their names."""
    return F.filter(
        F.array(*(F.when(has_bit(bits, check), F.lit(check)) for check in IDS)), lambda one: one.isNotNull()
    )
