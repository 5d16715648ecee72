"""Delivery in one regular configuration and the transitional one that may follow it.

Given by multicast: frames in causal order. Given by the order engine: the total order of those with a slot.
Promised: fifo messages at once; causal ones after all that precedes them; agreed ones in the total order; safe
ones when all members have also acknowledged them. A safe message that is not yet safe holds back what follows
it in the total order.

For causal delivery *precedes* means delivered or sent, not merely received. A causal frame therefore names the last
ordered message that its sender had delivered (`after`) and its sender's own last ordered frame (`own`). That is
enough: a causal message that its sender had delivered needs no more than `after` promises, and its frame was
accepted before, so a scan of the waiting ones in the order of acceptance delivers it first.
"""

from reconvene.core.effects import Delivered, Event
from reconvene.core.multicast.packing import FRAGMENT, LAST
from reconvene.core.order.engine import Key, OrderEngine
from reconvene.ids import Service
from reconvene.wire.messages import Frame

__all__ = ["Delivery"]

_NOTHING: Key = (-1, -1)
_SERVICES = tuple(Service)
"""By number: looking one up is cheaper than making it."""
_CAUSAL, _AGREED, _SAFE = int(Service.CAUSAL), int(Service.AGREED), int(Service.SAFE)


class Delivery:
    def __init__(
        self,
        conf: str,
        members: tuple[int, ...],
        incarnations: tuple[int, ...],
        engine: OrderEngine,
        events: list[Event],
        message_bytes: int,
    ) -> None:
        self.conf = conf
        self.members = members
        self.engine = engine
        self.position: Key = _NOTHING
        """The last agreed or safe frame delivered."""
        self._incarnations = incarnations
        self._events = events
        self._ordered = [0] * len(members)
        """The number of each member's last delivered frame with a slot."""
        self._slotted = [0] * len(members)
        """The number of each member's last accepted frame with a slot."""
        self._highest: Key = _NOTHING
        """The highest place among accepted frames with a slot."""
        self._message_bytes = message_bytes
        self._causal: list[Frame] = []
        """Causal frames that wait, in the order of acceptance."""
        self._pieces: list[list[bytes]] = [[] for _ in members]
        """Fragments of each member's unfinished message."""
        self._weights = [0] * len(members)
        """Their bytes."""
        self._whole: dict[tuple[int, int], bytes] = {}
        """Messages put together that the total order has not reached: (sender, number of the last fragment)."""

    def take(self, frame: Frame, now: int) -> None:
        """The next frame in causal order."""
        self.engine.receive(frame, now)
        if not frame.messages:
            return
        payloads = frame.messages
        if frame.part:
            whole = self._put_together(frame)
            if whole is None:
                return
            payloads = [whole]
        service = frame.service
        if service < _CAUSAL:
            self._deliver(frame, payloads, None)
            return
        if frame.part == LAST:
            self._whole[frame.sender, frame.seq] = payloads[0]
        if service >= _AGREED:
            self._slotted[frame.sender] = frame.seq
            self._highest = max(self._highest, self.engine.key(frame))
        elif self._precedence_holds(frame):
            self._deliver(frame, self._payloads(frame), None)
        else:
            self._causal.append(frame)

    def _put_together(self, frame: Frame) -> bytes | None:
        """The message that this fragment completes. One over the limit, which no honest member sends, is dropped
        by everyone alike."""
        sender = frame.sender
        pieces = self._pieces[sender]
        self._weights[sender] += len(frame.messages[0])
        if self._weights[sender] <= self._message_bytes:
            pieces.append(frame.messages[0])
        else:
            pieces.clear()
        if frame.part == FRAGMENT:
            return None
        fits = self._weights[sender] <= self._message_bytes
        whole = b"".join(pieces)
        pieces.clear()
        self._weights[sender] = 0
        return whole if fits else None

    def release(self, stable: list[int] | None) -> None:
        """Delivers what the total order allows. `stable`: what all members have; None where that does not matter."""
        engine = self.engine
        while (ready := engine.peek()) is not None:
            key, frame = ready
            if stable is not None and frame.service == _SAFE and stable[frame.sender] < frame.seq:
                return
            engine.advance()
            self.position = key
            self._ordered[frame.sender] = frame.seq
            payloads = self._payloads(frame)
            if payloads:
                self._deliver(frame, payloads, engine.timestamp(key))
            if self._causal:
                self._release_causal()

    def _release_causal(self) -> None:
        waiting: list[Frame] = []
        for frame in self._causal:
            if self._precedence_holds(frame):
                self._deliver(frame, self._payloads(frame), None)
            else:
                waiting.append(frame)
        self._causal = waiting

    def _payloads(self, frame: Frame) -> list[bytes]:
        """A frame's messages; of a last fragment the whole message, or nothing if that was over the limit."""
        if frame.part != LAST:
            return frame.messages
        whole = self._whole.pop((frame.sender, frame.seq), None)
        return [] if whole is None else [whole]

    def _precedence_holds(self, frame: Frame) -> bool:
        # What its sender had delivered or sent was accepted here before it. A frame that names more than that is
        # false, and waits only for what there is.
        if min(frame.own, self._slotted[frame.sender]) > self._ordered[frame.sender]:
            return False
        return not frame.after or min((*frame.after,), self._highest) <= self.position

    def _deliver(self, frame: Frame, payloads: list[bytes], timestamp: tuple[int, ...] | None) -> None:
        sender = frame.sender
        self._events.append(
            Delivered(
                self.conf,
                self.members[sender],
                self._incarnations[sender],
                _SERVICES[frame.service],
                frame.first,
                payloads,
                timestamp,
            )
        )

    def begin_transitional(self, conf: str) -> None:
        self.conf = conf
        self.engine.skip_empty()

    def waiting(self) -> int:
        """Causal frames whose predecessors are not delivered."""
        return len(self._causal)
