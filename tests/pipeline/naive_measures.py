"""The measures of traces, computed slowly from rows in memory, each as its sentence in docs/analyze.md reads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from reconvene.report.measures import Spread
from reconvene.trace.events import Row, Run

Told = tuple[Run, Mapping[str, Sequence[Row]]]

__all__ = [
    "changes",
    "colours_at_end",
    "deliveries",
    "greens",
    "jain",
    "rate",
    "same_spread",
    "sendings",
    "waited",
]


def sendings(told: Iterable[Told]) -> dict[tuple[str, str], Row]:
    """By run and message."""
    return {
        (run.run, str(row.msg)): row
        for run, rows in told
        for mine in rows.values()
        for row in mine
        if row.layer == "evs" and row.kind == "send"
    }


def deliveries(told: Sequence[Told]) -> list[tuple[str, str, str, int]]:
    """Service, sender, site and latency of each."""
    sent = sendings(told)
    return [
        (
            str(sent[run.run, str(row.msg)].service),
            sent[run.run, str(row.msg)].node,
            row.node,
            row.t - sent[run.run, str(row.msg)].t,
        )
        for run, rows in told
        for mine in rows.values()
        for row in mine
        if row.layer == "evs" and row.kind == "deliver" and (run.run, row.msg) in sent
    ]


def same_spread(found: Spread, values: Sequence[int]) -> bool:
    if not values:
        return found.count == 0
    wanted = (np.mean(values), *np.percentile(values, [50, 99, 99.9]), max(values))
    shown = (found.mean, found.p50, found.p99, found.p999, found.max)
    return found.count == len(values) and bool(
        np.allclose(np.array(shown, float), np.array(wanted, float), rtol=1e-9)
    )


def jain(values: Sequence[float]) -> float | None:
    """None where a value is negative, which only clocks that differ can bring about."""
    if min(values) < 0:
        return None
    return float(sum(values) ** 2 / (len(values) * sum(value**2 for value in values)))


def rate(told: Told, width: int) -> tuple[float, float]:
    """Deliveries a second and their variance, in buckets of this width."""
    times = [row.t for mine in told[1].values() for row in mine if row.layer == "evs" and row.kind == "deliver"]
    first = min(times)
    buckets = np.bincount([(t - first) // width for t in times]) / (width / 1e9)
    return float(buckets.mean()), float(buckets.var())


def changes(told: Iterable[Told]) -> dict[tuple[str, str], tuple[list[str], int, int, int, int, int | None]]:
    """By run and configuration: members, entered, merged, began, took, silence."""
    found = {}
    for run, rows in told:
        start = min(row.t for mine in rows.values() for row in mine)
        parts: dict[str, list[tuple[list[str], str, int, int, int | None]]] = defaultdict(list)
        for mine in rows.values():
            way = [row for row in mine if row.layer == "evs" and row.kind == "conf" and row.conf_kind != "hidden"]
            for before, row in pairwise(way):
                if row.conf_kind != "regular" or before.conf_kind != "transitional":
                    continue
                here = [d.t for d in mine if d.layer == "evs" and d.kind == "deliver" and d.conf == row.conf]
                old = [
                    d.t
                    for d in mine
                    if d.layer == "evs" and d.kind == "deliver" and d.conf in (before.conf, before.reg)
                ]
                silence = min(here) - max(old) if here and old else None
                parts[str(row.conf)].append((list(row.members or []), str(before.reg), before.t, row.t, silence))
        for conf, entered in parts.items():
            began, ended = min(part[2] for part in entered), max(part[3] for part in entered)
            silences = [part[4] for part in entered if part[4] is not None]
            found[run.run, conf] = (
                entered[0][0],
                len(entered),
                len({part[1] for part in entered}),
                began - start,
                ended - began,
                max(silences, default=None),
            )
    return found


def greens(told: Iterable[Told]) -> list[tuple[str, str, int]]:
    """Author, site, and from accept to green."""
    found = []
    for _, rows in told:
        accepted = {row.msg: row for mine in rows.values() for row in mine if row.kind == "accept"}
        found += [
            (accepted[row.msg].node, row.node, row.t - accepted[row.msg].t)
            for mine in rows.values()
            for row in mine
            if row.layer == "corel" and row.kind == "green" and row.msg in accepted
        ]
    return found


def waited(told: Iterable[Told]) -> dict[str, tuple[int, list[int], int]]:
    """By author: all that it accepted; how long those waited that were accepted in no primary component; how many of
    these are not green there."""
    accepted: dict[str, int] = defaultdict(int)
    times: dict[str, list[int]] = defaultdict(list)
    still: dict[str, int] = defaultdict(int)
    for _, rows in told:
        for node, mine in rows.items():
            green = {row.msg: row.t for row in reversed(mine) if row.layer == "corel" and row.kind == "green"}
            primary = False
            for row in mine:
                if row.layer == "evs" and row.kind in ("conf", "fail", "stop") and row.conf_kind != "hidden":
                    primary = False
                elif row.layer == "corel" and row.kind == "establish":
                    primary = True
                elif row.layer == "corel" and row.kind == "accept":
                    accepted[node] += 1
                    if not primary:
                        if row.msg in green:
                            times[node].append(green[row.msg] - row.t)
                        else:
                            still[node] += 1
    return {node: (count, times[node], still[node]) for node, count in accepted.items()}


def colours_at_end(told: Told) -> tuple[int, int, int]:
    """Red, yellow and green, summed over the sites."""
    rows = told[1]
    positions = {row.msg: row.pos for mine in rows.values() for row in mine if row.kind == "green"}
    count = {"red": 0, "yellow": 0, "green": 0}
    for mine in rows.values():
        now: dict[str, str] = {}
        base = max((row.pos for row in mine if row.kind == "snapshot" and isinstance(row.pos, int)), default=0)
        for row in mine:
            if row.layer == "corel" and row.kind in ("log", "yellow", "red", "green"):
                now[str(row.msg)] = "red" if row.kind == "log" else row.kind
        for message, colour in now.items():
            position = positions.get(message)
            count["green" if isinstance(position, int) and position < base else colour] += 1
    return count["red"], count["yellow"], count["green"]
