"""What the log keeps of a cursor: the note of its last record that counts.

A record of a cursor is a commit that makes nothing visible and carries a note. Its number follows from the position
of the record that its writer saw last (`next_number`). The log takes a session's commit only if its number is higher
than all before it, so a record counts if no other record of the cursor came between, and is void otherwise: every
replica decides that alike, by positions and not by clocks. See `corel.clients.session_table`.
"""

from hashlib import blake2b
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, msgpack

from reconvene.corel.clients.commits import Commit, encode_commit
from reconvene.corel.clients.session_table import CURSOR, CURSOR_BEGINS
from reconvene.errors import Malformed

__all__ = [
    "HOLDER_BYTES", "LONGEST_LEASE_S", "MOST_LETTERS", "SHORTEST_LEASE_S", "CursorInfo", "Note", "cursor_session",
    "decode_note", "encode_record", "next_number",
]  # fmt: skip

MOST_LETTERS = 128
"""Of a cursor's name, and of its holder's."""
HOLDER_BYTES = 16
SHORTEST_LEASE_S = 1
LONGEST_LEASE_S = 86_400


class Note(Struct, array_like=True, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=MOST_LETTERS)]
    position: Annotated[int, Meta(ge=0, lt=1 << 62)]
    """Where a reader goes on: all below it is done."""
    term: Annotated[int, Meta(ge=0, lt=1 << 62)]
    """The number of the record by which the holder took the cursor: another one for each hand-over, and higher."""
    holder: Annotated[bytes, Meta(max_length=HOLDER_BYTES)]
    """Drawn at random each time a reader takes the cursor. Empty: nobody holds it."""
    who: Annotated[str, Meta(max_length=MOST_LETTERS)]
    """The holder, for people."""
    lease_ms: Annotated[int, Meta(ge=1_000 * SHORTEST_LEASE_S, le=1_000 * LONGEST_LEASE_S)]
    """The holder delivers nothing later than so long after it sent its last record that counts. Others take the
    cursor when they have seen no record of it for longer than that."""

    @property
    def lease_s(self) -> float:
        return self.lease_ms / 1_000


class CursorInfo(Struct, frozen=True):
    """A cursor, as `log.cursors()` lists it."""

    name: str
    position: int
    """Where its reader goes on: all below it is committed."""
    holder: str | None
    """Who holds it, or held it last and died. None: it was released."""
    lease: float
    """The holder's, in seconds."""
    term: int
    """Rises with each hand-over."""


_NOTE = msgpack.Decoder(Note)


def cursor_session(name: str) -> bytes:
    """The session of a cursor's records."""
    return CURSOR + blake2b(name.encode(), digest_size=32).digest()


def next_number(last: int | None) -> int:
    """Of the record after the one at position `last`; None: there is no such cursor yet.

    It is higher than the number of that one, which followed from a lower position, and not higher than the number of
    any record that came after it."""
    return CURSOR_BEGINS if last is None else last + CURSOR_BEGINS + 1


def encode_record(name: str, number: int, last: int | None, note: Note | None) -> bytes:
    """The message. note None: the cursor is dropped."""
    encoded = b"" if note is None else msgpack.encode(note)
    return encode_commit(Commit(f"cursor {name}", number - 1, [], [], last, encoded))


def decode_note(data: bytes) -> Note | None:
    """None: the cursor was dropped. Raises Malformed."""
    if not data:
        return None
    try:
        return _NOTE.decode(data)
    except (DecodeError, RecursionError) as error:
        raise Malformed(f"the record of a cursor: {error}; a newer program may have written it") from None
