"""A progress bar for a campaign: how many runs are done, and how many of them failed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from reconvene.lab.campaign.seeds import Outcome

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(what: str, runs: int) -> Iterator[Callable[[Outcome], None]]:
    """On a terminal. The callback takes each outcome."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=runs)
        failed = 0

        def advance(outcome: Outcome) -> None:
            nonlocal failed
            failed += not outcome.ok
            bar.update(task, advance=1, description=f"{what}, {failed} failed" if failed else what)

        yield advance
