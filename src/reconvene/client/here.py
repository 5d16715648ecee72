"""Where a program's objects can be used: in the event loop that made them, until their block ends."""

import asyncio

from reconvene.errors import Unavailable

__all__ = ["Here"]

_OTHER_LOOP = (
    "this object belongs to another event loop, where it was made, and would wait for ever in this one. "
    "use it there, connect here too, or use reconvene.blocking, whose objects work in any thread"
)


class Here:
    """One for each link; everything that was made from it asks here first."""

    __slots__ = ("_loop", "_over")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over: str | None = None

    def end(self, why: str) -> None:
        """The block has ended."""
        self._over = why

    def check(self) -> None:
        """Raises RuntimeError in another event loop, Unavailable after the block."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(_OTHER_LOOP)
        if self._over is not None:
            raise Unavailable(self._over)

    def check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(_OTHER_LOOP)
