"""A small language for traces written by hand: describe what happens; to break it, edit the rows."""

from pathlib import Path
from typing import Any

from reconvene.trace.events import SCHEMA, Row, Run
from reconvene.trace.writer import write_trace


class Story:
    """One run. Nodes have single letters as names, so "pqr" is three nodes. Messages have labels, which become
    SENDER:INCARNATION:COUNTER in the trace."""

    def __init__(self, name: str, nodes: str) -> None:
        self.name = name
        self.nodes = list(nodes)
        self.rows: dict[str, list[Row]] = {node: [] for node in nodes}
        self.at: dict[str, str] = {}
        self.inc = dict.fromkeys(nodes, 0)
        self.ids: dict[str, str] = {}
        self.services: dict[str, str] = {}
        self.senders: dict[str, str] = {}
        self.ts: dict[str, list[int]] = {}
        self.settled = True
        self.components: list[list[str]] = [list(nodes)]
        self.down: list[str] = []
        self.keep_n = False
        """Keep `n` as the edits made it; otherwise rows are numbered in their order."""

    # -- describing what happens

    def row(self, node: str, kind: str, conf: str, layer: str = "evs", **fields: Any) -> Row:
        row = Row(node=node, inc=self.inc[node], n=0, t=0, layer=layer, kind=kind, conf=conf, **fields)
        self.rows[node].append(row)
        return row

    def start(self, node: str, conf: str) -> None:
        """The node starts as a new incarnation, alone."""
        self.inc[node] += 1
        self.enter(node, conf, node)

    def enter(self, node: str, conf: str, members: str) -> None:
        self.row(node, "conf", conf, conf_kind="regular", members=sorted(members))
        self.at[node] = conf

    def leave(self, node: str, new: str, members: str) -> None:
        """The transitional configuration between the present one and `new`."""
        old = self.at[node]
        self.at[node] = f"{old}+{new}"
        self.row(node, "conf", self.at[node], conf_kind="transitional", members=sorted(members), reg=old)

    def hide(self, node: str, conf: str, members: str) -> None:
        self.row(node, "conf", conf, conf_kind="hidden", members=sorted(members))

    def join(self, conf: str, members: str) -> None:
        """All of them go to a new regular configuration; nothing is delivered in between."""
        came = {node: self.at[node] for node in members}
        for node in members:
            self.leave(node, conf, "".join(other for other in members if came[other] == came[node]))
        for node in members:
            self.enter(node, conf, members)

    def send(self, node: str, label: str, service: str) -> None:
        counter = sum(row.kind == "send" and row.inc == self.inc[node] for row in self.rows[node])
        self.ids[label] = f"{node}:{self.inc[node]}:{counter}"
        self.services[label] = service
        self.senders[label] = node
        if service in ("agreed", "safe"):
            self.ts[label] = [_number(self.at[node]), 0, len(self.ts), 0]
        self.row(node, "send", self.at[node], msg=self.ids[label], service=service)

    def deliver(self, nodes: str, *labels: str) -> None:
        for label in labels:
            for node in nodes:
                stamp: dict[str, Any] = {"ts": self.ts[label]} if label in self.ts else {}
                self.row(
                    node,
                    "deliver",
                    self.at[node],
                    msg=self.ids[label],
                    sender=self.senders[label],
                    service=self.services[label],
                    **stamp,
                )

    def fail(self, node: str, kind: str = "fail") -> None:
        self.row(node, kind, self.at[node])

    def establish(self, node: str, primary: int, members: str) -> None:
        """All three phases."""
        for kind in ("attempt", "commit", "establish"):
            self.row(node, kind, self.at[node], layer="corel", primary=primary, members=sorted(members))

    # -- editing the rows

    def find(self, node: str, kind: str, what: str) -> Row:
        """The node's first event of this kind, of this message (by label) or configuration."""
        what = self.ids.get(what, what)
        return next(row for row in self.rows[node] if row.kind == kind and what in (row.msg, row.conf))

    def drop(self, node: str, kind: str, what: str) -> Row:
        row = self.find(node, kind, what)
        self.rows[node] = [other for other in self.rows[node] if other is not row]
        return row

    def swap(self, node: str, kind: str, one: str, other: str) -> None:
        rows = self.rows[node]
        i = next(i for i, row in enumerate(rows) if row is self.find(node, kind, one))
        j = next(j for j, row in enumerate(rows) if row is self.find(node, kind, other))
        rows[i], rows[j] = rows[j], rows[i]

    def before(self, node: str, moved: Row, row: Row) -> None:
        """Puts `moved` directly before `row`."""
        rest = [other for other in self.rows[node] if other is not moved]
        place = next(i for i, other in enumerate(rest) if other is row)
        self.rows[node] = [*rest[:place], moved, *rest[place:]]

    def number(self) -> None:
        """Numbers the rows now, so that an edit can break the numbers."""
        for rows in self.rows.values():
            for n, row in enumerate(rows):
                row.n, row.t = n, n * 1000
        self.keep_n = True

    # -- writing

    def run(self) -> Run:
        return Run(
            schema=SCHEMA,
            run=self.name,
            nodes=self.nodes,
            stack="evs",
            order="atop",
            seed=0,
            settled=self.settled,
            components=self.components if self.settled else [],
            down=self.down,
            quorum={"kind": "majority"},
        )

    def write(self, directory: Path) -> None:
        if not self.keep_n:
            self.number()
        write_trace(directory, self.run(), self.rows)


def _number(conf: str) -> int:
    """For timestamps: the number of a configuration, or of the regular one that a transitional one follows."""
    digits = conf.split("+")[0]
    return int(digits) if digits.isdigit() else sum(map(ord, digits))
