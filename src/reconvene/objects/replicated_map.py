"""A dictionary that every site has a copy of.

How it is made: a change is a *command*, and goes into the log. Every copy applies the commands in the log's order, so
all copies go through the same states: at the same position all have the same map. `MapState` is what is replicated.
`ReplicatedMap` is what a program holds: it appends commands, and reads the state in one of three ways.

    async with ReplicatedMap(site.log, "prices") as prices:
        await prices.set("coffee", 300)
        price = await prices.get("coffee")                  # what this site has applied: at once, perhaps old
        price = await prices.get("coffee", ordered=True)    # after everything that was ordered before the question
        price = await prices.get("coffee", optimistic=True) # with what is accepted here and not ordered yet
"""

from types import TracebackType
from typing import Any, Self, cast

import msgspec

from reconvene.client.arguments import check_text, encoded
from reconvene.client.log import Log, check_log
from reconvene.client.state_machine import StateMachine
from reconvene.entries import Entry
from reconvene.errors import OutcomeUnknown
from reconvene.world import world

__all__ = ["MapState", "ReplicatedMap", "is_change"]

_LETTERS = 1 << 20
"""Of a map's name, or of a key."""
_REMEMBERED = 1_000
"""Answers that a snapshot holds."""


class Change(msgspec.Struct, array_like=True, tag="map", frozen=True):
    """The command. Names its map, so that many objects can share one log and pass over each other's commands."""

    map: str
    key: str
    value: Any = None
    remove: bool = False
    ask: bytes = b""
    """Where it is given, the change counts only if there is no such key: every copy decides that alike, at the same
    position, and remembers under these bytes what it was."""


_command = msgspec.msgpack.Decoder(Change)


def _decode(data: bytes) -> Change | None:
    try:
        return _command.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def is_change(data: bytes) -> bool:
    """Whether these bytes of the log are a map's command."""
    return _decode(data) is not None


class MapState(StateMachine):
    """What is replicated: a plain dictionary, a function of the log's entries and of nothing else."""

    def __init__(self, name: str) -> None:
        self.map = name
        self.items: dict[str, Any] = {}
        self.won: dict[bytes, bool] = {}
        """Of the last changes that asked: did it count? Replicated, for copies that begin with a snapshot."""
        self.asked: dict[bytes, bool | None] = {}
        """Not replicated: the changes that this program waits for, and the answer once it is known."""

    @property
    def kind(self) -> str:
        return f"map {self.map}"

    def apply(self, entry: Entry) -> None:
        change = _decode(entry.data)
        if change is None or change.map != self.map:
            return  # someone else's: what is not ours is passed over, never an error
        if change.ask:
            self._remember(change.ask, change.key not in self.items)
            if change.key in self.items:
                return
        if change.remove:
            self.items.pop(change.key, None)
        else:
            self.items[change.key] = change.value

    def _remember(self, ask: bytes, won: bool) -> None:
        if ask in self.asked:
            self.asked[ask] = won
        self.won[ask] = won
        if len(self.won) > _REMEMBERED:
            del self.won[next(iter(self.won))]

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((self.items, self.won))

    def restore(self, data: bytes) -> None:
        self.items, self.won = msgspec.msgpack.decode(data, type=tuple[dict[str, Any], dict[bytes, bool]])
        for ask in self.asked:
            self.asked[ask] = self.won.get(ask, self.asked[ask])


class ReplicatedMap:
    """Keys are text; values are what msgpack can hold: numbers, text, bytes, lists, dictionaries."""

    def __init__(self, log: Log, name: str = "map", *, snapshot_every: int = 0) -> None:
        self.state = MapState(check_text(name, "name", _LETTERS))
        self._runner = check_log(log).run(self.state, snapshot_every=snapshot_every)

    async def __aenter__(self) -> Self:
        await self._runner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._runner.__aexit__(kind, error, traceback)

    async def set(self, key: str, value: Any, *, ordered: bool = False) -> None:
        """Returns when the change is durable at the site: it will count, here and everywhere, also if the site is cut
        off now. With `ordered`: when it counts here, so that a plain `get` shows it."""
        await self._change(Change(self.state.map, key, value), ordered)

    async def remove(self, key: str, *, ordered: bool = False) -> None:
        await self._change(Change(self.state.map, key, remove=True), ordered)

    async def add(self, key: str, value: Any) -> bool:
        """Sets it only if there is no such key. Of all callers, in all components, one wins: it gets True.

        Raises OutcomeUnknown where this copy learned of the change only through a snapshot that is much later, which
        does not say which caller won, and where it stopped before it had applied the change; otherwise as `append`.
        """
        ask = world().random_bytes(8)
        asked = self.state.asked
        asked[ask] = None
        try:
            await self._change(Change(self.state.map, key, value, ask=ask), ordered=True)
            won = asked[ask]
        finally:
            del asked[ask]
        if won is None:
            raise OutcomeUnknown(f"add {key!r}: it is decided, but this copy does not know how: look at the key")
        return won

    async def get(self, key: str, default: Any = None, *, ordered: bool = False, optimistic: bool = False) -> Any:
        """Of this site's copy, as of what it has applied. ordered: after all that was ordered anywhere before; it
        waits for a component that can order. optimistic: as if what is pending here were ordered as it stands."""
        check_text(key, "key", _LETTERS, least=0)
        return (await self._read(ordered, optimistic)).items.get(key, default)

    async def items(self, *, ordered: bool = False, optimistic: bool = False) -> dict[str, Any]:
        return dict((await self._read(ordered, optimistic)).items)

    async def _change(self, change: Change, ordered: bool) -> None:
        check_text(change.key, "key", _LETTERS, least=0)
        await self._runner.append(encoded(change, "value"), ordered=ordered)

    async def _read(self, ordered: bool, optimistic: bool) -> MapState:
        if ordered:
            await self._runner.caught_up()
        return cast(MapState, await self._runner.optimistic()) if optimistic else self.state
