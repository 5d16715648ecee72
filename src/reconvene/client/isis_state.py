"""State for newcomers: what a program gives and takes, and what its client keeps meanwhile.

All members see a view at the same place of the order. So a member gives its state as it is when its program has read
everything before the view that brings the newcomer. Each member that may have to give it takes it down at that
moment: if the one that gives fails, the next one goes on with the next chunk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeAlias

from reconvene.client.events import Process
from reconvene.client.group import as_bytes
from reconvene.core.groups import events

__all__ = [
    "Pair",
    "Provider",
    "StateProvider",
    "Transfer",
    "VectorPair",
    "VectorProvider",
    "as_provider",
    "as_vector",
]

_PIECE_BYTES = 64 << 10
"""A chunk travels in pieces of about this size, each with one of these bytes before it."""
_END, _MORE, _LAST = b"\0", b"\1", b"\2"
"""The end of the state; a piece that is not the last of its chunk; the last one."""


class StateProvider(Protocol):
    """A program's state, for newcomers of a group."""

    def give(self) -> Iterable[bytes]:
        """The state as it is now, in chunks. All of them are taken at once, before the program reads its next
        event. Members that have received the same casts must give the same chunks."""

    def take(self, chunks: list[bytes], /) -> Awaitable[None] | None:
        """The group's state, at a newcomer. Not called at the first member, which has nobody to take it from."""


class VectorProvider(Protocol):
    """A contribution of each member."""

    def give(self) -> Iterable[bytes]:
        """This member's, as it is now."""

    def take(self, parts: dict[Process, list[bytes]], /) -> Awaitable[None] | None:
        """Those of all members that were there before, and have not failed meanwhile."""


Pair: TypeAlias = tuple[Callable[[], Iterable[bytes]], Callable[[list[bytes]], Awaitable[None] | None]]
VectorPair: TypeAlias = tuple[
    Callable[[], Iterable[bytes]], Callable[[dict[Process, list[bytes]]], Awaitable[None] | None]
]


class Provider:
    """Either of them, as the client uses it."""

    def __init__(self, give: Callable[[], Iterable[bytes]], take: "Callable[[Transfer], object]") -> None:
        self._give = give
        self._take = take

    def pieces(self) -> list[bytes]:
        """The state as it is now, as it travels."""
        found = self._give()
        if isinstance(found, bytes | bytearray | memoryview | str) or not isinstance(found, Iterable):
            raise TypeError(f"give(): chunks expected, each of them bytes, not {type(found).__name__}")
        pieces: list[bytes] = []
        for given in found:
            chunk = as_bytes(given)
            parts = [chunk[at : at + _PIECE_BYTES] for at in range(0, len(chunk), _PIECE_BYTES)] or [b""]
            pieces += [*(_MORE + part for part in parts[:-1]), _LAST + parts[-1]]
        return [*pieces, _END]

    async def take(self, transfer: "Transfer") -> None:
        """Not where nobody is left who had the state: then the newcomer goes on as the first member does."""
        if not transfer.is_whole:
            return
        taken = self._take(transfer)
        if isinstance(taken, Awaitable):
            await taken


class Transfer:
    """At a newcomer: the chunks that have come."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """All have come."""
        self._pieces: dict[events.Process, list[bytes]] = {}
        """By member that gave them, in the order in which they came."""

    def add(self, member: events.Process, piece: bytes) -> None:
        self._pieces.setdefault(member, []).append(piece)

    @property
    def is_whole(self) -> bool:
        """Some member has given all of its own, or the last of what others had begun to give."""
        return any(pieces[-1] == _END for pieces in self._pieces.values())

    def chunks(self) -> list[bytes]:
        """Of one member after the other, the next of which went on where the one before it failed."""
        return _chunks(piece for pieces in self._pieces.values() for piece in pieces)

    def parts(self, named: Callable[[events.Process], Process]) -> dict[Process, list[bytes]]:
        """Those that have come to their end."""
        return {named(member): _chunks(pieces) for member, pieces in self._pieces.items() if pieces[-1] == _END}


def _chunks(pieces: Iterable[bytes]) -> list[bytes]:
    chunks: list[bytes] = []
    begun: list[bytes] = []
    for piece in pieces:
        if piece[:1] != _END:
            begun.append(piece[1:])
        if piece[:1] == _LAST:
            chunks.append(b"".join(begun))
            begun.clear()
    return chunks


def as_provider(state: "StateProvider | Pair | None") -> Provider | None:
    if state is None:
        return None
    give, take = _pair(state, "state")
    return Provider(give, lambda transfer: take(transfer.chunks()))


def as_vector(
    vector: "VectorProvider | VectorPair | None", named: Callable[[events.Process], Process]
) -> Provider | None:
    if vector is None:
        return None
    give, take = _pair(vector, "vector")
    return Provider(give, lambda transfer: take(transfer.parts(named)))


def _pair(value: object, what: str) -> tuple[Callable[[], Iterable[bytes]], Callable[..., object]]:
    pair = value if isinstance(value, tuple) else (getattr(value, "give", None), getattr(value, "take", None))
    if len(pair) != 2 or not all(map(callable, pair)):
        raise TypeError(f"{what}: an object with give() and take(), or a pair of functions, expected, not {value!r}")
    return pair
