"""Headings of green batches, for those to whom the log's order, clocks and control messages are enough."""

from collections.abc import Callable

from reconvene.corel.batch import Kind, messages_of
from reconvene.corel.replica import Replica
from reconvene.entries import EntryBatch

__all__ = ["read_headings"]

_LOG_KINDS = frozenset({Kind.CHANGE, Kind.COMMIT})
"""Batches whose messages are the log's own, and small."""
_MOST_BYTES = 4 << 20
"""Of bodies that are looked at in one go: a heading stands at the beginning of its batch's body, which storage hands
out whole."""


def read_headings(replica: Replica, author: Callable[[int], str], start: int, batches: int) -> list[EntryBatch]:
    """From `start` on, which must be readable. Raises Malformed where storage is damaged."""
    found: list[EntryBatch] = []
    looked_at = 0
    for position, heading in replica.read(start):
        body = replica.body(heading)
        cut = max(start - position, 0)
        void = replica.voids(position, heading)
        found.append(
            EntryBatch(
                position + cut,
                author(heading.author),
                heading.incarnation,
                heading.first + cut,
                heading.time,
                heading.kind,
                messages_of(body)[cut:] if heading.kind in _LOG_KINDS else [],
                tuple(at - cut for at in void if at >= cut) if cut else void,
                heading.count - cut,
            )
        )
        looked_at += len(body)
        if len(found) == batches or looked_at >= _MOST_BYTES:
            break
    return found
