"""Figures of a run, from its trace: how long votes took to be counted, and which had to wait for a majority."""

from collections.abc import Iterable, Sequence

from reconvene.lab.demo.result import Wait
from reconvene.trace.events import Row
from reconvene.trace.reader import Trace

__all__ = ["counted", "spread"]


def counted(trace: Trace) -> tuple[Wait, Wait]:
    """From accept to green at the author: for messages accepted and counted in one configuration, and for the
    rest."""
    at_once: list[int] = []
    later: list[int] = []
    for rows in trace.rows.values():
        for took, same in _waits(rows):
            (at_once if same else later).append(took)
    return spread(at_once), spread(later)


def _waits(rows: Sequence[Row]) -> Iterable[tuple[int, bool]]:
    """For each message that this site accepted and that is green here: how long it took, and whether it took one
    configuration."""
    accepted: dict[str, tuple[int, int]] = {}
    changes = 0
    for row in rows:
        match row.kind:
            case "conf" if row.conf_kind != "hidden":
                changes += 1
            case "establish":
                # A message that waited for this majority counts as waiting, though the configuration is the same.
                changes += 1
            case "accept":
                accepted[str(row.msg)] = (row.t, changes)
            case "green":
                found = accepted.pop(str(row.msg), None)
                if found is not None:
                    yield row.t - found[0], found[1] == changes


def spread(waits: Iterable[int]) -> Wait:
    """Percentiles by nearest rank."""
    found = sorted(waits)
    if not found:
        return Wait()
    last = len(found) - 1
    return Wait(len(found), found[last // 2], found[min(last, len(found) * 99 // 100)], found[-1])
