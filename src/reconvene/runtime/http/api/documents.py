"""What the answers of the API consist of. The OpenAPI document is made of these."""

from typing import Literal

from msgspec import Struct

from reconvene.entries import Color, Entry, EntryBatch
from reconvene.ids import message_id

__all__ = [
    "Failure", "GroupLeft", "GroupMessage", "GroupView", "LogEntry", "LogHealth", "LogPage", "LogPending",
    "LogReceipt", "PendingMessage", "Sent", "log_entry", "pending_messages", "shown",
]  # fmt: skip


class Failure(Struct, frozen=True):
    """Why a request failed."""

    error: str
    """In one line."""
    outcome: Literal["refused", "unknown"]
    """refused: nothing happened. unknown: it may have happened; repeat it with the same Idempotency-Key."""


class LogReceipt(Struct, frozen=True):
    """The message is on stable storage at the site."""

    id: str | None
    """AUTHOR:INCARNATION:COUNTER. Of a duplicate, the id of the first copy; null: not known any more."""
    duplicate: bool
    """The log had the message from an earlier append with this Idempotency-Key."""
    ordered: bool
    """It is known to have its final position."""
    position: int | None
    """Its position, where that is known."""
    why: str | None = None
    """With status 202: why the position is not known yet."""


class LogEntry(Struct, frozen=True, omit_defaults=True):
    cursor: str
    """Where a reader goes on that has not read it: its position, or COMMIT.INDEX of a message of a transaction."""
    position: int
    id: str
    author: str
    """The site that accepted it."""
    time: int
    """The author's clock when it accepted it: ns since 1970."""
    data: str | None = None
    """The message, if it is UTF-8 and `encoding` is not base64 …"""
    data_base64: bytes | None = None
    """… and otherwise."""
    commit: int | None = None
    """Of a message that came with a transaction: the position of its commit."""


class LogPage(Struct, frozen=True):
    base: int
    """The first position that can be read."""
    green: int
    """The first position that has no message yet."""
    next: str
    """The cursor to go on with."""
    entries: list[LogEntry]
    """May be empty although there is more: compare `next` with `green`."""


class PendingMessage(Struct, frozen=True, omit_defaults=True):
    color: Literal["red", "yellow", "green"]
    id: str
    author: str
    time: int
    data: str | None = None
    data_base64: bytes | None = None


class LogPending(Struct, frozen=True):
    green: int
    messages: list[PendingMessage]


class LogHealth(Struct, frozen=True):
    appends: bool
    """An append would be accepted now."""
    orders: bool
    """What is accepted here gets its position now."""
    why_no_appends: str | None
    why_no_order: str | None


class Sent(Struct, frozen=True):
    """The site has taken the message."""

    group: str
    service: str


class GroupView(Struct, frozen=True):
    kind: Literal["regular", "transitional", "hidden"]
    view: str
    """CONFIGURATION.CHANGE; grows."""
    members: list[str]
    """SITE:INCARNATION:NUMBER of each."""
    primary: bool
    """A majority of the cluster's sites is in it."""
    own: str | None
    """The listener's own member."""


class GroupMessage(Struct, frozen=True, omit_defaults=True):
    id: str
    sender: str
    service: str
    view: str
    data: str | None = None
    data_base64: bytes | None = None


class GroupLeft(Struct, frozen=True):
    reason: str


def shown(data: bytes, base64: bool) -> tuple[str | None, bytes | None]:
    """(as text, as base64): as text if it is text and may be."""
    if not base64:
        try:
            return data.decode(), None
        except UnicodeDecodeError:
            pass
    return None, data


def log_entry(cursor: str, entry: Entry, base64: bool) -> LogEntry:
    return LogEntry(
        cursor, entry.position, entry.id, entry.author, entry.time, *shown(entry.data, base64), entry.commit
    )


def pending_messages(color: Color, batch: EntryBatch, base64: bool) -> list[PendingMessage]:
    author = batch.author
    return [
        PendingMessage(
            color.value, message_id(author, batch.incarnation, batch.first + at), author, batch.time,
            *shown(data, base64),
        )
        for at, data in enumerate(batch.messages)
    ]  # fmt: skip
