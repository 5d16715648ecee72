"""A channel between one incarnation of this site and one of a peer: both directions, and what goes with them.

Marks and the floor travel in every packet, and only grow. A packet that acknowledges something new, or that is
numbered and sent for the first time, brings them reliably: if it gets lost, it or what it answers is sent again. So
where nothing else brings a change, a numbered packet without records does.

An ack leaves in the turn in which its packet came, unless the layer above says that nobody waits for it (`hold`).
Then it goes with the next packet, with the ack of the next one, or by itself a little later.
"""

from collections.abc import Iterator

from reconvene.core.intersite.limits import ChannelCounters, ChannelLimits
from reconvene.core.intersite.receiver import Receiver
from reconvene.core.intersite.sender import Flight, Sender
from reconvene.core.multicast.packing import WHOLE
from reconvene.wire.messages import Packet

__all__ = ["Channel"]

_ACTIVE_NS = 100_000_000
"""A peer that sent within this time and two round trips counts as sending, and has a share of the receive buffer."""
_APART_NS = 1_000_000_000
"""Packets that are further apart than this say nothing about the link."""
_NO_RECORDS: list[bytes] = []


class Channel:
    def __init__(
        self, site: int, here: int, there: int, limits: ChannelLimits, counters: ChannelCounters, now: int
    ) -> None:
        self.here = here
        self.there = there
        self.sender = Sender(limits, counters, now)
        self.receiver = Receiver(limits, counters)
        self.arrived = 0
        """Own records up to this one are complete at the peer, as it marked."""
        self.released = 0
        """Own records up to this one have left the peer's wait queues, as it marked."""
        self.floor = 0
        """The peer's."""
        self.dead = False
        """The peer has gone on without this incarnation of this site: nothing is sent any more."""
        self.again = False
        """The peer is to send everything again."""
        self.changed = False
        """Something happened since the last flush."""
        self.due_at: int | None = None
        """When there is something to send though nothing happens."""
        self._site = site
        self._limits = limits
        self._counters = counters
        self._granted = limits.buffer_bytes
        """What the peer said that may be under way to it."""
        self._heard_at = -(1 << 62)
        self._records_at = -(1 << 62)
        """When the last packet of the peer with records came, and …"""
        self._apart_ns = 0
        """… how far such packets were apart, at most, of late. It stands for the round trip, which this end can't
        measure as long as it sends nothing that is acknowledged."""
        self._mark = (0, 0)
        """What of the peer's records has arrived, and is released."""
        self._unsaid = False
        """No packet has brought the peer that mark reliably."""
        self._owed = 0
        """Numbered packets that came since the last packet to the peer."""
        self._hold_until: int | None = None
        """The ack of one of those waits until then, at most."""
        self._held_from: int | None = None
        """It has waited since this turn."""
        self._said_floor = 0
        self._floor_at: int | None = None
        """When the floor is told without anything else."""
        self._hurries = False
        """That is after the shorter time."""
        self._used = False
        """Records were exchanged since the peer was told a new floor: it may wait for the next one."""

    # -- the layer above

    def send(self, record: bytes) -> int:
        number = self.sender.submit(record)
        if self.dead:
            self.sender.abandon()
        self.changed = self._used = True
        return number

    def die(self) -> None:
        """The peer has gone on without this incarnation of this site."""
        self.dead = True
        self.due_at = None
        self.sender.abandon()

    def mark(self, arrived: int, released: int) -> None:
        assert released <= arrived <= self.receiver.number, "only what was received can be marked"
        mark = (max(arrived, self._mark[0]), max(released, self._mark[1]))
        if mark != self._mark:
            self._mark = mark
            self._unsaid = self.changed = True
            if self._held_from is not None:
                self._hold_until = None  # it marks something else than the packet whose ack waits

    def hold(self, now: int) -> None:
        """Nobody waits for the ack of the last packet: it may go with something else. That of every second packet
        leaves at once, since the peer has at most two under way that are not full."""
        if self._owed == 1:
            self._hold_until = now + self._limits.hold_ack_ns

    # -- packets of the peer

    def receive(self, packet: Packet, now: int) -> list[tuple[int, bytes]]:
        """Takes a packet of this channel."""
        sender = self.sender
        if (
            not sender.knows(packet.ack, packet.gaps)
            or not packet.released <= packet.arrived <= sender.numbered
            or (packet.seq == 0 and packet.records)
        ):
            self._counters.malformed += 1
            return []
        self.changed = True
        self._heard_at = now
        self._granted = packet.room
        if packet.echo:
            sender.pace.sample(packet.echo, now)
        sender.acknowledge(packet.ack, packet.gaps, now)
        self.arrived = max(self.arrived, packet.arrived)
        self.released = max(self.released, packet.released)
        self.floor = max(self.floor, packet.floor)
        if packet.again:
            sender.restart()
        if packet.seq == 0:
            return []
        self._owed += 1
        self._hold_until = None
        if packet.records:
            self._apart_ns = max(min(now - self._records_at, _APART_NS), self._apart_ns * 15 // 16)
            self._records_at = now
            self._used = True
        return self.receiver.receive(packet)

    def sends(self, now: int) -> bool:
        """Whether the peer has sent records of late."""
        trip = self.sender.pace.round_trip_ns or self._apart_ns
        return now - self._records_at <= _ACTIVE_NS + 2 * trip

    # -- packets to the peer

    def flush(self, floor: int, room: int, fallback: int, now: int) -> Iterator[Packet]:
        """The packets of this turn. `room`: what the peer may have under way to this site; `fallback`: what may be
        under way to the peer while it is silent."""
        self.changed = False
        if self.dead:
            return
        sender, receiver = self.sender, self.receiver
        heard = now - self._heard_at <= _ACTIVE_NS + 2 * sender.pace.round_trip_ns
        granted = self._granted if heard else min(self._granted, fallback)
        spoke, reliable = False, receiver.fresh
        for lost in sender.lost(now):
            yield self._packet(lost, floor, room, now)
            spoke = True
        while (flight := sender.take(granted, now)) is not None:
            yield self._packet(flight, floor, room, now)
            spoke = reliable = True
        if not spoke and self._holds(floor, now):
            reliable = False
        elif not spoke:
            unsaid = (self._unsaid or self._floor_due(floor, now)) and not receiver.fresh
            empty = sender.take_empty(now) if unsaid else None
            reliable = reliable or empty is not None
            if empty is not None or receiver.owes or self.again:
                self._counters.bare += 1
                yield self._packet(empty, floor, room, now)
        if reliable:
            self._unsaid = False
            if floor != self._said_floor:
                self._said_floor = floor
                self._used = False
        self._plan(floor, now)

    def _packet(self, flight: Flight | None, floor: int, room: int, now: int) -> Packet:
        receiver = self.receiver
        echo, receiver.echo = receiver.echo, 0
        if echo and self._held_from is not None:
            echo += now - self._held_from  # the time that it waited here is no part of the round trip
        self._owed, self._hold_until, self._held_from = 0, None, None
        again, self.again = self.again, False
        receiver.owes = receiver.fresh = False
        seq, part, records = (0, WHOLE, _NO_RECORDS) if flight is None else (flight.seq, flight.part, flight.records)
        return Packet(
            self._site, self.here, self.there, seq, receiver.got, receiver.gaps, *self._mark, floor, now, echo, room,
            part, records, False, again,
        )  # fmt: skip

    def _holds(self, floor: int, now: int) -> bool:
        """Whether what is to be said can wait for something else that goes."""
        if self._hold_until is None or now >= self._hold_until or self.again or self._floor_due(floor, now):
            return False
        if self._held_from is None:
            self._held_from = now
        return True

    def _floor_due(self, floor: int, now: int) -> bool:
        return floor != self._said_floor and self._floor_at is not None and now >= self._floor_at

    def _plan(self, floor: int, now: int) -> None:
        """Decides when to speak next though nothing happens."""
        if floor == self._said_floor:
            self._floor_at = None
            self._hurries = False
        else:
            self._hurries = self._used or self._is_far(floor)
            at = now + (self._limits.tell_after_ns if self._hurries else self._limits.tell_idle_ns)
            self._floor_at = at if self._floor_at is None else min(self._floor_at, at)
        due = self.sender.deadline()
        at_floor = self._floor_at
        if at_floor is not None and at_floor > now:
            due = at_floor if due is None else min(due, at_floor)
        if self._hold_until is not None:
            due = self._hold_until if due is None else min(due, self._hold_until)
        self.due_at = due

    def behind(self, floor: int) -> bool:
        """Whether this floor is news, and a time to tell it is to be set."""
        if floor == self._said_floor or self.dead:
            return False
        return self._floor_at is None or (not self._hurries and self._is_far(floor))

    def _is_far(self, floor: int) -> bool:
        return floor - self._said_floor >= self._limits.tell_casts

    def invariants(self) -> None:
        self.sender.invariants()
        self.receiver.invariants()
        assert self.changed or self.dead or not self.sender.waits, "what waits, waits for an ack"
        assert self.released <= self.arrived <= self.sender.numbered
        assert self._mark[1] <= self._mark[0] <= self.receiver.number
