"""Figures of a benchmark in one table, each beside what it is compared with, and the bar for that ratio."""

from dataclasses import dataclass

from reconvene.lab.bench.sheet import Settings, Sheet, Table, number, verdict

__all__ = ["Bar", "Results"]


@dataclass(frozen=True, slots=True)
class Bar:
    times: float
    at_least: bool = False

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.times:g}"

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.times if self.at_least else ratio <= self.times


class Results:
    def __init__(self, bench: str, settings: Settings, steps: int) -> None:
        self.sheet = Sheet(bench)
        self._settings = settings
        self._steps = steps
        self._lines: list[list[str]] = []
        self._done = 0

    def begin(self, what: str) -> None:
        """The next step."""
        self._settings.progress(what, self._done, self._steps)
        self._done += 1

    def add(
        self,
        work: str,
        system: str,
        value: float,
        unit: str,
        against: tuple[str, float] | None = None,
        bar: Bar | None = None,
    ) -> None:
        """`against`: what it is compared with, and that one's value."""
        if against is None:
            self.sheet.add(work, system, value, unit)
            self._lines.append([work, system, number(value), unit, "", "", "", ""])
            return
        name, other = against
        ratio = value / other
        self.sheet.add(work, system, value, unit, name, ratio)
        judged = ("", "") if bar is None else (str(bar), verdict(bar.is_met(ratio)))
        self._lines.append([work, system, number(value), unit, name, f"{ratio:.3g}", *judged])

    def finish(self, title: str) -> Sheet:
        columns = ("work", "system", "value", "unit", "against", "ratio", "bar", "")
        self.sheet.tables.append(Table.of(title, columns, self._lines))
        return self.sheet
