"""The configurations that a site went through, the last ones, for people who look at it."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from reconvene.world import world

__all__ = ["KEPT", "History", "Stay"]

KEPT = 600
"""Stays that are remembered: configurations, and the times between them."""


class Stay(Struct, frozen=True):
    """From here on, until the next one begins."""

    n: int
    """Counts the stays of an incarnation, from 1."""
    at: int
    """ms since 1970, by the site's clock."""
    number: str
    """The configuration; while one is being found, the one that it comes from."""
    members: tuple[str, ...]
    forming: bool
    """Another one is being found."""


class History:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._stays: deque[Stay] = deque(maxlen=KEPT)

    def installed(self, number: str, members: Sequence[int]) -> None:
        self._note(number, tuple(self._names[member] for member in members), False)

    def forming(self) -> None:
        """The site looks for another configuration."""
        last = self._stays[-1] if self._stays else None
        if last is not None and not last.forming:
            self._note(last.number, last.members, True)

    def resumed(self) -> None:
        """It has stopped looking: the configuration is the one that it had, unless another was installed."""
        last = self._stays[-1] if self._stays else None
        if last is not None and last.forming:
            self._note(last.number, last.members, False)

    def since(self, n: int) -> list[Stay]:
        """Those after the one of this number, as far as they are remembered."""
        if not self._stays:
            return []
        return list(islice(self._stays, max(n + 1 - self._stays[0].n, 0), None))

    def _note(self, number: str, members: tuple[str, ...], forming: bool) -> None:
        n = self._stays[-1].n + 1 if self._stays else 1
        self._stays.append(Stay(n, world().time_ns() // 1_000_000, number, members, forming))
