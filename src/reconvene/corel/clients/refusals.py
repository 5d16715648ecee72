"""For which reasons an append is refused, at a replica and at an outpost: it is too large or too much, its number
would make too many gaps, or its number was taken before with other data. An append is refused as a whole.
"""

from collections.abc import Sequence

from reconvene.corel.clients.ranges import Ranges, length_with
from reconvene.corel.clients.session_table import MOST_RANGES
from reconvene.errors import Rejected, Unavailable

__all__ = ["NoRoom", "SessionConflict", "check_gaps", "check_room", "other_data"]


class NoRoom(Unavailable):
    """As many messages as may wait to be ordered do so. There is room again once some of them are ordered."""


class SessionConflict(Rejected):
    """The number does not fit to what the log has of its session: it was taken with other data, or leaves too many
    gaps."""


def check_room(
    messages: Sequence[bytes], message_bytes: int, waiting: tuple[int, int], most: tuple[int, int], where: str = ""
) -> int:
    """Returns how many bytes the messages have. `waiting`, `most`: (messages, bytes) that wait to be ordered, and
    that may. `where`: what the error begins with. Raises Rejected for a message of more than `message_bytes`,
    NoRoom at the limit."""
    size = sum(map(len, messages))
    if size > message_bytes and (longest := max(map(len, messages))) > message_bytes:
        raise Rejected(f"a message of {longest} bytes is larger than {message_bytes}")
    if waiting[0] + len(messages) > most[0] or waiting[1] + size > most[1]:
        raise NoRoom(
            f"{where}{waiting[0]} messages of {waiting[1]} bytes wait to be ordered: at most"
            f" {most[0]} of {most[1]} may (log.red_messages, log.red_bytes)"
        )
    return size


def check_gaps(ranges: Ranges, session: bytes, number: int, count: int) -> None:
    """`ranges`: the numbers of the session that are known here. Raises SessionConflict if `count` further ones from
    `number` on would leave more gaps than the log remembers."""
    length = length_with(ranges, number, number + count - 1)
    # Replicas that could not hear each other may have taken more together: that is no reason to refuse a number
    # which makes no further gap.
    if length > max(MOST_RANGES, len(ranges)):
        raise SessionConflict(
            f"session {session!r}, number {number}: the session's numbers would have {length - 1} gaps, and at "
            f"most {MOST_RANGES - 1} are remembered; append the missing numbers first, or use another session"
        )


def other_data(session: bytes, number: int) -> SessionConflict:
    return SessionConflict(
        f"session {session!r}, number {number} was taken before with other data: nothing of this was appended;"
        " a retry has the same data, and a new message a new number"
    )
