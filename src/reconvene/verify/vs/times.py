"""The logical times of views, from the timestamps that processes had delivered when they installed them.

A process's time is the highest timestamp that it has delivered, or that any process had that installed one of its
views. A view's time is the highest of all processes that install it; views of one time are in an order in which all
processes installed them. Along a process it never goes back, if what it delivers after a view is above the view's
time.
"""

from bisect import bisect
from collections.abc import Iterable, Mapping
from typing import Any

from reconvene.verify.codes import CONF, KINDS
from reconvene.verify.processes import Processes

__all__ = ["STAMP", "Times"]

STAMP = 4
"""Numbers of a timestamp that are looked at. A longer one is not proven right."""

_VIEW, _DELIVER = KINDS["vs", "view"], KINDS["vs", "deliver"]

Stamp = list[int]
Time = tuple[Stamp, int]
"""A timestamp; then 0 for what it is of, or, after that, a view's place among all views, from 1."""

PatternRow = Mapping[str, Any]


class Times:
    """Given: views of which the events form no knot, and all marks of the run."""

    def __init__(self, processes: Processes, marks: Iterable[PatternRow], index: Mapping[int, int]) -> None:
        self._p = p = processes
        self.is_broken = False
        """Does a process deliver something after a view that is not above the view's time?"""
        self.several: set[int] = set()
        """Processes that are in several groups."""
        self._views: dict[int, Time] = {}
        self._ends: dict[int, Time] = {}
        self._before: dict[tuple[int, int], Stamp] = {}
        """By process and place of a view event: the last timestamp before it …"""
        self._after: dict[int, Stamp] = {}
        """… and, by view event: the first timestamp after it, before the next view."""
        self._ways = {
            process: [e for e in range(p.first[process], p.first[process + 1]) if p.kind[e] == CONF]
            for process in range(p.nodes)
        }
        last: dict[int, Stamp] = {}
        for mark in marks:
            process, stamp = index.get(mark["mark_process"]), _stamp(mark)
            if process is None:
                continue
            if mark["mark_kind"] == _VIEW:
                self._before[process, mark["mark_place"]] = stamp
            elif mark["mark_kind"] == _DELIVER:
                way = self._ways[process]
                self._after[way[bisect(way, mark["mark_place"], key=p.n.__getitem__) - 1]] = stamp
            if mark["mark_is_last"]:
                last[process] = stamp
        self._follow()
        for process, way in self._ways.items():
            if len({p.confs[p.conf[event]].group for event in way}) > 1:
                self.several.add(process)
            end = self._views[p.conf[way[-1]]] if way else ([], 0)
            self._ends[process] = max(end, (last.get(process, []), 0))

    def ends_before(self, process: int, view: int) -> bool:
        """Is all that the process did before the view?"""
        return self._ends[process] < self._views[view]

    def _follow(self) -> None:
        """Through all views, each when all processes that install it have come to it."""
        p = self._p
        state: dict[int, Stamp] = {}
        place = dict.fromkeys(self._ways, 0)
        waiting = [len(view.entered) for view in p.confs]
        ready: list[int] = []

        def come(process: int) -> None:
            way = self._ways[process]
            if place[process] < len(way):
                view = p.conf[way[place[process]]]
                waiting[view] -= 1
                if not waiting[view]:
                    ready.append(view)

        for process in self._ways:
            come(process)
        for rank, view in enumerate(ready, 1):
            events = p.confs[view].entered
            here = [max(state.get(p.node[e], []), self._before.get((p.node[e], p.n[e]), [])) for e in events]
            highest = max(here)
            self._views[view] = (highest, rank)
            for event in events:
                process = p.node[event]
                state[process] = highest
                place[process] += 1
                if event in self._after and self._after[event] <= highest:
                    self.is_broken = True
                come(process)


def _stamp(mark: PatternRow) -> Stamp:
    length = mark["mark_length"] or 0
    return [mark[f"mark_ts_{part}"] for part in range(min(max(length, 0), STAMP))]
