"""Everything about channels that can be set, and what they count."""

from dataclasses import dataclass

from reconvene.core.options import MS, Limits

__all__ = ["AHEAD", "SMALL_BYTES", "ChannelCounters", "ChannelLimits"]

AHEAD = 64
"""How many packets beyond the last one that arrived in order are kept, and so how many may be under way: the bits of
`Packet.gaps` must tell all of them."""


SMALL_BYTES = 3_696
"""A packet with so many bytes takes little more of a receive buffer than it holds: 4,352 bytes. One of 8,900 bytes
takes 16,640 (`core.multicast.window.weight`)."""


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    packet_bytes: int = 8_900
    """A packet's records together, before its header."""
    record_bytes: int = 16 << 20
    """A larger record is rejected. The same at every site: receivers hold a sender to their own limit."""
    queue_bytes: int = 64 << 20
    queue_records: int = 100_000
    """What waits to be sent to one peer. From half of it on the peer is reported as if it stood still; beyond it
    `send` raises Unavailable."""
    buffer_bytes: int = 106_496
    """The part of this site's receive buffer that is for packets. Its peers share it."""
    resend_first_ns: int = 100 * MS
    """When a packet is sent again, as long as no round trip was measured."""
    resend_least_ns: int = 10 * MS
    """Added to a measured round trip, at least. The time doubles with each try …"""
    resend_most_ns: int = 400 * MS
    """… up to this and two round trips."""
    hold_ack_ns: int = 4 * MS
    """How long an ack that nobody waits for may wait for a packet to go with: less than the peer waits before it
    sends again."""
    stall_after_ns: int = 2_500 * MS
    """A peer that acknowledges nothing for so long and six round trips, though something is under way to it, is
    reported."""
    tell_after_ns: int = 100 * MS
    """A change of the floor is told after this time to peers with which records were exchanged since the last one,
    even if nothing else is sent …"""
    tell_idle_ns: int = 5_000 * MS
    """… and after this time to the other peers, …"""
    tell_casts: int = 256
    """… unless it is higher by so many: then it is told to all of them after the shorter time."""
    dead_every_ns: int = 100 * MS
    """How often a dead incarnation is told so, at most."""

    def outbox(self) -> Limits:
        return Limits(
            frame_bytes=self.packet_bytes,
            message_bytes=self.record_bytes,
            queue_bytes=self.queue_bytes,
            queue_messages=self.queue_records,
        )


@dataclass(slots=True)
class ChannelCounters:
    """Of all channels of a site since it started."""

    packets: int = 0
    """Packets with records, each counted once."""
    records: int = 0
    """Records of which the last or only part was sent, each counted once."""
    bare: int = 0
    """Packets without records: acks, marks and floors."""
    resent: int = 0
    duplicates: int = 0
    malformed: int = 0
    overflow: int = 0
    """Packets too far ahead to be kept."""
    stale: int = 0
    """Packets of or for another incarnation, and of sites without a channel."""
    dead_sent: int = 0
    dead_heard: int = 0
    """Packets that say that an incarnation of this site is dead."""
    stalled: int = 0
