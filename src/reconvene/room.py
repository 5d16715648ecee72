"""Room that is bounded, and those that wait for it.

Promised: they enter in the order in which they came, as soon as there is room; nothing polls.
"""

import asyncio
from collections.abc import Callable

__all__ = ["UNBOUNDED", "Room", "Waiter"]

UNBOUNDED = 1 << 62
"""How much is free where nothing has to wait, as where everything is refused at once."""


class Waiter:
    """One that waits, until it enters or leaves."""

    __slots__ = ("_enter", "_room", "wanted")

    def __init__(self, room: "Room", wanted: int, enter: Callable[[], None]) -> None:
        self._room = room
        self._enter = enter
        self.wanted = wanted

    @property
    def waits(self) -> bool:
        return self in self._room.waiting

    def enter(self) -> None:
        """Now, whether there is room or not."""
        if self.waits:
            del self._room.waiting[self]
            self._enter()

    def leave(self) -> None:
        """It does not wait any more; those behind it may be next."""
        if self.waits:
            del self._room.waiting[self]
            self._room.wake()


class Room:
    """`free` returns how much room there is now. Whoever may have made more of it calls `wake`."""

    __slots__ = ("_waking", "free", "waiting")

    def __init__(self, free: Callable[[], int]) -> None:
        self.free = free
        self.waiting: dict[Waiter, None] = {}
        """In the order in which they came."""
        self._waking = False

    def when(self, wanted: int, enter: Callable[[], None]) -> Waiter:
        """Calls `enter` once there is room for `wanted`, and no one waits who came before: at once, if that is so
        now. `enter` must use the room before it returns."""
        waiter = Waiter(self, wanted, enter)
        self.waiting[waiter] = None
        self.wake()
        return waiter

    async def wait(self, wanted: int = 1) -> None:
        """Returns when there is room for `wanted`. By the time that the caller runs it may be taken: wait in a
        loop."""
        if not self.waiting and self.free() >= wanted:
            return
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = self.when(wanted, lambda: None if entered.done() else entered.set_result(None))
        try:
            await entered
        finally:
            waiter.leave()

    def wake(self) -> None:
        """There may be more room."""
        if self._waking:
            return  # the loop below comes to whoever has entered meanwhile
        self._waking = True
        try:
            while self.waiting:
                first = next(iter(self.waiting))
                if self.free() < first.wanted:
                    return
                first.enter()
        finally:
            self._waking = False

    def wake_all(self) -> None:
        """Everyone that waits now enters, whether there is room or not."""
        for waiter in list(self.waiting):
            waiter.enter()
