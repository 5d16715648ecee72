"""What fails in Spark, as one line.

Over bad input our tasks return a row that says so, where they can: a task that fails is tried again, to the same
end, and fills the log with the stacks of two languages. What is left is what Spark itself finds, and errors of ours
that come out of a Python process of Spark's with their stack: of those, the one line that was meant.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from pyspark.errors import PySparkException

from reconvene import errors
from reconvene.errors import Malformed, ReconveneError, Rejected, Unavailable

__all__ = ["plain_errors", "shown_file"]

_OURS = re.compile(r"reconvene\.errors\.(\w+): (.+)")
_FILE = re.compile(r"while reading file (\S.*?)\.\s")
_DETAIL = re.compile(r"Parquet column \[(.*?)\]\. Expected Spark type (.*?), actual Parquet type (.*?)\.(?:\s|$)")
_NO_PATH = re.compile(r"Path does not exist: (\S+?)\.?(?:\s|$)")
_NO_MODE = re.compile(r"\[UNSUPPORTED_DATA_SOURCE_SAVE_MODE\].*\"reconvene\"")
_ONE_CHECKPOINT = re.compile(r"\[CONCURRENT_(STREAM_LOG_UPDATE|QUERY)\]")
_LONGEST = 400

_FROM_JAVA = "Py4JJavaError"
"""A failed job's error where the driver is in this process. A client of Connect may lack the package that has it."""
_CALLING = "An error occurred while calling"
"""What Py4J begins with: it is of no use to a reader."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Around every action: our own errors as they were raised, Malformed for a file that can't be read, Unavailable
    for what else failed in Spark."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PySparkException) or type(error).__name__ == _FROM_JAVA:
            raise _plain(str(error)) from error
        raise


def _plain(text: str) -> ReconveneError:
    ours = _OURS.search(text)
    if ours is not None and ours[1] in errors.__all__:
        kind: type[ReconveneError] = getattr(errors, ours[1])
        return kind(ours[2].strip())
    file = _FILE.search(text)
    if file is not None:
        column = _DETAIL.search(text)
        what = "is not a whole Parquet file"
        if column is not None:
            what = f"column `{column[1]}` has the type {column[3]}; expected {column[2]}"
        return Malformed(f"{shown_file(file[1])}: {what}")
    path = _NO_PATH.search(text)
    if path is not None:
        return Malformed(f"{shown_file(path[1])}: is not there; expected a directory with events/ and runs/")
    if _NO_MODE.search(text):
        return Malformed('the log is appended to: expected .mode("append"), since Spark\'s default mode is another')
    if _ONE_CHECKPOINT.search(text):
        return Rejected("two streams have one checkpoint: expected a checkpointLocation for each query, or stop one")
    lines = (line.strip(": \t") for line in text.splitlines())
    line = next((line for line in lines if line and not line.startswith(_CALLING)), "no reason given")
    return Unavailable(f"Spark: {line[:_LONGEST]}")


def shown_file(url: str) -> str:
    """A file's URL as people name it."""
    return unquote(url.removeprefix("file:").replace("///", "/", 1)) if url.startswith("file:") else url
