"""Rows that have an id of their own: each is in the log once, whichever write brings it, and however often.

Beside its rows a write stages an *index*: for each row, in their order, a digest of its id. A commit names its index,
and the commit of the same application before it; so all ids that the application has in the log can be read from its
last commit on, backwards. A write leaves out the rows whose ids are there. It commits as the next version after the
last one that it has looked at: if another write was faster, the log takes no second commit of that version, and it
looks again. So it is exact for writes at the same time too, among all that is not truncated.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from reconvene.client.blocking import Log
from reconvene.corel.batch import Kind
from reconvene.corel.clients.commits import Commit, Range
from reconvene.entries import EntryBatch, Truncated, commit_of
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.pipeline.sink.digests import DIGEST_BYTES
from reconvene.pipeline.sink.staged import Staged

__all__ = ["MOST_ROWS", "NewRows", "commit_new"]

MOST_ROWS = 20_000_000
"""In one write: the driver holds their digests."""
_NOT_YET = 1 << 61
"""The position of a commit that there is none of yet."""
_ATTEMPTS = 100
"""For a write that others overtake again and again."""

Keys = np.ndarray[tuple[int, int], np.dtype[np.uint64]]
"""Digests, each in two halves."""
Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


class NewRows:
    """Which rows of a write are to be committed: the first of each id, but for those that are known."""

    def __init__(self, digests: bytes) -> None:
        """Of all rows, in their order."""
        keys = _keys(digests)
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        ordered = keys[order]
        first = np.ones(len(keys), np.bool_)
        first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        self._rows = order[first]
        self._keys = ordered[first]
        self.kept: Mask = np.zeros(len(keys), np.bool_)
        self.kept[self._rows] = True

    def leave_out(self, digests: bytes) -> None:
        """The log has these ids."""
        known = _keys(digests)
        at = np.searchsorted(self._keys[:, 0], known[:, 0])
        while len(known):  # once more for each that has the same first half, which is next to never
            here = at < len(self._keys)
            known, at = known[here], at[here]
            here = self._keys[at, 0] == known[:, 0]
            known, at = known[here], at[here]
            self.kept[self._rows[at[self._keys[at, 1] == known[:, 1]]]] = False
            at = at + 1


def _keys(digests: bytes) -> Keys:
    halves = np.frombuffer(digests, ">u8").astype(np.uint64)
    return halves.reshape(-1, 2)


class _Head(Struct, frozen=True):
    """The last commit of an application."""

    version: int
    position: int


def commit_new(log: Log, staged: Sequence[Staged], name: str, timeout_s: float) -> tuple[int, int]:
    """Commits those rows whose ids the application does not have in the log: (how many, of how many).

    Raises as `Log.commit` does; trying again commits what is not there by then.
    """
    rows = sum(message.rows for message in staged)
    if rows > MOST_ROWS:
        raise Rejected(f"idColumn: {rows} rows in one write; at most {MOST_ROWS} may be")
    new = NewRows(b"".join(_read(log, message) for message in staged))
    index = [place for message in staged for place in message.index]
    seen = -1
    for _ in range(_ATTEMPTS):
        log.barrier(timeout_s)  # this site knows every commit that anyone has been told of
        last = log.last_commit(name)
        head = None if last is None else _Head(*last)
        if head is not None:
            _leave_out(log, head.position, seen, new)
            seen = head.position
        places = list(_places(staged, new.kept))
        if not places:
            return 0, rows
        committed = log.commit(
            places,
            name=name,
            version=0 if head is None else head.version + 1,
            index=index,
            previous=None if head is None else head.position,
            timeout=timeout_s,
        )
        if not committed.duplicate:
            return int(new.kept.sum()), rows
    raise Unavailable(f"{name}: others committed before this write, {_ATTEMPTS} times in a row")


def _read(log: Log, message: Staged) -> bytes:
    """The index that a task has just staged."""
    digests = b"".join(found for batch in log.staged(_NOT_YET, message.index) for found in batch.messages)
    if len(digests) != DIGEST_BYTES * message.rows:
        raise Malformed(f"an index of {len(digests) // DIGEST_BYTES} rows, where {message.rows} were written")
    return digests


def _leave_out(log: Log, position: int, seen: int, new: NewRows) -> None:
    """What the commits have, from the one at `position` backwards, after `seen`."""
    at: int | None = position
    while at is not None and at > seen:
        try:
            commit = _commit_at(log, at)
            for batch in log.staged(at, commit.index):
                new.leave_out(b"".join(found for found in batch.messages if len(found) % DIGEST_BYTES == 0))
        except Truncated:
            return
        at = commit.previous


def _commit_at(log: Log, position: int) -> Commit:
    (entry,) = log.read(position, position + 1, control=True)
    commit = None
    if entry.kind == "commit":
        batch = EntryBatch(
            position, entry.author, entry.incarnation, entry.counter, entry.time, Kind.COMMIT, [entry.data]
        )
        commit = commit_of(batch)
    if commit is None:
        raise Malformed(f"the log has no commit at {position}, where one was noted")
    return commit


def _places(staged: Sequence[Staged], kept: Mask) -> Iterator[Range]:
    """Where the rows are that are kept, in their order."""
    row = 0
    for message in staged:
        for position, count in message.places:
            wanted = kept[row : row + count]
            edges = np.flatnonzero(np.diff(np.concatenate(([False], wanted, [False])).astype(np.int8)))
            for start, end in edges.reshape(-1, 2).tolist():
                yield position + start, end - start
            row += count
