"""The last configurations of a site, for the dashboard."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from reconvene.world import world

__all__ = ["KEPT", "History", "Stay"]

KEPT = 600
"""How many stays are remembered: configurations, and the times between them."""


class Stay(Struct, frozen=True):
    """The time that a site stays in a configuration, or between two. It lasts until the next one begins."""

    n: int
    """Number of the stay in its incarnation, from 1."""
    at: int
    """ms since 1970, by the site's clock."""
    number: str
    """The configuration; while another one is being formed, the last one."""
    members: tuple[str, ...]
    forming: bool
    """Another one is being formed."""


class History:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._stays: deque[Stay] = deque(maxlen=KEPT)

    def installed(self, number: str, members: Sequence[int]) -> None:
        self._note(number, tuple(self._names[member] for member in members), False)

    def forming(self) -> None:
        """The site began to form another configuration."""
        last = self._stays[-1] if self._stays else None
        if last is not None and not last.forming:
            self._note(last.number, last.members, True)

    def resumed(self) -> None:
        """Forming ended: the site is still in its last configuration, unless another was installed."""
        last = self._stays[-1] if self._stays else None
        if last is not None and last.forming:
            self._note(last.number, last.members, False)

    def since(self, n: int) -> list[Stay]:
        """The stays after this number, as far as they are remembered."""
        if not self._stays:
            return []
        return list(islice(self._stays, max(n + 1 - self._stays[0].n, 0), None))

    def _note(self, number: str, members: tuple[str, ...], forming: bool) -> None:
        n = self._stays[-1].n + 1 if self._stays else 1
        self._stays.append(Stay(n, world().time_ns() // 1_000_000, number, members, forming))
