"""Checks that a stored log is consistent.

Given: a replica's tables, in any condition. Promised: one line for each problem, and no exception for it. The storage
itself checks whether each value is the one that was written.
"""

from collections.abc import Callable, Iterator
from zlib import crc32

from msgspec import DecodeError, msgpack

from reconvene.corel.batch import BatchId, Heading, decode_heading, messages_of
from reconvene.corel.clients.holds import decode_hold
from reconvene.corel.clients.session_table import SessionTable
from reconvene.corel.keeping.layout import (
    ACCEPTED,
    BODIES,
    FOLDED,
    GREEN,
    HOLDS,
    LINE,
    RED,
    SESSIONS,
    SNAPSHOTS,
    VOIDS,
    YELLOW,
    Base,
    Line,
    Place,
    Record,
    batch_of,
    body_key,
    decode_line,
    decode_place,
    green_key,
    piece_key,
    position_of,
    table_end,
    timestamp_of,
)
from reconvene.corel.keeping.load import exists, load_base, load_record
from reconvene.corel.keeping.snapshot_rows import PIECE_BYTES, decode_meta, stored_uses
from reconvene.errors import Malformed, Unavailable
from reconvene.storage.tables import Inspectable
from reconvene.voting import check_kept

__all__ = ["MOST_PROBLEMS", "check"]

MOST_PROBLEMS = 1_000
"""A check ends there: the rest says no more."""
_PROGRESS_EVERY = 1_000

Progress = Callable[[int, int], None]


def check(reader: Inspectable, progress: Progress | None = None, *, full: bool = True) -> list[str]:
    """Returns what is wrong. `progress` is called with the batches and bytes looked at, now and then and at the end.

    Not `full`: of what is green only the ends, and nothing of snapshots' pieces: what a start can afford."""
    if not exists(reader):
        return []
    checker = _Checker(reader, progress)
    try:
        checker.run(full)
    except _Enough:
        checker.problems.append(f"more than {MOST_PROBLEMS} problems: the check ends here")
    if progress is not None:
        progress(checker.batches, checker.bytes)
    return checker.problems


class _Enough(Exception):
    pass


class _Checker:
    def __init__(self, reader: Inspectable, progress: Progress | None) -> None:
        self.reader = reader
        self.problems: list[str] = []
        self.batches = 0
        self.bytes = 0
        self._progress = progress
        self._last: dict[int, int] = {}
        """By author: the counter up to which its messages were found, in their order."""

    def run(self, full: bool) -> None:
        try:
            record, base = load_record(self.reader), load_base(self.reader)
            stored = self.reader.get(LINE)
            line = Line(base.position, base.last_green, base.size) if stored is None else decode_line(stored)
        except (Malformed, Unavailable) as error:
            self._problem(str(error))
            return
        self._lines(record, base, line)
        if full:
            self._green(base, line)
        else:
            self._ends(base, line)
        self._last = dict(line.last_green)
        self._pending(YELLOW)
        self._pending(RED)
        self._accepted()
        self._sessions(base, line)
        self._snapshots(full)
        if full:
            self._orphans()

    # -- parts

    def _lines(self, record: Record, base: Base, line: Line) -> None:
        if line.green < base.position or line.size < base.size:
            self._problem(f"the green line is at {line.green}, below the base, which is at {base.position}")
        for author, last in sorted(base.last_green.items()):
            if line.last_green.get(author, 0) < last:
                self._problem(f"author {author}: the green line knows less of it than the base")
        if record.committed_here > min(record.last_attempted_primary, record.last_committed_primary):
            self._problem(f"it committed to primary component {record.committed_here}, which it does not know of")
        if record.kept is not None:
            try:
                check_kept(record.kept)
            except Malformed as error:
                self._problem(str(error))
            if any(own.session.number > record.last_attempted_primary for own in record.kept.later):
                self._problem("it keeps a session that it has not attempted")
        if record.replicas.age < base.replicas.age:
            self._problem("the set of replicas is older than the base's")

    def _green(self, base: Base, line: Line) -> None:
        """Every place from the base to the line."""
        self._last = dict(base.last_green)
        expected, size = base.position, base.size
        for key, value in self._rows(GREEN):
            position = position_of(key)
            if position != expected:
                self._problem(f"green: a batch at {position}, where one at {expected} was expected")
            found = self._place(value, f"green, at {position}")
            expected = position + (found[0].count if found else 1)
            if found:
                size += self._follows(found[0].id, found[1], f"green, at {position}")
        if expected != line.green:
            self._problem(f"green: batches up to {expected}, but the line is at {line.green}")
        if self._last != line.last_green:
            self._problem("green: the authors' last messages are not those of the green line")
        if size != line.size:
            self._problem(f"green: bodies of {size} bytes, where the green line has {line.size}")

    def _ends(self, base: Base, line: Line) -> None:
        first = next(iter(self.reader.keys(GREEN, table_end(GREEN))), None)
        if base.position == line.green:
            if first is not None:
                self._problem(f"green: a batch at {position_of(first)}, though all is truncated")
            return
        if first is None or position_of(first) != base.position:
            self._problem(f"green: no batch at {base.position}, where the base ends")
        try:
            last = self.reader.last(green_key(0), table_end(GREEN))
        except Malformed as error:
            self._problem(str(error))
            return
        if last is None:
            return
        found = self._place(last[1], f"green, at {position_of(last[0])}")
        if found and position_of(last[0]) + found[0].count != line.green:
            self._problem(f"green: the last batch is at {position_of(last[0])}, but the line is at {line.green}")

    def _pending(self, table: bytes) -> None:
        name = "yellow" if table == YELLOW else "red"
        for key, value in self._rows(table):
            found = self._place(value, name)
            if found is None:
                continue
            place, body = found
            where = f"{name}, {place.id.author}:{place.id.first}"
            self._follows(place.id, body, where)
            try:
                if table == RED and timestamp_of(key) != place.timestamp:
                    self._problem(f"{where}: it does not lie where its timestamp says")
            except Malformed as error:
                self._problem(str(error))

    def _accepted(self) -> None:
        for key, _ in self._rows(ACCEPTED):
            try:
                batch = batch_of(key)
            except Malformed as error:
                self._problem(str(error))
                continue
            self._follows(batch, self._body(batch, "accepted"), f"accepted, {batch.author}:{batch.first}")

    def _sessions(self, base: Base, line: Line) -> None:
        for table in (SESSIONS, FOLDED):
            try:
                SessionTable(table, 1).load(self.reader)
            except Malformed as error:
                self._problem(str(error))
        for key, value in self._rows(VOIDS):
            position = position_of(key)
            try:
                msgpack.decode(value, type=tuple[int, ...])
            except DecodeError as error:
                self._problem(f"the void messages at {position}: {error}")
            if not base.position <= position < line.green:
                self._problem(f"something is void at {position}, where no batch is")
        for _, value in self._rows(HOLDS):
            try:
                hold = decode_hold(value)
            except Malformed as error:
                self._problem(str(error))
                continue
            if not base.position <= hold.position < line.green:
                self._problem(f"a commit is noted at {hold.position}, where no batch is")

    def _snapshots(self, full: bool) -> None:
        try:
            names = {use.name for use in stored_uses(self.reader)}
        except (Malformed, Unavailable) as error:
            self._problem(str(error))
            return
        for _, value in self._rows(SNAPSHOTS):
            try:
                meta = decode_meta(value)
            except (Malformed, Unavailable) as error:
                self._problem(str(error))
                continue
            if meta.name not in names:
                self._problem(f"a snapshot {meta.name!r} is stored, and its name is not")
            if not full or not meta.whole:
                continue
            shown = f"snapshot {meta.name!r} of {meta.position}"
            running = size = 0
            for piece in range(-(-meta.size // PIECE_BYTES)):
                data = self._get(piece_key(meta.name, meta.position, piece), f"piece {piece} of {shown}")
                running, size = crc32(data or b"", running), size + len(data or b"")
            if (running, size) != (meta.checksum, meta.size):
                self._problem(f"{shown} is not what was saved: its checksum does not match")

    def _orphans(self) -> None:
        bodies = sum(1 for _ in self.reader.keys(BODIES, table_end(BODIES)))
        named = sum(1 for table in (GREEN, YELLOW, RED, ACCEPTED) for _ in self.reader.keys(table, table_end(table)))
        if bodies > named:
            self._problem(f"{bodies - named} batches are stored that nothing names")

    # -- one by one

    def _rows(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Key by key, so that one unreadable value does not hide the others."""
        try:
            for key in self.reader.keys(table, table_end(table)):
                value = self._get(key, f"the value of {key.hex()}")
                if value is not None:
                    yield key, value
        except Malformed as error:
            self._problem(str(error))

    def _get(self, key: bytes, what: str) -> bytes | None:
        try:
            value = self.reader.get(key)
        except Malformed as error:
            self._problem(str(error))
            return None
        if value is None:
            self._problem(f"{what} is missing")
        return value

    def _place(self, value: bytes, where: str) -> tuple[Place, bytes | None] | None:
        try:
            place = decode_place(value)
        except Malformed as error:
            self._problem(f"{where}: {error}")
            return None
        body = self._body(place.id, where)
        heading = None if body is None else self._heading(body, where)
        if heading is not None and (heading.id, heading.count) != (place.id, place.count):
            self._problem(f"{where}: it is {heading.author}:{heading.first}, not {place.id.author}:{place.id.first}")
        return place, body

    def _body(self, batch: BatchId, where: str) -> bytes | None:
        body = self._get(body_key(batch), f"{where}: the body of {batch.author}:{batch.first}")
        self.batches += 1
        self.bytes += len(body or b"")
        if self._progress is not None and self.batches % _PROGRESS_EVERY == 0:
            self._progress(self.batches, self.bytes)
        return body

    def _heading(self, body: bytes, where: str) -> Heading | None:
        try:
            heading = decode_heading(body)
            messages_of(body)
        except Malformed as error:
            self._problem(f"{where}: {error}")
            return None
        return heading

    def _follows(self, batch: BatchId, body: bytes | None, where: str) -> int:
        """Checks that it is the next of its author's. Returns its size."""
        expected = self._last.get(batch.author, 0) + 1
        if batch.first != expected:
            self._problem(f"{where}: message {expected} of its author was expected")
        if body is None:
            return 0
        try:
            self._last[batch.author] = decode_heading(body).last
        except Malformed as error:
            self._problem(f"{where}: {error}")
        return len(body)

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        if len(self.problems) >= MOST_PROBLEMS:
            raise _Enough
