"""What ISIS says between clusters: the content of messages that cross in groups of its own (`isis:NAME`).

The crossing names the site that sent a message, and its incarnation; nobody can speak for another domain.
"""

from typing import Annotated

from msgspec import Meta, MsgspecError, Struct, msgpack

from reconvene.errors import Malformed
from reconvene.isis.far_events import FarProcess
from reconvene.isis.messages import Count, Group

__all__ = [
    "CONTROL",
    "MOST_DESTINATIONS",
    "PREFIX",
    "FarCast",
    "FarMessage",
    "FarOver",
    "FarRefused",
    "FarWatch",
    "decode_far",
    "encode_far",
    "is_far",
]

PREFIX = "isis:"
"""Of the names of groups in which casts cross. One that is for no group crosses in the group of this name."""
CONTROL = "isis"
"""The group in which all else crosses."""
MOST_DESTINATIONS = 65_536
"""As many as the rosters of 64 clusters hold."""


def is_far(group: str) -> bool:
    """Do messages of ISIS cross in this group?"""
    return group == CONTROL or group.startswith(PREFIX)


class FarCast(Struct, array_like=True, frozen=True, tag=1):
    number: Count
    """Of this cast among all that its site's ISIS has sent to other clusters."""
    sender: Count
    """The number of the process."""
    label: Annotated[list[tuple[str, Count]], Meta(max_length=16)]
    queue: Annotated[str, Meta(max_length=255)] | None
    """Of an ABCAST: its label."""
    to: Annotated[list[FarProcess], Meta(min_length=1, max_length=MOST_DESTINATIONS)]
    group: Group | None
    clock: Count
    """Lamport's, of the sender's site."""
    payload: bytes
    replies: Annotated[int, Meta(ge=-1, le=MOST_DESTINATIONS)] = 0
    """What it asks for; -1: a reply of every destination."""
    answers: Count = 0
    """Of a reply: the number of the request. Its only destination is the process that asked."""


class FarWatch(Struct, array_like=True, frozen=True, tag=2):
    """The cluster of this process is to say when it is over. A `FarOver` follows, or a `FarRefused`."""

    number: Count
    process: FarProcess


class FarOver(Struct, array_like=True, frozen=True, tag=3):
    """The process, of the sender's own cluster, is over, and all that it sent has been sent before this."""

    number: Count
    process: FarProcess


class FarRefused(Struct, array_like=True, frozen=True, tag=4):
    """The process, of the sender's own cluster, is not watched: there is no such site, or no room for more."""

    number: Count
    process: FarProcess


FarMessage = FarCast | FarWatch | FarOver | FarRefused
_DECODER: msgpack.Decoder[FarMessage] = msgpack.Decoder(FarMessage)
_encode = msgpack.Encoder().encode


def encode_far(message: FarMessage) -> bytes:
    return _encode(message)


def decode_far(data: bytes) -> FarMessage:
    """Raises Malformed, and nothing else."""
    try:
        return _DECODER.decode(data)
    except (MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Malformed(f"a cast between clusters: {error}") from None
