"""The language of `dsl`, for processes in groups with the filter, and runs of them that keep every promise."""

from collections.abc import Callable
from typing import Any

from tests.golden.dsl import Story

from reconvene.trace.events import Row


class Processes(Story):
    """Beside a story's nodes, processes: "p1" is process 1 of node p's incarnation at its first mention, and "p1 q1"
    are two of them. Views are numbered by the configuration that their first member's node is in."""

    def __init__(self, name: str, nodes: str) -> None:
        super().__init__(name, nodes)
        self.labels: dict[str, str] = {}
        self.in_view: dict[tuple[str, str], int] = {}
        self.changes: dict[tuple[str, str], int] = {}
        self.casters: dict[str, tuple[str, str]] = {}
        """Of each message, its process and group."""

    def label(self, process: str) -> str:
        return self.labels.setdefault(process, f"{process[0]}:{self.inc[process[0]]}:{process[1:]}")

    def event(self, process: str, kind: str, group: str, **fields: Any) -> Row:
        node = process[0]
        known: dict[str, Any] = {"view": self.in_view.get((process, group), 0), **fields}
        label = self.label(process)
        row = Row(node=node, inc=self.inc[node], n=0, t=0, layer="vs", kind=kind, group=group, process=label, **known)
        self.rows[node].append(row)
        return row

    # -- saying what happens

    def view(self, members: str, group: str = "g", at: str | None = None) -> None:
        """A new view, installed by all its members, or by those in `at`."""
        processes = members.split()
        conf = self.at[processes[0][0]]
        self.changes[group, conf] = self.changes.get((group, conf), -1) + 1
        number = int(conf) << 20 | self.changes[group, conf]
        labels = sorted(map(self.label, processes))
        for process in (members if at is None else at).split():
            self.in_view[process, group] = number
            self.event(process, "view", group, members=labels, primary=int(conf), conf=conf)

    def cast(self, process: str, label: str, service: str, group: str = "g") -> None:
        node = process[0]
        self.ids[label] = f"{node}:{self.inc[node]}:{len(self.ids)}"
        self.services[label] = service
        self.casters[label] = (process, group)
        if service in ("agreed", "safe"):
            self.ts[label] = [int(self.at[node]), 0, len(self.ts), 0]
        self.event(process, "cast", group, msg=self.ids[label], service=service)

    def give(self, processes: str, *labels: str) -> None:
        """Each of the processes delivers each of the messages."""
        for label in labels:
            caster, group = self.casters[label]
            fields: dict[str, Any] = {"ts": self.ts[label]} if label in self.ts else {}
            for process in processes.split():
                known = {"msg": self.ids[label], "sender": self.label(caster), "service": self.services[label]}
                self.event(process, "deliver", group, **known, **fields)

    def stop(self, process: str, group: str = "g") -> None:
        self.event(process, "stop", group)

    # -- editing what was said

    def of(self, process: str, kind: str, what: str | int = "", group: str = "g") -> Row:
        """The process's first event of this kind: of this message (by label), or its view so many after the first."""
        rows = [
            row
            for row in self.rows[process[0]]
            if row.layer == "vs" and (row.process, row.kind) == (self.labels[process], kind)
        ]
        if isinstance(what, int):
            return [row for row in rows if row.group == group][what]
        return next(row for row in rows if what == "" or row.msg == self.ids[what])

    def lose(self, process: str, kind: str, what: str | int = "") -> Row:
        row = self.of(process, kind, what)
        self.rows[process[0]] = [other for other in self.rows[process[0]] if other is not row]
        return row

    def exchange(self, process: str, one: str, other: str, kind: str = "deliver") -> None:
        """Swaps two of its events."""
        rows = self.rows[process[0]]
        i = next(i for i, row in enumerate(rows) if row is self.of(process, kind, one))
        j = next(j for j, row in enumerate(rows) if row is self.of(process, kind, other))
        rows[i], rows[j] = rows[j], rows[i]


# -- runs that keep every promise


def trio(name: str = "filter-trio") -> Processes:
    """Three sites, each with a process, in one primary component: merged one at a time."""
    s = Processes(name, "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.view("p1")
    s.view("p1 q1")
    s.view("p1 q1 r1")
    return s


def merges() -> Processes:
    """p and q are a majority; r comes later, and is merged after those who go on have their view."""
    s = Processes("filter-merges", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pq")
    s.view("p1")
    s.view("p1 q1")
    s.cast("p1", "a", "agreed")
    s.cast("q1", "s", "safe")
    s.give("p1 q1", "a", "s")
    s.join("20", "pqr")
    s.view("p1 q1")
    s.view("p1 q1 q2")
    s.view("p1 q1 q2 r1")
    s.cast("r1", "c", "causal")
    s.give("p1 q1 r1 q2", "c")
    return s


def minority() -> Processes:
    """r is cut off and blocked: what it cast is lost, and it comes back as another process."""
    s = trio("filter-minority")
    s.cast("p1", "a", "agreed")
    s.cast("r1", "lost", "safe")
    s.give("p1 q1 r1", "a")
    s.join("20", "pq")
    s.join("21", "r")
    s.stop("r1")
    s.view("p1 q1")
    s.cast("q1", "s", "safe")
    s.give("p1 q1", "s")
    s.join("30", "pqr")
    s.view("p1 q1")
    s.view("p1 q1 r2")
    s.cast("r2", "b", "agreed")
    s.give("p1 q1 r2", "b")
    return s


def stops() -> Processes:
    """q1 leaves its group, and the view changes within the configuration; r fails, having delivered more than others
    ever will, and is back as another incarnation."""
    s = trio("filter-stops")
    s.cast("q1", "a", "agreed")
    s.give("p1 q1 r1", "a")
    s.stop("q1")
    s.view("p1 r1")
    s.cast("r1", "f", "fifo")
    s.cast("r1", "d", "agreed")
    s.give("r1", "f", "d")
    s.fail("r")
    s.join("20", "pq")
    s.view("p1")
    s.start("r", "25")
    s.labels["r2"] = "r:2:1"
    s.join("30", "pqr")
    s.view("p1")
    s.view("p1 r2")
    s.cast("p1", "e", "safe")
    s.give("p1 r2", "e")
    return s


def joins() -> Processes:
    """Joins and leaves are ordered among the messages: what was cast before one may be delivered after it, and then
    it is by everyone, the new one too."""
    s = trio("filter-joins")
    s.cast("p1", "a", "agreed")
    s.cast("p1", "b", "safe")
    s.cast("q1", "c", "agreed")
    s.give("p1 q1 r1", "a")
    s.view("p1 q1 r1 r2")
    s.give("p1 q1 r1 r2", "b")
    s.stop("q1")
    s.view("p1 r1 r2")
    s.give("p1 r1 r2", "c")
    return s


def groups() -> Processes:
    """Two groups, two processes at one site, one in both; each service as weak as it may be."""
    s = Processes("filter-groups", "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    for group, members in (("g", "p1 q1 r1"), ("h", "p1 p2 r1")):
        for count in range(1, 4):
            s.view(" ".join(members.split()[:count]), group)
    s.cast("p1", "a", "agreed")
    s.cast("p1", "f", "fifo")
    s.cast("p1", "k", "fifo")
    s.cast("q1", "c", "causal")
    s.cast("p2", "x", "agreed", "h")
    s.give("p1", "c", "a", "x")
    s.cast("p1", "d", "causal")
    s.cast("r1", "y", "causal", "h")
    s.give("q1", "f", "c", "a", "d", "k")
    s.give("r1", "f", "y", "k", "a", "c", "x", "d")
    s.give("p1", "y", "d", "f", "k")
    s.give("p2", "y", "x")
    s.join("20", "pqr")
    s.view("p1 q1 r1")
    s.view("p1 p2 r1", "h")
    s.cast("r1", "s", "safe")
    s.cast("p2", "z", "safe", "h")
    s.give("p1 q1 r1", "s")
    s.give("p1 p2 r1", "z")
    return s


def cut_short() -> Processes:
    """Recorded until someone looked: what is missing at the files' ends may yet come."""
    s = trio("filter-cut-short")
    s.cast("p1", "a", "agreed")
    s.give("q1", "a")
    s.cast("q1", "s", "safe")
    s.leave("p", "20", "pqr")
    s.give("p1", "a")
    s.enter("p", "20", "pqr")
    s.view("p1 q1 r1", at="p1")
    s.settled = False
    return s


FILTERED: tuple[Callable[[], Processes], ...] = (merges, minority, stops, joins, groups, cut_short)
