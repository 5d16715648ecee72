"""The processes of stack `isis`: what a scenario has them ask for, and how they answer.

Given: a node's ISIS layer, from each start of the node on, and what its processes see, turn by turn.
Promised: the processes of the file are opened at each start, and join their groups as soon as the site lets them.
One whose site was killed goes on under its new identity and joins its groups again. They reply and give state where
the file says so. What the layer refuses of a step is counted.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import MessageId
from reconvene.isis.events import (
    CastId,
    Failed,
    IsisEvent,
    Killed,
    LeftGroup,
    Received,
    Seen,
    SiteAdopted,
    StateChunk,
    StateDone,
    StateWanted,
    ViewShown,
)  # fmt: skip
from reconvene.isis.far_events import FarProcess, FarReceived
from reconvene.sim.isis_face import FarFace, IsisFace
from reconvene.sim.isis_scenario import Cast, Flush, IsisVerb, Join, Kill, Leave, ProcessPlan, Rank, Watch, home
from reconvene.sim.isis_state import GroupState, StateLedger
from reconvene.sim.isis_watches import WatchLedger

__all__ = ["IsisApplication", "NodeProcesses"]

_REFUSED = (Rejected, Unavailable)
_CHUNK_NS = 3_000_000
"""Between two chunks of a state: to read one takes time, so that faults find transfers under way."""


class _Reply(NamedTuple):
    process: Process
    id: CastId | MessageId


class _Give(NamedTuple):
    """The next chunk of a transfer."""

    process: Process
    group: str
    view: int
    newcomer: Process
    place: int
    chunks: list[bytes]
    at: int
    """When it is read: on the clock of `submit`."""


@dataclass(slots=True)
class _Running:
    """A process that lives."""

    plan: ProcessPlan
    id: Process
    groups: list[str]
    """That it wants to be in."""
    unjoined: list[str]
    """Of these: not asked for yet."""
    states: dict[str, GroupState] = field(default_factory=dict)
    """By group that it is in; only if it takes and gives state."""
    wanted: list[StateWanted] = field(default_factory=list)
    """State that it will give once it can."""


class IsisApplication:
    """All processes of a cluster."""

    def __init__(self, plans: Iterable[ProcessPlan], payload: Callable[[bytes, int], bytes]) -> None:
        """`payload`: makes one, for the process of this name and of this size."""
        self.skipped = 0
        """Steps of which the layer refused something."""
        self.ledger = StateLedger()
        self.watches = WatchLedger(self.ledger.problems)
        self.payload = payload
        self._plans = list(plans)
        self._present: dict[str, Process] = {}
        """By name: its last identity, whether it lives or not."""
        self._state: set[Process] = set()
        """Identities of processes that give and take state."""
        self._nodes: list[NodeProcesses] = []

    def of_node(self, node: str) -> "NodeProcesses":
        self._nodes.append(NodeProcesses(self, [plan for plan in self._plans if plan.node == node]))
        return self._nodes[-1]

    def judge_watches(self) -> None:
        """After a settled run."""
        living = [process for node in self._nodes for process in node.in_primary]
        self.watches.judge(living, {process.site for process in living})

    def begun(self, plan: ProcessPlan, process: Process) -> None:
        self._present[plan.written] = process
        if plan.state:
            self._state.add(process)

    def identities(self, names: Sequence[str]) -> list[Process]:
        """Of those that have ever begun."""
        return [self._present[name] for name in names if name in self._present]

    def far_identities(self, names: Sequence[str]) -> list[FarProcess]:
        """The same of processes that are written DOMAIN/SITE.NAME."""
        found: list[FarProcess] = []
        for name in names:
            process = self._present.get(name)
            if process is not None:
                domain, _, site = home(name)[0].partition("/")
                found.append(FarProcess(domain, site, process.incarnation, process.number))
        return found

    def transfers(self, view: ViewShown) -> bool:
        """Is there a member that gives state to the process whose first view this is?"""
        return any(process in self._state for process in view.ranked if process != view.process)


class NodeProcesses:
    """Those of one node, which calls `begin`, `submit`, `take` and `crash`."""

    def __init__(self, all_processes: IsisApplication, plans: list[ProcessPlan]) -> None:
        self._all = all_processes
        self._plans = plans
        self._isis: IsisFace | None = None
        self._running: dict[str, _Running] = {}
        """By name, without the node's."""
        self._steps: deque[tuple[IsisVerb, bool]] = deque()
        """Steps that the site has not been asked yet, and whether they are counted where they are refused."""
        self._replies: deque[_Reply] = deque()
        self._gives: list[_Give] = []
        self._now = 0
        self._adopted = False
        """Since the last `submit`: what had to wait may be possible now."""

    @property
    def living(self) -> list[str]:
        return [running.plan.written for running in self._running.values()]

    @property
    def in_primary(self) -> list[Process]:
        """Those that live, where their site is in the primary component."""
        if self._isis is None or self._isis.blocked:
            return []
        return [running.id for running in self._running.values()]

    @property
    def waiting(self) -> int:
        return len(self._steps)

    @property
    def wants_turn(self) -> bool:
        """There is something for the layer, though nothing else may happen."""
        return bool(self._replies) or self._adopted

    @property
    def wants_turn_at(self) -> int | None:
        """The same, at this time."""
        return min(give.at for give in self._gives) if self._gives else None

    def begin(self, isis: IsisFace) -> None:
        """The node has started."""
        self._isis = isis
        for plan in self._plans:
            process = isis.open(plan.name, answers=plan.replies, state=plan.state)
            self._all.begun(plan, process)
            self._running[plan.name] = _Running(plan, process, list(plan.groups), list(plan.groups))

    def crash(self) -> None:
        self._isis = None
        self._adopted = False
        self._running.clear()
        self._steps.clear()
        self._replies.clear()
        self._gives.clear()

    def drop(self) -> int:
        """Forgets the steps that wait; returns how many. Answers are still given."""
        dropped = len(self._steps)
        self._steps.clear()
        return dropped

    def ask(self, verb: IsisVerb, *, counted: bool = True) -> None:
        """A step of one of these processes, for the next `submit`."""
        self._steps.append((verb, counted))

    # -- requests ----------------------------------------------------------------------------------------

    def submit(self, now: int) -> None:
        """Hands all that waits to the layer: before the turn ends."""
        isis = self._isis
        self._now = now
        if isis is None:
            return
        self._adopted = False
        if not isis.blocked:
            for running in self._running.values():
                self._join(isis, running)
        while self._steps:
            verb, counted = self._steps.popleft()
            if not self._do(isis, verb) and counted:
                self._all.skipped += 1
        while self._replies:
            reply = self._replies.popleft()
            with suppress(*_REFUSED):  # one of the two may be over by now
                if isinstance(reply.id, CastId):
                    isis.reply(reply.process, reply.id, b"reply")
                elif isinstance(isis, FarFace):
                    isis.far_reply(reply.process, reply.id, b"reply")
        if self._gives:
            due = [give for give in self._gives if give.at <= now]
            self._gives = [give for give in self._gives if give.at > now]
            for give in due:
                self._give(isis, give)

    def _join(self, isis: IsisFace, running: _Running) -> None:
        for group in list(running.unjoined):
            try:
                isis.join(running.id, group)
            except Unavailable:
                return  # later
            except Rejected:
                pass  # it is in it already, or can never be
            running.unjoined.remove(group)

    def _do(self, isis: IsisFace, verb: IsisVerb) -> bool:
        """Returns whether nothing of it was refused."""
        if isinstance(verb, Kill):
            killed = [self._kill(isis, home(process)[1]) for process in verb.processes]
            return all(killed)
        running = self._running.get(home(verb.process)[1])
        if running is None:
            return False
        try:
            self._request(isis, running, verb)
        except _REFUSED:
            return False
        return True

    def _kill(self, isis: IsisFace, name: str) -> bool:
        running = self._running.get(name)
        if running is None:
            return False
        try:
            isis.kill(running.id)
        except Rejected:
            return False  # its site was killed in this turn: it goes on under another identity
        del self._running[name]
        return True

    def _request(self, isis: IsisFace, running: _Running, verb: Join | Leave | Cast | Flush | Rank | Watch) -> None:
        match verb:
            case Join(_, group):
                isis.join(running.id, group)
                if group not in running.groups:
                    running.groups.append(group)
            case Leave(_, group):
                isis.leave(running.id, group)
                if group in running.groups:
                    running.groups.remove(group)
            case Cast():
                for _ in range(verb.count):
                    self._cast(isis, running, verb)
            case Flush():
                isis.flush(running.id)
            case Rank(_, group, order):
                isis.rank(running.id, group, self._all.identities(order))
            case Watch(_, watched) if isinstance(isis, FarFace):
                for far in self._all.far_identities((watched,)):
                    isis.far_watch(running.id, far)
            case Watch(_, watched):
                for process in self._all.identities((watched,)):
                    isis.watch(running.id, process)
                    self._all.watches.asked(running.id, process)

    def _cast(self, isis: IsisFace, running: _Running, verb: Cast) -> None:
        casting = verb.casting
        payload = self._all.payload(verb.process.encode(), casting.size)
        if casting.scope == "wide":
            assert isinstance(isis, FarFace), "there are several clusters"
            whom = casting.to if isinstance(casting.to, str) else self._all.far_identities(casting.to)
            isis.far_cast(running.id, casting.kind, whom, payload, casting.label, casting.replies)
            return
        to = casting.to if isinstance(casting.to, str) else self._all.identities(casting.to)
        if casting.kind == "gbcast":
            assert isinstance(to, str), "to a group"
            isis.gbcast(running.id, to, payload)
        elif casting.kind == "cbcast":
            isis.cbcast(running.id, to, payload, casting.label, casting.replies)
        else:
            label = casting.label or ""
            assert isinstance(label, str), "an ABCAST's label is text"
            isis.abcast(running.id, to, payload, label, causal=casting.causal, replies=casting.replies)

    # -- answers -----------------------------------------------------------------------------------------

    def _give(self, isis: IsisFace, give: _Give) -> None:
        process, group, view, newcomer, place, chunks, _ = give
        last = place + 1 == len(chunks)
        with suppress(*_REFUSED):  # the newcomer may have gone, or asked another one
            isis.give(process, group, view, newcomer, place, chunks[place], last)
            if not last:
                self._gives.append(give._replace(place=place + 1, at=self._now + _CHUNK_NS))

    def take(self, events: Iterable[IsisEvent]) -> None:
        """What the layer has reported, once it is recorded."""
        by_id = {running.id: running for running in self._running.values()}
        for event in events:
            if isinstance(event, SiteAdopted):
                self._adopted = any(running.unjoined for running in self._running.values())
            elif isinstance(event, Killed):
                self._came_back(by_id, event)
            elif isinstance(event, Seen) and event.process in by_id:
                self._see(by_id[event.process], event)

    def _see(self, running: _Running, event: IsisEvent) -> None:
        if isinstance(event, Failed) and event.id is None:
            self._all.watches.told(running.id, event.sender)
        if isinstance(event, Received | FarReceived) and event.replies and running.plan.replies:
            self._replies.append(_Reply(running.id, event.id))
        if running.plan.state:
            self._take_state(running, event)

    def _came_back(self, by_id: dict[Process, _Running], event: Killed) -> None:
        running = by_id.pop(event.was, None)
        if running is None:
            return
        running.id = event.process
        running.unjoined = list(running.groups)
        running.states.clear()
        running.wanted.clear()
        by_id[event.process] = running
        self._adopted = True
        self._all.begun(running.plan, event.process)

    def _take_state(self, running: _Running, event: IsisEvent) -> None:
        states = running.states
        match event:
            case ViewShown():
                view = (event.group, event.view, event.ranked)
                if event.group in states:
                    states[event.group].see(view)
                    self._give_wanted(running)
                else:
                    transfer = self._all.transfers(event)
                    states[event.group] = GroupState(running.id, view, self._all.ledger, transfer=transfer)
            case Received(group=str(group)) if group in states:
                states[group].receive(event.id)
            case StateChunk() if event.group in states:  # it may have left meanwhile
                states[event.group].take(event.index, event.data)
            case StateDone() if event.group in states and not states[event.group].is_done:
                states[event.group].done()
                self._give_wanted(running)
            case StateWanted():
                running.wanted.append(event)
                self._give_wanted(running)
            case LeftGroup():
                states.pop(event.group, None)

    def _give_wanted(self, running: _Running) -> None:
        for wanted in list(running.wanted):
            state = running.states.get(wanted.group)
            if state is not None and not state.has(wanted.view):
                continue  # its own transfer is under way, or it will see that view soon
            running.wanted.remove(wanted)
            if state is not None:
                chunks = state.chunks(wanted.view)
                # Where its own transfer ended early it may have fewer than were given before.
                chunks += [b""] * (wanted.first + 1 - len(chunks))
                at = self._now + _CHUNK_NS
                self._gives.append(
                    _Give(running.id, wanted.group, wanted.view, wanted.newcomer, wanted.first, chunks, at)
                )
