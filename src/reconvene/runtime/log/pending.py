"""Messages that have no position yet, as many as fit into one answer."""

from reconvene.corel.events import Color
from reconvene.entries import EntryBatch
from reconvene.runtime.log.interface import SiteLog
from reconvene.wire.client_log import FETCH_BYTES, FETCH_MESSAGES

__all__ = ["bytes_of", "pending_within"]

_BATCH_BYTES = 64
_MESSAGE_BYTES = 5
_FIRST_LOOK = 64


def pending_within(port: SiteLog, messages: int) -> tuple[list[tuple[Color, EntryBatch]], int]:
    """(messages that are not green, about how many bytes they take): about `messages` messages, up to about
    FETCH_BYTES."""
    most = min(messages, FETCH_MESSAGES)
    look = min(most, _FIRST_LOOK)
    while True:
        # Read a few messages first: if they are large, a few already fill the answer.
        found = port.pending(look)
        size = sum(bytes_of(batch) for _, batch in found)
        if look == most or size > FETCH_BYTES // 4 or sum(map(len, (batch for _, batch in found))) < look:
            break
        look = min(most, 4 * look)
    chosen: list[tuple[Color, EntryBatch]] = []
    size = 0
    for color, batch in found:
        if chosen and size + bytes_of(batch) > FETCH_BYTES:
            break
        size += bytes_of(batch)
        chosen.append((color, batch))
    return chosen, size


def bytes_of(batch: EntryBatch) -> int:
    """About how many bytes it takes in an answer."""
    return _BATCH_BYTES + sum(map(len, batch.messages)) + _MESSAGE_BYTES * len(batch.messages)
