"""Along one node's file, row by row: what the rows before an event of the layer `evs` show of it.

Given: the node's rows in the order of its file, in pieces. Promised: each sending and delivery goes to `Messages`
with what the Spark engine's table of files has of it; rows that move the node, or that are about a configuration or a
primary component, are kept, since they are few.
"""

from typing import cast

from msgspec import UNSET

from reconvene.trace.events import Row
from reconvene.verify.codes import AGREED, CONF, FAIL, FIFO, HIDDEN, KINDS, NOBODY, SERVICES
from reconvene.verify.evs import ways
from reconvene.verify.online.messages import Messages, Stamp

__all__ = ["NodeFile"]

_STOP = KINDS["evs", "stop"]
_MOVES = {"fail": FAIL, "stop": _STOP}


class NodeFile:
    def __init__(self, node: int, nodes: dict[str, int]) -> None:
        self.node = node
        self._nodes = nodes
        self.rows = 0
        self.others = 0
        """Rows of other layers."""
        self.n: int | None = None
        self.t: int | None = None
        self.inc = 0
        """The highest incarnation that a row was of …"""
        self._own_inc = 0
        """… and that a row of the layer `evs` was of."""
        self.conf: str | None = None
        self.root: str | None = None
        """The regular configuration that it is in, or was in when it failed."""
        self.at_inc = 0
        self.up = False
        self.left: set[str] = set()
        """Regular configurations that it has left behind."""
        self.bones: list[Row] = []
        """Rows about configurations and primary components, …"""
        self.moves: list[ways.Row] = []
        """… and of those what `Ways` reads."""
        self._ts: Stamp | None = None
        self._sent = [0, 0]
        """Messages sent in the regular configuration: fifo ones, others."""
        self._heard = [[0, 0] for _ in nodes]
        """The same of messages delivered, by sender."""
        self._counters: dict[str, int] = {}
        """By incarnation, as messages name it: the counter of the last one sent."""

    def follows(self, row: Row) -> bool:
        """Is it a row of another layer that is as nearly all of them are? If not, `other` says what it is."""
        n, t = self.n, self.t
        if n is None or t is None or row.n <= n or row.t < t or row.inc != self.inc or row.inc != self.at_inc:
            return False
        if not self.up:
            return False
        self.n, self.t = row.n, row.t
        self.rows += 1
        self.others += 1
        return True

    def other(self, row: Row) -> list[str]:
        """A row of another layer: its marks."""
        marks = self._numbered(row)
        if row.inc < self.inc or (not self.up and self.at_inc == row.inc and self.conf is not None):
            marks.append("stray")
        self.inc = max(self.inc, row.inc)
        self.rows += 1
        self.others += 1
        return marks

    def own(self, row: Row, messages: Messages, now: int) -> None:
        """A row of the layer `evs`."""
        marks = self._numbered(row)
        outlived, own_outlived = row.inc < self.inc, row.inc < self._own_inc
        self.inc, self._own_inc = max(self.inc, row.inc), max(self._own_inc, row.inc)
        if row.kind == "send" or row.kind == "deliver":
            inside = self.up and self.conf == row.conf and self.at_inc == row.inc
            if not inside:
                marks.append("outside")
            elif outlived and not own_outlived:
                marks.append("stray")
            if row.kind == "send":
                self._send(row, messages, marks, now)
            else:
                self._deliver(row, messages, marks, now)
        else:
            if outlived and not own_outlived:
                marks.append("stray")
            messages.mark(marks, row.node, row.n, f"{row.layer} {row.kind}")
            self._move(row, messages)
        self.rows += 1

    def is_past(self, root: str) -> bool:
        """Can no more rows of this node be about messages of this regular configuration?"""
        if root == self.root:
            return not self.up and self.conf is not None
        if root in self.left:
            return True
        current = self.root
        return current is not None and current.isdecimal() and root.isdecimal() and int(current) > int(root)

    def _numbered(self, row: Row) -> list[str]:
        marks = []
        if self.n is not None and row.n <= self.n:
            marks.append("unnumbered")
        if self.t is not None and row.t < self.t:
            marks.append("backwards")
        self.n, self.t = row.n, row.t
        return marks

    def _move(self, row: Row, messages: Messages) -> None:
        hidden = row.kind == "conf" and row.conf_kind == "hidden"
        kind = HIDDEN if hidden else CONF if row.kind == "conf" else _MOVES[row.kind]
        reg = cast(str, row.reg) if row.kind == "conf" and row.conf_kind == "transitional" else None
        members = set(cast("list[str]", row.members)) if row.kind == "conf" else set()
        self.bones.append(row)
        self.moves.append({
            "node": self.node, "place": self.rows, "inc": row.inc, "kind": kind, "conf": row.conf, "reg": reg,
            "alone": members == {row.node}, "rows": 1,
        })  # fmt: skip
        if hidden:
            return
        conf = cast(str, row.conf)
        root = reg or conf
        if kind == CONF and reg is None:
            messages.declare(conf, sum(1 << self._nodes[name] for name in members if name in self._nodes))
            self._sent = [0, 0]
            self._heard = [[0, 0] for _ in self._heard]
        if self.root is not None and self.root != root:
            self.left.add(self.root)
        self.conf, self.root, self.at_inc, self.up = conf, root, row.inc, kind == CONF

    def _send(self, row: Row, messages: Messages, marks: list[str], now: int) -> None:
        msg, service = cast(str, row.msg), SERVICES[cast(str, row.service)]
        message = messages.at(msg, cast(str, row.conf), now)
        kind = service != FIFO
        self._sent[kind] += 1
        message.sends += 1
        message.origins.add(self.node * 4 + service)
        message.roots.add(cast(str, row.conf))
        message.indices.add(self._sent[kind])
        message.sent_at = max(message.sent_at, self.rows)
        message.sent_t = row.t if message.sent_t is None else max(row.t, message.sent_t)
        asked = [count[1] if kind and other != self.node else 0 for other, count in enumerate(self._heard)]
        message.asked = tuple(map(max, asked, message.asked)) if message.asked else tuple(asked)
        message.marks += marks
        message.node, message.n = row.node, row.n
        message.resent = message.resent or not self._is_next(row, msg)
        messages.settle(msg, message)

    def _is_next(self, row: Row, msg: str) -> bool:
        """Is it called NODE:INCARNATION:COUNTER, the counter above all before it? Then it was not sent before."""
        life, _, counter = msg.rpartition(":")
        if life != f"{row.node}:{row.inc}" or not counter.isdecimal() or int(counter) <= self._counters.get(life, -1):
            return False
        self._counters[life] = int(counter)
        return True

    def _deliver(self, row: Row, messages: Messages, marks: list[str], now: int) -> None:
        msg, service = cast(str, row.msg), SERVICES[cast(str, row.service)]
        sender = self._nodes.get(cast(str, row.sender), NOBODY)
        message = messages.at(msg, self.root, now)
        whole = row.conf == self.root
        if sender != NOBODY:
            self._heard[sender][service != FIFO] += 1
            message.indices.add(self._heard[sender][service != FIFO])
        message.deliveries += 1
        message.origins.add(sender * 4 + service)
        message.roots.add(self.root)
        if sender == self.node:
            message.own_at = self.rows if message.own_at < 0 else message.own_at
        else:
            message.elsewhere += 1
            if whole:
                message.first_t.setdefault(self.node, row.t)
        heard = [count[1] for count in self._heard]
        message.heard = list(map(min, heard, message.heard)) if message.heard else heard
        if whole:
            message.regular |= 1 << self.node
        else:
            message.late |= 1 << self.node
        if service >= AGREED:
            self._stamp(row, msg, messages, marks)
        message.marks += marks
        message.node, message.n = row.node, row.n
        messages.settle(msg, message)

    def _stamp(self, row: Row, msg: str, messages: Messages, marks: list[str]) -> None:
        message = messages.at(msg, self.root, 0)
        if row.ts is UNSET:
            message.unstamped += 1
            return
        stamp = tuple(row.ts)
        message.stamped += 1
        messages.stamp(msg, message, stamp)
        if self._ts is not None:
            marks.append("successors")
            if stamp <= self._ts:
                marks.append("disordered")
        self._ts = stamp
