"""Of one run, from its few patterns, configurations and ways: every check's cases and suspects.

Where something basic is wrong (an event outside its configuration, configurations on which nodes differ, a message
whose rows differ), what is told of nodes and configurations can't be relied on: then every check that needs it has
a suspect.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconvene.pipeline.verify.coded import SERVICES
from reconvene.pipeline.verify.evs.clocks import Leads, can_be_set
from reconvene.pipeline.verify.evs.messages import WORD
from reconvene.pipeline.verify.evs.patterns import SUMS
from reconvene.pipeline.verify.evs.ways import Ways

__all__ = ["CHECKS", "MOST_PATTERNS", "Conclusion"]

MOST_PATTERNS = 100_000
"""Patterns of one run that are looked at. A run with more is not proven right."""

_GRAPHS = ("evs.1.1", "evs.2.3", "evs.2.4")
_BY_NODES = ("evs.3", "evs.4", "evs.6.3", "evs.7.1", "evs.7.2", "live.delivery")
_BY_CAUSES = ("evs.5", "evs.6.1", "evs.6.2", "to.causal")
_OF_MESSAGES = ("evs.1.3", "evs.1.4")
CHECKS = (
    "evs.1.2", "evs.2.2", "to.unique", "to.same", "to.order", *_OF_MESSAGES, *_GRAPHS, *_BY_NODES, *_BY_CAUSES,
)  # fmt: skip

_FIFO, _AGREED, _SAFE = SERVICES["fifo"], SERVICES["agreed"], SERVICES["safe"]

_SENDS, _SENT, _DELIVERIES = (SUMS.index(name) for name in ("sends", "sent", "deliveries"))

Row = Mapping[str, Any]
Stamp = list[int]


class _Pattern:
    __slots__ = (
        "by",
        "first",
        "last",
        "late",
        "messages",
        "places",
        "regular",
        "root",
        "row",
        "sender",
        "sends",
        "service",
    )

    def __init__(self, row: Row, ways: Ways) -> None:
        self.row = row
        self.root: int = row["root"]
        self.sender, self.service = divmod(row["origin"], 4)
        self.regular = _nodes(row["regular"])
        self.late = _nodes(row["late"])
        self.by = self.regular | self.late
        self.messages: int = row["messages"]
        self.sends: int = row["sums"][_SENDS]
        self.first: Stamp | None = row["first"]
        self.last: Stamp | None = row["last"]
        self.places = {self.root: self.regular} if self.regular else {}
        """By configuration, who delivered the messages there."""
        for node in self.late:
            conf = ways.late[node, self.root]
            self.places[conf] = self.places.get(conf, frozenset()) | {node}


def _nodes(words: Iterable[int]) -> frozenset[int]:
    return frozenset(
        WORD * index + bit for index, word in enumerate(words) if word for bit in range(WORD) if word >> bit & 1
    )


class Conclusion:
    """What is found of a run. Given: rows of PATTERN, WAY, CONFS and ENDS."""

    def __init__(
        self, patterns: Sequence[Row], ways: Iterable[Row], confs: Iterable[Row], ends: Iterable[Row]
    ) -> None:
        self.cases = dict.fromkeys(CHECKS, 0)
        self.suspects = dict.fromkeys(CHECKS, 0)
        self.patterns: list[tuple[str, Row]] = []
        """Of checks, the patterns of messages that are suspect."""
        self.stamps: list[tuple[str, Stamp]] = []
        """Of checks, the timestamps of messages that show what is wrong."""
        self._confs = {row["conf"]: row for row in confs}
        self._ends = {(row["node"], row["inc"]): row["root"] for row in ends}
        self._ways = Ways(ways, self._confs)
        told = [row for row in patterns if row["stamp"] is None]
        columns = zip(*(row["sums"] for row in told), strict=True)
        self._sums = {**dict.fromkeys(SUMS, 0), **dict(zip(SUMS, map(sum, columns), strict=False))}
        of_messages = [row for row in told if row["origin"] is not None]
        self._count(of_messages)
        self._add("to.unique", suspects=len(patterns) - len(told))
        self._patterns: list[_Pattern] = []
        unknown = self._sums["blurred"] + self._sums["outside"] + self._ways.problems + self._ways.differ
        if (
            unknown
            or len(patterns) > MOST_PATTERNS
            or any(self._confs[row["root"]]["kind"] != "regular" for row in of_messages)
        ):
            self._doubt(*_OF_MESSAGES, *_GRAPHS, *_BY_NODES, *_BY_CAUSES)
            return
        self._patterns = [_Pattern(row, self._ways) for row in of_messages]
        self._check_nodes()
        self._check_order()

    def _add(self, check: str, cases: int = 0, suspects: int = 0, pattern: _Pattern | None = None) -> None:
        self.cases[check] += cases
        self.suspects[check] += suspects
        if suspects and pattern is not None:
            self.patterns.append((check, pattern.row))

    def _doubt(self, *checks: str) -> None:
        for check in checks:
            self.suspects[check] = max(1, self.suspects[check])

    def _count(self, told: Iterable[Row]) -> None:
        """What is decided for each row or message by itself, and the cases of what is a row or a message."""
        ways, sums = self._ways, self._sums
        messages = sums["sends"] + sums["deliveries"]
        fifo = ordered = 0
        for row in told:
            if row["origin"] % 4 == _FIFO:
                fifo += row["sums"][_SENDS] + row["sums"][_DELIVERIES]
            elif row["origin"] % 4 >= _AGREED:
                ordered += row["sums"][_DELIVERIES]
        self._add("evs.1.1", ways.events + messages)
        self._add("evs.1.2", ways.events + ways.hidden + ways.others + messages, sums["unnumbered"])
        self._add("evs.1.3", sums["deliveries"], sums["strange"])
        self._add("evs.1.4", messages, sums["resent"] + sums["again"])
        moving = ways.problems + sums["outside"] + sums["stray"]
        self._add("evs.2.2", ways.events + ways.hidden + ways.others + messages, moving)
        self._add("evs.5", sums["caused"], sums["uncausal"])
        self._add("evs.6.1", ways.events + messages - fifo)
        self._add("evs.6.2", sums["several"])
        self._add("evs.6.3", ordered)
        self._add("to.unique", sums["stamping"], sums["unstamped"] + sums["unlike"])
        self._add("to.same", sums["stamped"], sums["unlike"])
        self._add("to.order", sums["stamps"], sums["disordered"])
        self._add("to.causal", sums["marked"])

    # -- by nodes and configurations

    def _check_nodes(self) -> None:
        safe: dict[int, _Pattern] = {}
        for pattern in self._patterns:
            self._check_sent(pattern)
            self._check_atomic(pattern)
            if pattern.service == _SAFE:
                self._check_safe(pattern)
                if pattern.regular:
                    safe[pattern.root] = pattern
        for root, pattern in safe.items():
            conf = self._confs[root]
            self._add("evs.7.2", len(conf["members"]), len(conf["absent"]), pattern)

    def _check_sent(self, pattern: _Pattern) -> None:
        if not pattern.sends:
            return
        conf = self._confs[pattern.root]
        end = self._ends[pattern.sender, self._ways.inc[pattern.sender, pattern.root]]
        if end != pattern.root:
            self._add("evs.3", pattern.sends, 0 if pattern.sender in pattern.by else pattern.sends, pattern)
        if conf["final"]:
            lacking = sum(member not in pattern.regular for member in conf["members"])
            sent = pattern.row["sums"][_SENT]
            self._add("live.delivery", sent * len(conf["members"]), sent * lacking, pattern)

    def _check_atomic(self, pattern: _Pattern) -> None:
        for conf, by in pattern.places.items():
            for group in self._confs[conf]["groups"]:
                if not by.isdisjoint(group):
                    lacking = sum(node not in by for node in group)
                    self._add("evs.4", pattern.messages * len(group), pattern.messages * lacking, pattern)

    def _check_safe(self, pattern: _Pattern) -> None:
        for place in pattern.places:
            conf = self._confs[place]
            lacking = sum(member not in pattern.by for member in conf["accountable"])
            self._add("evs.7.1", pattern.messages * len(conf["members"]), pattern.messages * lacking, pattern)

    # -- by timestamps and clocks

    def _check_order(self) -> None:
        sums, roots = self._sums, self._ways.order()
        stamped = [pattern for pattern in self._patterns if pattern.first is not None]
        unplaced = sums["unlike"] + sums["unstamped"] + sums["disordered"] + sums["long"]
        last = self._last(stamped)
        if unplaced:
            self._doubt("evs.6.3")
        else:
            self._find_holes(stamped, last)
        total = not (unplaced or sums["strange"] or sums["resent"] or sums["again"] or sums["uncausal"])
        if not (total and roots is not None and self._in_layers(stamped, roots)):
            self._doubt("to.causal")
        if not (total and roots is not None and self._entered_in_order(stamped, last)):
            total = False
            self._doubt("evs.6.1", "evs.6.2")
        if sums["strange"] or sums["resent"] or sums["again"]:
            self._doubt("evs.5")
        by_order = total and not sums["crossing"]
        clear = roots is not None and not (sums["backwards"] or sums["early"] or sums["resent"])
        if not (by_order or (clear and self._clocks_fit())):
            self._doubt(*_GRAPHS, "evs.5", "to.causal")

    def _clocks_fit(self) -> bool:
        """Can the nodes' clocks be set, in each regular configuration, so that all sendings are before the deliveries
        of others there?"""
        leads: dict[int, Leads] = {}
        for pattern in self._patterns:
            here = leads.setdefault(pattern.root, {})
            for node, lead in enumerate(pattern.row["leads"]):
                if lead is not None:
                    pair = pattern.sender, node
                    here[pair] = min(lead, here.get(pair, lead))
        return all(map(can_be_set, leads.values()))

    def _last(self, stamped: Iterable[_Pattern]) -> dict[tuple[int, int], Stamp]:
        """By node and configuration: the highest timestamp that the node delivered there."""
        found: dict[tuple[int, int], Stamp] = {}
        for pattern in stamped:
            assert pattern.last is not None
            for conf, by in pattern.places.items():
                for node in by:
                    found[node, conf] = max(found.get((node, conf), []), pattern.last)
        return found

    def _find_holes(self, stamped: Iterable[_Pattern], last: Mapping[tuple[int, int], Stamp]) -> None:
        """6.3: some node delivered none of these messages, but a later one, in a configuration that holds the
        sender."""
        by_root: dict[int, dict[int, list[tuple[Row, Stamp]]]] = {}
        for (node, conf), stamp in last.items():
            told = self._confs[conf]
            by_root.setdefault(told["root"], {}).setdefault(node, []).append((told, stamp))
        for pattern in stamped:
            if not pattern.sends:
                continue
            assert pattern.first is not None
            for node, delivered in by_root[pattern.root].items():
                if node in pattern.by:
                    continue
                later = [
                    stamp for conf, stamp in delivered if pattern.sender in conf["members"] and stamp > pattern.first
                ]
                if later:
                    self._add("evs.6.3", suspects=1, pattern=pattern)
                    self.stamps += [("evs.6.3", pattern.first), *(("evs.6.3", stamp) for stamp in later)]

    def _entered_in_order(self, stamped: Iterable[_Pattern], last: Mapping[tuple[int, int], Stamp]) -> bool:
        """Is what is delivered in a transitional configuration after all that those who entered it had delivered in
        the regular one?"""
        first: dict[int, Stamp] = {}
        for pattern in stamped:
            assert pattern.first is not None
            for conf in pattern.places:
                if conf != pattern.root:
                    first[conf] = min(first.get(conf, pattern.first), pattern.first)
        wrong = [
            (last[node, root], first[conf])
            for (node, root), conf in self._ways.late.items()
            if conf in first and (node, root) in last and last[node, root] >= first[conf]
        ]
        self.stamps += [(check, stamp) for pair in wrong for stamp in pair for check in ("evs.6.1", "evs.6.2")]
        return not wrong

    def _in_layers(self, stamped: Iterable[_Pattern], roots: Iterable[int]) -> bool:
        """Is every timestamp of a configuration above all those of the configurations that anyone came from?"""
        lowest: dict[int, Stamp] = {}
        highest: dict[int, Stamp] = {}
        for pattern in stamped:
            assert pattern.first is not None
            assert pattern.last is not None
            lowest[pattern.root] = min(lowest.get(pattern.root, pattern.first), pattern.first)
            highest[pattern.root] = max(highest.get(pattern.root, []), pattern.last)
        past: dict[int, Stamp] = {}
        right = True
        for root in roots:
            if root in past and root in lowest and lowest[root] <= past[root]:
                self.stamps += [("to.causal", lowest[root]), ("to.causal", past[root])]
                right = False
            here = [told[root] for told in (past, highest) if root in told]
            for following in self._ways.following(root) if here else ():
                past[following] = max(*here, past.get(following, []))
        return right
