"""The filter of section 5 of the paper, applied to a whole run of the ideal group at once.

Every node has two processes: one in both groups, one in the first only, which may leave it. A configuration is used
as the primary component if it has a majority of the nodes and all its members entered it. A process moves on into it
if it comes directly from the one that was used before; else it stops, and is merged under a new identity. Since the
filter knows the future, it delivers nothing in a transitional configuration from which a process does not move on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from msgspec import UNSET

from reconvene.lab.ideal.evs import random_run
from reconvene.trace.events import Row, Run

__all__ = ["filtered", "random_filtered_run"]

GROUPS = ("g", "h")
SLOTS = {"g": (0, 1), "h": (0,)}
"""By group: which of a node's processes are in it."""

Rows = dict[str, list[Row]]
Views = list[tuple[int, list[str]]]


@dataclass
class Stay:
    """A node's time in a regular configuration that is used."""

    number: int
    labels: dict[int, str]
    """Of its processes, by slot."""
    goes_on: bool = False
    """To the next one that is used."""
    leaves_after: int | None = None
    """The second process leaves after so many messages, sent or delivered."""


@dataclass
class Used:
    """A configuration that is used."""

    id: str
    members: list[str]
    stays: dict[str, Stay] = field(default_factory=dict)
    views: dict[str, Views] = field(default_factory=dict)
    """Of each group."""


def random_filtered_run(seed: int, names: str = "abc", steps: int = 40) -> tuple[Run, Rows]:
    """A short run with crashes, partitions and hidden configurations, as it is and as the filter shows it."""
    run, rows = random_run(seed, names, steps)
    return run, filtered(run, rows, seed)


def filtered(run: Run, rows: Rows, seed: int) -> Rows:
    """The run's rows, with those of the filter among them, numbered anew."""
    plan = _Plan(run, rows, Random(seed))
    casts: dict[str, tuple[str, str]] = {}
    for node in sorted(rows):
        casts.update(plan.casts(node))
    return {node: plan.tell(node, casts) for node in rows}


class _Plan:
    def __init__(self, run: Run, rows: Rows, random: Random) -> None:
        self.rows = rows
        self.random = random
        self.used: dict[str, Used] = {}
        self.numbers: dict[tuple[str, int], int] = {}
        self._find_used(len(run.nodes))
        self._follow()

    def _find_used(self, nodes: int) -> None:
        entered: dict[str, list[Row]] = {}
        for mine in self.rows.values():
            for row in mine:
                if row.kind == "conf" and row.conf_kind == "regular":
                    entered.setdefault(str(row.conf), []).append(row)
        for conf in sorted(entered, key=int):
            members = entered[conf][0].members
            assert members is not UNSET
            if 2 * len(members) > nodes and len(entered[conf]) == len(members):
                self.used[conf] = Used(conf, members)

    def _regulars(self, node: str) -> Iterator[tuple[Row, Row | None]]:
        """The regular configurations of a node, each with the one before it in the same incarnation."""
        before: Row | None = None
        for row in self.rows[node]:
            if row.kind == "conf" and row.conf_kind == "regular":
                yield row, before if before is not None and before.inc == row.inc else None
                before = row

    def _follow(self) -> None:
        came = {
            (str(row.conf), node): (row.inc, None if before is None else str(before.conf))
            for node in self.rows
            for row, before in self._regulars(node)
        }
        last: Used | None = None
        for conf, used in self.used.items():
            for node in used.members:
                inc, before = came[conf, node]
                labels: dict[int, str] = {}
                if last is not None and before == last.id:
                    stay = last.stays[node]
                    stay.goes_on = True
                    labels = {slot: label for slot, label in stay.labels.items() if not self._left(stay, slot)}
                    used.stays[node] = Stay(int(conf), labels)
                else:
                    used.stays[node] = Stay(int(conf), {slot: self._label(node, inc) for slot in (0, 1)})
                if 1 in used.stays[node].labels and self.random.random() < 0.2:
                    used.stays[node].leaves_after = self.random.randrange(4)
            self._make_views(used, last)
            last = used

    def _left(self, stay: Stay, slot: int) -> bool:
        return slot == 1 and stay.leaves_after is not None

    def _label(self, node: str, inc: int) -> str:
        number = self.numbers[node, inc] = self.numbers.get((node, inc), 0) + 1
        return f"{node}:{inc}:{number}"

    def _make_views(self, used: Used, last: Used | None) -> None:
        before = {label for stay in last.stays.values() for label in stay.labels.values()} if last else set()
        for group in GROUPS:
            labels = sorted(
                label for stay in used.stays.values() for slot, label in stay.labels.items() if slot in SLOTS[group]
            )
            members = [label for label in labels if label in before]
            views: Views = [(int(used.id) << 20, members)] if members else []
            for change, label in enumerate((label for label in labels if label not in before), 1):
                members = sorted([*members, label])
                views.append((int(used.id) << 20 | change, members))
            used.views[group] = views

    # -- what each node's processes do

    def _walk(self, node: str) -> Iterator[tuple[Row, Used | None, bool, bool]]:
        """Each row, its used configuration, whether the second process is there, and whether it is transitional."""
        used: Used | None = None
        there, transitional, seen = False, False, 0
        for row in self.rows[node]:
            if row.kind == "conf" and row.conf_kind == "transitional":
                transitional = True
            elif row.kind == "conf" and row.conf_kind == "regular":
                used, transitional, seen = self.used.get(str(row.conf)), False, 0
                there = used is not None and 1 in used.stays[node].labels
            elif row.kind in ("send", "deliver"):
                if used is not None and used.stays[node].leaves_after == seen:
                    there = False
                seen += 1
            elif row.kind in ("fail", "stop"):
                used, there = None, False
            yield row, used, there, transitional

    def casts(self, node: str) -> dict[str, tuple[str, str]]:
        """Which process casts each of the node's messages, in which group."""
        found: dict[str, tuple[str, str]] = {}
        for row, used, there, _ in self._walk(node):
            if row.kind == "send" and used is not None:
                group = self.random.choice(GROUPS)
                slot = self.random.choice(SLOTS[group]) if there else 0
                found[str(row.msg)] = (used.stays[node].labels[slot], group)
        return found

    def tell(self, node: str, casts: dict[str, tuple[str, str]]) -> list[Row]:
        written: list[Row] = []
        now: Used | None = None
        both = False
        for row, used, there, transitional in self._walk(node):
            entered = row.kind == "conf" and row.conf_kind == "regular"
            if now is not None and both and (not there or entered) and now.stays[node].leaves_after is not None:
                self._stop(written, node, row.inc, now, (1,))
            if now is not None and entered and not now.stays[node].goes_on:
                rest = (0,) if now.stays[node].leaves_after is not None else tuple(now.stays[node].labels)
                self._stop(written, node, row.inc, now, rest)
            both, now = there, used
            written.append(row)
            if used is None:
                continue
            if entered:
                self._views(written, node, row.inc, used)
            elif row.kind == "send":
                label, group = casts[str(row.msg)]
                self._add(written, node, row.inc, "cast", used, group, label, msg=row.msg, service=row.service)
            elif row.kind == "deliver" and row.msg in casts and not (transitional and not used.stays[node].goes_on):
                sender, group = casts[str(row.msg)]
                for slot in SLOTS[group] if there else (0,):
                    label = used.stays[node].labels[slot]
                    fields = {"msg": row.msg, "sender": sender, "service": row.service, "ts": row.ts}
                    self._add(written, node, row.inc, "deliver", used, group, label, **fields)
        for n, row in enumerate(written):
            row.n, row.t = n, n * 1000
        return written

    def _views(self, written: list[Row], node: str, inc: int, used: Used) -> None:
        for group in GROUPS:
            for number, members in used.views[group]:
                for label in used.stays[node].labels.values():
                    if label in members:
                        fields = {"members": members, "primary": int(used.id), "conf": used.id, "view": number}
                        self._add(written, node, inc, "view", used, group, label, **fields)

    def _stop(self, written: list[Row], node: str, inc: int, used: Used, slots: tuple[int, ...]) -> None:
        for group in GROUPS:
            for slot in slots:
                if slot in SLOTS[group]:
                    self._add(written, node, inc, "stop", used, group, used.stays[node].labels[slot])

    def _add(
        self, written: list[Row], node: str, inc: int, kind: str, used: Used, group: str, label: str, **fields: object
    ) -> None:
        known: dict[str, object] = {"view": used.views[group][-1][0], "group": group, "process": label, **fields}
        written.append(Row(node=node, inc=inc, n=0, t=0, layer="vs", kind=kind, **known))  # type: ignore[arg-type]
