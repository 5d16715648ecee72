"""A site with groups and, beside them, a replica of the log: one turn for all of it.

Inputs go to the parts; `flush` ends the turn. What the replica sends are messages of the site's configuration, of
kinds that groups leave to others.
"""

from collections.abc import Callable

from msgspec import Struct

from reconvene.core.effects import Effects, Event
from reconvene.core.groups.events import GroupEvent, Process
from reconvene.core.groups.groups import Groups
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.replica import LogEffects, Replica
from reconvene.errors import Malformed, Rejected
from reconvene.ids import Service

__all__ = ["Stack", "Turn"]

_AHEAD = 4
"""Batches that wait in the site to be numbered: more would carry old acknowledgements."""
_CONTROL_AHEAD = 64
"""The same of everything else, while much is sent again."""
_AHEAD_BYTES = 1 << 20
"""Of both: one message may be larger, and then it is the only one."""


class Turn(Struct):
    site: Effects
    processes: list[tuple[Process, list[GroupEvent]]]
    log: LogEffects


class Stack:
    def __init__(self, groups: Groups, replica: Replica) -> None:
        self.groups = groups
        self.replica = replica
        self.damage: str | None = None
        """What the replica could not read of its own storage, or why the site never takes what it has to say: it says
        nothing more, and neither should its site, so that the others go on without it."""

    def deadline(self) -> int:
        at, line = self.groups.deadline(), self.replica.deadline()
        return at if line is None or line > at else line

    def flush(self, now: int, time: int) -> Turn:
        """Ends the turn. `now` as the site's; `time`: ns since 1970."""
        replica = self.replica
        behind = self.groups.site.behind
        if behind is not None:
            replica.refuse(behind)
        replica.close_batches(time)
        effects, processes = self.groups.flush(now)
        self._take(effects.events)
        while self._speak(now):
            more, others = self.groups.flush(now, len(effects.events))
            self._take(more.events)
            effects.persist += more.persist
            effects.events += more.events
            effects.datagrams += more.datagrams
            effects.unsent += more.unsent
            processes += others
        return Turn(effects, processes, replica.flush(now))

    def logged(self, token: int) -> None:
        """The log's write of this token is on stable storage."""
        self._guarded(lambda: self.replica.synced(token))

    def _take(self, events: list[Event]) -> None:
        self._guarded(lambda: self.replica.take(events))

    def _guarded(self, work: Callable[[], None]) -> None:
        if self.damage is None:
            try:
                work()
            except Damaged as error:
                self.damage = str(error)

    def _speak(self, now: int) -> bool:
        """Hands the site what the replica has to say; tells whether that was anything."""
        if self.damage is not None:
            return False
        try:
            return self._hand_over(now)
        except (Malformed, Rejected) as error:
            self.damage = str(error)
            return False

    def _hand_over(self, now: int) -> bool:
        replica, groups = self.replica, self.groups
        outbox = groups.site.outbox
        replica.settle()
        if not replica.may_speak or groups.site.current.pressed:
            return False
        replica.pump()
        spoken = replica.wants_renewal and groups.site.renew(now)
        while replica.outgoing and len(outbox) < _CONTROL_AHEAD and outbox.bytes < _AHEAD_BYTES:
            service, payload = replica.outgoing[0]
            if not groups.submit_other(service, (payload,), now):
                break
            replica.outgoing.popleft()
            spoken = True
            if replica.may_speak:
                replica.pump()
        while len(outbox) < _AHEAD and outbox.bytes < _AHEAD_BYTES and not replica.busy:
            data = replica.view.next_data()
            if data is None:
                break
            if not groups.submit_other(Service.AGREED, (data,), now):
                replica.view.unsent(data)
                break
            spoken = True
        ack = replica.view.next_ack()
        # First in, first out: it need not wait for its place in the order.
        if ack is not None and groups.submit_other(Service.FIFO, (ack,), now):
            replica.view.acknowledged()
            spoken = True
        return spoken
