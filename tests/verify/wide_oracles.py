"""Slow checks of domains, straight from docs/checks.md: every pair is looked at, nothing is remembered.

Each oracle returns (cases, violations). They share with the checks only the reading of rows and the rules of borders.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from msgspec import UNSET

from reconvene.trace.domains import Tree, WideTrace
from reconvene.trace.events import Row

Place = tuple[int, ...]
Life = tuple[str, int]
ORDERED = ("agreed", "safe")


class Told:
    """One run of domains."""

    def __init__(self, trace: WideTrace) -> None:
        self.trace = trace
        self.tree = Tree(trace.domains.domains)
        self.nodes = sorted(trace.wide.run.nodes)
        self.rows = [(node, i, row) for node in self.nodes for i, row in enumerate(trace.wide.rows.get(node, []))]
        self.sends: dict[str, tuple[str, int, Row]] = {}
        for node, i, row in self.of("send"):
            self.sends.setdefault(str(row.msg), (node, i, row))
        self.firsts: dict[str, Row] = {}
        for _, _, row in self.of("deliver"):
            self.firsts.setdefault(str(row.msg), row)

    def of(self, *kinds: str) -> Iterator[tuple[str, int, Row]]:
        return ((node, i, row) for node, i, row in self.rows if row.kind in kinds)

    # -- wide configurations

    @cached_property
    def roots(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _, _, row in self.of("conf"):
            found.setdefault(str(row.conf), str(row.reg if row.conf_kind == "transitional" else row.conf))
        return found

    @cached_property
    def kinds(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _, _, row in self.of("conf"):
            found.setdefault(str(row.conf), str(row.conf_kind))
        return found

    def root(self, conf: object) -> str:
        return self.roots.get(str(conf), str(conf))

    def entry(self, node: str, at: int) -> Row | None:
        """The conf row of where the node is at a row of its file."""
        current: Row | None = None
        for row in self.trace.wide.rows[node][: at + 1]:
            if current is not None and row.inc != current.inc and row.kind in ("conf", "send", "deliver", "fail"):
                current = None
            if row.kind == "conf":
                current = row
            elif row.kind in ("fail", "stop"):
                current = None
        return current

    def entries(self, node: str) -> list[tuple[int, int, Row, str]]:
        """(begin, end, row, how it was left)"""
        found = []
        rows = self.trace.wide.rows[node]
        for i, row in enumerate(rows):
            if row.kind != "conf":
                continue
            end, how = len(rows), "end"
            for j in range(i + 1, len(rows)):
                other = rows[j]
                if other.kind not in ("conf", "send", "deliver", "fail", "stop"):
                    continue
                if other.inc != row.inc or other.kind in ("fail", "stop"):
                    end, how = j, "fail"
                    break
                if other.kind == "conf":
                    end, how = j, "conf"
                    break
            if how == "end" and node in self.trace.domains.down:
                how = "fail"
            found.append((i, end, row, how))
        return found

    def start(self, root: str) -> Place:
        return min(tuple(row.ts or ()) for _, _, row in self.of("conf") if self.root(row.conf) == root)

    def placed_in(self, place: Place) -> str | None:
        """None: in none, or not in one."""
        below = [
            (tuple(row.ts or ()), str(row.conf))
            for _, _, row in self.of("conf")
            if self.root(row.conf) == row.conf and tuple(row.ts or ()) < place
        ]
        highest = {conf for ts, conf in below if ts == max(below)[0]}
        return highest.pop() if len(highest) == 1 else None

    # -- messages

    def service(self, msg: str) -> str:
        return str(self.sends[msg][2].service if msg in self.sends else self.firsts[msg].service)

    def sender(self, msg: str) -> str | None:
        if msg in self.sends:
            return self.sends[msg][0]
        return str(self.firsts[msg].sender) if self.firsts[msg].sender in self.nodes else None

    def group(self, msg: str) -> str:
        return str(self.sends[msg][2].group if msg in self.sends else self.firsts[msg].group)

    def is_wide(self, msg: str) -> bool:
        return msg not in self.sends or self.sends[msg][2].scope == "wide"

    def ordered(self, msg: str) -> bool:
        sender = self.sender(msg)
        out = sender is None or self.tree.lets_out(self.group(msg), sender.partition("/")[0])
        return self.service(msg) in ORDERED and self.is_wide(msg) and out

    def is_for(self, msg: str, domain: str) -> bool:
        sender = self.sender(msg)
        if sender is None:
            return False
        origin = sender.partition("/")[0]
        return origin == domain or (self.is_wide(msg) and self.tree.passes(self.group(msg), origin, domain))

    def place(self, msg: str, root: str) -> Place | None:
        for _, _, row in self.of("deliver"):
            if row.msg == msg and row.ts is not UNSET and self.root(row.conf) == root:
                return tuple(row.ts)
        return None

    def is_placed(self, msg: str) -> bool:
        return any(row.msg == msg and row.ts is not UNSET for _, _, row in self.of("deliver"))

    def crossings(self, msg: str) -> list[tuple[str | None, Place]]:
        places = [tuple(row.ts or ()) for _, _, row in self.of("in") if msg in (row.members or ())]
        return [(self.placed_in(place), place) for place in places]

    def got(self, life: Life, msg: str) -> int | None:
        """The index of the life's first delivery of it."""
        node, inc = life
        rows = enumerate(self.trace.wide.rows[node])
        return next((i for i, row in rows if row.kind == "deliver" and row.msg == msg and row.inc == inc), None)

    # -- the clusters

    def local(self, node: str) -> list[Row]:
        domain, _, site = node.partition("/")
        return [
            row
            for row in self.trace.levels[domain].rows[site]
            if row.layer == "evs" and row.kind in ("conf", "fail", "stop") and row.conf_kind != "hidden"
        ]

    def legs(self, life: Life) -> list[tuple[str, str]]:
        """(regular configuration, the transitional one that led to it)"""
        found: list[tuple[str, str]] = []
        through = ""
        for row in self.local(life[0]):
            if row.kind != "conf":
                continue
            if row.conf_kind == "transitional":
                through = str(row.conf)
                continue
            if row.inc == life[1]:
                found.append((str(row.conf), through if found else ""))
            through = ""
        return found

    def local_at(self, life: Life, n: int) -> Row | None:
        before = [row for row in self.local(life[0]) if row.kind == "conf" and row.n < n]
        return before[-1] if before and before[-1].inc == life[1] else None

    def leg(self, life: Life, n: int) -> int | None:
        row = self.local_at(life, n)
        if row is None:
            return None
        name = row.reg if row.conf_kind == "transitional" else row.conf
        return next((i for i, (conf, _) in enumerate(self.legs(life)) if conf == name), None)

    def together(self, one: Life, n: int | None, other: Life, leg: int | None) -> bool:
        mine, theirs = self.legs(one), self.legs(other)
        at = self.leg(one, n) if n is not None else len(mine) - 1
        if leg is None or at is None or at < 0 or not theirs:
            return False
        j = next((i for i, (conf, _) in enumerate(theirs) if conf == mine[at][0]), None)
        if j is None or j < leg:
            return False
        back = j - leg
        if at - back < 0 or mine[at - back][0] != theirs[leg][0]:
            return False
        return all(mine[at - k] == theirs[j - k] for k in range(back))

    def has_gateway(self, node: str, n: int | None = None) -> bool:
        rows = [row for row in self.local(node) if row.kind == "conf" and (n is None or row.n < n)]
        gateways = self.tree.domains[node.partition("/")[0]].gateways
        return bool(rows) and any(member in gateways for member in rows[-1].members or ())

    def must_have(self, life: Life, entry: Row, n: int | None, msg: str) -> bool:
        domain = life[0].partition("/")[0]
        root, entered = self.root(entry.conf), tuple(entry.ts or ())
        if not self.is_for(msg, domain):
            return False
        if self.ordered(msg) and self.is_placed(msg):
            place = self.place(msg, root)
            return place is not None and place > entered
        sender = self.sender(msg)
        assert sender is not None
        if sender.partition("/")[0] == domain:
            if msg not in self.sends:
                return False
            sending = self.sends[msg][2]
            author = (sender, sending.inc)
            leg = self.leg(author, sending.n)
            row = self.local_at(author, sending.n)
            if leg is not None and row is not None and row.conf_kind == "transitional":
                leg += 1
            return self.together(life, n, author, leg)
        crossings = self.crossings(msg)
        if crossings:
            here = [place for where, place in crossings if where == root]
            return all(where is not None for where, _ in crossings) and bool(here) and min(here) > entered
        return entered == self.start(root)

    def has_circle(self) -> bool:
        """Is a message delivered before it is sent, through whatever chain?"""
        passed: set[str] = set()
        at = dict.fromkeys(self.nodes, 0)
        moved = True
        while moved:
            moved = False
            for node in self.nodes:
                rows = self.trace.wide.rows.get(node, [])
                while at[node] < len(rows):
                    row = rows[at[node]]
                    if row.kind == "deliver" and row.msg in self.sends and row.msg not in passed:
                        break
                    if row.kind == "send" and self.sends[str(row.msg)][2] is row:
                        passed.add(str(row.msg))
                    at[node] += 1
                    moved = True
        return any(at[node] < len(self.trace.wide.rows.get(node, [])) for node in self.nodes)


Oracle = Callable[[Told], tuple[int, int]]


def once(told: Told) -> tuple[int, int]:
    cases = bad = 0
    for node, i, row in told.of("deliver"):
        cases += 1
        sent = told.sends.get(str(row.msg))
        wrong = (
            sent is None
            or (sent[0], sent[2].group, sent[2].service) != (row.sender, row.group, row.service)
            or (sent[0] == node and sent[1] > i)
            or told.got((node, row.inc), str(row.msg)) != i
        )
        bad += wrong
    return cases, bad


def passing(told: Told) -> tuple[int, int]:
    cases = bad = 0
    for node, _, row in told.of("deliver"):
        sender = told.sender(str(row.msg))
        here = node.partition("/")[0]
        if sender is not None and sender.partition("/")[0] != here:
            cases += 1
            bad += not told.is_for(str(row.msg), here)
    return cases, bad


def _before(told: Told, fifo: bool) -> dict[str, set[str]]:
    """Of each message, what precedes it in its wide configuration."""
    before: dict[str, set[str]] = {}
    for msg, (node, at, row) in told.sends.items():
        if (row.service == "fifo") is not fifo:
            continue
        found = before[msg] = set()
        for other in told.trace.wide.rows[node][:at]:
            if other.inc != row.inc or other.kind not in ("send", "deliver"):
                continue
            sent = told.sends.get(str(other.msg))
            if sent is None or sent[2].conf != row.conf or (sent[2].service == "fifo") is not fifo:
                continue
            if (other.kind == "send" and sent[2] is other) or (other.kind == "deliver" and not fifo):
                found.add(str(other.msg))
    changed = True
    while changed:
        changed = False
        for found in before.values():
            more = set().union(*(before.get(each, set()) for each in found)) - found
            changed = changed or bool(more)
            found |= more
    return before


def _causal(told: Told, fifo: bool) -> tuple[int, int]:
    before = _before(told, fifo)
    cases = bad = 0
    for node, i, row in told.of("deliver"):
        msg = str(row.msg)
        if msg not in before or told.root(row.conf) != told.sends[msg][2].conf:
            continue
        cases += 1
        entry = told.entry(node, i)
        if entry is None or told.root(entry.conf) != told.root(row.conf):
            continue
        life = (node, row.inc)
        bad += any(_lacks(told, life, i, row, entry, each) for each in before[msg] - {msg})
    return cases, bad


def _lacks(told: Told, life: Life, at: int, row: Row, entry: Row, msg: str) -> bool:
    got = told.got(life, msg)
    if got is not None and got < at:
        return False
    if got is not None and told.root(told.trace.wide.rows[life[0]][got].conf) == told.sends[msg][2].conf:
        return True
    return told.must_have(life, entry, row.n, msg)


def order(told: Told) -> tuple[int, int]:
    cases = bad = 0
    for node, i, row in told.of("deliver"):
        msg = str(row.msg)
        if not told.ordered(msg):
            continue
        cases += 1
        if row.ts is UNSET:
            bad += told.has_gateway(node, row.n)
            continue
        root = told.root(row.conf)
        same = [
            each
            for _, _, each in told.of("deliver")
            if each.ts == row.ts and told.root(each.conf) == root and told.ordered(str(each.msg))
        ]
        earlier = [
            each
            for each in told.trace.wide.rows[node][:i]
            if each.kind == "deliver" and each.inc == row.inc and each.ts is not UNSET
            and told.root(each.conf) == root and told.ordered(str(each.msg))
        ]  # fmt: skip
        bad += (
            same[0].msg != msg
            or told.place(msg, root) != tuple(row.ts)
            or bool(earlier and (earlier[-1].ts or []) >= row.ts)
        )
    return cases, bad


def _agreement(told: Told) -> tuple[int, list[tuple[Life, str]]]:
    stays: dict[tuple[str, str], list[tuple[str, int, int, Row]]] = {}
    for node in told.nodes:
        for begin, end, row, how in told.entries(node):
            if how == "conf":
                to = str(told.trace.wide.rows[node][end].conf)
                stays.setdefault((str(row.conf), to), []).append((node, begin, end, row))
    cases, lacking = 0, []
    for (conf, _), group in stays.items():
        if len({node for node, *_ in group}) < 2:
            continue
        root = told.root(conf)
        for node, begin, end, row in group:
            wanted = set()
            for other, first, last, entered in group:
                for each in told.trace.wide.rows[other][first:last]:
                    place = told.place(str(each.msg), root) if each.kind == "deliver" and each.conf == conf else None
                    if place is not None and told.ordered(str(each.msg)) and place > tuple(entered.ts or ()):
                        wanted.add((str(each.msg), place))
            for msg, place in wanted:
                if place > tuple(row.ts or ()) and told.is_for(msg, node.partition("/")[0]):
                    cases += 1
                    mine = told.trace.wide.rows[node]
                    there = any(e.kind == "deliver" and e.msg == msg and e.conf == conf for e in mine[begin:end])
                    if not there:
                        lacking.append(((node, row.inc), msg))
    return cases, lacking


def agree(told: Told) -> tuple[int, int]:
    cases, lacking = _agreement(told)
    return cases, len(lacking)


def self_delivery(told: Told) -> tuple[int, int]:
    _, lacking = _agreement(told)
    cases = bad = 0
    for msg, (node, at, row) in told.sends.items():
        life = (node, row.inc)
        mine = told.trace.wide.rows[node]
        regular = [
            (i, each.conf)
            for i, each in enumerate(mine)
            if each.kind == "conf" and each.inc == row.inc and told.kinds[str(each.conf)] == "regular"
        ]
        if not regular or regular[-1][0] < at or regular[-1][1] == row.conf:
            continue
        cases += 1
        if told.got(life, msg) is not None:
            continue
        fifo = row.service == "fifo"
        last = told.entries(node)[-1]
        stands = told.trace.domains.settled and last[3] == "end" and last[2].inc == row.inc
        later = any(
            each.kind == "send" and each.inc == row.inc and (each.service == "fifo") is fifo
            and told.sends[str(each.msg)][2] is each and told.got(life, str(each.msg)) is not None
            for each in mine[at + 1 :]
        )  # fmt: skip
        leg = told.leg(life, row.n)
        legs = len(told.legs(life)) - 1 - leg if leg is not None else 0
        bad += (stands and (fifo or told.has_gateway(node))) or later or (life, msg) in lacking or (fifo and legs > 1)
    return cases, bad


def _lacking_at(told: Told, level: str, msg: object) -> bool:
    """Did a member of a configuration in which it was delivered neither deliver it there nor fail there?"""
    trace = told.trace.levels[level]
    roots: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for site in sorted(trace.rows):
        for row in trace.rows[site]:
            if row.kind == "conf" and row.conf_kind != "hidden":
                roots.setdefault(str(row.conf), str(row.reg if row.conf_kind == "transitional" else row.conf))
                members.setdefault(str(row.conf), list(row.members or ()))
    for site in trace.rows:
        for row in trace.rows[site]:
            if row.kind != "deliver" or row.msg != msg:
                continue
            root = roots[str(row.conf)]
            for member in members[str(row.conf)]:
                mine = trace.rows[member]
                had = any(e.kind == "deliver" and e.msg == msg and roots[str(e.conf)] == root for e in mine)
                ends = [e for e in mine if e.kind in ("conf", "fail", "stop") and e.conf_kind != "hidden"]
                failed = any(
                    e.kind == "conf"
                    and roots[str(e.conf)] == root
                    and (k + 1 < len(ends) and ends[k + 1].kind != "conf")
                    for k, e in enumerate(ends)
                )
                still = bool(ends) and ends[-1].kind == "conf" and roots[str(ends[-1].conf)] == root
                down = member in trace.run.down
                if not had and not failed and not (still and (down or not trace.run.settled)):
                    return True
    return False


def _naming(told: Told, kind: str, domain: str, msg: str) -> set[object]:
    rows = [row for node, _, row in told.of(kind) if node.startswith(f"{domain}/")]
    return {row.msg for row in rows if msg in (row.members or ())}


def safe(told: Told) -> tuple[int, int]:
    cases = bad = 0
    for node, _, row in told.of("deliver"):
        msg = str(row.msg)
        if told.service(msg) != "safe":
            continue
        cases += 1
        here = node.partition("/")[0]
        sender = told.sender(msg)
        origin = sender.partition("/")[0] if sender is not None else here
        out = _naming(told, "cross", origin, msg)
        into = _naming(told, "in", here, msg)
        bad += any(_lacking_at(told, origin, each) for each in out) or any(
            _lacking_at(told, "world", each) for each in into
        )
    return cases, bad


def first(told: Told) -> tuple[int, int]:
    cases = bad = 0
    for node, _, row in told.of("cross"):
        cases += 1
        domain, _, site = node.partition("/")
        level = told.trace.levels[domain].rows
        safe = [
            e for name in sorted(level) for e in level[name]
            if e.kind == "deliver" and e.msg == row.msg and e.service == "safe"
        ]  # fmt: skip
        if any(e.node == site and e.n < row.n for e in safe):
            continue
        sends = [e for name in sorted(level) for e in level[name] if e.kind == "send" and e.msg == row.msg]
        at = [e for e in told.local(node) if e.kind == "conf" and e.n < row.n]
        there = bool(at and sends) and (at[-1].reg if at[-1].conf_kind == "transitional" else at[-1].conf) == (
            sends[0].conf if sends else None
        )
        bad += not safe or there
    return cases, bad


def rep(told: Told) -> tuple[int, int]:
    cases = bad = 0
    terms: dict[tuple[str, Any, Any], object] = {}
    for node, _, row in told.of("rep"):
        cases += 1
        bad += terms.setdefault((node.partition("/")[0], row.conf, row.view), row.sender) != row.sender
    for node, _, row in told.of("cross", "in"):
        cases += 1
        bad += terms.get((node.partition("/")[0], row.conf, row.view)) != node
    return cases, bad


def views(told: Told) -> tuple[int, int]:
    rows = [(node.partition("/")[0], row) for node, _, row in told.of("view")]

    def heard(domain: str, group: object) -> list[str]:
        return [each for each in told.tree.leaves if told.tree.passes(str(group), each, domain)]

    bad = 0
    for home, row in rows:
        lowest = next(
            other
            for domain, other in rows
            if (other.conf, other.group, other.ts) == (row.conf, row.group, row.ts)
            and heard(domain, row.group) == heard(home, row.group)
        )
        bad += sorted(lowest.members or ()) != sorted(row.members or ())
    return len(rows), bad


def lost(told: Told) -> tuple[int, int]:
    cases = bad = 0
    for node, _, row in told.of("lost"):
        cases += 1
        domain, _, site = str(row.sender).partition("/")
        if domain not in told.tree.leaves or site not in told.tree.domains[domain].nodes:
            bad += 1
            continue
        level = told.trace.levels[domain]
        entered = [
            (name, i, e) for name in sorted(level.rows) for i, e in enumerate(level.rows[name])
            if e.kind == "conf" and e.conf == row.reg and e.conf_kind != "hidden"
        ]  # fmt: skip
        members = list(entered[0][2].members or ()) if entered else []
        met = any(
            e.kind == "conf" and site in (e.members or ()) and e.conf_kind != "hidden"
            for name, i, _ in entered
            for e in level.rows[name][:i]
        )
        home, _, here = node.partition("/")
        early = home == domain and here in members and not any(n == here and e.n < row.n for n, _, e in entered)
        bad += (
            not entered or entered[0][2].conf_kind != "regular" or site in members
            or 2 * len(members) <= len(level.run.nodes) or not met or early
        )  # fmt: skip
    return cases, bad


def live(told: Told) -> tuple[int, int]:
    if not told.trace.domains.settled:
        return 0, 0
    ends: dict[str, Row] = {}
    for node in told.nodes:
        entries = told.entries(node)
        if entries and entries[-1][3] == "end":
            ends[node] = entries[-1][2]
    cases = bad = 0
    for msg in sorted({*told.sends, *told.firsts}):
        sending = told.sends.get(msg)
        for node, entry in ends.items():
            conf = str(entry.conf)
            if told.kinds[conf] != "regular":
                continue
            placed = told.ordered(msg) and told.place(msg, conf) is not None
            if not placed:
                if sending is None or sending[2].conf != conf:
                    continue
                if told.ordered(msg) or not any(where == conf for where, _ in told.crossings(msg)):
                    last = ends.get(sending[0])
                    if last is None or (last.inc, last.conf) != (sending[2].inc, conf):
                        continue
                    if told.service(msg) != "fifo" and not told.has_gateway(sending[0]):
                        continue
            if told.must_have((node, entry.inc), entry, None, msg):
                cases += 1
                bad += told.got((node, entry.inc), msg) is None
    return cases, bad


NEED_AN_ORDER = ("wide.fifo", "wide.causal")
ORACLES: dict[str, Oracle] = {
    "wide.once": once,
    "wide.pass": passing,
    "wide.fifo": lambda told: _causal(told, fifo=True),
    "wide.causal": lambda told: _causal(told, fifo=False),
    "wide.order": order,
    "wide.agree": agree,
    "wide.self": self_delivery,
    "wide.safe": safe,
    "wide.first": first,
    "wide.rep": rep,
    "wide.views": views,
    "wide.lost": lost,
    "live.wide": live,
}
