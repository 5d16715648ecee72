"""Small traces of domains, written step by step: berlin (a, b, c; gateways a and b) and paris (a) under world."""

from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import structs

from reconvene.trace.domains import Domain, Domains, Pass, WideTrace, write_wide_trace
from reconvene.trace.events import SCHEMA, Row, Run
from reconvene.trace.reader import Trace

NODES = {"berlin": ["a", "b", "c"], "paris": ["a"], "world": ["berlin.a", "berlin.b", "paris.a"]}
LEAVES = ("berlin", "paris")


class WideStory:
    def __init__(self, name: str = "") -> None:
        self.name = name
        self.settled = True
        self.domains = [
            Domain(name="berlin", nodes=NODES["berlin"], gateways=["a", "b"], upper="world",
                   passes=Pass(out=["bank", "shop*"], into=["*"])),
            Domain(name="paris", nodes=NODES["paris"], gateways=["a"], upper="world",
                   passes=Pass(out=["*"], into=["bank"])),
            Domain(name="world", nodes=NODES["world"]),
        ]  # fmt: skip
        self.down: dict[str, list[str]] = {name: [] for name in NODES}
        self.levels: dict[str, dict[str, list[Row]]] = {
            name: {node: [] for node in nodes} for name, nodes in NODES.items()
        }
        self.wide: dict[str, list[Row]] = {f"{name}/{node}": [] for name in LEAVES for node in NODES[name]}
        self.confs = {(name, node): "" for name, nodes in NODES.items() for node in nodes}
        self.now = dict.fromkeys(self.wide, "")
        self.counts: Counter[str] = Counter()
        self.slots = 0
        self.terms: dict[str, tuple[str, int, str]] = {}
        self.sent: dict[str, dict[str, str]] = {}

    # -- rows

    def evs(self, domain: str, site: str, kind: str, **fields: Any) -> Row:
        row = self._row(self.levels[domain][site], site, f"{domain}/{site}", layer="evs", kind=kind, **fields)
        if kind == "conf":
            self.confs[domain, site] = str(row.conf)
        return row

    def at(self, node: str, kind: str, **fields: Any) -> Row:
        fields.setdefault("conf", self.now[node])
        row = self._row(self.wide[node], node, node, layer="wide", kind=kind, **fields)
        if kind == "conf":
            self.now[node] = str(row.conf)
        return row

    def _row(self, rows: list[Row], node: str, counter: str, **fields: Any) -> Row:
        self.counts[counter] += 1
        n = self.counts[counter]
        rows.append(Row(node=node, inc=1, n=n, t=n * 1000, **fields))
        return rows[-1]

    # -- a level

    def form(self, domain: str, new: str, members: list[str]) -> None:
        """These sites go on together to a configuration, each from where it is."""
        olds = {site: self.confs[domain, site] for site in members}
        for site in members:
            together = sorted(other for other in members if olds[other] == olds[site])
            self.evs(domain, site, "conf", conf=f"{olds[site]}+{new}", conf_kind="transitional", members=together,
                     reg=olds[site])  # fmt: skip
            self.evs(domain, site, "conf", conf=new, conf_kind="regular", members=members)

    def begin(self, domain: str, first: int, common: str) -> None:
        for place, site in enumerate(NODES[domain]):
            self.evs(domain, site, "conf", conf=str(first + place), conf_kind="regular", members=[site])
        if len(NODES[domain]) > 1:
            self.form(domain, common, NODES[domain])

    def cast(self, domain: str, site: str, service: str) -> str:
        """A message of a level, delivered by all of its sender's configuration at once. Returns its id."""
        conf = self.confs[domain, site]
        self.counts[f"sent {domain}/{site}"] += 1
        msg = f"{site}:1:{self.counts[f'sent {domain}/{site}']}"
        self.slots += 1
        ts = {"ts": [int(conf), 0, self.slots, 0]} if service in ("agreed", "safe") else {}
        self.evs(domain, site, "send", conf=conf, msg=msg, service=service)
        for other in NODES[domain]:
            if self.confs[domain, other] == conf and other not in self.down[domain]:
                self.evs(domain, other, "deliver", conf=conf, msg=msg, sender=site, service=service, **ts)
        return msg

    def crash(self, domain: str, site: str) -> None:
        self.evs(domain, site, "fail", conf=self.confs[domain, site])
        self.down[domain].append(site)
        self.at(f"{domain}/{site}", "fail")
        if f"{domain}.{site}" in NODES["world"]:
            self.evs("world", f"{domain}.{site}", "fail", conf=self.confs["world", f"{domain}.{site}"])
            self.down["world"].append(f"{domain}.{site}")

    # -- layer wide

    def up(self, domain: str) -> list[str]:
        return [f"{domain}/{site}" for site in NODES[domain] if site not in self.down[domain]]

    def represent(self, domain: str, site: str, term: int) -> None:
        """The cluster's sites see a new term."""
        conf = self.confs[domain, site]
        self.terms[domain] = (conf, term, site)
        for node in self.up(domain):
            self.at(node, "rep", conf=conf, view=term, sender=f"{domain}/{site}")

    def enter(self, conf: str, members: list[str], place: list[int], reg: str | None = None) -> None:
        """The sites of these domains enter a wide configuration, and have a view of the bank."""
        for domain in members:
            for node in self.up(domain):
                kind = {"conf_kind": "regular"} if reg is None else {"conf_kind": "transitional", "reg": reg}
                self.at(node, "conf", conf=conf, members=members, ts=place, **kind)
                if reg is None:
                    who = [f"{each}/{self.terms[each][0]}/teller" for each in members]
                    self.at(node, "view", group="bank", ts=place, members=who)

    def send(self, node: str, service: str, group: str = "bank", scope: str = "wide") -> str:
        self.counts[f"wide {node}"] += 1
        msg = f"{node}:1:{self.counts[f'wide {node}']}"
        self.at(node, "send", msg=msg, service=service, group=group, scope=scope)
        self.sent[msg] = {"sender": node, "service": service, "group": group}
        domain, _, site = node.partition("/")
        self.cast(domain, site, service)
        if service in ("fifo", "causal") or scope == "cluster" or group == "local":
            for other in self.up(domain):
                self.deliver(other, msg)
        return msg

    def deliver(self, node: str, msg: str, place: list[int] | None = None) -> None:
        self.at(node, "deliver", msg=msg, **self.sent[msg], **({} if place is None else {"ts": place}))

    def cross(self, domain: str, *msgs: str, to: tuple[str, ...] = LEAVES) -> None:
        """The messages cross, and come in at all of these domains."""
        conf, term, site = self.terms[domain]
        cross = self.cast(domain, site, "safe")
        pos = self.counts[f"cross {domain}"]
        self.counts[f"cross {domain}"] += 1
        self.at(f"{domain}/{site}", "cross", conf=conf, view=term, msg=cross, pos=pos, members=list(msgs))
        crossing = self.cast("world", f"{domain}.{site}", "safe")
        place = [int(self.confs["world", f"{domain}.{site}"]), 0, self.slots]
        for other in to:
            local, turn, rep = self.terms[other]
            self.at(f"{other}/{rep}", "in", conf=local, view=turn, msg=crossing, ts=place, sender=domain, reg=conf,
                    pos=pos, members=list(msgs))  # fmt: skip
            self.cast(other, rep, "agreed")
            for k, msg in enumerate(msgs):
                ordered = self.sent[msg]["service"] in ("agreed", "safe")
                if other == domain and not ordered:
                    continue
                for node in self.up(other):
                    self.deliver(node, msg, [*place, k] if ordered else None)

    # -- processes

    def near(self, domain: str, site: str, kind: str, **fields: Any) -> Row:
        """A row of layer isis, of the cluster's own trace."""
        rows = self.levels[domain][site]
        return self._row(rows, site, f"{domain}/{site}", layer="isis", kind=kind, **fields)

    def open_processes(self, domain: str, conf: str, sites: str) -> None:
        """The cluster adopts a site view, and at each of these sites process 1 begins."""
        members = [f"{site}:{conf}" for site in NODES[domain]]
        for site in NODES[domain]:
            self.near(domain, site, "site", conf=conf, primary=int(conf), members=members)
        for site in sites:
            self.near(domain, site, "begin", process=f"{site}:1:1")

    def far_cast(self, node: str, kind: str, to: list[str], label: str = '{"":1}') -> tuple[str, str]:
        """Process 1 of the node casts to processes 1 of others. Returns the cast's id, and the message's."""
        self.counts[f"far {node}"] += 1
        cast = f"{node}:1:{self.counts[f'far {node}']}"
        service = "causal" if kind == "cbcast" else "agreed"
        dests = [f"{other}:1:1" for other in to]
        self.at(node, kind, process=f"{node}:1:1", msg=cast, dests=dests, label=label, service=service, group="bank")
        return cast, self.send(node, service, group="isis:bank")

    def receive(self, node: str, cast: tuple[str, str]) -> None:
        sender = cast[0].rpartition(":")[0].rpartition(":")[0] + ":1:1"
        self.at(node, "receive", process=f"{node}:1:1", msg=cast[0], sender=sender, reg=cast[1], group="bank")

    # -- the whole

    def find(self, node: str, kind: str, msg: str | None = None, nth: int = 0) -> Row:
        """A row of layer wide."""
        return [row for row in self.wide[node] if row.kind == kind and msg in (None, row.msg)][nth]

    def drop(self, row: Row) -> None:
        for rows in (*self.wide.values(), *(rows for level in self.levels.values() for rows in level.values())):
            rows[:] = [each for each in rows if each is not row]

    def swap(self, one: Row, other: Row) -> None:
        """Two rows of one file change places."""
        rows = self.wide[one.node]
        i, j = (next(i for i, row in enumerate(rows) if row is each) for each in (one, other))
        rows[i], rows[j] = structs.replace(other, n=one.n), structs.replace(one, n=other.n)

    def again(self, row: Row) -> None:
        """The row stands once more at the end of its file."""
        self.counts[row.node] += 1
        self.wide[row.node].append(structs.replace(row, n=self.counts[row.node]))

    def trace(self) -> WideTrace:
        down = [f"{name}/{site}" for name in LEAVES for site in self.down[name]]
        domains = Domains(
            schema=SCHEMA,
            run=self.name,
            seed=1,
            settled=self.settled,
            components=[["berlin", "paris"]],
            down=down,
            domains=self.domains,
        )
        levels = {
            name: Trace(self._run(name, NODES[name], "evs", self.down[name]), rows)
            for name, rows in self.levels.items()
        }
        return WideTrace(domains, levels, Trace(self._run(self.name, list(self.wide), "wide", down), self.wide))

    def _run(self, name: str, nodes: list[str], stack: str, down: list[str]) -> Run:
        return Run(
            schema=SCHEMA,
            run=name,
            nodes=nodes,
            stack=stack,
            order="atop",
            seed=1,
            settled=self.settled,
            components=[nodes],
            down=down,
            quorum={"kind": "majority"},
        )

    def write(self, directory: Path) -> None:
        trace = self.trace()
        levels = {name: (level.run, level.rows) for name, level in trace.levels.items()}
        write_wide_trace(directory, trace.domains, levels, (trace.wide.run, trace.wide.rows))
