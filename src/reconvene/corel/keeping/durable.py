"""What is to be written in a turn, and what may happen once it is.

Promised: what was given to `after` runs once everything that was decided before it is on stable storage, in order.
"""

from collections import deque
from collections.abc import Callable

from reconvene.corel.batch import BatchId
from reconvene.storage.tables import Op

__all__ = ["Durable", "Write"]

Then = Callable[[], None]


class Write:
    """One transaction under way."""

    __slots__ = ("bodies", "green", "thens", "token")

    def __init__(self, token: int, thens: list[Then], bodies: list[BatchId], green: int) -> None:
        self.token = token
        self.thens = thens
        self.bodies = bodies
        self.green = green
        """The green line that it makes durable."""


class Durable:
    def __init__(self) -> None:
        self.ops: list[Op] = []
        """Decided and not written; in order."""
        self.record_changed = False
        self.held = False
        """What is being decided takes several turns, and is written as one."""
        self._thens: list[Then] = []
        self._under_way: deque[Write] = deque()
        self._token = 0

    def after(self, then: Then) -> None:
        self._thens.append(then)

    @property
    def wanted(self) -> bool:
        """Something waits for a write of what was decided."""
        return not self.held and (self.record_changed or (bool(self._thens) and bool(self.ops)))

    @property
    def idle(self) -> bool:
        """Nothing is being written, and nothing waits for it."""
        return not self._under_way and not self._thens

    def settle(self) -> None:
        """Lets what waits for writes that were made before go on."""
        while self._thens and not self.ops and not self.record_changed and not self.held:
            thens, self._thens = self._thens, []
            if self._under_way:
                self._under_way[-1].thens += thens
                return
            for then in thens:
                then()

    def begin(self, bodies: list[BatchId], green: int) -> tuple[int, list[Op]]:
        """Everything decided so far goes into one transaction: its token and what it holds."""
        self._token += 1
        ops, self.ops = self.ops, []
        thens, self._thens = self._thens, []
        self.record_changed = False
        self._under_way.append(Write(self._token, thens, bodies, green))
        return self._token, ops

    def synced(self, token: int) -> list[Write]:
        """The transactions up to this one are on stable storage; the caller runs what waits for them."""
        done = []
        while self._under_way and self._under_way[0].token <= token:
            done.append(self._under_way.popleft())
        return done
