"""One regular configuration at one site: multicast, order and delivery put together, and how it ends.

Given: frames and alive frames of this configuration, the application's outbox. Promised: the four services while it
lasts; once frozen, what it has changes through recovery only; `finish` is step 6 of extended virtual synchrony, one
local action.
"""

from reconvene.core.effects import Changed, ConfKind, Event, Sent
from reconvene.core.evs.delivery import Delivery
from reconvene.core.evs.recovery import Exchange
from reconvene.core.multicast.multicast import Multicast
from reconvene.core.multicast.packing import FRAGMENT, WHOLE, Outbox, Parcel
from reconvene.core.order.engine import Note, OrderEngine
from reconvene.ids import ConfigurationId, Service
from reconvene.wire.messages import Alive, Frame, Nack, State

__all__ = ["Configuration"]

_TURN_BYTES = 1 << 20
"""Limit on the messages that one turn sends, since each of their frames is sealed and sent within the turn."""
_EXTRAS_TOLD = 512
"""Frames beyond a gap that a state can list."""

Out = tuple[int | None, Frame | Alive | Nack]
"""(member's rank, None for all; what to send)."""


class Configuration:
    def __init__(
        self,
        number: int,
        members: tuple[int, ...],
        incarnations: tuple[int, ...],
        multicast: Multicast,
        engine: OrderEngine,
        events: list[Event],
        message_bytes: int,
    ) -> None:
        self.number = number
        self.members = members
        self.incarnations = incarnations
        self.rank = multicast.rank
        self.id = ConfigurationId.regular(number)
        self.frozen = False
        self.engine = engine
        self.multicast = multicast
        self.delivery = Delivery(self.id, members, incarnations, engine, events, message_bytes)
        self._events = events
        self.pressed = False
        """There is more to send than one turn takes."""
        self._last_ordered = 0
        """The number of this site's own last frame with a slot."""

    # -- a turn

    def turn(self, outbox: Outbox, counter: int, now: int) -> tuple[list[Out], int]:
        """Takes what has arrived, sends what may be sent, delivers what may be delivered."""
        out: list[Out] = []
        multicast = self.multicast
        self._take(now)
        if outbox:
            # What is delivered now precedes what is sent now. With nothing to send it can wait for the turn's end.
            multicast.settle(now)
            self.delivery.release(multicast.stable)
        composed = 0
        self.pressed = False
        while outbox and self._may_send(outbox, now):
            if composed >= _TURN_BYTES:
                self.pressed = True
                break
            parcel = outbox.take()
            composed += parcel.size
            frame, counter = self._compose(parcel, counter, now)
            out.append((None, frame))
            self._take(now)
            if multicast.size == 1:
                multicast.settle(now)
                self.delivery.release(multicast.stable)
        note = self.engine.note(now)
        if note is not None:
            out.append((None, self._compose_note(note, now)))
            self._take(now)
        for to, datagram in multicast.turn(now, self.engine.wants_alive()):
            out.append((to, datagram))
            if isinstance(datagram, Alive):
                self.engine.heard(self.rank, datagram.clock)
        self.delivery.release(multicast.stable)
        return out, counter

    def _take(self, now: int) -> None:
        multicast = self.multicast
        if multicast.accepted:
            frames, multicast.accepted = multicast.accepted, []
            for frame in frames:
                self.delivery.take(frame, now)
        if multicast.heard:
            heard, multicast.heard = multicast.heard, []
            for rank, clock in heard:
                self.engine.heard(rank, clock)

    def _may_send(self, outbox: Outbox, now: int) -> bool:
        if not self.multicast.takes(outbox.peek_size(), now):
            return False
        if outbox.full or self.multicast.window.takes_partial():
            return True
        head = outbox.head
        return head is not None and head >= Service.AGREED and self.engine.awaited()

    def _compose(self, parcel: Parcel, counter: int, now: int) -> tuple[Frame, int]:
        multicast = self.multicast
        service = parcel.service
        frame = Frame(self.number, self.rank, 1, 0, [], int(service), parcel.part, counter, parcel.payloads)
        if parcel.part == FRAGMENT:
            multicast.compose(frame, parcel.size, parcel.full, now)
            return frame, counter
        if service >= Service.AGREED:
            frame.dist, frame.slot, frame.passes = self.engine.stamp(multicast.clock + 1, now)
            multicast.compose(frame, parcel.size, parcel.full, now)
            self._last_ordered = frame.seq
        else:
            if service == Service.CAUSAL:
                frame.own = self._last_ordered
                if self.delivery.position[0] >= 0:
                    frame.after = list(self.delivery.position)
            multicast.compose(frame, parcel.size, parcel.full, now)
        count = len(parcel.payloads)
        self._events.append(Sent(self.id, service, counter, count))
        return frame, counter + count

    def _compose_note(self, note: Note, now: int) -> Frame:
        frame = Frame(
            self.number, self.rank, 1, 0, [], int(Service.FIFO), WHOLE, 0, [],
            note.dist, -1, note.passes, note.weights,
        )  # fmt: skip
        self.multicast.compose(frame, 0, True, now)
        return frame

    def deadline(self) -> int | None:
        at, other = self.multicast.deadline(), self.engine.deadline()
        return at if other is None else other if at is None else min(at, other)

    # -- its end

    def freeze(self) -> None:
        """From now on frames come through recovery only; acks and alive frames no longer count."""
        self.frozen = True

    def state(self, number: int, site: int, members: tuple[int, ...], incarnations: tuple[int, ...],
              version: int, obligations: int) -> State:  # fmt: skip
        """This site's answer to a proposal (step 3)."""
        multicast = self.multicast
        extras: list[int] = []
        for q, seq in multicast.keep_extras(_EXTRAS_TOLD):
            extras += (q, seq)
        return State(
            number, site, list(members), list(incarnations), version, self.number, list(self.members),
            multicast.received, extras, multicast.known, self.engine.clocks(), obligations,
        )  # fmt: skip

    def matches(self, state: State, ahead_frames: int) -> bool:
        """Whether a state that claims to come from this configuration is possible: its sender has what it
        acknowledged, and no more than can have been sent."""
        if state.conf != self.number:
            return True
        size = len(self.members)
        rows = [state.received, state.clocks, *state.known]
        if (
            tuple(state.old) != self.members
            or state.site not in self.members
            or len(rows) != size + 2
            or any(len(row) != size for row in rows)
            or len(state.extras) % 2
            or any(rank >= size for rank in state.extras[::2])
        ):
            return False
        acked = self.multicast.known[self.members.index(state.site)]
        return all(
            before <= has <= mine + ahead_frames
            for before, has, mine in zip(acked, state.received, self.multicast.received, strict=True)
        )

    def finish(self, exchange: Exchange, following: int, now: int) -> None:
        """Step 6: the rest of the regular configuration, the transitional one and its messages."""
        multicast = self.multicast
        multicast.accept_stored(now)
        # Clocks that were heard after the state was sent are known to this site alone.
        multicast.heard.clear()
        self._take(now)
        self.engine.merge(exchange.clocks())
        self.delivery.release(exchange.stable(multicast.received))
        conf = ConfigurationId.transitional(self.number, following)
        self._events.append(Changed(ConfKind.TRANSITIONAL, conf, exchange.members, self.id))
        self.delivery.begin_transitional(conf)
        self.delivery.release(None)

    def discarded(self) -> set[int]:
        """Sites whose frames were discarded in step 6.a: they depend on frames that no member here has."""
        return {self.members[q] for q, _ in self.multicast.extras()}

    def invariants(self) -> None:
        self.multicast.invariants()
        self.engine.invariants()
