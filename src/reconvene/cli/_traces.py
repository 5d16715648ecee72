"""Traces as commands name them: as they are at this moment, also those of a cluster that runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from reconvene.errors import Malformed
from reconvene.local import steady

__all__ = ["progress", "still"]


@contextmanager
def still(trace: str) -> Iterator[str]:
    """The trace while nobody writes to it, and refusals that name it as it was given."""
    if "://" in trace:
        yield trace  # somewhere that Spark can read; a cluster that runs is on this machine
        return
    with steady(Path(trace)) as path:
        copy = str(path)
        try:
            yield copy
        except Malformed as error:
            # Of a running cluster a copy is read, which is gone when anyone looks for it.
            raise Malformed(str(error).replace(copy, trace)) from None


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Hears what is being done, and shows it on a terminal for as long as it lasts."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(f"{text} …")
