"""Which commits hold back truncation: from which position on each names messages, as long as it is in the log itself.

Given: every commit that counts, as it becomes green, and as it is truncated. Promised: truncation can ask, of a
staged batch, which commits after it may name it, without looking through the log.
"""

from collections.abc import Iterator
from struct import Struct as Layout

from msgspec import DecodeError, Struct, msgpack

from reconvene.corel.batch import Heading, messages_of
from reconvene.corel.clients.commits import decode_commit
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.keeping.layout import HOLDS, table_end
from reconvene.errors import Malformed
from reconvene.storage.tables import Clear, Op, Put, Reader

__all__ = ["Hold", "Holds", "decode_hold"]

_KEY = Layout(">QQ")


class Hold(Struct, array_like=True, frozen=True, gc=False):
    """A commit, as truncation sees it."""

    lowest: int
    """Of the positions that it names."""
    position: int
    """Its own."""
    time: int
    """Its author's clock at accept."""
    size: int
    """Of all bodies before it in the log, truncated ones too, in bytes."""


class Holds:
    def __init__(self, tables: Reader) -> None:
        self._tables = tables
        self._fresh: dict[int, Hold] = {}
        """By the commit's position; as far as storage may not show them yet."""

    def take(self, heading: Heading, body: bytes, position: int, size: int) -> list[Op]:
        """A commit is green, and counts. Returns what is to be written with its place."""
        lowest = _lowest(body)
        if lowest is None:
            return []
        hold = self._fresh[position] = Hold(lowest, position, heading.time, size)
        return [Put(_key(hold.lowest, position), msgpack.encode(hold))]

    def fold(self, body: bytes, position: int) -> list[Op]:
        """A commit is truncated."""
        lowest = _lowest(body)
        return [] if lowest is None else [Put(_key(lowest, position), None)]

    def stored(self, green: int) -> None:
        """Storage shows everything below `green`."""
        for position in [position for position in self._fresh if position < green]:
            del self._fresh[position]

    def restore(self) -> list[Op]:
        """The log begins anew, after another replica's base."""
        self._fresh.clear()
        return [Clear(HOLDS, table_end(HOLDS))]

    def of(self, end: int) -> Iterator[Hold]:
        """The commits that may name a message before `end`, and stand after it. Raises Damaged."""
        for hold in self._fresh.values():
            if hold.lowest < end:
                yield hold
        for _, value in self._tables.scan(HOLDS, _key(end, 0)):
            yield decode_hold(value)


def decode_hold(value: bytes) -> Hold:
    try:
        return msgpack.decode(value, type=Hold)
    except DecodeError as error:
        raise Damaged(f"what a commit needs: {error}") from None


def _key(lowest: int, position: int) -> bytes:
    return HOLDS + _KEY.pack(lowest, position)


def _lowest(body: bytes) -> int | None:
    """None: it names nothing. The same bytes, and the same answer, at every replica."""
    try:
        return decode_commit(messages_of(body)[0]).lowest
    except Malformed:
        return None
