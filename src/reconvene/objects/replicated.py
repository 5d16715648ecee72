"""Data that every member of a group has a copy of, with updates that nobody waits for.

How it is made (Birman and Joseph, 5.1): an update is one CBCAST to the group, and every member applies what it
receives. The sender's own copy comes at once. So an update is complete as soon as it is applied here, and waits for
no network. The others receive all updates too, in an order in which none comes before one that caused it. Reads are
local.

Updates that did not cause each other may be applied in different orders at different members. So either they commute,
or their writers hold a lock (`Lock`), or there is one writer. `ReplicatedDict` makes them commute: each change has a
stamp, and of two changes of one key the higher stamp wins, wherever they arrive first.

    async with ReplicatedDict(site.isis, "prices") as prices:
        await prices.set("coffee", 300)
        print(prices.get("coffee"))

Your own data is an object with `apply`, `snapshot` and `restore`:

    async with ReplicatedData(site.isis, "stock", Stock()) as stock:
        await stock.update(b"sold 3")
        print(stock.data.left)
"""

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from reconvene.client.arguments import check_text, encoded
from reconvene.client.events import Process
from reconvene.client.group import Data, as_bytes
from reconvene.client.isis import Isis
from reconvene.client.isis_events import Action, Cast, GroupView
from reconvene.errors import InvalidArgument, OutcomeUnknown, ReconveneError
from reconvene.objects.member import Member

__all__ = ["Copy", "Items", "ReplicatedData", "ReplicatedDict"]

_LETTERS = 1 << 20
"""Of a key."""
_REMOVED = 1_000
"""Removed keys that are remembered before members are asked whether they can be forgotten."""


class Copy(Protocol):
    """What is replicated: each member has one."""

    def apply(self, update: bytes, sender: Process, /) -> object:
        """An update was received: of this member, or of another one. It must not raise."""

    def snapshot(self) -> bytes:
        """The state as it is now, for a newcomer. Copies that have applied the same updates have the same."""

    def restore(self, data: bytes, /) -> None:
        """Takes such a state in place of its own."""


C = TypeVar("C", bound=Copy)


class _Update(msgspec.Struct, array_like=True, frozen=True):
    number: int
    """Among its sender's: so it recognises its own copy."""
    data: bytes


_update = msgspec.msgpack.Decoder(_Update)


class ReplicatedData(Member, Generic[C]):
    """`data` is this member's copy: read it as you like, and change it by `update` only."""

    def __init__(self, isis: Isis, name: str, data: C, *, last_to_fail: bool = False) -> None:
        super().__init__(isis, name, last_to_fail=last_to_fail)
        self.data = data
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        """Updates of this member that it has not received itself."""

    async def update(self, update: Data) -> None:
        """Returns when the update is applied here; it is on its way to the others. It waits while the group gains a
        member. Before you tell the outside world of it, `site.isis.flush()` waits until it is everywhere.

        Raises Unavailable where this process is not in the group, or its site not in the primary component: then
        nothing happened. Raises OutcomeUnknown where the process was killed meanwhile: others may have received it.
        """
        group = self._in_group()
        number = next(self._numbers)
        applied = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await group.cbcast(msgspec.msgpack.encode(_Update(number, as_bytes(update))))
            await applied
        finally:
            del self._waiting[number]

    # -- as a member

    def received(self, cast: Cast | Action) -> None:
        try:
            update = _update.decode(cast.data)
        except (msgspec.DecodeError, ValueError):
            return  # of a program that is no such object
        self.data.apply(update.data, cast.sender)
        if cast.sender == self._isis.me:
            applied = self._waiting.get(update.number)
            if applied is not None and not applied.done():
                applied.set_result(None)

    def state(self) -> bytes:
        return self.data.snapshot()

    def restore(self, state: bytes) -> None:
        self.data.restore(state)

    def interrupted(self, error: ReconveneError) -> None:
        for applied in self._waiting.values():
            if not applied.done():
                applied.set_exception(OutcomeUnknown(f"{error}; other members may have received the update"))
                applied.exception()  # perhaps nobody waits for it yet


class Stamp(NamedTuple):
    """Of two, the higher one wins. A change has a higher one than all that its writer knew of."""

    clock: int
    writer: str


class _Change(msgspec.Struct, array_like=True, frozen=True):
    clock: int
    floor: int
    """No change below it will come from this writer any more."""
    key: str | None
    """None: it only tells the floor."""
    value: Any = None
    remove: bool = False


_change = msgspec.msgpack.Decoder(_Change)


class _Kept(msgspec.Struct, array_like=True):
    """A copy, for a newcomer."""

    clock: int
    values: dict[str, tuple[int, str, Any]]
    removed: dict[str, tuple[int, str]]
    floors: dict[str, int]


class Items:
    """The copy of a `ReplicatedDict`.

    A key that was removed is remembered with its stamp, or else an older change that comes late would bring it back.
    It is forgotten when every member has told a floor above that stamp: then no older change can come."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Stamp, Any]] = {}
        self.removed: dict[str, Stamp] = {}
        self.clock = 0
        """The highest that was received."""
        self.floors: dict[str, int] = {}
        """By member."""
        self._forgotten = 0
        """Removed keys up to this clock are forgotten."""

    def viewed(self, members: Iterable[Process]) -> None:
        # A newcomer has the state: it begins above this clock. Nothing of those who left is received any more.
        self.floors = {str(member): self.floors.get(str(member), self.clock + 1) for member in members}
        self._forget()

    def apply(self, update: bytes, sender: Process) -> None:
        try:
            change = _change.decode(update)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return
        writer = str(sender)
        self.clock = max(self.clock, change.clock)
        if change.key is not None:
            self._set(change.key, Stamp(change.clock, writer), change)
        self.floors[writer] = max(self.floors.get(writer, 0), change.floor)
        self._forget()

    def _set(self, key: str, stamp: Stamp, change: _Change) -> None:
        found = self.values.get(key)
        if stamp < (self.removed.get(key, stamp) if found is None else found[0]):
            return
        if change.remove:
            self.values.pop(key, None)
            self.removed[key] = stamp
        else:
            self.removed.pop(key, None)
            self.values[key] = (stamp, change.value)

    def _forget(self) -> None:
        horizon = min(self.floors.values(), default=0)
        if len(self.removed) >= _REMOVED and horizon > self._forgotten:
            self._forgotten = horizon
            self.removed = {key: stamp for key, stamp in self.removed.items() if stamp.clock >= horizon}

    def waits_for(self, member: Process) -> bool:
        """Too many removed keys are remembered, and some of them only until this member tells its floor."""
        if len(self.removed) < _REMOVED:
            return False
        return self.floors.get(str(member), 0) <= min(stamp.clock for stamp in self.removed.values())

    def snapshot(self) -> bytes:
        values = {key: (*stamp, value) for key, (stamp, value) in self.values.items()}
        # Copies may have forgotten at different moments: what could be forgotten is left out by all of them.
        horizon = min(self.floors.values(), default=0)
        removed = {key: (clock, writer) for key, (clock, writer) in self.removed.items() if clock >= horizon}
        return msgspec.msgpack.encode(_Kept(self.clock, values, removed, self.floors), order="deterministic")

    def restore(self, data: bytes) -> None:
        kept = msgspec.msgpack.decode(data, type=_Kept)
        self.values = {key: (Stamp(clock, writer), value) for key, (clock, writer, value) in kept.values.items()}
        self.removed = {key: Stamp(*stamp) for key, stamp in kept.removed.items()}
        self.clock, self.floors, self._forgotten = kept.clock, kept.floors, 0


class ReplicatedDict(ReplicatedData[Items]):
    """Keys are text; values are what msgpack can hold: numbers, text, bytes, lists, dictionaries."""

    def __init__(self, isis: Isis, name: str, *, last_to_fail: bool = False) -> None:
        super().__init__(isis, name, Items(), last_to_fail=last_to_fail)
        self._clock = 0
        """The last one of this member's."""
        self._open: dict[int, None] = {}
        """Clocks of changes that this member has not received itself, the lowest first."""
        self._telling: asyncio.Task[None] | None = None

    async def set(self, key: str, value: Any) -> None:
        """As `update`."""
        await self._change(check_text(key, "key", _LETTERS, least=0), value, remove=False)

    async def remove(self, key: str) -> None:
        await self._change(check_text(key, "key", _LETTERS, least=0), None, remove=True)

    def get(self, key: str, default: Any = None) -> Any:
        found = self.data.values.get(key)
        return default if found is None else found[1]

    def items(self) -> dict[str, Any]:
        return {key: value for key, (_, value) in self.data.values.items()}

    def __contains__(self, key: str) -> bool:
        return key in self.data.values

    def __len__(self) -> int:
        return len(self.data.values)

    async def _change(self, key: str | None, value: Any, *, remove: bool) -> None:
        clock = self._clock = max(self._clock, self.data.clock) + 1
        self._open[clock] = None
        try:
            await self.update(encoded(_Change(clock, next(iter(self._open)), key, value, remove), "value"))
        finally:
            del self._open[clock]

    def received(self, cast: Cast | Action) -> None:
        super().received(cast)
        if self.data.waits_for(self._isis.me) and self._telling is None:
            self._telling = asyncio.create_task(self._tell_floor())

    async def _tell_floor(self) -> None:
        try:
            await self._change(None, None, remove=False)
        except (ReconveneError, InvalidArgument):
            pass  # with the next change then
        finally:
            self._telling = None

    def viewed(self, view: GroupView) -> None:
        self.data.viewed(view.members)
