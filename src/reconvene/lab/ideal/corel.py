"""Runs of an ideal durable log, made without its protocol: only drawn faults interrupt a step.

It writes correct traces of the log with everything that may happen: recoveries and phases of a primary component that
are interrupted anywhere, yellow messages that become red again, messages sent again under another timestamp,
snapshots, crashes, rows that are recorded late. Tests of the checks use them, and measurements of the checks.
"""

from random import Random

from reconvene.lab.ideal.corel_state import IdealReplica, LogConfiguration, Stamp
from reconvene.lab.ideal.evs import IdealGroup
from reconvene.trace.events import Row, Run

__all__ = ["IdealLog", "busy_log", "random_log"]


class _BrokenOff(Exception):
    """Raised when the configuration changes during a step."""


class IdealLog:
    """The nodes, and the order that they share."""

    def __init__(self, names: list[str], seed: int) -> None:
        self.random = Random(seed)
        self.group = IdealGroup(names, seed)
        self.replicas = {name: IdealReplica(self.group.nodes[name]) for name in names}
        self.total: list[str] = []
        """The total order, as far as any node knows it."""
        self.stamps: dict[tuple[str, str], Stamp] = {}
        """By node and message."""
        self.breaks = 0.06
        """The probability that a configuration change interrupts a step of recovery or of establishing."""
        self.late = 0.15
        """The probability that the last rows of a node in a configuration are recorded late."""

    def _row(self, replica: IdealReplica, kind: str, **fields: object) -> None:
        node = replica.node
        n = len(node.rows)
        fixed = {"node": node.name, "inc": node.inc, "n": n, "t": n * 1000, "layer": "corel", "kind": kind}
        node.rows.append(Row(**fixed, **fields))  # type: ignore[arg-type]

    # -- rows that are recorded late

    def _hold(self, replica: IdealReplica, since: int) -> None:
        """Holds back the node's rows from there on."""
        replica.held += replica.node.rows[since:]
        del replica.node.rows[since:]

    def _record_held(self, replica: IdealReplica) -> None:
        node = replica.node
        for row in replica.held:
            row.inc, row.n, row.t = node.inc, len(node.rows), len(node.rows) * 1000
            node.rows.append(row)
        replica.held = []

    def _order_late(self, members: list[str]) -> None:
        """At the end of their configuration, some nodes do something more, which is recorded after they have left it.
        The others do not learn of a message that is logged now."""
        for name in members:
            replica = self.replicas[name]
            if replica.view is None or self.random.random() >= self.late:
                continue
            since = len(replica.node.rows)
            if self.random.random() < 0.5:
                self.receive(name, self.random.randint(1, 2), known=False)
            self.order(name)
            self._hold(replica, since)

    # -- messages

    def accept(self, name: str) -> None:
        replica = self.replicas[name]
        replica.accepted += 1
        msg = f"{name}:{replica.node.inc}:{replica.accepted}"
        replica.waiting.append(msg)
        self._row(replica, "accept", msg=msg)

    def send(self, name: str) -> None:
        """Messages that wait at the node, and were not sent in this configuration."""
        replica = self.replicas[name]
        view = replica.view
        if view is not None and view.open:
            sent = set(view.sent)
            view.sent.extend(msg for msg in replica.waiting if msg not in sent)

    def receive(self, name: str, most: int, known: bool = True) -> None:
        """`known`: the others learn what it has logged by then."""
        replica = self.replicas[name]
        view = replica.view
        if view is None or not view.open:
            return
        for msg in view.sent[view.received[name] :][:most]:
            stamp = (view.number, 0, view.received[name], 0)
            view.received[name] += 1
            self._log(replica, msg, stamp)
            if view.primary is not None:
                del replica.red[msg]
                replica.yellow.append(msg)
                self._row(replica, "yellow", msg=msg)
        if known:
            view.acknowledged[name] = view.received[name]

    def order(self, name: str) -> None:
        """Order Rule 1: what all members have logged is green."""
        replica = self.replicas[name]
        view = replica.view
        if view is not None and view.primary is not None and view.open:
            logged = min((view.acknowledged | {name: view.received[name]}).values())
            for _ in range(logged - view.green[name]):
                view.green[name] += 1
                self._green(replica, replica.yellow.pop(0))

    def _log(self, replica: IdealReplica, msg: str, stamp: Stamp) -> None:
        if msg in replica.had:
            return
        replica.had.add(msg)
        replica.red[msg] = stamp
        if msg in replica.waiting:
            replica.waiting.remove(msg)
        self._row(replica, "log", msg=msg, ts=list(stamp))
        self.stamps[replica.node.name, msg] = stamp

    def _green(self, replica: IdealReplica, msg: str) -> None:
        if replica.line == len(self.total):
            self.total.append(msg)
        assert self.total[replica.line] == msg, "the total order is one"
        self._row(replica, "green", msg=msg, pos=replica.line)
        replica.line += 1

    # -- configurations

    def crash(self, name: str) -> None:
        """Rows that are held back, and durable, are recorded before the failure or after the restart."""
        if self.random.random() < 0.5:
            self._record_held(self.replicas[name])
        self.group.crash(name, self.random.choice(["fail", "stop"]))
        self.replicas[name].view = None

    def restart(self, name: str) -> None:
        replica = self.replicas[name]
        self.group.restart(name)
        first = replica.node.rows.pop()
        self._record_held(replica)
        first.n = len(replica.node.rows)
        replica.node.rows.append(first)
        self._begin([name])

    def regroup(self) -> None:
        """The running nodes of each component form a configuration, unless they share an open one."""
        for part in self.group.parts:
            up = [name for name in part if self.group.nodes[name].conf is not None]
            views = {id(self.replicas[name].view): self.replicas[name].view for name in up}
            common = next(iter(views.values())) if len(views) == 1 else None
            if up and (common is None or common.members != up or not common.open):
                self._order_late(up)
                self.group._form(up, None)
                for name in up:
                    self._record_held(self.replicas[name])
                self._begin(up)

    def _begin(self, members: list[str]) -> None:
        conf = self.group.nodes[members[0]].conf
        assert conf is not None
        none = dict.fromkeys(members, 0)
        view = LogConfiguration(
            conf.number, conf.id, members, received={**none}, acknowledged={**none}, green={**none}
        )
        old = [(name, self.replicas[name].view) for name in members]
        for name, before in old:
            if before is not None:
                together = [other for other, theirs in old if theirs is before]
                self._catch_up(name, before, together)
        for name in members:
            self.replicas[name].view = view
            self.replicas[name].since = len(self.replicas[name].node.rows)
        try:
            self._recover(view)
            self._establish(view)
            view.open = True
        except _BrokenOff:
            if view.phase in ("attempt", "commit"):
                # It is durable at some nodes, and no other node knows: they may record it only in the next
                # configuration.
                for name in members:
                    replica = self.replicas[name]
                    rows = replica.node.rows[replica.since :]
                    if rows and rows[0].kind == view.phase and self.random.random() < self.late:
                        self._hold(replica, replica.since)

    def _catch_up(self, name: str, before: LogConfiguration, together: list[str]) -> None:
        """Nodes that come from one configuration together have the same messages of it (virtual synchrony), and what
        any of them sent (self-delivery); new messages are red."""
        own = (place + 1 for place, msg in enumerate(before.sent) if msg.split(":")[0] in together)
        shared = max(*(before.received[other] for other in together), *own, 0)
        for place in range(before.received[name], shared):
            self._log(self.replicas[name], before.sent[place], (before.number, 0, place, 0))

    def _may_break_off(self) -> None:
        if self.random.random() < self.breaks:
            raise _BrokenOff

    # -- recovery

    def _recover(self, view: LogConfiguration) -> None:
        here = [self.replicas[name] for name in view.members]
        self._may_break_off()
        latest = max(replica.committed for replica in here)
        line = max(replica.line for replica in here)
        knowing = [replica for replica in here if replica.committed == latest]
        yellow_line = max(line, min(replica.line + len(replica.yellow) for replica in knowing))
        for replica in knowing:
            while replica.line < line:
                self._green(replica, replica.yellow.pop(0))
            while replica.line + len(replica.yellow) > yellow_line:
                self._redden(replica, replica.yellow.pop())
        zone = list(knowing[0].yellow)
        assert all(replica.yellow == zone for replica in knowing), "who knows of a primary agrees on its yellow zone"
        for replica in here:
            if replica.committed < latest:
                self._may_break_off()
                self._adopt(replica, knowing[0], latest)
        self._may_break_off()
        self._exchange(here)

    def _redden(self, replica: IdealReplica, msg: str) -> None:
        replica.red[msg] = self.stamps[replica.node.name, msg]
        self._row(replica, "red", msg=msg)

    def _adopt(self, replica: IdealReplica, model: IdealReplica, latest: int) -> None:
        """Steps 5 and 6, or a snapshot and step 6."""
        greens = self.total[replica.line : model.line]
        if greens and self.random.random() < 0.6:
            self._restore(replica, model.line)
            greens = []
        for msg in [*greens, *model.yellow]:
            self._log(replica, msg, self._stamp(model, msg))
        for msg in [msg for msg in replica.yellow if msg not in greens and msg not in model.yellow]:
            self._redden(replica, msg)
        before = set(replica.yellow)
        early = self.random.random() < 0.5
        replica.committed = latest
        if early:
            self._row(replica, "adopt", primary=latest)
        for msg in greens:
            replica.red.pop(msg, None)
            self._green(replica, msg)
        replica.yellow = list(model.yellow)
        for msg in replica.yellow:
            replica.red.pop(msg, None)
            if msg not in before:
                self._row(replica, "yellow", msg=msg)
        if not early:
            self._row(replica, "adopt", primary=latest)

    def _stamp(self, model: IdealReplica, msg: str) -> Stamp:
        """A snapshot has none: then that of any node."""
        known = self.stamps.get((model.node.name, msg))
        return known or min(stamp for (_, had), stamp in self.stamps.items() if had == msg)

    def _restore(self, replica: IdealReplica, line: int) -> None:
        below = set(self.total[:line])
        replica.had |= below
        replica.line = line
        replica.yellow = [msg for msg in replica.yellow if msg not in below]
        replica.red = {msg: stamp for msg, stamp in replica.red.items() if msg not in below}
        replica.waiting = [msg for msg in replica.waiting if msg not in below]
        self._row(replica, "snapshot", pos=line)

    def _exchange(self, here: list[IdealReplica]) -> None:
        """Step 7. A message with two timestamps keeps the lower one."""
        reds: dict[str, Stamp] = {}
        for replica in here:
            for msg, stamp in replica.red.items():
                reds[msg] = min(stamp, reds.get(msg, stamp))
        for replica in here:
            for msg in replica.red:
                replica.red[msg] = self.stamps[replica.node.name, msg] = reds[msg]
        for msg in sorted(reds, key=reds.__getitem__):
            if self.random.random() < self.breaks / 4:
                raise _BrokenOff
            for replica in here:
                self._log(replica, msg, reds[msg])

    # -- the three phases

    def _establish(self, view: LogConfiguration) -> None:
        if 2 * len(view.members) <= len(self.replicas):
            return
        here = [self.replicas[name] for name in view.members]
        number = max(replica.attempted for replica in here) + 1
        fields: dict[str, object] = {"primary": number, "members": view.members}
        view.phase = "attempt"
        for replica in here:
            self._may_break_off()
            replica.since, replica.attempted = len(replica.node.rows), number
            self._row(replica, "attempt", conf=view.id, **fields)
        view.phase = "commit"
        for replica in here:
            self._may_break_off()
            replica.since, replica.committed = len(replica.node.rows), number
            self._row(replica, "commit", conf=view.id, **fields)
            for msg in sorted(replica.red, key=replica.red.__getitem__):
                replica.yellow.append(msg)
                self._row(replica, "yellow", msg=msg)
            replica.red = {}
        view.phase = "establish"
        for replica in here:
            self._may_break_off()
            replica.since = len(replica.node.rows)
            self._row(replica, "establish", conf=view.id, **fields)
            while replica.yellow:
                self._green(replica, replica.yellow.pop(0))
        view.primary = number

    # -- a whole run

    def run(self, steps: int) -> None:
        random = self.random
        for _ in range(steps):
            up = [name for name, node in self.group.nodes.items() if node.conf is not None]
            down = [name for name in self.replicas if name not in up]
            draw = random.random()
            if draw < 0.3 and up:
                for _ in range(random.randint(1, 3)):
                    self.accept(random.choice(up))
            elif draw < 0.45 and up:
                self.send(random.choice(up))
            elif draw < 0.65 and up:
                self.receive(random.choice(up), random.randint(1, 4))
            elif draw < 0.75 and up:
                self.order(random.choice(up))
            elif draw < 0.8 and len(up) > 1:
                self.crash(random.choice(up))
            elif draw < 0.86 and down:
                self.restart(random.choice(down))
            elif draw < 0.92:
                self.group.parts = self.group._split()
            else:
                self.regroup()

    def settle(self, down: int = 0) -> None:
        """No more faults: all nodes but `down` start, and everything is sent, and ordered if possible."""
        self.breaks = 0.0
        names = list(self.replicas)
        for name in names[: len(names) - down]:
            if self.group.nodes[name].conf is None:
                self.restart(name)
        self.regroup()
        for step in (self.send, lambda name: self.receive(name, len(self.stamps) + 10**6), self.order):
            for name in names:
                if self.group.nodes[name].conf is not None:
                    step(name)

    def meta(self, settled: bool) -> Run:
        run = self.group.meta(settled)
        run.run, run.stack = f"ideal-log-{self.group.seed}", "corel"
        return run

    def rows(self) -> dict[str, list[Row]]:
        return self.group.rows()


def random_log(
    seed: int, names: str = "abc", steps: int = 60, settled: bool | None = None
) -> tuple[Run, dict[str, list[Row]]]:
    """A short run with all kinds of faults."""
    log = IdealLog(list(names), seed)
    log.regroup()
    log.run(steps)
    settle = log.random.random() < 0.5 if settled is None else settled
    if settle:
        log.settle(down=log.random.choice([0, 0, 1]))
    return log.meta(settle), log.rows()


def busy_log(events: int, nodes: int, batch: int = 20, change_each: int = 20_000) -> tuple[Run, dict[str, list[Row]]]:
    """A long run of about `events` events, to measure the checks: all nodes append all the time, and now and then all
    move to another configuration and primary component."""
    log = IdealLog([f"n{index:02}" for index in range(nodes)], seed=0)
    log.breaks = 0.0
    log.regroup()
    made = since = 0
    while made < events:
        for name in log.replicas:
            for _ in range(batch):
                log.accept(name)
            log.send(name)
        for name in log.replicas:
            log.receive(name, nodes * batch)
        for name in log.replicas:
            log.order(name)
        turn = nodes * batch * (1 + 3 * nodes)
        made, since = made + turn, since + turn
        if since >= change_each:
            since = 0
            log.group.renew()
            log._begin(list(log.replicas))
    return log.meta(True), log.rows()
