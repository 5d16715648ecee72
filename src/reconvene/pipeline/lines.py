"""The lines of a range of a file, some megabytes at a time."""

from collections.abc import Iterator
from typing import BinaryIO

from reconvene.trace.reader import whole_lines

__all__ = ["CHUNK_BYTES", "LONGEST_LINE", "LineTooLong", "line_chunks"]

CHUNK_BYTES = 1 << 20
"""Read at a time: what a reader holds in memory is some times this."""
LONGEST_LINE = 64 << 20
"""A longer one is no event, and would have to be held in memory whole."""


class LineTooLong(Exception):
    """The line that begins at `offset` has no end within `LONGEST_LINE`."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def line_chunks(file: BinaryIO, begin: int, end: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in begin … end - 1, as (offset of the first, whole lines), in order.

    What lies at `size` or beyond is not read. A last line that was torn there is left out.
    """
    start = at = max(0, begin - 1)
    skipping = begin > 0  # the line that goes on over `begin` belongs to the range before
    rest = b""
    file.seek(at)
    while start < end and at < size:
        data = file.read(min(CHUNK_BYTES, size - at))
        if not data:
            raise OSError(0, f"it ends at {at}, and had {size} bytes before")
        at += len(data)
        if skipping:
            cut = data.find(b"\n") + 1
            start += cut or len(data)
            if not cut:
                continue
            skipping, data = False, data[cut:]
            if start >= end:
                return
        data = rest + data
        if start + len(data) > end:
            cut = data.find(b"\n", end - start - 1) + 1
            if cut:
                yield start, data[:cut]
                return
        cut = data.rfind(b"\n") + 1
        if cut:
            yield start, data[:cut]
        start, rest = start + cut, data[cut:]
        if len(rest) > LONGEST_LINE:
            raise LineTooLong(start)
    if rest and (last := whole_lines(rest)):
        yield start, last
