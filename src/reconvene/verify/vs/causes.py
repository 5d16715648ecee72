"""C1: the causes of every event are in the history.

The cause of a delivery is its cast, and what the caster had cast or delivered before that: as in Specification 5,
what precedes a message is a vector of counts, here among the messages of one view, with a place for each process that
cast any of them. A message is of the view that it is delivered in, which may be a later one than it was cast in. The
cause of a view is that each of its members came to it.
"""

from operator import ge

from reconvene.verify.check import Proof
from reconvene.verify.codes import DELIVER, FIFO, NONE, SEND
from reconvene.verify.evs.causal import Seen
from reconvene.verify.history import History
from reconvene.verify.processes import Processes
from reconvene.verify.report import Tally
from reconvene.verify.vs.extend import extend_of, order_of
from reconvene.verify.vs.patterns import ViewCheck, ViewPatterns

__all__ = ["CHECKS"]


def _causes(h: History, tally: Tally) -> None:
    _Causes(h.run.run, h.processes, tally).walk(h.once(order_of).schedule())
    _came(h, tally)


def _prove_causes(run: ViewPatterns, proof: Proof) -> None:
    """Of deliveries. Whether the members of views came to them is decided with the skeleton."""
    proof.suspect(run.sums["strange"] + run.sums["uncausal"])
    for pattern in run.misnumbered:
        proof.suspect(pattern.messages, pattern.row)
    if run.is_unclear or not run.is_acyclic:
        proof.doubt()


def _came(h: History, tally: Tally) -> None:
    """Of a view that some process installed, and a member of it that installed any view of the group: it did not
    install this one, and installed one of a higher number, or ended a settled run in a lower one."""
    run, p, extend = h.run.run, h.processes, h.once(extend_of)
    for index, view in enumerate(p.confs):
        came = {p.node[event] for event in view.entered}
        for member in view.members:
            if (member, view.group) not in extend.ways:
                continue
            tally.cases += 1
            if member not in came and extend.lacks(member, index):
                event = view.entered[0]
                detail = f"{p.describe(event)}: member {p.names[member]} went on without it"
                tally.violate(run, *p.where(event), detail)


class _Causes:
    """Of a delivery: its message was not cast, in this group, as this service, by its sender, and, where that is the
    same process, before; or it is delivered in its view, and of that view's messages those that precede it (of a fifo
    message: the caster's earlier fifo ones; of others: all that is not fifo) were not all delivered before it, there,
    by the same process."""

    def __init__(self, run: str, processes: Processes, tally: Tally) -> None:
        self.run = run
        self.p = processes
        self.tally = tally
        self.past: list[tuple[int, ...] | None] = [None] * len(processes.messages)
        """Of each message cast, what precedes it, itself included."""
        self.index = [0] * len(processes.messages)
        """Of each fifo message cast, its place among its caster's of the view, from 1."""
        self.column: list[dict[int, int]] = [{} for _ in processes.confs]
        """Of each view, the places of those that cast messages of it."""
        for event, view in zip(processes.sent, processes.home, strict=True):
            if event != NONE:
                columns = self.column[view]
                columns.setdefault(processes.node[event], len(columns))
        self.seen: tuple[dict[tuple[int, int], Seen], dict[tuple[int, int], Seen]] = ({}, {})
        """By view and process; of fifo messages, and of the others."""

    def _seen(self, view: int, process: int, fifo: bool) -> Seen:
        every = self.seen[not fifo]
        seen = every.get((view, process))
        if seen is None:
            seen = every[view, process] = Seen(len(self.column[view]))
        return seen

    def walk(self, schedule: list[int]) -> None:
        p = self.p
        kinds, msgs, sent = p.kind, p.msg, p.sent
        for event in schedule:
            kind = kinds[event]
            if kind == DELIVER:
                self._deliver(event)
            elif kind == SEND and sent[msgs[event]] == event:
                self._cast(event)

    def _cast(self, event: int) -> None:
        p = self.p
        process, message = p.node[event], p.msg[event]
        view = p.home[message]
        fifo = p.msg_service[message] == FIFO
        seen = self._seen(view, process, fifo)
        if fifo:
            seen.sends.append(event)
            self.index[message] = len(seen.sends)
        else:
            self.past[message] = seen.send(self.column[view][process], event)

    def _deliver(self, event: int) -> None:
        p = self.p
        message = p.msg[event]
        cast = p.sent[message]
        problem = self._uncast(event, cast)
        if cast != NONE and p.conf[event] == p.home[message]:
            # Also of a delivery that is wrong already: it counts as delivered for those after it.
            fifo = p.msg_service[message] == FIFO
            missing = self._missing_fifo(event, cast) if fifo else self._missing(event, cast)
            if problem is None and missing is not None:
                problem = f"{p.describe(missing)} precedes it, and was not delivered before it"
        if problem is not None:
            self.tally.violate(self.run, *p.where(event), f"{p.describe(event)}: {problem}")

    def _uncast(self, event: int, cast: int) -> str | None:
        p = self.p
        if cast == NONE:
            return "nobody cast it"
        if (
            p.node[cast] == p.sender[event]
            and p.service[cast] == p.service[event]
            and (p.conf[cast] == p.conf[event] or p.confs[p.conf[cast]].group == p.confs[p.conf[event]].group)
            and (p.node[cast] != p.node[event] or cast < event)
        ):
            return None
        if p.node[cast] != p.sender[event]:
            return f"said to be from {p.names[p.sender[event]]}, but {p.describe(cast)}"
        if p.node[cast] == p.node[event] and cast > event:
            return f"before it was cast, {p.describe(cast)}"
        return f"of another service or group than it was cast with, {p.describe(cast)}"

    def _missing(self, event: int, cast: int) -> int | None:
        """The cast of a message that should have been delivered before this one."""
        p = self.p
        view, past = p.conf[event], self.past[p.msg[event]]
        if past is None:
            return None  # delivered before it was cast: L1 speaks of it
        columns = self.column[view]
        seen = self._seen(view, p.node[event], False)
        sender = columns[p.node[cast]]
        seen.deliver(sender, past[sender])
        if all(map(ge, seen.counts, past)):
            if seen.known is not None:
                self._learn(seen, event, past)
            return None
        self._learn(seen, event, past)
        culprit = next(place for place, count in enumerate(seen.counts) if count < past[place])
        return self._nth(view, culprit, seen.counts[culprit] + 1, False)

    def _learn(self, seen: Seen, event: int, past: tuple[int, ...]) -> None:
        columns = self.column[self.p.conf[event]]
        if not columns.keys() & {self.p.node[event]}:
            return  # one that casts nothing there passes nothing on
        seen.learn(columns[self.p.node[event]], past)

    def _missing_fifo(self, event: int, cast: int) -> int | None:
        p = self.p
        view, index = p.conf[event], self.index[p.msg[event]]
        if index == 0:
            return None
        seen = self._seen(view, p.node[event], True)
        sender = self.column[view][p.node[cast]]
        seen.deliver(sender, index)
        if seen.counts[sender] >= index:
            return None
        return self._nth(view, sender, seen.counts[sender] + 1, True)

    def _nth(self, view: int, place: int, index: int, fifo: bool) -> int:
        """The cast that is the caster's so many'th of the view."""
        caster = next(process for process, column in self.column[view].items() if column == place)
        return self._seen(view, caster, fifo).sends[index - 1]


CHECKS = (
    ViewCheck(
        id="vs.C1",
        layer="vs",
        source="section 4, C1",
        case="a delivery; and a view that some process installed, with a member of it that installed any view of the"
        " group",
        violated="see below",
        cases=lambda n: n.deliveries,
        check=_causes,
        prove=_prove_causes,
        skeleton=True,
        facts=("strange", "blurred", "early", "uncausal", "tardy", "lacking", "between"),
        kinds=frozenset({"deliver"}),
    ),
)
