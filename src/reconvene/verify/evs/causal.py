"""Specification 5, for causal and stronger services, and the order that fifo promises.

Within one regular configuration, the messages of one sender that precede another message are always its first so
many. So what precedes a message is a vector of counts, one for each sender, and a delivery is right if the node has
delivered at least so many, without gaps, of every sender.
"""

from operator import ge

from reconvene.verify.check import Proof
from reconvene.verify.evs.patterns import EvsCheck, EvsPatterns
from reconvene.verify.history import DELIVER, FIFO, NONE, SEND, History
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "Seen"]


def _causal_delivery(history: History, tally: Tally) -> None:
    _Causality(history, tally).run(history.once(Precedes).schedule())


def _prove_causal_delivery(run: EvsPatterns, proof: Proof) -> None:
    proof.suspect(run.sums["uncausal"])
    if run.is_unclear or not run.once or not run.is_acyclic:
        proof.doubt()


class Seen:
    """What one node has delivered of one configuration's messages. Senders are numbered from 0."""

    __slots__ = ("ahead", "counts", "known", "sends")

    def __init__(self, senders: int) -> None:
        self.counts = [0] * senders
        """Of each sender, how many of its messages were delivered without a gap from the first."""
        self.sends: list[int] = []
        """The node's own sendings there."""
        self.ahead: set[tuple[int, int]] = set()
        """(sender, index) of those delivered beyond a gap."""
        self.known: list[int] | None = None
        """What precedes the node's next sending. As long as every delivery was right, that is just `counts`."""

    def deliver(self, sender: int, index: int) -> None:
        if self.counts[sender] != index - 1:
            self.ahead.add((sender, index))
            return
        self.counts[sender] = index
        while self.ahead and (sender, self.counts[sender] + 1) in self.ahead:
            self.counts[sender] += 1

    def send(self, node: int, event: int) -> tuple[int, ...]:
        self.sends.append(event)
        past = self.counts.copy() if self.known is None else self.known
        past[node] = len(self.sends)
        return tuple(past)

    def learn(self, node: int, past: tuple[int, ...]) -> None:
        """From here on a delivery was wrong: what precedes is no longer what was delivered."""
        if self.known is None:
            self.known = self.counts.copy()
            self.known[node] = max(self.known[node], len(self.sends))
        self.known[:] = map(max, self.known, past)


class _Causality:
    """Goes through a run's events, each sending before its deliveries."""

    def __init__(self, history: History, tally: Tally) -> None:
        self.h = history
        self.tally = tally
        self.past: list[tuple[int, ...] | None] = [None] * len(history.messages)
        """Of each message sent, what precedes it, itself included. Of a fifo one, its place among its sender's."""
        self.seen: dict[int, Seen] = {}
        self.fifo_seen: dict[int, Seen] = {}
        self.fifo_index: dict[int, int] = {}

    def _seen(self, node: int, conf: int, fifo: bool) -> Seen:
        every = self.fifo_seen if fifo else self.seen
        key = conf * self.h.nodes + node
        seen = every.get(key)
        if seen is None:
            seen = every[key] = Seen(self.h.nodes)
        return seen

    def run(self, schedule: list[int]) -> None:
        h = self.h
        kinds, msgs, nodes, sent, services = h.kind, h.msg, h.node, h.sent, h.msg_service
        for event in schedule:
            kind = kinds[event]
            if kind == DELIVER:
                message = msgs[event]
                send = sent[message]
                if send == NONE or h.root[h.conf[event]] != h.conf[send]:
                    continue  # 1.3 speaks of these
                if services[message] == FIFO:
                    self._deliver_fifo(event, message, send)
                else:
                    self._deliver(event, message, send)
            elif kind == SEND and sent[msgs[event]] == event:
                node, message = nodes[event], msgs[event]
                seen = self._seen(node, h.conf[event], services[message] == FIFO)
                if services[message] == FIFO:
                    seen.sends.append(event)
                    self.fifo_index[message] = len(seen.sends)
                else:
                    self.past[message] = seen.send(node, event)

    def _deliver(self, event: int, message: int, send: int) -> None:
        h = self.h
        node, sender, past = h.node[event], h.node[send], self.past[message]
        if past is None:
            return  # delivered before it was sent: 1.1 and 1.3 speak of it
        seen = self._seen(node, h.conf[send], False)
        seen.deliver(sender, past[sender])
        if all(map(ge, seen.counts, past)):
            if seen.known is not None:
                seen.learn(node, past)
            return
        seen.learn(node, past)
        culprit = next(other for other in range(h.nodes) if seen.counts[other] < past[other])
        self._violate(event, send, culprit, seen.counts[culprit] + 1, False)

    def _deliver_fifo(self, event: int, message: int, send: int) -> None:
        index = self.fifo_index.get(message)
        if index is None:
            return
        h = self.h
        sender = h.node[send]
        seen = self._seen(h.node[event], h.conf[send], True)
        seen.deliver(sender, index)
        if seen.counts[sender] < index:
            self._violate(event, send, sender, seen.counts[sender] + 1, True)

    def _violate(self, event: int, send: int, sender: int, index: int, fifo: bool) -> None:
        h = self.h
        missing = self._seen(sender, h.conf[send], fifo).sends[index - 1]
        detail = f"{h.describe(event)}: {h.describe(missing)} precedes it, and was not delivered before it"
        self.tally.violate(h.run.run, h.names[h.node[event]], h.n[event], detail)


CHECKS = (
    EvsCheck(
        id="evs.5",
        layer="evs",
        source="Specification 5",
        case="a delivery whose message was sent in the regular configuration of where it is delivered",
        violated="a message that causally precedes it, sent in the same configuration, was not delivered before it by"
        " the same node there or in what followed it. Of a fifo message: an earlier fifo one of its sender",
        cases=lambda n: n.caused,
        check=_causal_delivery,
        prove=_prove_causal_delivery,
        facts=("uncausal", "lacking"),
        kinds=frozenset({"deliver"}),
    ),
)
