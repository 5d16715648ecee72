"""Which locks there are: the table that every member of a `Lock` has, made of what it receives and of its views.

Requests of an item come in the same order everywhere. Registrations, releases and failures come at different moments
at different members, but never before what caused them.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from reconvene.client.events import Process
from reconvene.client.isis_events import GroupView

__all__ = ["LockTable", "Place", "Registered", "Released", "Request", "Want", "decode"]


class Want(msgspec.Struct, array_like=True, tag="want", frozen=True):
    """By ABCAST, with the item as label."""

    number: int
    """Of the request, among its process's."""
    item: str
    write: bool


class Registered(msgspec.Struct, array_like=True, tag="read", frozen=True):
    """By CBCAST, with the default label: a read lock was given out."""

    number: int
    item: str


class Released(msgspec.Struct, array_like=True, tag="free", frozen=True):
    """By CBCAST, with the default label."""

    number: int
    item: str
    queued: bool
    """There is a request; otherwise a registration."""
    again: int = 0
    """How often its process took it again, while nobody else wanted it."""


_message: msgspec.msgpack.Decoder[Want | Registered | Released] = msgspec.msgpack.Decoder(
    Want | Registered | Released
)


def decode(data: bytes) -> Want | Registered | Released | None:
    """None for what is none of these."""
    try:
        return _message.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None


class Place(NamedTuple):
    """A token, in its parts. Views of a group grow by (primary, view), for ever."""

    primary: int
    view: int
    number: int
    """Of the request among those of the item in that view."""
    again: int = 0
    """How often its process took it again, while nobody else wanted it."""

    def __int__(self) -> int:
        return self.primary << 96 | self.view << 64 | self.number << 32 | self.again


class Request(NamedTuple):
    owner: Process
    number: int
    write: bool
    place: Place


Key = tuple[Process, int]
"""The owner of a request or a registration, and its number."""


class _State(msgspec.Struct, array_like=True):
    """For a newcomer."""

    queues: dict[str, list[Request]]
    readers: list[tuple[Process, int, str]]
    early: list[Key]


class LockTable:
    def __init__(self) -> None:
        self.queues: dict[str, list[Request]] = {}
        """By item: requests in their order. The first one has the lock, or gets it next."""
        self.readers: dict[Key, str] = {}
        """Read locks that are registered: their items."""
        self._early: set[Key] = set()
        """Requests that were given up, and come later than their release."""
        self._view = (0, 0)
        self._placed: dict[str, int] = {}
        """By item: requests that came in this view."""
        self._again: dict[str, int] = {}
        """By item: how often the last of these was taken again."""

    def place(self, item: str) -> Place:
        """Of the last request on the item in this view, or above all of earlier views."""
        return Place(*self._view, self._placed.get(item, 0), self._again.get(item, 0))

    def is_written(self, item: str) -> bool:
        """Somebody has the write lock, or waits for it."""
        return any(request.write for request in self.queues.get(item, ()))

    def is_wanted(self, item: str) -> bool:
        """More than one request: who has the lock is not the only one that wants it."""
        return len(self.queues.get(item, ())) > 1

    def granted(self, item: str) -> list[Request]:
        """The requests that have the lock, as far as the others are concerned: the first one, or all reads before the
        first write."""
        queue = self.queues.get(item, [])
        if queue and queue[0].write:
            return queue[:1]
        return queue[: next((at for at, request in enumerate(queue) if request.write), len(queue))]

    # -- what comes

    def want(self, sender: Process, want: Want) -> None:
        item, key = want.item, (sender, want.number)
        self._placed[item] = self._placed.get(item, 0) + 1
        self._again.pop(item, None)
        if key in self._early:
            self._early.discard(key)
        else:
            self.queues.setdefault(item, []).append(Request(*key, want.write, self.place(item)))

    def register(self, sender: Process, registered: Registered) -> None:
        self.readers[sender, registered.number] = registered.item

    def release(self, sender: Process, released: Released) -> None:
        key = (sender, released.number)
        if not released.queued:
            self.readers.pop(key, None)
        else:
            last = self.queues.get(released.item, [])[-1:]
            if released.again and last and last[0].place == self.place(released.item) and last[0][:2] == key:
                self._again[released.item] = released.again
            if not self._drop(released.item, key):
                self._early.add(key)

    def _drop(self, item: str, key: Key) -> bool:
        queue = self.queues.get(item, [])
        left = [request for request in queue if (request.owner, request.number) != key]
        self._keep(item, left)
        return len(left) < len(queue)

    def _keep(self, item: str, queue: list[Request]) -> None:
        if queue:
            self.queues[item] = queue
        else:
            self.queues.pop(item, None)

    def viewed(self, view: GroupView) -> Iterable[str]:
        """What belonged to processes that are no members any more is void. Returns the items with requests."""
        members = set(view.members)
        self._view = (view.primary, view.number)
        self._placed.clear()
        self._again.clear()
        self.readers = {key: item for key, item in self.readers.items() if key[0] in members}
        self._early = {key for key in self._early if key[0] in members}
        for item, queue in list(self.queues.items()):
            self._keep(item, [request for request in queue if request.owner in members])
        return list(self.queues)

    def clear(self) -> None:
        """This process is not in the group any more."""
        self.queues.clear()
        self.readers.clear()
        self._early.clear()

    # -- for newcomers

    def state(self) -> object:
        readers = sorted((*key, item) for key, item in self.readers.items())
        return _State(self.queues, readers, sorted(self._early))

    def restore(self, state: Any) -> None:
        table = msgspec.convert(state, _State)
        self.queues = table.queues
        self.readers = {(owner, number): item for owner, number, item in table.readers}
        self._early = set(table.early)
