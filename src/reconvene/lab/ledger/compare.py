"""The comparisons that all ledgers share: nothing lost, nothing added, nothing twice, one order."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["FINDINGS_KEPT", "Differences", "differences", "first_difference", "keep", "repeated"]

FINDINGS_KEPT = 20
"""How many findings are kept: the first ones show the cause."""

K = TypeVar("K", bound=Hashable)


class Differences(NamedTuple, Generic[K]):
    """Keys in their order."""

    lacking: list[K]
    """Expected and not found."""
    extra: list[K]
    """Found and not expected."""
    changed: list[K]
    """Found with another value."""


def differences(expected: Mapping[K, object], found: Mapping[K, object]) -> Differences[K]:
    """Between two mappings, such as from positions to payloads."""
    return Differences(
        _sorted(expected.keys() - found.keys()),
        _sorted(found.keys() - expected.keys()),
        _sorted(key for key in expected.keys() & found.keys() if expected[key] != found[key]),
    )


def _sorted(keys: Iterable[Any]) -> list[Any]:
    return sorted(keys)


def first_difference(one: Sequence[object], other: Sequence[object]) -> int | None:
    """The first index at which the sequences differ; None if one of them is the beginning of the other."""
    return next((at for at, (mine, theirs) in enumerate(zip(one, other, strict=False)) if mine != theirs), None)


def repeated(items: Iterable[K]) -> dict[K, int]:
    """Items that occur more than once, and how often."""
    return {item: times for item, times in Counter(items).items() if times > 1}


def keep(findings: list[str], what: str) -> None:
    """Adds a finding, unless there are enough."""
    if len(findings) < FINDINGS_KEPT:
        findings.append(what)
