"""How much of its work a replica does in one turn, so that no turn of its site is long, whatever waits.

Given: each batch that is handled. Promised: a turn's work ends after the batch that uses up the turn's share; what is
left goes on in the next turn, in the same order. The share is counted in bytes and not in time, for the core has no
clock: the same inputs give the same turns.
"""

from collections.abc import Iterator

__all__ = ["BATCH_BYTES", "MESSAGE_BYTES", "Pace", "Step"]

BATCH_BYTES = 16 << 10
"""What handling a batch costs besides its size: as much as copying so many bytes …"""
MESSAGE_BYTES = 256
"""… and each of its messages, which may get a row in the trace."""
_BACKLOG = 16
"""Of what was delivered and waits, a turn takes one part in so many at least: else it could grow for ever."""

Step = Iterator[None]
"""Work on many batches that goes on until it is done, a batch at a time: nothing else is handled in between."""


class Pace:
    def __init__(self, share_bytes: int) -> None:
        self._share = share_bytes
        self._left = share_bytes

    def begin(self, backlog_bytes: int) -> None:
        """A turn begins. `backlog_bytes`: what was delivered before and is not handled yet."""
        self._left = max(self._share, backlog_bytes // _BACKLOG)

    def spend(self, size: int = 0, messages: int = 0) -> None:
        """A batch was handled. `size`: how many bytes of it were copied, read or sent."""
        self._left -= BATCH_BYTES + size + MESSAGE_BYTES * messages

    def end(self) -> None:
        """Nothing more is handled in this turn."""
        self._left = 0

    @property
    def spent(self) -> bool:
        """The turn has done its share."""
        return self._left <= 0
