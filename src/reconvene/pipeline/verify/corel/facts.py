"""The facts of a row of the log as the bits of one integer: nearly always none."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reconvene.verify.corel.sums import ROW_FACTS

if TYPE_CHECKING:
    from pyspark.sql import Column

    from reconvene.verify.corel.sums import LogCheck

__all__ = ["any_of", "checks_of", "fact", "is_suspect"]

_BITS = {name: 1 << bit for bit, name in enumerate(ROW_FACTS)}


def fact(condition: "Column", name: str) -> "Column":
    """The fact, if the condition holds; a null does not hold."""
    return F.when(condition, F.lit(_BITS[name])).otherwise(F.lit(0))


def any_of(*facts: "Column") -> "Column":
    found = F.lit(0)
    for these in facts:
        found = found.bitwiseOR(these)
    return found


def is_suspect(facts: "Column", check: "LogCheck") -> "Column":
    """Has the row a fact that the check declares?"""
    return facts.bitwiseAND(F.lit(sum(_BITS[name] for name in check.facts if name in _BITS))) != 0


def checks_of(facts: "Column", checks: Iterable["LogCheck"]) -> "Column":
    """The ids of the checks that the row is a suspect of."""
    return F.filter(
        F.array(*(F.when(is_suspect(facts, check), F.lit(check.id)) for check in checks)), lambda one: one.isNotNull()
    )
