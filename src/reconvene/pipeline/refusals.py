"""Errors of tasks, as the one line that was meant.

What a task raises arrives at the driver inside Spark's own exception, under traces of stacks of two languages. A
task therefore puts marks around its line, and whoever runs an action looks for them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from reconvene.errors import Malformed, Unavailable

__all__ = ["Refusal", "plain_errors"]

_BEGIN, _END = "<<reconvene:", ":reconvene>>"
_MARKED = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)
_LONGEST = 400


class Refusal(Exception):
    """Raised by a task over input that can't be judged; `plain_errors` makes it Malformed at the driver."""

    def __init__(self, line: str) -> None:
        super().__init__(f"{_BEGIN}{line}{_END}")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Around every action: Malformed for what a task refused, Unavailable for what else failed in Spark."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        marked = _MARKED.search(text)
        if marked is not None:
            raise Malformed(" ".join(marked[1].split())) from None
        raise _spark_error(text) from error


def _spark_error(text: str) -> Unavailable:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return Unavailable(f"Spark: {line[:_LONGEST]}")
