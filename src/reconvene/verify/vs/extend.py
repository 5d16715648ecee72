"""The extend mechanism (section 4, as 5.1 revises it): what each process has to have delivered by the end.

A history may be completed by events that are missing at its end: before a stop, or, where the run was not given the
time to settle, where the trace breaks off. So an event can only be said to lack at a process that *goes on*: that
installed a later view of the same group, one of a higher number, which it is a member of; or, where the run is
settled, that ends it in the view in question and is not over. What it cast itself may be ordered after later views
of the same primary component; only a view of the next one proves that it will not come.
"""

from reconvene.verify.codes import NONE
from reconvene.verify.history import History
from reconvene.verify.precedes import Precedes
from reconvene.verify.processes import Processes

__all__ = ["Extend", "extend_of", "order_of"]


def extend_of(h: History) -> "Extend":
    return Extend(h.processes, h.run.settled)


def order_of(h: History) -> Precedes:
    """What precedes what among the events of processes."""
    return Precedes(h.processes)


class Extend:
    def __init__(self, processes: Processes, settled: bool) -> None:
        self._p = processes
        self._settled = settled
        self.ways: dict[tuple[int, int], list[int]] = {}
        """By process and group: the views that it installed, by number."""
        self._primary: dict[tuple[int, int], int] = {}
        """By process and group: the highest primary component that it came to."""
        self._installed: dict[int, set[int]] = {}
        """By view: the processes that came to it; a member that stopped before did not."""
        self._with: dict[tuple[int, int], frozenset[int]] = {}
        self._shared: dict[frozenset[int], frozenset[int]] = {}
        self._gather_ways()
        self._ends: dict[int, set[int]] = {}
        """By view, where the run is settled: the processes that end in it."""
        if settled:
            for (process, group), way in self.ways.items():
                if not processes.is_over(process, group):
                    self._ends.setdefault(way[-1], set()).add(process)
        for (process, _), way in self.ways.items():
            self._follow(process, way)

    def _gather_ways(self) -> None:
        p = self._p
        for event in p.declared:
            view = p.conf[event]
            self.ways.setdefault((p.node[event], p.confs[view].group), []).append(view)
            self._installed.setdefault(view, set()).add(p.node[event])
        for key, way in self.ways.items():
            self.ways[key] = sorted(set(way), key=lambda view: p.confs[view].number)
            self._primary[key] = max(p.confs[view].primary for view in way)

    def _follow(self, process: int, way: list[int]) -> None:
        """From the last view to the first, gathering those that are with the process in any later one."""
        p = self._p
        later: set[int] = set()
        for view in reversed(way):
            members = p.confs[view].members
            if view == way[-1]:
                ends = self._ends.get(view, set())
                if process in ends:
                    self._with[process, view] = self._share(members & ends)
            elif later:
                self._with[process, view] = self._share(members & later)
            if process in members:
                later |= members & self._installed[view]

    def _share(self, found: frozenset[int]) -> frozenset[int]:
        """Those that go on together have equal sets: one is kept."""
        return self._shared.setdefault(found, found)

    def outlives(self, process: int, view: int) -> bool:
        """Did the process come to a view of the same group in a later primary component than this view's; or, where
        the run is settled, is it not over at the end?"""
        p = self._p
        group, primary = p.confs[view].group, p.confs[view].primary
        if self._settled and not p.is_over(process, group):
            return True
        return primary != NONE and self._primary.get((process, group), NONE) > primary

    def together(self, process: int, view: int) -> frozenset[int]:
        """Of a process that goes on from a view: the members of it that go on with it, to a later view that both are
        members of and have installed, or, settled, by ending in the same one."""
        return self._with[process, view]

    def going_on(self) -> list[tuple[int, int]]:
        """Every (process, view) of which the one goes on from the other."""
        return list(self._with)

    def lacks(self, process: int, view: int) -> bool:
        """Should a process that installed views of the group, but not this one, which it is a member of, have
        installed it?"""
        p = self._p
        way = self.ways[process, p.confs[view].group]
        if p.confs[way[-1]].number > p.confs[view].number:
            return True
        return process in self._ends.get(way[-1], ())
