"""Replies: what a cast asks of its destinations, and what became of that (3.5, 4.1).

A destination that dies counts as a reply. Its site says so behind the last message of the dead process; where the
site itself is lost, each site says so to its own processes, once all casts of the lost site are everywhere.

A reply comes after every CBCAST that its sender cast to the same process before: also where that waits here for what
precedes it.
"""

from collections.abc import Callable, Iterable

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected
from reconvene.isis.events import ALL, Answered, CallOver, CastId, Failed
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Local
from reconvene.isis.messages import Answer, Ask, Copy, Missing

__all__ = ["Call", "Calls"]


class Call:
    __slots__ = ("failed", "pending", "process", "wanted")

    def __init__(self, process: Process, wanted: int) -> None:
        self.process = process
        self.wanted = wanted
        """Replies that are still wanted; ALL: of everyone."""
        self.pending: set[Process] = set()
        self.failed: set[Process] = set()
        """Their failure was reported: once, also where the cast goes out again."""


class Calls:
    def __init__(self, here: Here, find: Callable[[Process], Local | None], limits: IsisLimits) -> None:
        """`find`: a process of this site, also a dead one whose casts are not everywhere yet."""
        self._here = here
        self._find = find
        self._limits = limits
        self._open: dict[CastId, Call] = {}
        self._lost: list[tuple[CastId, Process]] = []
        """What is asked of processes whose sites are lost, and is not reported yet."""
        self._arrived: list[Answer] = []
        """Of other sites, in the order in which they came: not reported yet."""

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, local: Local, cast_id: CastId, replies: int, to: Iterable[Process], earlier: Call | None = None
    ) -> Call | None:
        """The cast goes out to these destinations, of which some may be lost already. `earlier`: what this returned
        for the last attempt, where it goes out again."""
        if not replies:
            return None
        call = earlier or Call(local.process, replies)
        call.pending = set(to) - call.failed
        if call.pending and call.wanted:
            self._open[cast_id] = call
            local.calls.add(cast_id)
            self._lost += [(cast_id, process) for process in sorted(call.pending) if not self._here.has(process)]
        elif cast_id in self._open:
            self._close(cast_id)
        elif earlier is None:
            self._here.events.append(CallOver(local.process, cast_id))
        return call

    # -- at the destination

    def received(self, local: Local, cast: Copy | Ask) -> None:
        if local.answers and cast.group not in local.silent:
            local.owed[cast.id] = cast.sender
            if len(local.owed) > self._limits.owed_replies:
                self._answer_oldest(local)
        elif local.answers and cast.replies != ALL:
            # It only listens in this group: whoever asks for some replies gets them of others.
            self._send(cast.sender, Answer(cast.id, local.process, None))
        else:
            self._send(cast.sender, Answer(cast.id, local.process, b""))

    def _answer_oldest(self, local: Local) -> None:
        """In place of the process, with nothing. Where one reply is enough, members that leave it to others never
        answer, and nobody tells them that the call is over."""
        cast_id = next(iter(local.owed))
        self._send(local.owed.pop(cast_id), Answer(cast_id, local.process, b""))

    def missed(self, process: Process, cast_id: CastId, asker: Process) -> None:
        """The destination has left the group, or is dead."""
        local = self._find(process)
        if local is not None and local.dead:
            local.owed[cast_id] = asker  # answered behind its last cast
            return
        self._send(asker, Answer(cast_id, process, None, failed=local is None))

    def reply(self, local: Local, cast_id: CastId, payload: bytes) -> None:
        """Raises Rejected where nothing is owed."""
        asker = local.owed.pop(cast_id, None)
        if asker is None:
            raise Rejected("a reply to what asks for none, or a second reply")
        self._send(asker, Answer(cast_id, local.process, payload))

    def died(self, local: Local) -> None:
        """All that the process sent is everywhere."""
        owed, local.owed = local.owed, {}
        for cast_id, asker in owed.items():
            self._send(asker, Answer(cast_id, local.process, None, failed=True))

    def _send(self, asker: Process, answer: Answer) -> None:
        here = self._here
        if asker.site == here.site:
            self.answered(answer)
        elif here.has(asker):
            here.send(asker.site, answer)

    # -- at the process that asked

    def arrive(self, answer: Answer) -> None:
        """Of another site. It is reported by `report_arrived`."""
        self._arrived.append(answer)

    def report_arrived(self, awaits: Callable[[Process, Process], bool]) -> None:
        """`awaits(process, sender)`: a CBCAST of the sender has come that the process has not received."""
        if not self._arrived:
            return
        arrived, self._arrived = self._arrived, []
        late: set[Process] = set()
        for answer in arrived:
            call = self._open.get(answer.id)
            if answer.sender in late or (call is not None and awaits(call.process, answer.sender)):
                late.add(answer.sender)
                self._arrived.append(answer)
            else:
                self.answered(answer)

    def answered(self, answer: Answer) -> None:
        call = self._open.get(answer.id)
        if call is None or answer.sender not in call.pending:
            return
        call.pending.discard(answer.sender)
        counts = True
        if answer.failed:
            call.failed.add(answer.sender)
            self._here.events.append(Failed(call.process, answer.sender, answer.id))
        elif answer.payload is not None:
            self._here.events.append(Answered(call.process, answer.sender, answer.id, answer.payload))
        else:
            counts = False
        if call.wanted != ALL and counts:
            call.wanted -= 1
        if not call.pending or not call.wanted:
            self._close(answer.id)

    def give_up(self, cast_id: CastId) -> None:
        """It was rejected, and does not go out again: its group has no members any more. So each destination has left
        it, or is dead; its site says which."""
        call = self._open.get(cast_id)
        if call is None:
            return
        for process in sorted(call.pending):
            if process.site == self._here.site:
                self.missed(process, cast_id, call.process)
            elif self._here.has(process):
                self._here.send(process.site, Missing(cast_id, call.process, process))

    def depart(self, sites: Iterable[int]) -> None:
        """These sites are lost. Their processes' failure is reported when all that they sent is everywhere."""
        left = frozenset(sites)
        for cast_id, call in self._open.items():
            self._lost += [(cast_id, process) for process in sorted(call.pending) if process.site in left]

    def has_late(self, sender: Process) -> bool:
        """A reply of the sender has come, and is not reported yet."""
        return any(answer.sender == sender for answer in self._arrived)

    def report_lost(self, heard: Callable[[Process, Process], bool]) -> None:
        """All that lost sites sent is here. `heard(process, sender)`: the process has received all that the sender
        sent to it."""
        lost, self._lost = self._lost, []
        for cast_id, process in lost:
            call = self._open.get(cast_id)
            if call is not None and not heard(call.process, process):
                self._lost.append((cast_id, process))
            else:
                self.answered(Answer(cast_id, process, None, failed=True))

    def end(self, local: Local) -> None:
        """The process that asked is over."""
        for cast_id in local.calls:
            self._open.pop(cast_id, None)
        local.calls.clear()

    def _close(self, cast_id: CastId) -> None:
        call = self._open.pop(cast_id)
        self._here.events.append(CallOver(call.process, cast_id))
        local = self._find(call.process)
        if local is not None:
            local.calls.discard(cast_id)

    def reset(self) -> None:
        self._open.clear()
        self._lost.clear()
        self._arrived.clear()
