"""Control messages on their way out: each waits until the site can send it in the configuration of its site view."""

from collections import deque
from collections.abc import Iterable, Sequence

from reconvene.ids import Service
from reconvene.isis.messages import (
    ANNOUNCE,
    DECIDED,
    TABLE,
    Announce,
    Decided,
    FlushedSite,
    Ready,
    Table,
    encode_control,
)

__all__ = ["ControlQueue"]


class ControlQueue:
    def __init__(self) -> None:
        self._waiting: deque[tuple[Service, bytes]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def announce(self, announce: Announce) -> None:
        """Agreed is enough: nothing that anyone sees follows from it alone."""
        self._waiting.append((Service.AGREED, encode_control(announce)))

    def tell(self, messages: Iterable[Table | Decided]) -> None:
        """Before all else, also while the site view is not adopted: that is what its members wait for."""
        told = [(Service.SAFE, encode_control(message)) for message in messages]
        self._waiting.extendleft(reversed(told))

    def conclude(self, message: Ready | FlushedSite) -> None:
        """Safe: a site that acts on it knows that every site that goes on will act on it."""
        self._waiting.append((Service.SAFE, encode_control(message)))

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        """Its configuration is over. What is not announced yet will be announced in the next site view; the rest is
        said anew there."""
        self._waiting.extendleft(reversed([message for message in unsent if message[1][0] == ANNOUNCE]))

    def begin(self) -> None:
        """A configuration or a site view begins: what was to be said in the last one is said anew, or not at all."""
        self._waiting = deque([message for message in self._waiting if message[1][0] == ANNOUNCE])

    def first(self, *, everything: bool) -> tuple[Service, bytes] | None:
        """`everything`: the site view is adopted; else only what its members wait for goes out."""
        if not self._waiting or not (everything or self._waiting[0][1][0] in (TABLE, DECIDED)):
            return None
        return self._waiting[0]

    def sent(self) -> None:
        self._waiting.popleft()

    def reset(self) -> None:
        self._waiting.clear()
