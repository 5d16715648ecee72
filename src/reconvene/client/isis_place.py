"""A process's membership in one ISIS group, as its link keeps it: from the request to join it until it has left."""

import asyncio

from reconvene.client.isis_state import Provider, Transfer
from reconvene.core.groups import events
from reconvene.errors import ReconveneError, Unavailable
from reconvene.wire.client_isis import IsisViewed

__all__ = ["Place"]


class Place:
    def __init__(self, group: str, provider: Provider | None) -> None:
        loop = asyncio.get_running_loop()
        self.group = group
        self.provider = provider
        self.begun: asyncio.Future[None] = loop.create_future()
        """The first view has come."""
        self.first: IsisViewed | None = None
        """That view."""
        self.transfer: Transfer | None = None
        """Of this process's own state, if there is one to take …"""
        self.released: asyncio.Future[None] = loop.create_future()
        """… and the program has it: what follows may be read."""
        self.left: asyncio.Future[None] = loop.create_future()
        """The process is not in the group any more."""
        self.asked = False
        """The site may have the request to join it."""
        self.abandoned = False
        """The program has given it up: it is left as soon as possible, and nothing of it is read."""
        self.members: tuple[events.Process, ...] = ()
        """As of the last view that was read."""
        self.kept: dict[events.Process, tuple[int, list[bytes]]] = {}
        """By newcomer: its view, and this process's state as of that, in pieces."""
        self.wanted: dict[events.Process, tuple[int, int]] = {}
        """By newcomer: its view, and the first piece that it asks for; the state is given once it is kept."""
        self._error: ReconveneError | None = None
        for future in (self.begun, self.released, self.left):
            future.add_done_callback(_seen)

    @property
    def over(self) -> bool:
        return self.left.done()

    def end(self, error: ReconveneError | None) -> None:
        """`error`: why, where the program did not ask for it."""
        self._error = error
        if self.transfer is not None and not self.released.done():
            self.abandoned = True  # its join fails: the program has no state for what it would read
        why = error or Unavailable(f"group {self.group!r}: this process is not in it any more")
        for future in (self.begun, *(() if self.transfer is None else (self.transfer.done,))):
            if not future.done():
                future.set_exception(type(why)(str(why)))
                future.exception()
        for future in (self.released, self.left):
            if not future.done():
                future.set_result(None)
        self.kept.clear()
        self.wanted.clear()

    def check(self) -> None:
        """Raises Unavailable where the process is not in the group any more."""
        if self.over or self.abandoned:
            raise self._error or Unavailable(f"group {self.group!r}: this process is not in it any more")


def _seen(future: "asyncio.Future[None]") -> None:
    """Perhaps nobody waits for it."""
    if not future.cancelled():
        future.exception()
