"""What each process of this site receives, and when. Only this module delivers anything to a process.

Given: CBCASTs that are complete, ABCASTs with their priorities, gates and their conclusions.
Promised: a cast is received after those that precede it; ABCASTs of a label by their final priorities; a gate is
passed after all that comes before it, and before all else.
"""

from collections.abc import Callable

from reconvene.core.groups.events import Process
from reconvene.isis.calls import Calls
from reconvene.isis.events import LeftGroup, Received, Rejection, ViewShown
from reconvene.isis.here import Here
from reconvene.isis.local import AbEntry, Gate, Local, Membership, Outcome
from reconvene.isis.messages import Ask, Copy
from reconvene.isis.pool import Entry, Pool

__all__ = ["Delivery"]


class Delivery:
    def __init__(
        self,
        here: Here,
        pool: Pool,
        calls: Calls,
        judged: Callable[[Entry | AbEntry], None],
        passed: Callable[[Gate], None],
        shown: Callable[[Local, str, Outcome], None],
        left: Callable[[Process, str], None],
        store: Callable[[Local, str, Outcome], bool],
        settle: Callable[[Process], bool],
    ) -> None:
        """`judged`: the local destinations have accepted or rejected it. `passed`: one process is past this gate.
        `shown`: it has a new view of this group. `left`: it is no member any more. `store`: sees to it that the view
        is on stable storage; returns whether it is. `settle`: sees to it that every destination knows the place of
        each ABCAST that the process received, which it keeps then if this site is lost; returns whether all do."""
        self._here = here
        self._pool = pool
        self._calls = calls
        self._judged = judged
        self._passed = passed
        self._shown = shown
        self._left = left
        self._store = store
        self._settle = settle
        self.locals: dict[Process, Local] = {}
        """In the order in which they began."""

    def living(self, process: Process) -> Local | None:
        local = self.locals.get(process)
        return None if local is None or local.dead else local

    # -- in

    def arrive(self, entry: Entry) -> None:
        """A CBCAST is complete."""
        for process in entry.local:
            local = self.living(process)
            if local is None:
                self._finish(entry, process, None, entry.copy)
            else:
                local.waiting.append(entry)

    def enqueue(self, item: AbEntry) -> None:
        """An ABCAST has its first priority at this site."""
        for process in item.local:
            local = self.living(process)
            if local is None:
                self._finish(item, process, None, item.ask)
            else:
                local.queues.setdefault(item.ask.queue, []).append(item)

    def withdraw(self, item: AbEntry) -> None:
        """It is superseded, or given up."""
        for process in item.local:
            local = self.locals.get(process)
            if local is not None:
                self._unqueue(local, item)

    def end(self, local: Local) -> None:
        """The process is over: it receives nothing more."""
        local.dead = True
        for entry in local.waiting:
            self._finish(entry, local.process, None, entry.copy)
        for item in [item for queue in local.queues.values() for item in queue]:
            self._finish(item, local.process, None, item.ask)
        gates, local.gates = local.gates, []
        local.waiting.clear()
        local.queues.clear()
        local.held.clear()
        local.flush = None
        for gate in gates:
            self._passed(gate)

    # -- out

    def advance(self) -> bool:
        """Delivers what can be delivered. Returns whether that was anything."""
        moved = False
        again = True
        while again:
            again = False
            for local in list(self.locals.values()):
                if not local.dead and self._advance(local):
                    again = moved = True
        return moved

    def _advance(self, local: Local) -> bool:
        moved = False
        while (
            (local.waiting and self._deliver_casts(local))
            or (local.queues and self._deliver_ordered(local))
            or (local.gates and self._pass_gate(local))
        ):
            moved = True
        return moved

    def _deliver_casts(self, local: Local) -> bool:
        gate = local.gates[0] if local.gates else None
        if (gate is not None and gate.barrier is None) or (gate is None and local.flush is not None):
            return False
        kept: list[Entry] = []
        before = len(local.waiting)
        for entry in local.waiting:
            if entry.disposed:
                continue  # superseded by the next attempt
            if (gate is None or entry.key in gate.before) and self._causes_done(entry, local.process):
                self._take(local, entry, entry.copy)
            else:
                kept.append(entry)
        local.waiting = kept
        return len(kept) < before

    def _causes_done(self, entry: Entry, process: Process) -> bool:
        """The process is done with all that precedes it."""
        if self._pool.undone.get(process, 0) == (process not in entry.handled):
            return True  # with all but this one
        entries = self._pool.entries
        for cast_id in entry.causes:
            cause = entries.get(cast_id)
            if cause is None or process not in cause.local or process in cause.handled:
                continue
            # One that goes out again in a later view was rejected, and so is what follows it in the earlier one.
            if cause.copy.group != entry.copy.group or cause.copy.view <= entry.copy.view:
                return False
        return True

    def _deliver_ordered(self, local: Local) -> bool:
        moved = False
        limit = local.limit()
        for label in sorted(local.queues):
            queue = local.queues[label]
            while queue:
                head = min(queue, key=_by_priority)
                if not head.final or (limit is not None and head.priority > limit):
                    break
                if head.entry is not None and not self._causes_done(head.entry, local.process):
                    break
                queue.remove(head)
                self._take(local, head, head.ask)
                moved = True
            if not queue:
                del local.queues[label]
        return moved

    def _unqueue(self, local: Local, item: AbEntry) -> None:
        queue = local.queues.get(item.ask.queue, [])
        if item in queue:
            queue.remove(item)
            if not queue:
                del local.queues[item.ask.queue]

    def _take(self, local: Local, item: Entry | AbEntry, cast: Copy | Ask) -> None:
        """The cast's turn has come: it is received, rejected, or its destination has left the group."""
        process = local.process
        group = cast.group
        if group is not None:
            membership = local.groups.get(group)
            if membership is None:
                self._finish(item, process, None, cast)
                return
            if cast.view < membership.gained:
                rejection = Rejection(
                    process, cast.sender, cast.id, cast.attempt, group, membership.view, _count(cast)
                )
                self._here.events.append(rejection)
                self._finish(item, process, False, cast)
                return
        ordered = isinstance(item, AbEntry)
        self._here.events.append(
            Received(
                process, "abcast" if ordered else "cbcast", cast.sender, cast.id, cast.attempt, cast.payload, group,
                cast.view, item.priority if isinstance(item, AbEntry) else None, cast.replies,
                () if isinstance(cast, Ask) else cast.more, cast.clock,
            )
        )  # fmt: skip
        entry = item.entry if isinstance(item, AbEntry) else item
        if entry is not None:
            entry.received.add(process)
            self._remember(local, entry)
        if cast.replies:
            self._calls.received(local, cast)
        self._finish(item, process, True, cast)

    def _remember(self, local: Local, entry: Entry) -> None:
        """What the process casts next follows this, and all that precedes it: also where that outlives it."""
        past = local.past
        for cast_id in [cause for cause in entry.causes if cause not in past]:
            cause = self._pool.entries.get(cast_id)
            if cause is not None:
                local.remember(cause)
        local.remember(entry)

    def _finish(self, item: Entry | AbEntry, process: Process, accepted: bool | None, cast: Copy | Ask) -> None:
        """The process is done with it."""
        if accepted is None and cast.replies:
            self._calls.missed(process, cast.id, cast.sender)
        if isinstance(item, Entry):
            self._pool.handle(item, process)
        else:
            item.handled.add(process)
        if accepted is not None:
            item.verdict = accepted
        if isinstance(item, AbEntry) and item.entry is not None:
            self._pool.handle(item.entry, process)
        if cast.judged and len(item.handled) == len(item.local):
            self._judged(item)

    # -- gates

    def _pass_gate(self, local: Local) -> bool:
        gate = local.gates[0]
        barrier, outcome = gate.barrier, gate.outcome
        if barrier is None or outcome is None:
            return False
        if any(item.priority < barrier for queue in local.queues.values() for item in queue):
            return False
        if any(entry.key in gate.before for entry in local.waiting):
            return False
        if outcome.view and not self._settle(local.process):
            return False
        if gate.group in local.lasting and outcome.view and not self._store(local, gate.group, outcome):
            return False
        local.gates.pop(0)
        self._show(local, gate, outcome)
        self._passed(gate)
        return True

    def _show(self, local: Local, gate: Gate, outcome: Outcome) -> None:
        process, group = local.process, gate.group
        membership = local.groups.get(group)
        if outcome.cast is not None and membership is not None:
            cast_id, sender, view, payload = outcome.cast
            self._here.events.append(
                Received(process, "gbcast", sender, cast_id, 0, payload, group, view, gate.barrier)
            )
        if not outcome.view:
            return
        if outcome.leaver == process or outcome.deleted:
            local.leaving.discard(group)
            if local.groups.pop(group, None) is not None:
                local.forget(group)
                self._here.events.append(LeftGroup(process, group, outcome.deleted))
                self._left(process, group)
            return
        ranked = tuple([member.process for member in outcome.ranked])
        if process not in ranked:
            return
        if membership is None:
            membership = local.groups[group] = Membership(outcome.view)
        membership.view, membership.gained, membership.ranked = outcome.view, outcome.gained, outcome.ranked
        self._here.events.append(
            ViewShown(
                process,
                group,
                outcome.view,
                ranked,
                outcome.number,
                outcome.conf,
                outcome.properties,
                outcome.lost,
                outcome.last_to_fail,
                _newcomer(outcome),
            )
        )
        self._shown(local, group, outcome)

    def invariants(self) -> None:
        for local in self.locals.values():
            for label, queue in local.queues.items():
                assert queue
                assert all(item.ask.queue == label for item in queue)
            assert not local.dead or not (local.waiting or local.queues or local.gates)
            assert not any(entry.disposed for entry in local.past.values()), "nobody follows what is everywhere"


def _count(cast: Copy | Ask) -> int:
    """Messages that go as one."""
    return 1 if isinstance(cast, Ask) else 1 + len(cast.more)


def _newcomer(outcome: Outcome) -> Process | None:
    """The member that the view brings, if it takes state that others have."""
    if outcome.gained != outcome.view or not outcome.ranked[-1].state:
        return None
    return outcome.ranked[-1].process if any(member.state for member in outcome.ranked[:-1]) else None


def _by_priority(item: AbEntry) -> tuple[int, int]:
    return item.priority
