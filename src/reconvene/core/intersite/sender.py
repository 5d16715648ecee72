"""One direction of a channel, at its sending end: what waits, what is under way, and what to send again.

Promised: records leave in order, packed. A packet leaves again until it is acknowledged. At most two packets that are
not full are unacknowledged: what is sent meanwhile is packed, and a lone record never waits.
"""

from dataclasses import dataclass

from reconvene.core.intersite.limits import AHEAD, ChannelCounters, ChannelLimits
from reconvene.core.intersite.pace import Pace
from reconvene.core.multicast.packing import FRAGMENT, WHOLE, Outbox
from reconvene.core.multicast.window import weight
from reconvene.ids import Service

__all__ = ["Flight", "Sender"]


@dataclass(slots=True)
class Flight:
    """A numbered packet that is not acknowledged."""

    seq: int
    part: int
    records: list[bytes]
    size: int
    partial: bool
    """It has records, and is not full."""
    sent_at: int = 0
    """When it was sent last, and …"""
    order: int = 0
    """… its place among all that this end ever sent."""
    passed: bool = False
    """A packet that was sent after it is acknowledged."""


class Sender:
    def __init__(self, limits: ChannelLimits, counters: ChannelCounters, now: int) -> None:
        self.pace = Pace(limits)
        self.numbered = 0
        """The number of the last record that was queued."""
        self.last = 0
        """The number of the last packet that was sent."""
        self.acked = 0
        """All packets up to this one are acknowledged."""
        self.progress_at = now
        """When a packet was last acknowledged, or the first one sent after all were."""
        self.reported = False
        """The standstill is reported."""
        self._limits = limits
        self._counters = counters
        self._outbox = Outbox(limits.outbox())
        self._flights: dict[int, Flight] = {}
        """By number, in order."""
        self._under_way = 0
        """Their weight."""
        self._bytes = 0
        self._partials = 0
        self._empty: int | None = None
        """The number of the packet without records that is under way."""
        self._order = 0
        self._tries = 0
        """How often the oldest packet was sent again since the last progress."""
        self._restarted = False
        self._crowded = False

    @property
    def queued(self) -> int:
        """Bytes that are not acknowledged."""
        return self._outbox.bytes + self._bytes

    @property
    def waits(self) -> bool:
        """Something waits to be sent, though nothing is under way."""
        return bool(self._outbox) and not self._flights

    def submit(self, record: bytes) -> int:
        self._outbox.submit(Service.FIFO, record)
        self.numbered += 1
        return self.numbered

    def abandon(self) -> None:
        """The peer will never take anything: forgets all that waits and is under way."""
        self._outbox.give_back()
        for seq in list(self._flights):
            self._settle(seq)

    # -- acks

    def knows(self, ack: int, gaps: int) -> bool:
        """Whether only packets that were sent are named."""
        return ack <= self.last and (gaps == 0 or ack + 1 + gaps.bit_length() <= self.last)

    def acknowledge(self, ack: int, gaps: int, now: int) -> None:
        newest = -1
        for seq in range(self.acked + 1, ack + 1):
            newest = max(newest, self._settle(seq))
        self.acked = max(self.acked, ack)
        seq = ack + 2
        while gaps:
            if gaps & 1:
                newest = max(newest, self._settle(seq))
            gaps >>= 1
            seq += 1
        if newest < 0:
            return
        self.progress_at = now
        self.reported = False
        self._tries = 0
        for flight in self._flights.values():
            if flight.order < newest:
                flight.passed = True

    def _settle(self, seq: int) -> int:
        flight = self._flights.pop(seq, None)
        if flight is None:
            return -1
        self._under_way -= weight(flight.size)
        self._bytes -= flight.size
        self._partials -= flight.partial
        if self._empty == seq:
            self._empty = None
        return flight.order

    def restart(self) -> None:
        """The peer dropped what was sent before it knew the channel: everything leaves again at once. That happens
        once; a further request is a copy."""
        if self._restarted:
            return
        self._restarted = True
        self._tries = 0
        for flight in self._flights.values():
            flight.passed = True
            flight.sent_at = -(1 << 62)

    # -- packets

    def lost(self, now: int) -> list[Flight]:
        """What is to be sent again now."""
        found: list[Flight] = []
        oldest = True
        for flight in self._flights.values():
            if flight.passed:
                if flight.sent_at + self.pace.reordered_ns() <= now:
                    found.append(flight)
            elif oldest and flight.sent_at + self.pace.resend_after_ns(self._tries) <= now:
                self._tries += 1
                found.append(flight)
            oldest = False
        for flight in found:
            self._sent(flight, now)
        self._counters.resent += len(found)
        return found

    def take(self, granted: int, now: int) -> Flight | None:
        """The next packet, if there are records for one and the window has room for it."""
        outbox = self._outbox
        if not outbox or self.last - self.acked >= AHEAD:
            return None
        share = self.pace.share(granted)
        outbox.frame_bytes = self.pace.packet_bytes(granted)
        if self._flights and self._under_way + weight(outbox.peek_size()) > share:
            return None
        if self._partials >= 2 and not outbox.full:
            return None
        parcel = outbox.take()
        self._counters.packets += 1
        self._counters.records += 0 if parcel.part == FRAGMENT else len(parcel.payloads)
        return self._fly(parcel.part, parcel.payloads, parcel.size, not parcel.full, now)

    def take_empty(self, now: int) -> Flight | None:
        """A packet without records, that is acknowledged all the same. One at a time."""
        if self._empty is not None or self.last - self.acked >= AHEAD:
            return None
        self._empty = self.last + 1
        return self._fly(WHOLE, [], 0, False, now)

    def _fly(self, part: int, records: list[bytes], size: int, partial: bool, now: int) -> Flight:
        if not self._flights:
            self.progress_at = now
            self.reported = False
        self.last += 1
        flight = Flight(self.last, part, records, size, partial)
        self._flights[flight.seq] = flight
        self._under_way += weight(size)
        self._bytes += size
        self._partials += partial
        self._sent(flight, now)
        return flight

    def _sent(self, flight: Flight, now: int) -> None:
        self._order += 1
        flight.order = self._order
        flight.sent_at = now
        flight.passed = False

    # -- time

    def deadline(self) -> int | None:
        """When something is to be sent again."""
        at: int | None = None
        oldest = True
        for flight in self._flights.values():
            if flight.passed:
                due = flight.sent_at + self.pace.reordered_ns()
            elif oldest:
                due = flight.sent_at + self.pace.resend_after_ns(self._tries)
            else:
                continue
            oldest = False
            at = due if at is None else min(at, due)
        return at

    def slept(self, late_ns: int, now: int) -> None:
        """This site was paused: nobody else is to blame for that time."""
        self.progress_at += late_ns
        self.pace.valid_from = now

    def stalls(self, now: int) -> bool:
        """Nothing was acknowledged for long, though something is under way; or the peer is so slow that much waits.
        True once."""
        if not self._flights and not self._outbox:
            self._crowded = False
            return False
        limits = self._limits
        crowded = 2 * self.queued > limits.queue_bytes or 2 * len(self._outbox) > limits.queue_records
        news = crowded and not self._crowded
        self._crowded = crowded
        patience = limits.stall_after_ns + 6 * self.pace.round_trip_ns
        if self._flights and not self.reported and now - self.progress_at > patience:
            self.reported = news = True
        return news

    def invariants(self) -> None:
        flights = list(self._flights.values())
        assert [flight.seq for flight in flights] == sorted(self._flights)
        assert all(self.acked < flight.seq <= self.last for flight in flights)
        assert self.last - self.acked <= AHEAD
        assert self._under_way == sum(weight(flight.size) for flight in flights)
        assert self._bytes == sum(flight.size for flight in flights)
        assert self._partials == sum(flight.partial for flight in flights)
        assert self._partials <= 2
        assert self._empty is None or self._empty in self._flights
