"""Which locks there are: the table that every member of a `Lock` has, made of what it receives and of its views.

All members have the requests of an item in the same order, though they receive them in different ones: by the view
in which they are received, which is the same for all, and in a view by their clocks. Registrations, releases and
failures come at different moments at different members, but never before what caused them.
"""

from bisect import insort
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from reconvene.client.events import Process
from reconvene.client.isis_events import GroupView

__all__ = ["LockTable", "Place", "Registered", "Released", "Request", "Want", "decode"]


class Place(NamedTuple):
    """A token, in its parts. Views of a group grow by (primary, view), for ever."""

    primary: int
    view: int
    number: int
    """Above that of every earlier holder of the item in that view."""
    again: int = 0
    """How often its process took it again, while nobody else wanted it."""

    def __int__(self) -> int:
        return self.primary << 96 | self.view << 64 | self.number << 32 | self.again


class Want(msgspec.Struct, array_like=True, tag="want", frozen=True):
    """By CBCAST, with the default label. It asks for replies, which the sites give."""

    number: int
    """Of the request, among its process's."""
    item: str
    write: bool


class Registered(msgspec.Struct, array_like=True, tag="read", frozen=True):
    """By CBCAST, with the default label: a read lock is given out, unless a write request has come before this."""

    number: int
    item: str


class Released(msgspec.Struct, array_like=True, tag="free", frozen=True):
    """By CBCAST, with the default label."""

    number: int
    item: str
    queued: bool
    """There is a request; otherwise a registration."""
    place: Place | None = None
    """The token of the lock, if its process had it."""


_message: msgspec.msgpack.Decoder[Want | Registered | Released] = msgspec.msgpack.Decoder(
    Want | Registered | Released
)


def decode(data: bytes) -> Want | Registered | Released | None:
    """None for what is none of these."""
    try:
        return _message.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None


class Request(NamedTuple):
    """Compares as it is ordered."""

    primary: int
    view: int
    """Those in which it was received."""
    clock: int
    """Of its cast."""
    owner: Process
    number: int
    write: bool


Key = tuple[Process, int]
"""The owner of a request or a registration, and its number."""


class _State(msgspec.Struct, array_like=True):
    """For a newcomer."""

    queues: dict[str, list[Request]]
    readers: list[tuple[Process, int, str]]


class LockTable:
    def __init__(self) -> None:
        self.queues: dict[str, list[Request]] = {}
        """By item: requests in their order. The first one has the lock, or gets it next."""
        self.readers: dict[Key, str] = {}
        """Registrations: their items."""
        self._read: dict[str, int] = {}
        """By item: how many registrations there are."""
        self._last = Place(0, 0, 0)
        """The highest place in this view that is known, of any item."""

    @property
    def last(self) -> Place:
        """At or above that of every write lock that this member knows to be released; of a read lock that is given
        out now."""
        return self._last

    @property
    def next(self) -> Place:
        """Of a write lock that is given out now."""
        return self._last._replace(number=self._last.number + 1, again=0)

    def is_written(self, item: str) -> bool:
        """Somebody has the write lock, or waits for it."""
        return any(request.write for request in self.queues.get(item, ()))

    def is_wanted(self, item: str) -> bool:
        """More than one request: who has the lock is not the only one that wants it."""
        return len(self.queues.get(item, ())) > 1

    def granted(self, item: str) -> list[Request]:
        """The requests that have the lock, if this member knows of all before them: the first one, where nothing is
        registered; or all reads before the first write."""
        queue = self.queues.get(item, [])
        if queue and queue[0].write:
            return [] if item in self._read else queue[:1]
        return queue[: next((at for at, request in enumerate(queue) if request.write), len(queue))]

    # -- what comes

    def want(self, sender: Process, want: Want, clock: int) -> None:
        request = Request(*self._last[:2], clock, sender, want.number, want.write)
        insort(self.queues.setdefault(want.item, []), request)

    def register(self, sender: Process, registered: Registered) -> None:
        self.readers[sender, registered.number] = registered.item
        self._count(registered.item, 1)

    def release(self, sender: Process, released: Released) -> None:
        key = (sender, released.number)
        if released.place is not None:
            self._last = max(self._last, released.place)
        if released.queued:
            queue = self.queues.get(released.item, ())
            self._keep(released.item, [request for request in queue if (request.owner, request.number) != key])
        elif (item := self.readers.pop(key, None)) is not None:
            self._count(item, -1)

    def _count(self, item: str, more: int) -> None:
        count = self._read.get(item, 0) + more
        if count:
            self._read[item] = count
        else:
            del self._read[item]

    def _keep(self, item: str, queue: list[Request]) -> None:
        if queue:
            self.queues[item] = queue
        else:
            self.queues.pop(item, None)

    def viewed(self, view: GroupView) -> Iterable[str]:
        """What belonged to processes that are no members any more is void. Returns the items with requests."""
        members = set(view.members)
        self._last = Place(view.primary, view.number, 0)
        for key in [key for key in self.readers if key[0] not in members]:
            self._count(self.readers.pop(key), -1)
        for item, queue in list(self.queues.items()):
            self._keep(item, [request for request in queue if request.owner in members])
        return list(self.queues)

    def clear(self) -> None:
        """This process is not in the group any more."""
        self.queues.clear()
        self.readers.clear()
        self._read.clear()

    # -- for newcomers

    def state(self) -> object:
        return _State(self.queues, sorted((*key, item) for key, item in self.readers.items()))

    def restore(self, state: Any) -> None:
        table = msgspec.convert(state, _State)
        self.clear()
        self.queues = table.queues
        for owner, number, item in table.readers:
            self.register(owner, Registered(number, item))
