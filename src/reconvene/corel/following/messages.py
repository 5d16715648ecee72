"""What a follower asks its source, and what it is answered. A source is a replica, or another follower.

The follower asks for one thing at a time. Whatever it asks can be asked again, of any source: nothing at the source
depends on who follows.
"""

from typing import Annotated

from msgspec import Meta, Struct

from reconvene.corel.batch import Number, Timestamp
from reconvene.corel.keeping.snapshot_transfer import Row

__all__ = [
    "MOST_BATCHES", "PULL_BYTES", "Answer", "Ask", "BaseAnswer", "BaseAsk", "Joint", "PieceAnswer", "PieceAsk",
    "Pull", "Pulled", "PulledBatch",
]  # fmt: skip

PULL_BYTES = 512 << 10
"""Of the bodies in one answer, but for one batch."""
MOST_BATCHES = 4_096
_MOST_SOURCES = 4_096
_Text = Annotated[str, Meta(max_length=1_024)]


class Joint(Struct, array_like=True, frozen=True):
    """The batch before the follower's next position: at the same place of another log there is another one."""

    author: Number
    first: Number
    incarnation: Number
    time: Number
    """The author's clock when it accepted it, ns since 1970."""


class Pull(Struct, array_like=True, frozen=True, tag=1):
    """Asks for the log from a position on. Answered by Pulled."""

    start: Number
    """The follower's next position: a batch begins there."""
    size: Annotated[int, Meta(ge=1, le=PULL_BYTES)]
    """About how many bytes of bodies the answer is to have."""
    wait: bool
    """If there is nothing from there on, the answer comes once there is, or after a while without."""
    joint: Joint | None = None
    """None: there is no batch before it, or it is truncated."""


class BaseAsk(Struct, array_like=True, frozen=True, tag=2):
    """Asks for what the source has truncated, folded together. Answered by BaseAnswer."""

    offset: Number
    """How many client sessions came with earlier answers."""


class PieceAsk(Struct, array_like=True, frozen=True, tag=3):
    """Asks for a piece of a state machine's snapshot. Answered by PieceAnswer."""

    name: Annotated[str, Meta(max_length=128)]
    position: Number
    checksum: int
    piece: Number


Ask = Pull | BaseAsk | PieceAsk


class PulledBatch(Struct, array_like=True, frozen=True, gc=False):
    """A green batch, as it is stored."""

    timestamp: Timestamp
    marked: bool
    body: bytes


class Pulled(Struct, array_like=True, frozen=True, tag=1):
    origin: _Text
    """The cluster whose log it is."""
    chain: Annotated[list[_Text], Meta(max_length=_MOST_SOURCES)]
    """The source, and everyone from whom it may get the log: no follower may be its own source by any way."""
    base: Number
    """The source has nothing below it."""
    green: Number
    """The source's green line."""
    head: Number
    """The highest green line that the source has heard of."""
    other: bool = False
    """The source has another batch where the follower's joint is: it is another log."""
    batches: Annotated[list[PulledBatch], Meta(max_length=MOST_BATCHES)] = []
    """From `Pull.start` on. None, if that is below `base`, or `other`."""
    snapshots: Annotated[list[Row], Meta(max_length=64)] = []
    """State machines' names in use at the source, and which snapshot it keeps of each."""


class BaseAnswer(Struct, array_like=True, frozen=True, tag=2):
    base: bytes
    """`layout.Base`. If it is another one than in an earlier answer, the follower begins anew."""
    sessions: list[tuple[bytes, bytes]]
    """What is known of client sessions below the base: from `BaseAsk.offset` on."""
    last: bool
    origin: _Text = ""
    """As in Pulled."""


class PieceAnswer(Struct, array_like=True, frozen=True, tag=3):
    data: bytes | None
    """None: the source has this snapshot no more."""


Answer = Pulled | BaseAnswer | PieceAnswer
