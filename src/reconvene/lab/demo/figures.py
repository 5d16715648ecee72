"""Figures of a run, from its trace: how long votes took to be counted, and which of them had to wait for that."""

from collections.abc import Iterable, Sequence

from reconvene.lab.demo.result import Wait
from reconvene.trace.events import Row
from reconvene.trace.reader import Trace

__all__ = ["counted", "spread"]


def counted(trace: Trace) -> tuple[Wait, Wait]:
    """From accept to green at the author: of what was accepted and counted in one configuration, and of the rest."""
    at_once: list[int] = []
    later: list[int] = []
    for rows in trace.rows.values():
        for took, same in _waits(rows):
            (at_once if same else later).append(took)
    return spread(at_once), spread(later)


def _waits(rows: Sequence[Row]) -> Iterable[tuple[int, bool]]:
    """Of each message that this site accepted and has seen green: how long, and whether nothing changed meanwhile."""
    accepted: dict[str, tuple[int, int]] = {}
    changes = 0
    for row in rows:
        match row.kind:
            case "conf" if row.conf_kind != "hidden":
                changes += 1
            case "establish":
                changes += 1  # what waited for this majority has waited, though the configuration is the same
            case "accept":
                accepted[str(row.msg)] = (row.t, changes)
            case "green":
                found = accepted.pop(str(row.msg), None)
                if found is not None:
                    yield row.t - found[0], found[1] == changes


def spread(waits: Iterable[int]) -> Wait:
    """Percentiles are those of the nearest rank."""
    found = sorted(waits)
    if not found:
        return Wait()
    last = len(found) - 1
    return Wait(len(found), found[last // 2], found[min(last, len(found) * 99 // 100)], found[-1])
