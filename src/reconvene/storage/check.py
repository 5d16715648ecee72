"""Checks that every value of a store is readable and unchanged.

Given: anything that can be inspected. Promised: every corrupt value is named, in one line each. If the keys can't be
read any further, that is reported and ends the check.

For a store that no process has open, call `data_file.walk` first: it finds damage that would end the process here.
"""

from collections.abc import Callable

from reconvene.errors import Malformed
from reconvene.storage.tables import MOST_KEY_BYTES, Inspectable

__all__ = ["EVERYTHING", "MOST_PROBLEMS", "check"]

EVERYTHING = (b"", b"\xff" * (MOST_KEY_BYTES + 1))
"""(start, end) of a range with all keys in it."""

MOST_PROBLEMS = 1000
"""The check ends after this many problems."""

_PROGRESS_EVERY = 1000


def check(
    reader: Inspectable,
    progress: Callable[[int, int], None] | None = None,
    start: bytes = EVERYTHING[0],
    end: bytes = EVERYTHING[1],
) -> list[str]:
    """What is wrong in this range, in the order of its keys. `progress` is called with the numbers of values and
    bytes seen so far, now and then and at the end."""
    problems: list[str] = []
    values = size = 0
    try:
        for key in reader.keys(start, end):
            try:
                value = reader.get(key)
            except Malformed as error:
                problems.append(str(error))
                if len(problems) == MOST_PROBLEMS:
                    problems.append(f"more than {MOST_PROBLEMS} values are corrupt: the check ends here")
                    break
            else:
                size += len(key) + len(value or b"")
            values += 1
            if progress is not None and values % _PROGRESS_EVERY == 0:
                progress(values, size)
    except Malformed as error:
        problems.append(str(error))  # the keys themselves can't be gone through
    if progress is not None:
        progress(values, size)
    return problems
