"""Ranges of the log, as readers see it: messages of a transaction stand at their commit.

A cursor says where a reader goes on. It is the position of a message, or, inside a transaction, the position of the
commit and the index of a message among those that the commit names. Both are the same at every site, so a reader can
go on anywhere, without a gap and without reading anything twice.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import Range
from reconvene.entries import Entry, EntryBatch, Truncated, commit_of
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.log.pending import bytes_of
from reconvene.runtime.log.transactions import collected
from reconvene.wire.client_log import FETCH_BYTES, MOST_COLLECTED

__all__ = ["Cursor", "Page", "read_page"]


class Cursor(NamedTuple):
    position: int
    row: int | None = None
    """In a transaction: the index among the messages that the commit at `position` names."""

    def __str__(self) -> str:
        return str(self.position) if self.row is None else f"{self.position}.{self.row}"

    @property
    def after(self) -> "Cursor":
        """Where a reader goes on that has read the message here."""
        return Cursor(self.position + 1) if self.row is None else Cursor(self.position, self.row + 1)


class Page(NamedTuple):
    entries: list[tuple[Cursor, Entry]]
    next: Cursor
    """Everything before it was read."""


def read_page(port: SiteLog, start: Cursor, stop: int | None, limit: int) -> Page:
    """What there is now from `start` on, before the position `stop`: at most `limit` messages, and about FETCH_BYTES,
    but at least one message if there is one. It may hold none although there is more, after much that is not
    the application's: go on with `next`.

    Raises Rejected if the log can't be read here, Truncated if `start` is not in it any more.
    """
    port.check_readable()
    if start.position < port.base:
        raise Truncated(f"position {start.position} is not in the log any more: it begins at {port.base}", port.base)
    end = port.green if stop is None else min(stop, port.green)
    filling = _Filling(port, start, limit)
    while filling.at.position < end and not filling.full:
        for batch in port.read(filling.at.position, limit, filling.size):
            part = batch.cut(filling.at.position, end)
            if filling.full or not len(part):
                break
            filling.add(part)
    return Page(filling.found, filling.at)


class _Filling:
    """A page that is being made."""

    def __init__(self, port: SiteLog, at: Cursor, limit: int) -> None:
        self._port = port
        self._limit = limit
        self.at = at
        self.size = FETCH_BYTES
        """About how many bytes still fit."""
        self.found: list[tuple[Cursor, Entry]] = []

    @property
    def full(self) -> bool:
        return self.size <= 0 or len(self.found) >= self._limit

    def add(self, batch: EntryBatch) -> None:
        """The batch at `at`, as far as it fits."""
        commit = commit_of(batch)
        if commit is not None and commit.ranges:
            self._add_rows(batch.position, _from_row(commit.ranges, self.at.row or 0))
            return
        self.size -= bytes_of(batch)
        for entry in batch.entries():
            if len(self.found) >= self._limit:
                self.at = Cursor(entry.position)
                return
            self.found.append((Cursor(entry.position), entry))
        self.at = Cursor(batch.end)

    def _add_rows(self, commit: int, ranges: list[Range]) -> None:
        """The messages of these ranges, which are the last ones of a transaction."""
        row = self.at.row or 0
        while ranges and not self.full:
            batches = collected(self._port, ranges[:MOST_COLLECTED], self.size)
            if not batches:
                raise Truncated(
                    f"the transaction that is committed at {commit} has lost messages: the log begins at "
                    f"{self._port.base}, and one of them was at {ranges[0][0]}",
                    commit + 1,
                )
            read = row
            for batch in batches:
                self.size -= bytes_of(batch)
                # Anything else than what is staged is seen at its own place.
                staged = batch.at_commit(commit, True, Kind.DATA).entries() if batch.kind == "staged" else ()
                for entry in staged:
                    where = Cursor(commit, read + entry.position - batch.position)
                    if len(self.found) >= self._limit:
                        self.at = where
                        return
                    self.found.append((where, entry))
                read += len(batch)
            ranges = _from_row(ranges, read - row)
            row = read
        self.at = Cursor(commit, row) if ranges else Cursor(commit + 1)


def _from_row(ranges: Sequence[Range], row: int) -> list[Range]:
    """What the ranges name from that index on."""
    for at, (position, count) in enumerate(ranges):
        if row < count:
            return [(position + row, count - row), *ranges[at + 1 :]]
        row -= count
    return []
