"""Whether sites share a configuration, according to their statuses."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["apart", "together"]

Statuses = Mapping[str, Mapping[str, Any]]
"""By site; one that does not answer is missing."""


def together(component: Sequence[str], statuses: Statuses) -> bool:
    """Whether all are in one configuration of exactly these, and operational."""
    seen = [statuses.get(name) for name in component]
    first = seen[0] if seen else None
    return all(
        status is not None
        and first is not None
        and status["health"] != "forming"
        and status["configuration"] == first["configuration"]
        and sorted(status["members"]) == sorted(component)
        for status in seen
    )


def apart(components: Sequence[Sequence[str]], statuses: Statuses) -> str:
    """The configurations that they are in instead, in one line."""
    return "; ".join(_whereabouts(name, statuses.get(name)) for component in components for name in component)


def _whereabouts(name: str, status: Mapping[str, Any] | None) -> str:
    if status is None:
        return f"{name} is silent"
    return f"{name} is in {status['configuration']} of {','.join(status['members'])} ({status['health']})"
