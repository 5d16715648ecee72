"""What is to be written in a turn, and what waits for it.

Promised: a record given to `after` is handed back once everything that was decided before it is on stable storage,
in order, with the write whose token it waited for.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from reconvene.corel.after_sync import AfterSync
from reconvene.corel.batch import BatchId
from reconvene.corel.keeping.layout import Record
from reconvene.storage.tables import Op
from reconvene.voting import Kept

__all__ = ["OpenWrite", "Writes"]


@dataclass(slots=True)
class OpenWrite:
    """One transaction under way."""

    token: int
    then: list[AfterSync]
    """To be carried out once the token is reported as synced."""
    bodies: list[BatchId]
    """Batches whose bodies it makes durable."""
    green: int
    """The green line that it makes durable."""
    kept: Kept | None
    """The sessions that it makes durable; None: those that are."""


class Writes:
    def __init__(self, record: Record) -> None:
        self.record = record
        """The durable variables. A part that changes one of them calls `touch`."""
        self.ops: list[Op] = []
        """Decided and not written, in order."""
        self.held = False
        """What is being decided takes several turns, and is written as one."""
        self.green = 0
        """The green line as stable storage has it."""
        self.record_changed = False
        self.kept = record.kept
        """The sessions of dynamic voting as stable storage has them: what the others may be told."""
        self.record_noted = False
        """They have changed in a way that nothing waits for: they go with the next write."""
        self._then: list[AfterSync] = []
        """Waiting for a write that has no token yet."""
        self._under_way: deque[OpenWrite] = deque()
        self._token = 0

    def touch(self) -> None:
        """The durable variables have changed."""
        self.record_changed = True

    def note(self) -> None:
        """The durable variables have changed, and nothing depends on it."""
        self.record_noted = True

    def after(self, then: AfterSync) -> None:
        self._then.append(then)

    @property
    def wanted(self) -> bool:
        """Something waits for a write of what was decided."""
        return not self.held and (self.record_changed or (bool(self._then) and bool(self.ops)))

    @property
    def idle(self) -> bool:
        """Nothing is being written, and nothing waits for it."""
        return not self._under_way and not self._then

    def settled(self) -> list[AfterSync]:
        """What waits for nothing but writes that are done. What waits for one under way gets that one's token. To be
        called until it returns nothing: what is carried out may lead to more."""
        if not self._then or self.ops or self.record_changed or self.held:
            return []
        then, self._then = self._then, []
        if self._under_way:
            self._under_way[-1].then += then
            return []
        return then

    def begin(self, bodies: list[BatchId], green: int) -> tuple[int, list[Op]]:
        """Everything decided so far goes into one transaction. Returns its token and what it holds."""
        self._token += 1
        ops, self.ops = self.ops, []
        then, self._then = self._then, []
        kept = self.record.kept if self.record_changed or self.record_noted else None
        self.record_changed = self.record_noted = False
        self._under_way.append(OpenWrite(self._token, then, bodies, green, kept))
        return self._token, ops

    def synced(self, token: int) -> Iterator[OpenWrite]:
        """The transactions up to this one are on stable storage. The caller carries out each one's `then`."""
        while self._under_way and self._under_way[0].token <= token:
            write = self._under_way.popleft()
            self.green = max(self.green, write.green)
            self.kept = write.kept or self.kept
            yield write
