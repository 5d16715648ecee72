"""What the Spark engine gathers of one run's messages, and what follows from it: the ground of all proofs.

A *pattern* stands for messages that fared alike: sent by the same node, in the same regular configuration, with the
same service, and delivered by the same nodes. There are few patterns, however many messages there are.

Where something basic is wrong, what is known of nodes and configurations can't be relied on, and the run is
*unclear*: an event outside its configuration, configurations on which nodes differ, a message whose rows differ, too
many patterns. Then nothing that needs patterns is proven.

Why the proofs hold, given that what is basic is right: each event lies in its node's configuration (2.2), each
delivered message was sent once, in the regular configuration of where it is delivered, its *root* (1.3, 1.4).

**Causes (5).** At a sending, count by sender the messages that its node has delivered in the root. If every
delivery's index among its node's deliveries of that sender is the message's index among the sender's sendings, then
what a node has delivered of a sender is its first so many messages. If, too, at every delivery its node's counts
reach those at the sending, then everything that the sender had delivered was delivered before it; and what had led
to that, in the same way, was delivered before that. The counts at a sending are all that precedes it, if what
precedes what has no cycle (below): where that is not proven, this is not either.

**Logical time (6.1, 6.2).** An event's time is, from left to right: its root's place in an order in which all nodes
went through the roots; the highest timestamp that its node has delivered in the root, at or before it; whether it
lies in the transitional configuration; how many messages its node has sent and delivered in the root. An ordered
message's delivery has no more than the first two, and stands before all else that has the same. A transitional
configuration has the highest timestamp of all nodes that enter it, and so has what follows until one above it is
delivered. Along a file this never goes back: timestamps grow (`to.order`), also from a regular configuration to
what is delivered after it, which is looked at. The enterings of a configuration have one time, and the deliveries
of an ordered message have one time (`to.same`). From a sending to a delivery it does not go back, since whatever
its sender had delivered, the highest timestamp too, was delivered before it (5). So all events of a cycle would
have one time. None of them is of several nodes: what follows such an event in a file is later. So the cycle goes on
from a delivery at one node to a sending of the same, and that has sent one message more: its time is later. There
is no cycle. Fifo messages have no part in this.

**What precedes what (1.1, 2.3, 2.4).** Where no fifo message is delivered by others than its sender, the same proof
holds: these graphs are parts of that one. Else the clocks are asked: if they never go back along a file, and can be
set, each by one amount in each regular configuration, so that every sending is before the deliveries of others in
the same, then configuration and clock are such a time. Clocks are not trusted: where they can't be set so, they
prove nothing, and the run is judged.

**Timestamps above their causes (`to.causal`).** In one root, each node that delivered a message had delivered all
that precedes it (5), in the order of timestamps. Across roots: every timestamp of a root is above all those of the
roots that any node came from.

**Holes (6.3).** Some node delivered one message before another, so its timestamp is lower (`to.order`). So a node
that lacks it is suspect only if it delivered one of a higher timestamp, in a configuration that holds the sender.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, wraps

from reconvene.verify.check import Check, Proof
from reconvene.verify.codes import AGREED, FIFO
from reconvene.verify.counts import EvsCounts
from reconvene.verify.evs.clocks import Leads, can_be_set
from reconvene.verify.evs.ways import Row, Ways

__all__ = ["MARKS", "MOST_PATTERNS", "SUMS", "WORD", "EvsCheck", "EvsPatterns", "Pattern", "where_clear"]

MOST_PATTERNS = 100_000
"""Patterns of one run that are looked at. A run with more is unclear."""

WORD = 62
"""Nodes in one word of a set of nodes."""

MARKS = ("unnumbered", "backwards", "outside", "stray", "successors", "disordered")
"""What a file shows of a row. unnumbered: its `n` does not grow. backwards: its clock goes back. outside: it is a
sending or delivery outside the node's configuration. stray: it is outside of its incarnation, by rows of several
layers. successors: it is a delivery with a timestamp, and not the node's first such; disordered: and its timestamp is
not above the one before."""

SUMS = (
    "sends", "sent", "deliveries", "caused", "several", "marked", "stamping", "stamped", "strange", "blurred",
    "early", "resent", "again", "uncausal", "crossing", "unlike", "unstamped", "long", *MARKS,
)  # fmt: skip
"""Sums over the messages of a pattern. How many: sendings, messages that were sent, deliveries, deliveries of ones
that were sent; ordered messages with several deliveries; messages that were sent and have a timestamp; pairs of a
message and a timestamp, or the lack of one; deliveries with a timestamp.

And what is wrong. strange: deliveries of messages that were not sent so. blurred: messages whose rows differ in
sender, service or regular configuration. early: delivered by the sender before it sent them. resent, again: sent,
or delivered by one node, more than once. uncausal: deliveries before which something was not delivered. crossing:
fifo messages that others deliver, which nothing but clocks place. unlike: messages with several timestamps.
unstamped: ordered deliveries without one. long: messages whose timestamp has too many numbers. And how many rows
have each of MARKS."""

_SENDS, _SENT, _DELIVERIES = (SUMS.index(name) for name in ("sends", "sent", "deliveries"))

Stamp = list[int]


class Pattern:
    """Messages that fared alike."""

    __slots__ = (
        "by", "confs", "first", "last", "late", "messages", "regular", "root", "row", "sender", "sends", "sent",
        "service",
    )  # fmt: skip

    def __init__(self, row: Row, ways: Ways) -> None:
        self.row = row
        self.root: int = row["root"]
        self.sender, self.service = divmod(row["origin"], 4)
        self.regular = _nodes(row["regular"])
        """The nodes that delivered them in the root, and …"""
        self.late = _nodes(row["late"])
        """… those that did in the transitional configuration after it."""
        self.by = self.regular | self.late
        self.messages: int = row["messages"]
        self.sends: int = row["sums"][_SENDS]
        self.sent: int = row["sums"][_SENT]
        self.first: Stamp | None = row["first"]
        self.last: Stamp | None = row["last"]
        self.confs = {self.root: self.regular} if self.regular else {}
        """By configuration, the nodes that delivered the messages there."""
        for node in self.late:
            conf = ways.late[node, self.root]
            self.confs[conf] = self.confs.get(conf, frozenset()) | {node}


def _nodes(words: Iterable[int]) -> frozenset[int]:
    return frozenset(
        WORD * index + bit for index, word in enumerate(words) if word for bit in range(WORD) if word >> bit & 1
    )


class EvsPatterns:
    """One run. Given: rows of the tables PATTERN, WAY, CONFS and ENDS."""

    def __init__(
        self, patterns: Sequence[Row], ways: Iterable[Row], confs: Iterable[Row], ends: Iterable[Row]
    ) -> None:
        self.confs = {row["conf"]: row for row in confs}
        self.ends = {(row["node"], row["inc"]): row["root"] for row in ends}
        """By node and incarnation: the root of the last configuration that it entered."""
        self.ways = Ways(ways, self.confs)
        found = [row for row in patterns if row["stamp"] is None]
        self.shared_stamps = len(patterns) - len(found)
        """Timestamps that several messages have."""
        columns = zip(*(row["sums"] for row in found), strict=True)
        self.sums = {**dict.fromkeys(SUMS, 0), **dict(zip(SUMS, map(sum, columns), strict=False))}
        of_messages = [row for row in found if row["origin"] is not None]
        self.counts = self._count(of_messages)
        unknown = self.sums["blurred"] + self.sums["outside"] + self.ways.problems + self.ways.differ
        self.is_unclear = (
            unknown > 0
            or len(patterns) > MOST_PATTERNS
            or any(self.confs[row["root"]]["kind"] != "regular" for row in of_messages)
        )
        self.patterns = [] if self.is_unclear else [Pattern(row, self.ways) for row in of_messages]

    def _count(self, of_messages: Iterable[Row]) -> EvsCounts:
        ways, sums = self.ways, self.sums
        events = sums["sends"] + sums["deliveries"]
        fifo = ordered = 0
        for row in of_messages:
            if row["origin"] % 4 == FIFO:
                fifo += row["sums"][_SENDS] + row["sums"][_DELIVERIES]
            elif row["origin"] % 4 >= AGREED:
                ordered += row["sums"][_DELIVERIES]
        return EvsCounts(
            rows=ways.events + ways.hidden + ways.others + events,
            events=events,
            fifo=fifo,
            ordered=ordered,
            **{
                name: sums[name]
                for name in ("sends", "deliveries", "caused", "several", "stamped", "successors", "marked")
            },
        )

    # -- by timestamps and clocks

    @cached_property
    def once(self) -> bool:
        """Was every delivered message sent as its deliveries say, once, and delivered once by each node?"""
        return not (self.sums["strange"] or self.sums["resent"] or self.sums["again"])

    @cached_property
    def placed(self) -> bool:
        """Has each ordered message one timestamp, and do all nodes deliver in increasing ones?"""
        return not any(self.sums[name] for name in ("unlike", "unstamped", "disordered", "long"))

    @cached_property
    def stamped(self) -> list[Pattern]:
        return [pattern for pattern in self.patterns if pattern.first is not None]

    @cached_property
    def roots(self) -> list[int] | None:
        """The regular configurations in an order in which all nodes went through them, if there is one."""
        return self.ways.order()

    @cached_property
    def last(self) -> dict[tuple[int, int], Stamp]:
        """By node and configuration: the highest timestamp that the node delivered there."""
        found: dict[tuple[int, int], Stamp] = {}
        for pattern in self.stamped:
            assert pattern.last is not None
            for conf, by in pattern.confs.items():
                for node in by:
                    found[node, conf] = max(found.get((node, conf), []), pattern.last)
        return found

    @cached_property
    def is_orderly(self) -> bool:
        """What both proofs by timestamps stand on."""
        return self.placed and self.once and not self.sums["uncausal"] and self.roots is not None

    @cached_property
    def disordered_entries(self) -> list[Stamp]:
        """Timestamps that were delivered in a transitional configuration, and not after all that a node that entered
        it had delivered in the regular one; and those of these."""
        first: dict[int, Stamp] = {}
        for pattern in self.stamped:
            assert pattern.first is not None
            for conf in pattern.confs:
                if conf != pattern.root:
                    first[conf] = min(first.get(conf, pattern.first), pattern.first)
        return [
            stamp
            for (node, root), conf in self.ways.late.items()
            if conf in first and (node, root) in self.last and self.last[node, root] >= first[conf]
            for stamp in (self.last[node, root], first[conf])
        ]

    @cached_property
    def has_logical_time(self) -> bool:
        """6.1, 6.2: timestamps are one."""
        return self.is_orderly and not self.disordered_entries

    @cached_property
    def disordered_roots(self) -> list[Stamp]:
        """Timestamps of a configuration that are not above those of one that a node came from; and those of these."""
        lowest: dict[int, Stamp] = {}
        highest: dict[int, Stamp] = {}
        for pattern in self.stamped:
            assert pattern.first is not None
            assert pattern.last is not None
            lowest[pattern.root] = min(lowest.get(pattern.root, pattern.first), pattern.first)
            highest[pattern.root] = max(highest.get(pattern.root, []), pattern.last)
        past: dict[int, Stamp] = {}
        wrong: list[Stamp] = []
        for root in self.roots or ():
            if root in past and root in lowest and lowest[root] <= past[root]:
                wrong += [lowest[root], past[root]]
            here = [known[root] for known in (past, highest) if root in known]
            for following in self.ways.following(root) if here else ():
                past[following] = max(*here, past.get(following, []))
        return wrong

    @cached_property
    def has_causal_stamps(self) -> bool:
        """`to.causal`: of all that leads to a message, the timestamps are lower."""
        return self.is_orderly and not self.disordered_roots

    @cached_property
    def is_acyclic(self) -> bool:
        """1.1, 2.3, 2.4: no event precedes itself."""
        if self.has_logical_time and not self.sums["crossing"]:
            return True
        clear = not (self.sums["backwards"] or self.sums["early"] or self.sums["resent"])
        return self.roots is not None and clear and self._clocks_fit()

    def _clocks_fit(self) -> bool:
        """Can the nodes' clocks be set, in each regular configuration, so that all sendings are before the deliveries
        of others there?"""
        leads: dict[int, Leads] = {}
        for pattern in self.patterns:
            here = leads.setdefault(pattern.root, {})
            for node, lead in enumerate(pattern.row["leads"]):
                if lead is not None:
                    pair = pattern.sender, node
                    here[pair] = min(lead, here.get(pair, lead))
        return all(map(can_be_set, leads.values()))


EvsCheck = Check[EvsCounts, EvsPatterns]
Prove = Callable[[EvsPatterns, Proof], None]


def where_clear(prove: Prove) -> Prove:
    """Where the run is unclear nothing is proven."""

    @wraps(prove)
    def guarded(run: EvsPatterns, proof: Proof) -> None:
        if run.is_unclear:
            proof.doubt()
        else:
            prove(run, proof)

    return guarded
