"""A benchmark's settings and its results: rows for programs, tables for people, and plots."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

__all__ = ["Progress", "Row", "Settings", "Sheet", "Table", "number", "percentile", "size_of", "verdict"]

Progress = Callable[[str, int, int], None]
"""Called with: what is being measured, how many steps are done, how many there are."""


def _say_nothing(what: str, done: int, total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Settings:
    quick: bool = False
    """A minute or less, with fewer points and shorter runs."""
    seed: int = 1
    plots: Path | None = None
    """The directory for plots; None: no plots."""
    progress: Progress = _say_nothing
    peers: tuple[str, ...] = ()
    """Other systems to run in the same run."""


class Row(Struct, frozen=True, omit_defaults=True):
    """One figure; `ratio` is `value` divided by that of `against`."""

    work: str
    system: str
    value: float
    unit: str
    against: str | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> "Table":
        return Table(title, tuple(columns), tuple(tuple(line) for line in lines))


@dataclass(slots=True)
class Sheet:
    bench: str
    rows: list[Row] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes to the tables, a line each."""
    plots: list[Path] = field(default_factory=list)

    def add(
        self, work: str, system: str, value: float, unit: str, against: str | None = None, ratio: float | None = None
    ) -> None:
        """Rounds to significant digits."""
        shown = None if ratio is None else float(f"{ratio:.4g}")
        self.rows.append(Row(work, system, float(f"{value:.5g}"), unit, against, shown))


def size_of(count: int) -> str:
    """The size of a message in the names of works: 100 B, 1 KiB."""
    return f"{count // 1024} KiB" if count >= 1024 and count % 1024 == 0 else f"{count} B"


def verdict(met: bool) -> str:
    """Whether a target was met, as a word."""
    return "met" if met else "missed"


def number(value: float) -> str:
    """Three digits, and no exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def percentile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]
