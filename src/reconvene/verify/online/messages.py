"""Messages of the layer `evs` while their rows come in, and the patterns that they end as.

Given: the sendings and deliveries of all nodes, each node's in the order of its file, and which nodes are members of
each configuration. Promised: pattern rows as the Spark engine's tables hold them (`reconvene.verify.evs.patterns`),
of all messages so far; and that a message is kept only until all members of its configuration have delivered it, or
have left the configuration behind.

A message that is forgotten and shows up again looks like one that nobody sent, which no check calls right. So
forgetting can only make a proof fail. Timestamps of forgotten messages need not be kept: whoever delivered the
message delivers in increasing timestamps, or is a suspect of `to.order`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from reconvene.verify.codes import AGREED, FIFO
from reconvene.verify.evs.patterns import MARKS, SUMS, WORD
from reconvene.verify.evs.ways import Row
from reconvene.verify.online.sighting import MOST, Sighting, add_sighting

__all__ = ["STAMP", "Marks", "Message", "Messages"]

STAMP = 6
"""Numbers of a timestamp that are looked at. A longer one is not proven right."""

_WRONG = (
    "strange", "blurred", "resent", "again", "uncausal", "unlike", "unstamped", "long", "outside", "disordered",
)  # fmt: skip
"""What is true of no message of a right run."""
_INDEX = {name: index for index, name in enumerate(SUMS)}
_MARKED = [_INDEX[name] for name in MARKS]
Stamp = tuple[int, ...]
_Key = tuple[str | None, int | None, int, int]
Marks = list[str]


@dataclass(slots=True)
class Message:
    """What is known of one message that is not forgotten."""

    msg: str
    since: int
    """The pass in which its first row came."""
    node: str = ""
    n: int = 0
    """Its last row."""
    sends: int = 0
    deliveries: int = 0
    elsewhere: int = 0
    """Deliveries by others than the sender."""
    origins: set[int] = field(default_factory=set)
    roots: set[str | None] = field(default_factory=set)
    indices: set[int] = field(default_factory=set)
    sent_at: int = -1
    own_at: int = -1
    sent_t: int | None = None
    first_t: dict[int, int] = field(default_factory=dict)
    """By node that delivered it in the root, the sender left out: when."""
    asked: tuple[int, ...] = ()
    heard: list[int] = field(default_factory=list)
    regular: int = 0
    late: int = 0
    unstamped: int = 0
    stamped: int = 0
    stamps: set[Stamp] = field(default_factory=set)
    marks: list[str] = field(default_factory=list)
    resent: bool = False

    def sums(self) -> list[int]:
        """SUMS of this message alone."""
        found = [0] * len(SUMS)
        by = (self.regular | self.late).bit_count()
        service = min(self.origins) % 4 if self.origins else 0
        blurred = len(self.origins) > 1 or len(self.roots) > 1
        early = self.sends > 0 and -1 < self.own_at < self.sent_at
        delivered = self.deliveries > 0
        unheard = any(map(int.__lt__, self.heard, self.asked))
        uncausal = delivered and (len(self.indices) > 1 or unheard)
        strange = delivered and (not self.sends or blurred or early)
        counted = {
            "sends": self.sends,
            "sent": self.sends > 0,
            "deliveries": self.deliveries,
            "caused": self.deliveries if self.sends else 0,
            "several": service >= AGREED and self.deliveries > 1,
            "marked": self.sends > 0 and self.stamped > 0,
            "stamping": (self.stamped > 0) + (self.unstamped > 0),
            "stamped": self.stamped,
            "strange": self.deliveries if strange else 0,
            "blurred": blurred,
            "early": early,
            # One that nobody sent may be one that was forgotten.
            "resent": self.sends > 1 or self.resent,
            "again": self.deliveries > by or (delivered and not self.sends),
            "uncausal": self.deliveries if uncausal else 0,
            "crossing": service == FIFO and self.elsewhere > 0,
            "unlike": len(self.stamps) > 1,
            "unstamped": self.unstamped,
            "long": any(len(stamp) > STAMP for stamp in self.stamps),
        }
        for name, count in counted.items():
            found[_INDEX[name]] = int(count)
        for mark in self.marks:
            found[_INDEX[mark]] += 1
        return found

    def sighting(self) -> Sighting | None:
        """What is wrong with it, if anything is."""
        sums = self.sums()
        wrong = next((name for name in _WRONG if sums[_INDEX[name]]), None)
        return None if wrong is None else Sighting(wrong, self.node, self.n, f"message {self.msg}")


@dataclass(slots=True)
class _Pattern:
    messages: int = 0
    sums: list[int] = field(default_factory=lambda: [0] * len(SUMS))
    first: Stamp | None = None
    last: Stamp | None = None
    leads: dict[int, int] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        self.messages += 1
        self.sums = list(map(int.__add__, self.sums, message.sums()))
        if message.stamps:
            stamp = max(message.stamps)[:STAMP]
            self.first = stamp if self.first is None else min(self.first, stamp)
            self.last = stamp if self.last is None else max(self.last, stamp)
        if message.sent_t is not None:
            for node, t in message.first_t.items():
                lead = t - message.sent_t
                self.leads[node] = min(lead, self.leads.get(node, lead))

    def copy(self) -> "_Pattern":
        return _Pattern(self.messages, list(self.sums), self.first, self.last, dict(self.leads))

    def row(self, key: _Key, nodes: int) -> dict[str, object]:
        root, origin, regular, late = key
        return {
            "stamp": None,
            "root": root,
            "origin": origin,
            "regular": _words(regular, nodes),
            "late": _words(late, nodes),
            "messages": self.messages,
            "sums": self.sums,
            "first": None if self.first is None else list(self.first),
            "last": None if self.last is None else list(self.last),
            "leads": [self.leads.get(node) for node in range(nodes)],
        }


def _words(mask: int, nodes: int) -> list[int]:
    return [mask >> WORD * word & (1 << WORD) - 1 for word in range(-(-nodes // WORD))]


class Messages:
    """Of one run with so many nodes."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._closed: dict[_Key, _Pattern] = {}
        self._marked = [0] * len(SUMS)
        """Marks of rows that are about no message of this layer."""
        self._by_root: dict[str | None, dict[str, Message]] = {}
        self._root_of: dict[str, str | None] = {}
        self._members: dict[str, int] = {}
        """Of each regular configuration with open messages to come: its members, as a set of bits."""
        self._owner: dict[Stamp, str] = {}
        """The message of each timestamp, of those that are kept."""
        self._shared: set[Stamp] = set()
        self._seen: list[Sighting] = []

    def __len__(self) -> int:
        """How many messages are kept."""
        return len(self._root_of)

    @property
    def patterns(self) -> int:
        return len(self._closed)

    @property
    def stamps(self) -> int:
        return len(self._owner)

    def declare(self, root: str, members: int) -> None:
        """A regular configuration, as the first row about it describes it."""
        self._members.setdefault(root, members)

    def mark(self, marks: Marks, node: str, n: int, what: str) -> None:
        """A row that is about no message of this layer."""
        for name in marks:
            self._marked[_INDEX[name]] += 1
            if name != "backwards":  # clocks may go back
                add_sighting(self._seen, Sighting(name, node, n, what))

    def at(self, msg: str, root: str | None, now: int) -> Message:
        """The message, kept from now on if it was not."""
        if msg in self._root_of:
            return self._by_root[self._root_of[msg]][msg]
        self._root_of[msg] = root
        message = self._by_root.setdefault(root, {})[msg] = Message(msg, now)
        return message

    def stamp(self, msg: str, message: Message, stamp: Stamp) -> None:
        if stamp not in message.stamps:
            message.stamps.add(stamp)
            if self._owner.setdefault(stamp, msg) != msg:
                self._shared.add(stamp)

    def settle(self, msg: str, message: Message) -> None:
        """Forgets the message if it was sent, and delivered by all members of its configuration."""
        root = self._root_of[msg]
        if root is None or not message.sends:
            return
        members = self._members.get(root, 0)
        if members and not members & ~(message.regular | message.late):
            self._fold(msg, message)
            for stamp in message.stamps:
                if self._owner.get(stamp) == msg:
                    del self._owner[stamp]

    def leave(self, root: str) -> None:
        """All members have left this configuration behind: its messages are as they will stay."""
        for msg, message in list(self._by_root.get(root, {}).items()):
            if message.sends:  # what nobody sent yet may be the fault of a file that is behind
                self._fold(msg, message)

    def roots(self) -> Iterator[str]:
        """The configurations with messages that are kept."""
        return (root for root in list(self._by_root) if root is not None)

    def members(self, root: str) -> int:
        return self._members.get(root, 0)

    def _fold(self, msg: str, message: Message) -> None:
        root = self._root_of.pop(msg)
        kept = self._by_root[root]
        del kept[msg]
        if not kept:
            del self._by_root[root]
        self._closed.setdefault(_key(root, message), _Pattern()).add(message)
        if len(self._seen) < MOST and (wrong := message.sighting()) is not None:
            self._seen.append(wrong)

    def sightings(self, before: int) -> list[Sighting]:
        """The first rows with which something is wrong, those left out that another file may yet explain."""
        found = list(self._seen)
        for messages in self._by_root.values():
            for message in messages.values():
                if len(found) >= MOST:
                    return found
                if (message.sends or message.since < before) and (wrong := message.sighting()) is not None:
                    found.append(wrong)
        return found

    def rows(self, before: int | None = None) -> list[Row]:
        """Pattern rows of all messages. `before`: but those that nobody sent and whose first row came in that pass or
        later, since the sender's file may be behind."""
        found = dict(self._closed)
        opened: set[_Key] = set()
        for root, messages in self._by_root.items():
            for message in messages.values():
                if before is not None and not message.sends and message.since >= before:
                    continue
                key = _key(root, message)
                if key not in opened:
                    opened.add(key)
                    found[key] = found[key].copy() if key in found else _Pattern()
                found[key].add(message)
        marked = _Pattern(0, self._marked).row((None, None, 0, 0), self._nodes)
        rows: list[Row] = [marked, *(pattern.row(key, self._nodes) for key, pattern in found.items())]
        shared = len(self._shared) + _overlapping(found)
        return rows + [{**marked, "stamp": number} for number in range(shared)]


def _key(root: str | None, message: Message) -> _Key:
    return root, min(message.origins, default=None), message.regular, message.late


def _overlapping(patterns: dict[_Key, _Pattern]) -> int:
    """How many configurations have timestamps below the highest one of another: there one may be of two messages."""
    spans: dict[str | None, tuple[Stamp, Stamp]] = {}
    for (root, *_), pattern in patterns.items():
        if pattern.first is not None and pattern.last is not None:
            first, last = spans.get(root, (pattern.first, pattern.last))
            spans[root] = min(first, pattern.first), max(last, pattern.last)
    count, highest = 0, None
    for first, last in sorted(spans.values()):
        count += highest is not None and first <= highest
        highest = last if highest is None else max(highest, last)
    return count
