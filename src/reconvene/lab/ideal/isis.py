"""An ideal ISIS: one world that sees all processes at once, and lets each step happen as the paper allows it.

A cast is received whenever its turn comes, after what precedes it and after the ABCASTs of its label that were cast
before it. A GBCAST or a view happens at all members at one moment; before it, every cast that one of them received is
received by all others that it is addressed to. When a site is lost, whatever a survivor depends on is received by all
survivors, and the rest may be lost.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from reconvene.trace.events import SCHEMA, Row, Run

__all__ = ["random_isis_run"]

Rows = dict[str, list[Row]]
GROUPS = ("g", "h")
ALL = -1


@dataclass(eq=False)
class _Cast:
    seq: int
    msg: str
    kind: str
    sender: str
    dests: list[str]
    label: dict[str, float] | None
    """None: it is not causal."""
    queue: str | None
    """Of an ABCAST: its label."""
    row: Row
    before: "set[_Cast]" = field(default_factory=set)
    got: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    """Destinations that are excused."""
    by_member: bool = False
    """Was its sender in the group when it cast the last attempt?"""


def random_isis_run(seed: int, names: str = "abc", steps: int = 40) -> tuple[Run, Rows]:
    """A short run with crashes, partitions, joins, leaves and casts of all kinds."""
    world = _World(Random(seed), names)
    for _ in range(steps):
        world.step()
    return world.finish()


class _World:
    def __init__(self, random: Random, names: str) -> None:
        self.random = random
        self.names = names
        self.rows: Rows = {name: [] for name in names}
        self.inc = dict.fromkeys(names, 0)
        self.number = 0
        self.at: dict[str, str] = {}
        self.up: set[str] = set()
        self.line: dict[str, int] = {}
        """The sites of the last site view, and their born."""
        self.counters: dict[str, int] = {}
        self.alive: list[str] = []
        """Processes of the line's sites."""
        self.cut: dict[str, list[str]] = {}
        """Sites in a minority, and their processes."""
        self.views: dict[str, list[str]] = {group: [] for group in GROUPS}
        self.view_numbers = dict.fromkeys(GROUPS, 0)
        self.held: set[tuple[str, str]] = set()
        """Processes and groups: the state is not there yet."""
        self.casts: list[_Cast] = []
        self.past: dict[str, list[_Cast]] = {}
        self.open: list[tuple[_Cast, str]] = []
        """Requests, each with the processes that have not answered yet."""
        self.last_cast: dict[str, str] = {}
        for name in names:
            self._start(name)
        self._form(list(names))
        for name in names:
            self._begin(name)
            if random.random() < 0.5:
                self._begin(name)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _say(self, node: str, layer: str, kind: str, **fields: Any) -> Row:
        row = Row(node=node, inc=self.inc[node], n=0, t=0, layer=layer, kind=kind, **fields)
        self.rows[node].append(row)
        return row

    def _tell(self, process: str, kind: str, **fields: Any) -> Row:
        return self._say(process[0], "isis", kind, process=process, **fields)

    # -- sites -----------------------------------------------------------------------------------------------------

    def _start(self, site: str) -> None:
        self.inc[site] += 1
        self.up.add(site)
        self._enter(site, self._next_number(), [site])

    def _next_number(self) -> int:
        self.number += 1
        return self.number

    def _enter(self, site: str, number: int, members: Iterable[str]) -> None:
        self.at[site] = str(number)
        self._say(site, "evs", "conf", conf=str(number), conf_kind="regular", members=sorted(members))

    def _move(self, members: list[str]) -> int:
        """All of them go to a new configuration."""
        number = self._next_number()
        came = {site: self.at[site] for site in members}
        for site in members:
            along = sorted(other for other in members if came[other] == came[site])
            conf = f"{came[site]}+{number}+{along[0]}"
            self._say(site, "evs", "conf", conf=conf, conf_kind="transitional", members=along, reg=came[site])
        for site in members:
            self._enter(site, number, members)
        return number

    def _form(self, members: list[str]) -> None:
        """They are a new site view, and some of them may come anew."""
        number = self._move(members)
        self.line = {site: self.line.get(site, number) for site in members}
        born = sorted(f"{site}:{self.line[site]}" for site in members)
        for site in members:
            for process in self.cut.pop(site, ()):
                self._tell(process, "end")
            self._say(site, "isis", "site", conf=str(number), primary=number, members=born)

    def _begin(self, site: str) -> str:
        key = f"{site}:{self.inc[site]}"
        self.counters[f"process {key}"] = self.counters.get(f"process {key}", 0) + 1
        process = f"{key}:{self.counters[f'process {key}']}"
        self._tell(process, "begin")
        self.alive.append(process)
        self.past[process] = []
        return process

    def _lose(self, site: str, crash: bool) -> None:
        """The line goes on without this site."""
        dead = [process for process in self.alive if process[0] == site]
        self._wander(dead)
        if crash:
            self._say(site, "evs", "fail", conf=self.at[site])
            self.up.discard(site)
        rest = [other for other in self.line if other != site]
        del self.line[site]
        if not crash:
            self.cut[site] = dead
            self._move([site])
        self._form(rest)
        self._bury(dead)

    def _wander(self, dead: list[str]) -> None:
        """Just before they are lost they may receive ABCASTs in an order of their own."""
        for process in dead:
            late = [c for c in self._pending(process) if c.queue is not None and c.label is None]
            self.random.shuffle(late)
            for cast in late[: self.random.randrange(3)]:
                self._receive(process, cast)

    def _bury(self, dead: list[str]) -> None:
        """What survivors depend on is received by all of them; then they learn of the failure."""
        self.alive = [process for process in self.alive if process not in dead]
        known = {c for c in self.casts if c.got & set(self.alive) or c.sender in self.alive}
        known |= {c for c in self.casts if c.sender in dead and self.random.random() < 0.3}
        known |= {other for cast in list(known) for other in cast.before}
        self.casts = [cast for cast in self.casts if cast in known]
        for cast in self.casts:
            if cast.sender in dead:
                self._spread(cast)
        for cast, dest in list(self.open):
            if cast.sender not in self.alive:
                self.open.remove((cast, dest))
            elif dest in dead:
                self.open.remove((cast, dest))
                self._tell(cast.sender, "failed", sender=dest, msg=cast.msg)
        for group in GROUPS:
            members = [member for member in self.views[group] if member not in dead]
            if members != self.views[group]:
                self._show(group, members)
        for process in self.alive:
            if dead and self.random.random() < 0.2:
                self._tell(process, "failed", sender=self.random.choice(dead))

    # -- groups ----------------------------------------------------------------------------------------------------

    def _show(self, group: str, ranked: list[str]) -> None:
        self._level(ranked)
        self.views[group] = ranked
        self.view_numbers[group] += 1
        for process in ranked:
            conf = self.at[process[0]]
            self._tell(
                process, "view", group=group, view=self.view_numbers[group], members=sorted(ranked),
                dests=list(ranked), primary=int(conf), conf=conf,
            )  # fmt: skip

    def _level(self, members: Iterable[str]) -> None:
        """What one of them received, all others that it is addressed to receive."""
        members = [member for member in members if member in self.alive]
        changed = True
        while changed:
            changed = False
            for cast in self.casts:
                if cast.got & set(members):
                    for member in members:
                        if self._is_due(cast, member):
                            self._hand(member, cast)
                            changed = True

    def _join(self, process: str, group: str) -> None:
        self._tell(process, "join", group=group)
        again = []
        for cast in self.casts:
            if cast.row.group == group and any(self._is_due(cast, dest) for dest in cast.dests):
                if cast.got or cast.by_member or cast.kind == "gbcast":
                    self._spread(cast)
                else:
                    again.append(cast)
        again = [cast for cast in again if not cast.got]
        self._show(group, [*self.views[group], process])
        for cast in again:
            if cast.got:
                continue
            for member in self.views[group]:
                if self._is_due(cast, member):
                    self._tell(
                        member, "reject", sender=cast.sender, msg=cast.msg, attempt=cast.row.attempt, group=group,
                        view=self.view_numbers[group],
                    )  # fmt: skip
        for cast in again:
            if not cast.got:
                self._address(cast, group)
        if self.random.random() < 0.5:
            self.held.add((process, group))

    def _address(self, cast: _Cast, group: str) -> None:
        """It goes out again, to the present members."""
        cast.dests, old = list(self.views[group]), cast.row
        cast.skipped.clear()
        cast.by_member = cast.sender in cast.dests
        assert isinstance(old.attempt, int)
        fields = {name: getattr(old, name) for name in ("msg", "label", "service", "replies", "group")}
        cast.row = self._tell(
            cast.sender, cast.kind, attempt=old.attempt + 1, dests=list(cast.dests), view=self.view_numbers[group],
            **fields,
        )  # fmt: skip
        self.open = [(other, dest) for other, dest in self.open if other is not cast]
        if old.replies == ALL:
            self.open += [(cast, dest) for dest in cast.dests]

    def _leave(self, process: str, group: str) -> None:
        rest = [member for member in self.views[group] if member != process]
        self._level(self.views[group])
        self._tell(process, "leave", group=group)
        self.held.discard((process, group))
        for cast in self.casts:
            if cast.row.group == group and self._is_due(cast, process):
                cast.skipped.add(process)
                self.open = [pair for pair in self.open if pair != (cast, process)]
        if rest:
            self._show(group, rest)
        else:
            self.views[group] = []
            self.view_numbers[group] += 1

    # -- casts -----------------------------------------------------------------------------------------------------

    def _cast(self, process: str) -> None:
        random = self.random
        kind = random.choice(["cbcast", "cbcast", "cbcast", "abcast", "abcast", "gbcast"])
        groups = [group for group in GROUPS if self.views[group] and (process, group) not in self.held]
        to_group = kind == "gbcast" or random.random() < 0.7
        if to_group and not groups:
            return
        fields: dict[str, Any] = {"attempt": 0, "replies": random.choice([0, 0, 0, ALL])}
        if to_group:
            group = random.choice(groups)
            fields |= {"group": group, "view": self.view_numbers[group]}
            dests = list(self.views[group])
        else:
            dests = random.sample(self.alive, random.randint(1, min(3, len(self.alive))))
        key = f"{process[0]}:{self.inc[process[0]]}"
        self.counters[key] = self.counters.get(key, 0) + 1
        label, queue = self._label(kind, fields)
        msg = f"{key}:{self.counters[key]}"
        row = self._tell(process, kind, msg=msg, dests=list(dests), **fields)
        cast = _Cast(self.counters["clock"], msg, kind, process, dests, label, queue, row)
        cast.by_member = to_group and process in dests
        if label is not None:
            for other in self.past[process]:
                if _is_below(other.label, label):
                    cast.before |= {other, *other.before}
            self.past[process].append(cast)
        self.casts.append(cast)
        self.last_cast[process] = msg
        if fields["replies"] == ALL:
            self.open += [(cast, dest) for dest in dests]
        if kind == "gbcast":
            self._level(dests)
            for dest in dests:
                self._receive(dest, cast)

    def _label(self, kind: str, fields: dict[str, Any]) -> tuple[dict[str, float] | None, str | None]:
        """What it is compared by, and an ABCAST's queue."""
        random = self.random
        self.counters["clock"] = clock = self.counters.get("clock", 0) + 1
        if kind == "cbcast":
            label: dict[str, int] = random.choice([
                {"": clock}, {"": clock}, {"x": clock}, {"x": clock, "y": clock}, {}, {"y": random.randint(0, clock)},
            ])  # fmt: skip
            fields |= {"label": json.dumps(label, sort_keys=True, separators=(",", ":")), "service": "causal"}
            return {name: float(value) for name, value in label.items()}, None
        if kind == "gbcast":
            return None, None
        causal = random.random() < 0.3
        queue = random.choice(["", "q"])
        fields |= {"label": queue, "service": "safe" if causal else "agreed"}
        return ({"": float(clock)} if causal else None), queue

    def _is_due(self, cast: _Cast, process: str) -> bool:
        return process in cast.dests and process in self.alive and process not in cast.got | cast.skipped

    def _pending(self, process: str) -> list[_Cast]:
        return [cast for cast in self.casts if self._is_due(cast, process)]

    def _hand(self, process: str, cast: _Cast) -> None:
        """The process receives it, and before it whatever has to come before it."""
        if not self._is_due(cast, process):
            return
        for other in self._pending(process):
            if other in cast.before or (other.queue == cast.queue is not None and other.seq < cast.seq):
                self._hand(process, other)
        self._receive(process, cast)

    def _receive(self, process: str, cast: _Cast) -> None:
        cast.got.add(process)
        row = cast.row
        fields: dict[str, Any] = {}
        if row.group:
            fields = {"group": row.group, "view": row.view}
        if cast.kind != "cbcast":
            fields["ts"] = [cast.seq, 0]
        self._tell(process, "receive", sender=cast.sender, msg=cast.msg, attempt=row.attempt, **fields)
        if cast.label is not None and cast not in self.past[process]:
            self.past[process].append(cast)

    def _spread(self, cast: _Cast) -> None:
        """All that stand receive it, and before that whatever precedes it."""
        for other in [*sorted(cast.before, key=lambda c: c.seq), cast]:
            for dest in other.dests:
                self._hand(dest, other)

    # -- what happens ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        random = self.random
        process = random.choice(self.alive) if self.alive else None
        what = random.random()
        if what < 0.05 and 2 * (len(self.line) - 1) > len(self.names):
            self._lose(random.choice(sorted(self.line)), crash=random.random() < 0.5)
        elif what < 0.1:
            self._return()
        elif process is None:
            return
        elif what < 0.2:
            group = random.choice(GROUPS)
            if process in self.views[group]:
                self._leave(process, group)
            else:
                self._join(process, group)
        elif what < 0.23:
            self._tell(process, "end")
            self._bury([process])
        elif what < 0.26:
            group = random.choice(GROUPS)
            self._show(group, random.sample(self.views[group], len(self.views[group])))
        elif what < 0.3:
            self._flush(process)
        elif what < 0.33:
            for held, group in sorted(self.held):
                if held in self.alive:
                    self._tell(held, "state", group=group, view=self.view_numbers[group])
            self.held.clear()
        elif what < 0.65:
            self._cast(process)
        else:
            pending = self._pending(process)
            if pending:
                self._hand(process, random.choice(pending))
            self._answer()

    def _return(self) -> None:
        away = sorted(set(self.names) - set(self.line))
        if not away:
            return
        site = self.random.choice(away)
        if site not in self.up:
            self._start(site)
        self._form([*self.line, site])
        self._begin(site)

    def _flush(self, process: str) -> None:
        for cast in list(self.casts):
            if cast.sender == process:
                self._spread(cast)
        last = self.last_cast.get(process)
        self._tell(process, "flush", **({} if last is None else {"msg": last}))

    def _answer(self) -> None:
        for cast, dest in list(self.open):
            if dest in cast.got:
                self.open.remove((cast, dest))
                self._tell(cast.sender, "answer", sender=dest, msg=cast.msg)

    def finish(self) -> tuple[Run, Rows]:
        settled = self.random.random() < 0.7
        if settled:
            for cast in list(self.casts):
                self._spread(cast)
            self._answer()
        components = [sorted(self.line), *([site] for site in sorted(self.cut))]
        for rows in self.rows.values():
            for n, row in enumerate(rows):
                row.n, row.t = n, n * 1000
        run = Run(
            schema=SCHEMA, run="ideal isis", nodes=list(self.names), stack="isis", order="atop", seed=0,
            settled=settled, components=components if settled else [],
            down=sorted(set(self.names) - self.up), quorum={"kind": "majority"},
        )  # fmt: skip
        return run, self.rows


def _is_below(label: dict[str, float] | None, other: dict[str, float]) -> bool:
    return bool(label) and all(name in other and value <= other[name] for name, value in (label or {}).items())
