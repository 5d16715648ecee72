"""What all checks of the layer have in common."""

from collections.abc import Callable

from reconvene.trace.events import Row
from reconvene.verify.check import Check
from reconvene.verify.history import History
from reconvene.verify.report import Tally
from reconvene.verify.wide_history import WideHistory

__all__ = ["WideCheck", "judged"]

WideCheck = Check[None, None]


def judged(check: Callable[[WideHistory, "Findings"], None]) -> Callable[[History, Tally], None]:
    """The check of a run's layer `wide`, as the engine calls it."""

    def run(h: History, tally: Tally) -> None:
        assert h.wide is not None, "asked for where there is such a layer"
        check(h.wide, Findings(h.run.run, h.wide, tally))

    return run


class Findings:
    """Counts cases and violations of one check in one run."""

    __slots__ = ("_run", "_tally", "_wide")

    def __init__(self, run: str, wide: WideHistory, tally: Tally) -> None:
        self._run = run
        self._wide = wide
        self._tally = tally

    def case(self, count: int = 1) -> None:
        self._tally.cases += count

    def violate(self, event: int, problem: str) -> None:
        """At an event about a configuration or a message."""
        wide = self._wide
        self._tally.violate(self._run, *wide.where(event), f"{wide.describe(event)}: {problem}")

    def violate_row(self, row: Row, problem: str) -> None:
        """At another row."""
        self._tally.violate(self._run, row.node, row.n, f"{row.node}#{row.n} {row.kind}: {problem}")
