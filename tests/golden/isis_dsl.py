"""The language of `dsl`, for process groups in the manner of ISIS."""

import json
from typing import Any

from msgspec import UNSET
from tests.golden.dsl import Story

from reconvene.trace.events import Row


class Isis(Story):
    """Beside a story's nodes, which are the sites, processes: "p1" is process 1 of site p's incarnation at its first
    mention, and "p1 q1" are two of them. Groups have names that are no process's. Casts have names, which become
    SITE:INCARNATION:COUNTER in the trace."""

    def __init__(self, name: str, nodes: str) -> None:
        super().__init__(name, nodes)
        self.born: dict[str, int] = {}
        self.processes: dict[str, str] = {}
        self.views: dict[str, list[str]] = {}
        """Of each group, its members now, by rank."""
        self.numbers: dict[str, int] = {}
        self.casters: dict[str, str] = {}
        self.addresses: dict[str, dict[str, Any]] = {}
        """Of each cast: group and view of its last attempt, if it has one."""
        self.attempts: dict[str, int] = {}
        self.clock = 0
        self.counters: dict[str, int] = {}

    # -- saying what happens

    def id(self, process: str) -> str:
        return self.processes.setdefault(process, f"{process[0]}:{self.inc[process[0]]}:{process[1:]}")

    def tell(self, process: str, kind: str, **fields: Any) -> Row:
        node = process[0]
        row = Row(
            node=node, inc=self.inc[node], n=0, t=0, layer="isis", kind=kind, process=self.id(process), **fields
        )  # fmt: skip
        self.rows[node].append(row)
        return row

    def adopt(self, sites: str, at: str | None = None) -> None:
        """They adopt the configuration that they are in as a site view; those who come to the line are born."""
        conf = self.at[sites[0]]
        number = int(conf)
        for site in [site for site in self.born if site not in sites]:
            del self.born[site]
        members = sorted(f"{site}:{self.born.setdefault(site, number)}" for site in sites)
        for site in sites if at is None else at:
            row = self.row(site, "site", conf, layer="isis", primary=number, members=members)
            row.process = UNSET

    def begin(self, processes: str) -> None:
        for process in processes.split():
            self.tell(process, "begin")

    def end(self, processes: str) -> None:
        for process in processes.split():
            self.tell(process, "end")

    def ask(self, process: str, group: str = "g") -> None:
        self.tell(process, "join", group=group)

    def show(self, ranked: str, group: str = "g", at: str | None = None) -> None:
        """A new view, shown to all its members, or to those in `at`."""
        self.views[group] = ranked.split()
        self.numbers[group] = self.numbers.get(group, 0) + 1
        for process in (ranked if at is None else at).split():
            self.show_last(process, group)

    def show_last(self, process: str, group: str = "g") -> None:
        dests = [self.id(member) for member in self.views[group]]
        conf = self.at[process[0]]
        self.tell(
            process, "view", group=group, view=self.numbers[group], members=sorted(dests), dests=dests,
            primary=int(conf.split("+")[0]), conf=conf,
        )  # fmt: skip

    def join_group(self, process: str, group: str = "g") -> None:
        """It asks, and all get the view in which it is the last."""
        self.ask(process, group)
        self.show(" ".join([*self.views.get(group, []), process]), group)

    def leave_group(self, process: str, group: str = "g") -> None:
        self.tell(process, "leave", group=group)
        self.show(" ".join(member for member in self.views[group] if member != process), group)

    def cast(self, process: str, name: str, kind: str, to: str, **fields: Any) -> Row:
        """`to`: a group, in its present view, or processes. `view`, `dests`: of a group, as the sender believes."""
        node = process[0]
        attempt = self.attempts[name] = self.attempts.get(name, -1) + 1
        if attempt == 0:
            self.counters[node] = self.counters.get(node, 0) + 1
            self.ids[name] = f"{node}:{self.inc[node]}:{self.counters[node]}"
            self.casters[name] = process
        address: dict[str, Any] = {}
        if to in self.views:
            address = {"group": to, "view": fields.pop("view", self.numbers[to])}
        dests = fields.pop("dests", " ".join(self.views.get(to, [to])))
        self.addresses[name] = address
        known = {"attempt": attempt, "replies": 0, **address, **fields}
        return self.tell(process, kind, msg=self.ids[name], dests=[self.id(p) for p in dests.split()], **known)

    def cb(
        self, process: str, name: str, to: str = "g", label: dict[str, int] | str | None = None, **fields: Any
    ) -> Row:
        """A CBCAST. Its label: numbers, a topic, or the default."""
        if not isinstance(label, dict):
            self.clock += 1
            label = {label or "": self.clock}
        text = json.dumps(label, sort_keys=True, separators=(",", ":"))
        return self.cast(process, name, "cbcast", to, label=text, service="causal", **fields)

    def ab(self, process: str, name: str, to: str = "g", label: str = "", **fields: Any) -> Row:
        service = "safe" if fields.pop("causal", False) else "agreed"
        self.clock += 1
        self.ts.setdefault(name, [self.clock, 0])
        return self.cast(process, name, "abcast", to, label=label, service=service, **fields)

    def gb(self, process: str, name: str, group: str = "g", **fields: Any) -> Row:
        self.clock += 1
        self.ts.setdefault(name, [self.clock, 0])
        return self.cast(process, name, "gbcast", group, **fields)

    def get(self, processes: str, *names: str) -> None:
        """Each of the processes receives each of the casts."""
        for name in names:
            fields: dict[str, Any] = {"ts": self.ts[name]} if name in self.ts else {}
            for process in processes.split():
                self.tell(process, "receive", **self._about(name), **self.addresses[name], **fields)

    def refuse(self, processes: str, name: str) -> None:
        address = self.addresses[name]
        for process in processes.split():
            view = self.numbers[address["group"]]
            self.tell(process, "reject", **self._about(name), group=address["group"], view=view)

    def _about(self, name: str) -> dict[str, Any]:
        return {
            "msg": self.ids[name], "sender": self.id(self.casters[name]), "attempt": self.attempts[name],
        }  # fmt: skip

    def answer(self, process: str, name: str, of: str) -> None:
        for other in of.split():
            self.tell(process, "answer", msg=self.ids[name], sender=self.id(other))

    def failed(self, process: str, other: str, name: str | None = None) -> Row:
        return self.tell(process, "failed", sender=self.id(other), msg=UNSET if name is None else self.ids[name])

    def flush(self, process: str, name: str | None = None) -> Row:
        return self.tell(process, "flush", msg=UNSET if name is None else self.ids[name])

    def state(self, process: str, group: str = "g") -> Row:
        return self.tell(process, "state", group=group, view=self.numbers[group])

    # -- editing what was said

    def of(self, process: str, kind: str, what: str | int = "") -> Row:
        """The process's first row of this kind: of this cast (by name), or the one so many after the first."""
        rows = [
            row
            for row in self.rows[process[0]]
            if row.layer == "isis" and (row.process, row.kind) == (self.processes[process], kind)
        ]
        if isinstance(what, int):
            return rows[what]
        return next(row for row in rows if what == "" or row.msg == self.ids[what])

    def lose(self, process: str, kind: str, what: str | int = "") -> Row:
        row = self.of(process, kind, what)
        self.rows[process[0]] = [other for other in self.rows[process[0]] if other is not row]
        return row

    def move(self, process: str, what: str, before: str, kind: str = "receive") -> None:
        """Its receive of the one cast comes directly before its row of the other."""
        self.before(process[0], self.of(process, "receive", what), self.of(process, kind, before))


def trio(name: str) -> Isis:
    """Three sites, each with a process: all in the group g, in its view 3."""
    s = Isis(name, "pqr")
    for node, conf in zip("pqr", ("1", "2", "3"), strict=True):
        s.start(node, conf)
    s.join("10", "pqr")
    s.adopt("pqr")
    s.begin("p1 q1 r1")
    for process in ("p1", "q1", "r1"):
        s.join_group(process)
    return s
