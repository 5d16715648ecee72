"""A manager of process groups: which groups there are to be, with which properties, and who is in them.

ISIS knows a group only while it has members. A manager knows it from `create` until `delete`, with its properties: a
program looks there before it joins, and an operator sees what is there. Run one beside each site.

How it is made: the managers are a group, and each has a copy of the catalogue. Every request is a causal ABCAST, so
all of them decide it alike: of two that create one name, one is refused. A deletion has an effect outside of the
catalogue: the members of the group leave it. One manager sees to that, the one of the lowest rank, and then says that
it is done. If it fails before that, the next one does it again: the catalogue still says that the group is being
deleted. Meanwhile nobody can create a group of that name.

    async with GroupManager(site.isis) as groups:
        await groups.create("bank", mode=b"open")
        for group in await groups.list():
            print(group.name, group.properties, group.members)
"""

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from reconvene.client.arguments import check_text, encoded
from reconvene.client.group import Data, as_bytes
from reconvene.client.isis import Isis
from reconvene.client.isis_events import Action, Cast, GroupView
from reconvene.errors import InvalidArgument, OutcomeUnknown, ReconveneError, Rejected, Unavailable
from reconvene.objects.member import Member

__all__ = ["GroupManager", "ManagedGroup"]

_NAME_LETTERS = 255
_GROUPS = 1_000
_PROPERTIES_BYTES = 64 << 10
"""Of one group, names and values."""
_AGAIN_S = 0.2


class ManagedGroup(msgspec.Struct, frozen=True):
    name: str
    properties: dict[str, bytes]
    members: tuple[str, ...]
    """Processes by rank, written as a:1:7; none: nobody is in it now."""
    is_created: bool
    """False: it has members, but nobody has created it."""


class Create(msgspec.Struct, array_like=True, tag="create", frozen=True):
    number: int
    group: str
    properties: dict[str, bytes]


class Set(msgspec.Struct, array_like=True, tag="set", frozen=True):
    number: int
    group: str
    properties: dict[str, bytes]


class Delete(msgspec.Struct, array_like=True, tag="delete", frozen=True):
    number: int
    group: str


class Deleted(msgspec.Struct, array_like=True, tag="deleted", frozen=True):
    """Its members have been told to leave it."""

    group: str


class Entry(msgspec.Struct, array_like=True):
    """What the catalogue has of a group."""

    properties: dict[str, bytes]
    deleting: bool = False


_cast = msgspec.msgpack.Decoder(Create | Set | Delete | Deleted)


class GroupManager(Member):
    def __init__(self, isis: Isis, name: str = "groups", *, last_to_fail: bool = False) -> None:
        super().__init__(isis, name, last_to_fail=last_to_fail)
        self._catalogue: dict[str, Entry] = {}
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        """By number: own requests."""
        self._deleted: dict[str, list[asyncio.Future[None]]] = {}
        """By group: those that wait until it is deleted."""
        self._deleting: dict[str, asyncio.Task[None]] = {}
        """By group: those that this manager deletes, until the catalogue says that they are deleted."""
        self._setting: set[asyncio.Task[None]] = set()

    # -- for programs

    async def list(self) -> list[ManagedGroup]:
        """All groups that were created, and those that have members though nobody has created them, by name."""
        members = {group.name: group for group in await self._isis.groups() if group.name != self.name}
        return [
            ManagedGroup(
                name,
                dict(self._catalogue[name].properties if name in self._catalogue else members[name].properties),
                members[name].members if name in members else (),
                name in self._catalogue,
            )
            for name in sorted({*members, *self._catalogue})
        ]

    async def get(self, group: str) -> ManagedGroup | None:
        return next((known for known in await self.list() if known.name == group), None)

    async def create(self, group: str, **properties: Data) -> None:
        """Returns when this manager has it; the others will. Raises Rejected where it was created before, or is being
        deleted."""
        await self._ask(Create(self._next(), _name(group, self.name), _properties(properties)))

    async def set(self, group: str, **properties: Data) -> None:
        """Changes these properties, and no others. The group's next view has them too, if it has members. Raises
        Rejected where it was not created."""
        await self._ask(Set(self._next(), _name(group, self.name), _properties(properties)))

    async def delete(self, group: str) -> None:
        """Returns when its members, if there are any, are told to leave it: each of them reads GroupLeft. Raises
        Rejected where it was not created."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deleted.setdefault(_name(group, self.name), []).append(done)
        try:
            await self._ask(Delete(self._next(), group))
            await done
        finally:
            waiting = self._deleted[group]
            waiting.remove(done)
            if not waiting:
                del self._deleted[group]

    def _next(self) -> int:
        self._asked += 1
        return self._asked

    async def _ask(self, request: Create | Set | Delete) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = waiting
        try:
            await self._in_group().abcast(encoded(request, "properties"), label=self.name, causal=True)
            await waiting
        finally:
            del self._waiting[request.number]

    # -- the group of managers

    def received(self, cast: Cast | Action) -> None:
        try:
            said = _cast.decode(cast.data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return  # of a stranger
        if cast.sender not in self.members:
            return
        if isinstance(said, Deleted):
            entry = self._catalogue.get(said.group)
            if entry is not None and entry.deleting:
                del self._catalogue[said.group]
                self._deleting.pop(said.group, None)
                for done in self._deleted.get(said.group, ()):
                    _settle(done, None)
            return
        refused = self._apply(said)
        waiting = self._waiting.get(said.number) if cast.sender == self._isis.me else None
        if waiting is not None:
            _settle(waiting, Rejected(f"group {said.group!r}: {refused}") if refused else None)
        self._act()

    def _apply(self, said: Create | Set | Delete) -> str:
        """Returns why it is refused."""
        entry = self._catalogue.get(said.group)
        if entry is not None and entry.deleting and not isinstance(said, Delete):
            return "it is being deleted"
        if isinstance(said, Create):
            if entry is not None:
                return "it was created before"
            if len(self._catalogue) >= _GROUPS:
                return f"there are {_GROUPS} groups: no room for more"
            self._catalogue[said.group] = Entry(said.properties)
            return ""
        if entry is None:
            return "it was not created"
        if isinstance(said, Delete):
            entry.deleting = True
            return ""
        properties = {**entry.properties, **said.properties}
        if _size(properties) > _PROPERTIES_BYTES:
            return f"at most {_PROPERTIES_BYTES} bytes of properties expected"
        entry.properties = properties
        if self._is_first:
            task = asyncio.create_task(self._push(said.group, said.properties))
            self._setting.add(task)
            task.add_done_callback(self._setting.discard)
        return ""

    def viewed(self, view: GroupView) -> None:
        self._act()

    @property
    def _is_first(self) -> bool:
        return bool(self.members) and self.members[0] == self._isis.me

    # -- what is done outside of the catalogue

    def _act(self) -> None:
        if self._is_first:
            for group, entry in self._catalogue.items():
                if entry.deleting and group not in self._deleting:
                    self._deleting[group] = asyncio.create_task(self._delete(group))

    async def _delete(self, group: str) -> None:
        """A manager that does it again, after another one has done it, finds no such group."""
        while True:
            await self._ready()
            try:
                with suppress(Rejected):  # nobody is in it
                    await self._isis.delete(group)
                await self._in_group().abcast(encoded(Deleted(group), "group"), label=self.name, causal=True)
                return
            except Unavailable:
                await asyncio.sleep(_AGAIN_S)
            except OutcomeUnknown:
                return  # this manager is killed: another one does it

    async def _push(self, group: str, properties: dict[str, bytes]) -> None:
        with suppress(ReconveneError):  # nobody is in it, or this manager is cut off: the catalogue has them
            await self._isis.set_properties(group, properties)

    # -- state

    def state(self) -> Any:
        return self._catalogue

    def restore(self, state: Any) -> None:
        self._catalogue = msgspec.convert(state, dict[str, Entry])

    def interrupted(self, error: ReconveneError) -> None:
        for task in (*self._deleting.values(), *self._setting):
            task.cancel()
        self._deleting.clear()
        waiting = [*self._waiting.values(), *(done for some in self._deleted.values() for done in some)]
        for future in waiting:
            _settle(future, OutcomeUnknown(f"{error}: it may or may not have been done"))


def _settle(future: "asyncio.Future[None]", error: ReconveneError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
        future.exception()  # perhaps its caller does not wait for it any more


def _name(group: str, own: str) -> str:
    check_text(group, "group", _NAME_LETTERS)
    if group == own:
        raise InvalidArgument(f"group {group!r}: this is the managers' own group")
    return group


def _size(properties: dict[str, bytes]) -> int:
    return sum(len(name.encode()) + len(value) for name, value in properties.items())


def _properties(properties: dict[str, Data]) -> dict[str, bytes]:
    values = {check_text(name, "a property's name", _NAME_LETTERS): as_bytes(properties[name]) for name in properties}
    if _size(values) > _PROPERTIES_BYTES:
        raise InvalidArgument(f"properties: at most {_PROPERTIES_BYTES} bytes expected")
    return values
