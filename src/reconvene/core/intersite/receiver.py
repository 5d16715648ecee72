"""One direction of a channel, at its receiving end.

Given: packets in any order, some lost, some twice.
Promised: each record once, in order. A packet that contradicts those before it is dropped, and not acknowledged.
"""

from reconvene.core.intersite.limits import AHEAD, ChannelCounters, ChannelLimits
from reconvene.core.multicast.packing import LAST, WHOLE
from reconvene.wire.messages import Packet

__all__ = ["Receiver"]


class Receiver:
    def __init__(self, limits: ChannelLimits, counters: ChannelCounters) -> None:
        self.got = 0
        """All packets up to this one are here."""
        self.number = 0
        """The number of the last complete record."""
        self.owes = False
        """An ack is to be sent."""
        self.fresh = False
        """It acknowledges a packet that no ack has named yet: if it gets lost, the peer sends that packet again."""
        self.echo = 0
        """The stamp of the last numbered packet, until it is sent back."""
        self._limits = limits
        self._counters = counters
        self._early: dict[int, Packet] = {}
        """Packets beyond a gap."""
        self._early_bytes = 0
        self._begun = bytearray()
        """The fragments so far of a record that is not complete. Many small ones take no more room than one."""

    @property
    def gaps(self) -> int:
        return sum(1 << seq - self.got - 2 for seq in self._early)

    def receive(self, packet: Packet) -> list[tuple[int, bytes]]:
        """Takes a numbered packet. Returns the records that are complete now, with their numbers."""
        seq = packet.seq
        if seq <= self.got or seq in self._early:
            self._counters.duplicates += 1
            self.owes = True
            return []
        size = sum(map(len, packet.records))
        if seq > self.got + AHEAD or (seq > self.got + 1 and self._early_bytes + size > self._limits.buffer_bytes):
            self._counters.overflow += 1
            return []
        found: list[tuple[int, bytes]] = []
        if seq > self.got + 1:
            self._early[seq] = packet
            self._early_bytes += size
        elif not self._accept(packet, found):
            return []
        self.owes = self.fresh = True
        self.echo = packet.stamp
        while (early := self._early.pop(self.got + 1, None)) is not None:
            self._early_bytes -= sum(map(len, early.records))
            if not self._accept(early, found):
                break
        return found

    def _accept(self, packet: Packet, found: list[tuple[int, bytes]]) -> bool:
        """Takes the next packet in order, unless it contradicts those before it."""
        records, begun = packet.records, self._begun
        if packet.part == WHOLE:
            if records and begun:
                self._counters.malformed += 1
                return False
            complete = records
        else:
            # An empty fragment is malformed too: no sender makes one.
            if (
                len(records) != 1
                or not records[0]
                or (packet.part == LAST and not begun)
                or len(begun) + len(records[0]) > self._limits.record_bytes
            ):
                self._counters.malformed += 1
                return False
            begun += records[0]
            complete = []
            if packet.part == LAST:
                complete = [bytes(begun)]
                self._begun = bytearray()
        self.got += 1
        for record in complete:
            self.number += 1
            found.append((self.number, record))
        return True

    def invariants(self) -> None:
        assert all(self.got + 1 < seq <= self.got + AHEAD for seq in self._early)
        assert self._early_bytes == sum(len(record) for one in self._early.values() for record in one.records)
        assert self._early_bytes <= self._limits.buffer_bytes
        assert len(self._begun) <= self._limits.record_bytes
