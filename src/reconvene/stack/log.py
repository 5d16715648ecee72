"""The log as a layer of the stack: the only place where a replica meets its site.

Promised: the replica is handed its own messages and the changes of configuration; it speaks as far as the site has
room; where it finds its storage damaged, or the site never takes what it has to send, it says nothing more.
"""

from collections.abc import Sequence

from reconvene.core.effects import LayerEvent
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.messages import KINDS
from reconvene.corel.replica import Replica
from reconvene.errors import Malformed, Rejected
from reconvene.ids import Service
from reconvene.stack.layer import Outlet
from reconvene.stack.turn import Turn, Write

__all__ = ["LogLayer"]

_AHEAD = 4
"""Batches that wait in the site to be numbered: more would carry old acknowledgements."""
_CONTROL_AHEAD = 64
"""The same of everything else, while much is sent again."""
_AHEAD_BYTES = 1 << 20
"""Of both: one message may be larger, and then it is the only one."""


class LogLayer:
    kinds = KINDS

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        """For requests and questions. Its inputs come through the stack."""
        self.damage: str | None = None

    def begin(self, outlet: Outlet, time: int) -> None:
        if outlet.behind is not None:
            self.replica.refuse(outlet.behind)
        self.replica.close_batches(time)

    def take(self, events: Sequence[LayerEvent]) -> None:
        if self.damage is None:
            try:
                self.replica.take(events)
            except Damaged as error:
                self.damage = str(error)

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        """Recovery sends again whatever the next configuration needs."""

    def synced(self, token: int) -> None:
        if self.damage is None:
            try:
                self.replica.synced(token)
            except Damaged as error:
                self.damage = str(error)

    def speak(self, outlet: Outlet) -> bool:
        if self.damage is not None:
            return False
        try:
            return self._speak(outlet)
        except (Malformed, Rejected) as error:
            self.damage = str(error)
            return False

    def _speak(self, outlet: Outlet) -> bool:
        replica = self.replica
        replica.settle()
        if not replica.may_speak or outlet.pressed:
            return False
        replica.pump()
        spoken = replica.wants_renewal and outlet.renew()
        while replica.outgoing and outlet.has_room(_CONTROL_AHEAD, _AHEAD_BYTES):
            if not outlet.submit(*replica.outgoing[0]):
                break
            replica.outgoing.popleft()
            spoken = True
            if replica.may_speak:
                replica.pump()
        while replica.queue.accepted and not replica.busy and outlet.has_room(_AHEAD, _AHEAD_BYTES):
            data = replica.next_data()
            if data is None:
                break
            if not outlet.submit(Service.AGREED, data):
                replica.unsent(data)
                break
            spoken = True
        ack = replica.next_ack()
        # First in, first out: it need not wait for its place in the order.
        if ack is not None and outlet.submit(Service.FIFO, ack):
            replica.acknowledged()
            spoken = True
        return spoken

    def flush(self, now: int, turn: Turn) -> Write | None:
        effects = self.replica.flush(now)
        turn.log = effects.events
        return Write(effects.token, effects.ops) if effects.token else None

    def deadline(self) -> int | None:
        return self.replica.deadline()

    @property
    def settled(self) -> bool:
        return self.replica.settled

    def invariants(self) -> None:
        self.replica.invariants()
