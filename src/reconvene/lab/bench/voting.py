"""Dynamic voting beside a static majority: the same random histories of faults, gone through by both.

In a model of the log's replicas, with the log's own code for the rule. Counted: the time in which some component may
order, and histories in which two primary components conflict. Beside it a naive rule, which goes by the last
established session alone.
"""

from collections import defaultdict
from pathlib import Path
from random import Random

from reconvene.lab.bench.plotting import new, save
from reconvene.lab.bench.sheet import Settings, Sheet, Table, verdict
from reconvene.lab.voting.histories import KINDS, available_static, go_through, history
from reconvene.lab.voting.model import Model

__all__ = ["BARS", "Compared", "compare", "run"]

HISTORIES = 10_000
SIZES = range(3, 10)
BARS = {"cascading": 1.15, "scattered": 0.97}
"""The available time with dynamic voting, at least, divided by that of a static majority."""


class Compared:
    """Sums over histories."""

    def __init__(self) -> None:
        self.histories = 0
        self.conflicts = 0
        self.naive_conflicts = 0
        self.dynamic = 0.0
        self.static = 0.0
        self.total = 0.0

    @property
    def ratio(self) -> float:
        return self.dynamic / self.static


def compare(kind: str, size: int, seed: int, sums: Compared) -> None:
    """One history."""
    parts = history(kind, size, Random(f"{kind}/{size}/{seed}"))
    found = go_through(Model(size), parts, Random(seed))
    naive = go_through(Model(size, left_out=("live",)), parts, Random(seed))
    sums.histories += 1
    sums.conflicts += found.conflict is not None
    sums.naive_conflicts += naive.conflict is not None
    sums.dynamic += found.available
    sums.static += available_static(size, parts).available
    sums.total += sum(part.duration for part in parts)


def run(settings: Settings) -> Sheet:
    sheet = Sheet("voting")
    count = HISTORIES // 10 if settings.quick else HISTORIES
    by_size: dict[tuple[str, int], Compared] = defaultdict(Compared)
    for number in range(count):
        kind, size = KINDS[number % 2], SIZES[number // 2 % len(SIZES)]
        compare(kind, size, settings.seed * 1_000_000 + number, by_size[kind, size])
        if number % 100 == 0:
            settings.progress("histories", number, count)
    lines = []
    for kind in KINDS:
        sums = [by_size[kind, size] for size in SIZES]
        conflicts, naive = (sum(one.conflicts for one in sums), sum(one.naive_conflicts for one in sums))
        dynamic, static = sum(one.dynamic for one in sums), sum(one.static for one in sums)
        total, ratio = sum(one.total for one in sums), dynamic / static
        sheet.add(f"{kind} conflicts", "dynamic", conflicts, "histories")
        sheet.add(f"{kind} conflicts", "naive", naive, "histories")
        sheet.add(f"{kind} available", "majority", 100 * static / total, "%")
        sheet.add(f"{kind} available", "dynamic", 100 * dynamic / total, "%", "majority", ratio)
        met = verdict(ratio >= BARS[kind] and conflicts == 0)
        share = [f"{100 * part / total:.1f} %" for part in (static, dynamic)]
        lines.append((kind, f"{sum(one.histories for one in sums):,}", str(conflicts), str(naive), *share,
                      f"{ratio:.3f}", f"{BARS[kind]}", met))  # fmt: skip
    columns = ("histories", "number", "conflicts", "naive rule", "majority", "dynamic", "ratio", "target", "")
    sheet.tables.append(Table.of("Time in which some component may order", columns, lines))
    sheet.notes.append("3 to 9 replicas; conflicts: histories in which two primary components contradict each other")
    if settings.plots is not None:
        sheet.plots += _plot(by_size, settings)
    return sheet


def _plot(by_size: dict[tuple[str, int], Compared], settings: Settings) -> list[Path]:
    figure, axes = new(1, len(KINDS), (9.0, 3.4), sharey=True)
    for axis, kind in zip(axes, KINDS, strict=True):
        sums = [by_size[kind, size] for size in SIZES]
        axis.plot(SIZES, [100 * one.static / one.total for one in sums], "o--", color="#d55e00", label="majority")
        axis.plot(SIZES, [100 * one.dynamic / one.total for one in sums], "o-", color="#0072b2", label="dynamic")
        axis.set_title(f"{kind} faults")
        axis.set_xlabel("replicas")
    axes[0].set_ylabel("time with a primary component, %")
    axes[0].set_ylim(0, 100)
    axes[0].legend()
    assert settings.plots is not None
    return save(figure, settings.plots, "voting")
