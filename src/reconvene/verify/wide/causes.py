"""Fifo and causal order: what precedes a message in its wide configuration is delivered before it.

Within one wide configuration, the messages of one life that precede another message are always its first so many. So
what precedes a message is a vector of counts, one for each life. Unlike in a cluster, a site need not get all of
them: each one that it lacks is asked for once whether the site had to have it. Whether it had to can only go from yes
to no as the site goes on, so what was excused once stays so.
"""

from dataclasses import dataclass, field

from reconvene.verify.codes import DELIVER, FIFO, NONE, SEND
from reconvene.verify.precedes import Graph, walk
from reconvene.verify.wide.accountable import Accountable
from reconvene.verify.wide.judged import Findings, WideCheck, judged
from reconvene.verify.wide_history import Entry, Life, WideHistory

__all__ = ["CHECKS"]

Past = dict[Life, int]


@dataclass(slots=True)
class _Seen:
    """What one life has delivered of one wide configuration's messages."""

    known: Past = field(default_factory=dict)
    """What precedes its next sending: how many of each life's messages."""
    through: Past = field(default_factory=dict)
    """How many of each life's were asked for."""
    missing: list[tuple[Life, int]] = field(default_factory=list)
    """Those that it lacks and had to have: life and index."""


class _Causality:
    """Goes through a run's events, each sending before its deliveries."""

    def __init__(self, wide: WideHistory, found: Findings, fifo: bool) -> None:
        self.wide = wide
        self.found = found
        self.fifo = fifo
        self.accountable = wide.once(Accountable)
        self.sends: dict[tuple[Life, int], list[int]] = {}
        """By life and wide configuration: its messages there, in their order."""
        self.past: dict[int, Past] = {}
        """Of each message sent, what precedes it, itself included."""
        self.index: dict[int, int] = {}
        self.seen: dict[tuple[Life, int], _Seen] = {}
        self.delivered: dict[Life, set[int]] = {}

    def run(self) -> None:
        wide = self.wide
        for event in wide.once(_schedule):
            message = wide.msg[event]
            if message == NONE or (wide.msg_service[message] == FIFO) is not self.fifo:
                continue
            if wide.kind[event] == SEND and wide.sent[message] == event:
                self._send(event, message)
            elif wide.kind[event] == DELIVER:
                self._deliver(event, message)

    def _send(self, event: int, message: int) -> None:
        life, conf = self.wide.life(event), self.wide.conf[event]
        sent = self.sends.setdefault((life, conf), [])
        sent.append(message)
        known = self.seen.setdefault((life, conf), _Seen()).known
        known[life] = self.index[message] = len(sent)
        self.past[message] = {life: len(sent)} if self.fifo else known.copy()

    def _deliver(self, event: int, message: int) -> None:
        wide, life = self.wide, self.wide.life(event)
        past = self.past.get(message)
        conf = wide.told[message].conf
        entry = wide.entry_of[event]
        if past is not None:
            seen = self.seen.setdefault((life, conf), _Seen())
            if wide.root(event) == conf:
                self.found.case()
                # A delivery that names another configuration than its node is in is in no time of it.
                if entry is not None and wide.confs[entry.conf].root == conf:
                    self._judge(event, message, past, seen, entry)
            if not self.fifo:
                for other, count in past.items():
                    if seen.known.get(other, 0) < count:
                        seen.known[other] = count
        self.delivered.setdefault(life, set()).add(message)

    def _judge(self, event: int, message: int, past: Past, seen: _Seen, entry: Entry) -> None:
        life, conf = self.wide.life(event), self.wide.told[message].conf
        have = self.delivered.setdefault(life, set())
        for other, count in past.items():
            before = seen.through.get(other, 0)
            if count > before:
                seen.through[other] = count
                sent = self.sends[other, conf]
                seen.missing += [
                    (other, index + 1)
                    for index in range(before, count)
                    if sent[index] not in have and sent[index] != message
                ]
        if seen.missing:
            self._look(event, message, past, seen, entry)

    def _look(self, event: int, message: int, past: Past, seen: _Seen, entry: Entry) -> None:
        """Is any of what is missing asked for by this delivery?"""
        wide, life = self.wide, self.wide.life(event)
        have, got, conf = self.delivered[life], wide.got[life], wide.told[message].conf
        left: list[tuple[Life, int]] = []
        culprit = NONE
        for other, index in seen.missing:
            lacking = self.sends[other, conf][index - 1]
            if lacking in have or lacking == message:
                continue
            # What the site delivers later on in this configuration it certainly had to deliver before.
            is_late = lacking in got and wide.root(got[lacking]) == conf
            if not is_late and not self.accountable.must_have(life, entry, wide.rows[event].n, lacking):
                continue
            left.append((other, index))
            if culprit == NONE and index <= past.get(other, 0):
                culprit = lacking
        seen.missing = left
        if culprit != NONE:
            sending = wide.describe(wide.sent[culprit])
            self.found.violate(event, f"{sending} precedes it, and was not delivered before it")


def _schedule(wide: WideHistory) -> list[int]:
    """The events in an order in which each sending comes before the deliveries of its message."""
    return walk(wide, Graph.PLAIN, force=True)[0]


@judged
def _fifo(wide: WideHistory, found: Findings) -> None:
    _Causality(wide, found, fifo=True).run()


@judged
def _causal(wide: WideHistory, found: Findings) -> None:
    _Causality(wide, found, fifo=False).run()


_CASE = "message that was sent in the regular wide configuration of where it is delivered"

CHECKS = (
    WideCheck(
        id="wide.fifo",
        layer="wide",
        source="Domains",
        case=f"a delivery of a fifo {_CASE}",
        violated="an earlier fifo message of its sender's incarnation, sent in the same configuration, was not"
        " delivered before it by the same incarnation of the node, and had to be",
        check=_fifo,
    ),
    WideCheck(
        id="wide.causal",
        layer="wide",
        source="Domains",
        case=f"a delivery of a causal, agreed or safe {_CASE}",
        violated="such a message that precedes it, sent in the same configuration, was not delivered before it by the"
        " same incarnation of the node, and had to be",
        check=_causal,
    ),
)
