"""Traces named on the command line, read as they are now, also while a cluster still writes them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from reconvene.errors import Malformed
from reconvene.local import steady

__all__ = ["progress", "still"]


@contextmanager
def still(trace: str) -> Iterator[str]:
    """A trace that no longer changes: of a running cluster, a copy. Errors name the trace as it was given."""
    if "://" in trace:
        yield trace  # a place that only Spark can read; a running cluster would be on this machine
        return
    with steady(Path(trace)) as path:
        copy = str(path)
        try:
            yield copy
        except Malformed as error:
            # The error names the copy, which is deleted before anyone could look at it.
            raise Malformed(str(error).replace(copy, trace)) from None


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yields a function that shows what is being done, if stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(f"{text} …")
