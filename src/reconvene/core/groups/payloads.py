"""What a groups layer's messages look like inside a site's messages: the first byte is the kind.

    DATA     kind, membership (u32, big endian), data
    SUBSET   kind, membership, length (u32), msgpack list of processes of that length, data
    JOIN, LEAVE, TABLE    kind, msgpack
    CONFIRM, SYNC         kind
    LIST     kind, msgpack: a proposal for the next version of the cluster's list of sites

DATA's heading is the same for all messages of a membership, so that a frame full of them is handled by the frame.
Kinds from `FIRST_OTHER` on belong to other layers of the same site.
"""

from struct import Struct as Layout
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, msgpack

from reconvene.core.groups.events import Process
from reconvene.errors import Malformed
from reconvene.site_list import NextList

__all__ = [
    "CONFIRM",
    "DATA",
    "FIRST_OTHER",
    "HEADING",
    "JOIN",
    "LEAVE",
    "LIST",
    "MOST_MEMBERSHIPS",
    "SUBSET",
    "SYNC",
    "TABLE",
    "Entry",
    "Join",
    "Leave",
    "Tables",
    "decode_join",
    "decode_leave",
    "decode_proposal",
    "decode_subset",
    "decode_table",
    "encode",
    "heading",
    "membership_of",
    "subset_heading",
]

DATA, SUBSET, JOIN, LEAVE, TABLE, CONFIRM, SYNC, LIST = range(1, 9)
FIRST_OTHER = 16
MOST_MEMBERSHIPS = (1 << 32) - 1
"""In one incarnation of a site, one after another."""

_HEADING = Layout(">BI")
_LENGTH = Layout(">I")
HEADING = _HEADING.size

Membership = Annotated[int, Meta(ge=1, le=MOST_MEMBERSHIPS)]
Number = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Join(Struct, array_like=True, frozen=True):
    membership: Membership
    group: Annotated[str, Meta(min_length=1)]
    identity: Number
    """The number of the process, as the group is to know it."""
    primary: bool
    """With the virtual-synchrony filter."""


class Leave(Struct, array_like=True, frozen=True):
    memberships: list[Membership]


class Entry(Struct, array_like=True, frozen=True):
    """One membership of the table's site."""

    membership: Membership
    group: Annotated[str, Meta(min_length=1)]
    identity: Number
    primary: bool = False
    live: bool = False
    """With the filter: it has the last view of the primary component that its site took part in."""
    fresh: Number = 0
    """With the filter: its number from now on, if it does not go on under the present one."""


class Tables(Struct, array_like=True, frozen=True):
    """What a site brings into a configuration: its own processes' memberships, and what it knows of primaries."""

    entries: list[Entry] = []
    lineage: Number = 0
    """The highest primary configuration that it has heard to be used."""
    memory: bool = False
    """It has taken part in one since it started, so it can't have forgotten one in which it took part."""
    active: Number = 0
    """The primary configuration whose views its live memberships have …"""
    exit: Number = 0
    """… and the configuration that it went on to from there."""
    brought: bytes = b""
    """What another layer of the site brings along."""
    forgotten: Number | None = None
    """No configuration above this was used while an earlier incarnation of the site was in it; 0: it can't tell;
    null: an older program, which does not report it."""


_JOIN = msgpack.Decoder(Join)
_LEAVE = msgpack.Decoder(Leave)
_TABLE = msgpack.Decoder(Tables)
_PROPOSAL = msgpack.Decoder(NextList)
_PROCESSES = msgpack.Decoder(list[Process])


def heading(kind: int, membership: int) -> bytes:
    return _HEADING.pack(kind, membership)


def membership_of(payload: bytes) -> int:
    """Of DATA or SUBSET. Raises Malformed."""
    if len(payload) < HEADING:
        raise Malformed("a message shorter than its heading")
    number: int = _HEADING.unpack_from(payload)[1]
    return number


def subset_heading(membership: int, to: tuple[Process, ...]) -> bytes:
    names = msgpack.encode(to)
    return heading(SUBSET, membership) + _LENGTH.pack(len(names)) + names


def decode_subset(payload: bytes) -> tuple[frozenset[Process], bytes]:
    """Returns the processes that it is for, and the data."""
    start = HEADING + _LENGTH.size
    if len(payload) < start:
        raise Malformed("a message to a subset that is shorter than its heading")
    end = start + _LENGTH.unpack_from(payload, HEADING)[0]
    if end > len(payload):
        raise Malformed("a message to a subset that does not hold its names")
    try:
        return frozenset(_PROCESSES.decode(payload[start:end])), payload[end:]
    except (DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"a message to a subset: {error}") from None


def encode(kind: int, content: Join | Leave | Tables | NextList) -> bytes:
    return bytes((kind,)) + msgpack.encode(content)


def decode_join(payload: bytes) -> Join:
    try:
        return _JOIN.decode(memoryview(payload)[1:])
    except (DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"a join: {error}") from None


def decode_leave(payload: bytes) -> Leave:
    try:
        return _LEAVE.decode(memoryview(payload)[1:])
    except (DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"a leave: {error}") from None


def decode_table(payload: bytes) -> Tables:
    try:
        return _TABLE.decode(memoryview(payload)[1:])
    except (DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"a table: {error}") from None


def decode_proposal(payload: bytes) -> NextList:
    try:
        return _PROPOSAL.decode(memoryview(payload)[1:])
    except (DecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"a proposal: {error}") from None
