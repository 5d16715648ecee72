"""Transactions at a site: what clients may append as part of one, and the messages that a commit names."""

from collections.abc import Sequence

from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import decode_commit
from reconvene.entries import EntryBatch
from reconvene.errors import Malformed, Rejected
from reconvene.runtime.log.interface import SiteLog
from reconvene.wire.clients import MAJOR, STAGING_MINOR

__all__ = ["check_kind", "collected", "refuse_commits"]

_BATCH_BYTES = 64
"""The bytes that a batch adds to an answer, in addition to its messages."""


def check_kind(kind: int, messages: Sequence[bytes]) -> None:
    """Raises Rejected if clients may not append this kind, or if a commit can't be decoded."""
    if kind == Kind.CHANGE:
        raise Rejected("a change of the replicas can't be appended: use change_replicas")
    if kind == Kind.COMMIT:
        if len(messages) != 1:
            raise Rejected(f"{len(messages)} commits in one append: expected 1")
        try:
            decode_commit(messages[0])
        except Malformed as error:
            raise Rejected(str(error)) from None


def refuse_commits(batches: Sequence[EntryBatch]) -> None:
    """Raises Rejected if there is a commit: a client that does not know commits would miss the messages that the
    commit makes visible."""
    for batch in batches:
        if batch.kind_number == Kind.COMMIT:
            needed = f"{MAJOR}.{STAGING_MINOR}"
            raise Rejected(
                f"the log has a transaction at position {batch.position}: a client of protocol {needed} or later can "
                "read it"
            )


def collected(port: SiteLog, ranges: Sequence[tuple[int, int]], size: int) -> list[EntryBatch]:
    """The messages of these ranges, in order, up to about `size` bytes. Stops before the first message that is
    truncated or not green here yet."""
    found: list[EntryBatch] = []
    for position, count in ranges:
        end = position + count
        while position < end:
            if size <= 0 or not port.base <= position < port.green:
                return found
            batches = port.read(position, end - position, size)
            if not batches:
                return found
            for batch in batches:
                part = batch.cut(position, end)
                found.append(part)
                position += len(part.messages)
                size -= _BATCH_BYTES + sum(map(len, part.messages))
    return found
