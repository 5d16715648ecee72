"""What a network is like: the fields of a scenario's [network], and changes to some of them."""

from dataclasses import dataclass, fields
from typing import Any

__all__ = ["Changes", "Conditions"]

US = 1_000
MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Conditions:
    latency_ns: int = 1 * MS
    jitter_ns: int = 200 * US
    """Added to the latency, evenly from 0 on. It does not reorder: a datagram waits for the one before it."""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Of datagrams that are held back while later ones pass."""
    bandwidth_bps: int = 0
    """0: unlimited."""
    mtu: int = 0
    """Larger datagrams are dropped; 0: none is too large."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The fields of Conditions that are set anew; None leaves one as it is."""

    latency_ns: int | None = None
    jitter_ns: int | None = None
    loss: float | None = None
    duplicate: float | None = None
    reorder: float | None = None
    bandwidth_bps: int | None = None
    mtu: int | None = None

    def over(self, base: Conditions) -> Conditions:
        return Conditions(*(_either(getattr(self, name), getattr(base, name)) for name in _NAMES))

    def then(self, later: "Changes") -> "Changes":
        """Both, the later one where they name the same field."""
        return Changes(*(_either(getattr(later, name), getattr(self, name)) for name in _NAMES))


_NAMES = tuple(field.name for field in fields(Conditions))


def _either(first: Any, second: Any) -> Any:
    return second if first is None else first
