"""A process of this site, as the layer keeps it: its groups, its queues, and what stands in front of them.

A *gate* is a GBCAST that is under way in one of its groups, or a view that a change of the site view brings. While a
gate stands, CBCASTs for the process wait, and so do ABCASTs above the gate's priority (4.3.3).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from reconvene.core.groups.events import Process
from reconvene.ids import MessageId
from reconvene.isis.events import CastId, Sent
from reconvene.isis.far_events import FarProcess
from reconvene.isis.messages import Ask, AttemptId, MemberEntry, Priority
from reconvene.isis.pool import Entry

__all__ = ["AbEntry", "Flush", "Gate", "Held", "Local", "Membership", "Outcome"]


class AbEntry:
    """One attempt of an ABCAST, at one site of its destinations."""

    __slots__ = (
        "ask", "complete", "coordinator", "disposed", "entry", "final", "handled", "id", "local", "priority",
        "received", "told", "verdict",
    )  # fmt: skip

    def __init__(self, ask: Ask, coordinator: int, local: tuple[Process, ...], entry: Entry | None) -> None:
        self.ask = ask
        self.id = ask.id
        self.coordinator = coordinator
        """The site that runs the protocol for it."""
        self.local = local
        self.entry = entry
        """Of a causal one: the CBCAST by which it came."""
        self.priority: Priority = (0, 0)
        """Proposed by this site; once `final`, the one that all have."""
        self.final = False
        self.handled: set[Process] = set()
        self.received: set[Process] = set()
        self.verdict: bool | None = None
        self.told: dict[int, int] = {}
        """By site: the record by which this site, which does not run the protocol, said where its place is."""
        self.disposed = False
        self.complete = True

    @property
    def released(self) -> bool:
        return self.disposed or (self.final and len(self.handled) == len(self.local))


class Outcome:
    """What a GBCAST does at the processes that have its gate."""

    __slots__ = (
        "cast", "conf", "deleted", "gained", "last_to_fail", "leaver", "lost", "number", "properties", "ranked",
        "view",
    )  # fmt: skip

    def __init__(self) -> None:
        self.cast: tuple[CastId, Process, int, bytes] | None = None
        """(id, sender, the view that it names, payload)"""
        self.view = 0
        """The number of the view that it brings; 0: none."""
        self.ranked: tuple[MemberEntry, ...] = ()
        self.properties: dict[str, bytes] = {}
        self.gained = 0
        """The last view that gained a member."""
        self.leaver: Process | None = None
        self.deleted = False
        """The group is over: all its members leave it here."""
        self.lost: tuple[Process, ...] = ()
        self.last_to_fail: tuple[int, ...] = ()
        """Where all members had failed: the sites that failed last."""
        self.number = 0
        self.conf = ""


class Gate:
    __slots__ = ("barrier", "before", "counted", "group", "locks", "number", "outcome", "proposed")

    def __init__(self, number: int, group: str, locks: bool) -> None:
        self.number = number
        """Of the GBCAST; 0: a view that a change of the site view brings."""
        self.group = group
        self.locks = locks
        """The group gains a member: its members' own casts to it wait."""
        self.counted = False
        """This site has counted what the group's members here have received …"""
        self.proposed: Priority | None = None
        """… and has said so, with this priority."""
        self.barrier: Priority | None = None
        """ABCASTs below it come first. Set when the GBCAST is concluded, with …"""
        self.before: frozenset[AttemptId] = frozenset()
        """… the CBCASTs that come first."""
        self.outcome: Outcome | None = None


class Membership:
    """What one process knows of one of its groups."""

    __slots__ = ("gained", "ranked", "since", "transfer", "view")

    def __init__(self, since: int) -> None:
        self.since = since
        """Its first view."""
        self.view = 0
        self.gained = 0
        self.ranked: tuple[MemberEntry, ...] = ()
        self.transfer = False
        """It waits for the group's state."""


class Flush:
    """A call that returns when all that its process has cast, and all that it has received, is everywhere."""

    __slots__ = ("casts", "done", "last", "pushed")

    def __init__(
        self,
        casts: frozenset[CastId],
        last: CastId | None,
        pushed: Callable[[], bool],
        done: Sent | None = None,
    ) -> None:
        self.casts = casts
        """The process's own that are open."""
        self.last = last
        """The last of all that it cast before the call."""
        self.pushed = pushed
        """What others have cast, and this process has received, has arrived."""
        self.done = done


class Held(NamedTuple):
    """A request that waits."""

    attempt: Callable[[], bool]
    """Returns whether it could be carried out."""
    is_cast: bool


class Local:
    def __init__(self, process: Process, name: str, *, answers: bool, state: bool) -> None:
        self.process = process
        self.name = name
        self.answers = answers
        self.state = state
        self.dead = False
        """It is over; its site finishes its casts."""
        self.groups: dict[str, Membership] = {}
        self.waiting: list[Entry] = []
        """CBCASTs that are here and not delivered, in the order in which they came."""
        self.queues: dict[str, list[AbEntry]] = {}
        """ABCASTs that are not delivered, by label."""
        self.gates: list[Gate] = []
        """In the order of their GBCASTs."""
        self.flush: Priority | None = None
        """A change of the site view is under way in a group of this process: its own gate, first of all. (0, 0) until
        this site has said that it is ready."""
        self.counted = False
        """… and this site has counted what it has received."""
        self.last_gate = 0
        """The change concludes the GBCASTs up to this one."""
        self.past: dict[CastId, Entry] = {}
        """Casts that it sent or received and that are not everywhere: what its next cast has to follow. Each comes
        after those that precede it."""
        self.owed: dict[CastId, Process] = {}
        """Requests that it received and has not answered, and who asked."""
        self.owed_far: dict[MessageId, FarProcess] = {}
        """The same of those that have crossed from another cluster, or might have."""
        self.held: deque[Held] = deque()
        """Requests of the process that wait, in order."""
        self.last_cast: CastId | None = None
        self.crossing: set[int] = set()
        """CBCASTs of the process to other clusters that this site has not delivered yet: what it casts next within
        the cluster waits for them, or it would overtake them."""
        self.calls: set[CastId] = set()
        self.watching: set[Process] = set()
        """Processes of which it wants to know when they are over."""
        self.joining: set[str] = set()
        """Groups that it has asked to join, and is not a member of yet."""
        self.vectors: set[str] = set()
        """Of these: groups of which it wants a contribution of every member as its state."""
        self.silent: set[str] = set()
        """Groups in which its site answers for it, with nothing, though it answers elsewhere."""
        self.stateful: set[str] = set()
        """Groups that it has joined, or asked to join, and of which it gives and takes the state."""
        self.leaving: set[str] = set()
        """Groups that it is about to leave. Until it has, it casts nothing: if its site were lost meanwhile, it would
        be heard after the view without it, as if from the dead."""
        self.announced: set[str] = set()
        """Of these: those whose join is announced. The process's next casts to the group are a member's."""
        self.lasting: set[str] = set()
        """Groups that it has joined, or asked to join, and whose views are stored before it sees them."""
        self.closing = False
        """It is over once it has left its groups."""
        self.flushes: list[Flush] = []

    def remember(self, entry: Entry) -> None:
        """What the process casts next follows this, as long as it is not everywhere."""
        if not entry.disposed and self.past.get(entry.id) is not entry:
            self.past[entry.id] = entry
            entry.pasts.append(self.past)

    def forget(self, group: str) -> None:
        """It has left the group. What it wanted there it says anew if it joins again."""
        self.vectors.discard(group)
        self.silent.discard(group)
        self.stateful.discard(group)

    def limit(self) -> Priority | None:
        """ABCASTs from here on wait. None: no gate stands in front of them."""
        limits: list[Priority] = [] if self.flush is None or self.flush == (0, 0) else [self.flush]
        barriers: dict[str, Priority] = {}
        for gate in self.gates:
            least = barriers.get(gate.group, (0, 0))
            if gate.barrier is not None:
                barriers[gate.group] = max(gate.barrier, least)
                limits.append(gate.barrier)
            elif gate.proposed is not None:
                limits.append(max(gate.proposed, least))  # barriers of a group never go back
        return min(limits, default=None)

    def locked(self, group: str) -> bool:
        """It must not cast to this group: it grows or is about to end, or the process has no state yet."""
        membership = self.groups.get(group)
        if membership is not None and membership.transfer:
            return True
        return any(gate.locks and gate.group == group for gate in self.gates)
