"""Stories of the durable log: a Story in which messages are accepted, logged and coloured."""

from typing import Any

from msgspec import UNSET
from tests.golden.dsl import Story

from reconvene.trace.events import Row, Run


class LogStory(Story):
    """Counts positions, so that `green` continues at each node's next position."""

    def __init__(self, name: str, nodes: str) -> None:
        super().__init__(name, nodes)
        self.quorum: dict[str, object] = {"kind": "majority"}
        self.line = dict.fromkeys(nodes, 0)
        self.colors: dict[tuple[str, str], str] = {}
        self.stamps: dict[str, list[int]] = {}
        self.followers: list[str] = []
        self.outposts: list[str] = []
        self._accepted = dict.fromkeys(nodes, 0)

    def tell(self, node: str, kind: str, **fields: Any) -> Row:
        """A row of the log."""
        row = self.row(node, kind, "", layer="corel", **fields)
        row.conf = UNSET
        return row

    def begin(self, nodes: str, conf: str) -> None:
        """All nodes start, and merge into this configuration."""
        for number, node in enumerate(nodes, 1):
            self.start(node, str(number))
        self.join(conf, nodes)

    # -- messages

    def accept(self, node: str, *labels: str) -> None:
        for label in labels:
            self._accepted[node] += 1
            self.ids[label] = f"{node}:{self.inc[node]}:{self._accepted[node]}"
            self.tell(node, "accept", msg=self.ids[label])

    def log(self, nodes: str, *labels: str, again: bool = False) -> None:
        """Logs it with the timestamp of its first logging; `again`: with a new one, as if it was sent again."""
        for label in labels:
            if again or label not in self.stamps:
                self.stamps[label] = [int(self.at[nodes[0]].split("+")[0]), 0, len(self.stamps) + 10 * again, 0]
            for node in nodes:
                self.tell(node, "log", msg=self.ids[label], ts=self.stamps[label])

    def yellow(self, nodes: str, *labels: str) -> None:
        for node in nodes:
            for label in labels:
                if self.colors.get((node, label)) is None:
                    self._color(node, label, "yellow")

    def red(self, nodes: str, *labels: str) -> None:
        for node in nodes:
            for label in labels:
                self._color(node, label, "red")
                del self.colors[node, label]

    def green(self, nodes: str, *labels: str) -> None:
        for node in nodes:
            for label in labels:
                if self.colors.get((node, label)) != "green":
                    self._color(node, label, "green", pos=self.line[node])
                    self.line[node] += 1

    def _color(self, node: str, label: str, color: str, **fields: int) -> None:
        self.colors[node, label] = color
        self.tell(node, color, msg=self.ids[label], **fields)

    def append(self, node: str, members: str, *labels: str) -> None:
        """In a stable primary component: accepted here, logged and yellow everywhere, then green."""
        self.accept(node, *labels)
        for label in labels:
            self.log(members, label)
            self.yellow(members, label)
        self.green(members, *labels)

    # -- primary components

    def phase(self, nodes: str, kind: str, number: int, members: str) -> None:
        for node in nodes:
            row = self.tell(node, kind, primary=number, members=sorted(members))
            row.conf = self.at[node]

    def primary(self, number: int, members: str, *labels: str) -> None:
        """All three phases. `labels`: everything that is not green, in order."""
        self.phase(members, "attempt", number, members)
        for node in members:
            self.phase(node, "commit", number, members)
            self.yellow(node, *labels)
        for node in members:
            self.phase(node, "establish", number, members)
            self.green(node, *labels)

    def adopt(self, node: str, number: int) -> None:
        self.tell(node, "adopt", primary=number)

    def snapshot(self, node: str, line: int) -> None:
        self.tell(node, "snapshot", pos=line)
        self.line[node] = line

    # -- beside the nodes

    def beside(self, followers: str = "", outposts: str = "") -> None:
        """These start beside the nodes, connected to all."""
        self.followers += followers
        self.outposts += outposts
        for name in (*followers, *outposts):
            self.rows[name] = []
            self.inc[name] = 1
            self.line[name] = self._accepted[name] = 0
            self.components[0].append(name)

    def outpost(self, name: str, members: str, *labels: str) -> None:
        """An outpost accepts them, and passes them on to a stable primary component."""
        self.accept(name, *labels)
        for label in labels:
            self.log(members, label)
            self.yellow(members, label)
        self.green(members, *labels)

    def copy(self, node: str, label: str) -> None:
        """A node takes over what an outpost accepted, as a copy of this label."""
        self._accepted[node] += 1
        self.ids[label] = f"{node}:{self.inc[node]}:{self._accepted[node]}"
        self.tell(node, "offer", msg=self.ids[label])

    def show(self, nodes: str, copy: str, label: str, *kinds: str) -> None:
        """The rows of a copy, of these kinds, at these nodes, show it under the id of what the outpost accepted."""
        for node in nodes:
            for kind in kinds:
                row = self.find(node, kind, copy)
                row.msg, row.label = self.ids[label], self.ids[copy]

    # -- writing

    def run(self) -> Run:
        run = super().run()
        run.followers, run.outposts = self.followers, self.outposts
        run.stack, run.quorum = "corel", self.quorum
        return run
