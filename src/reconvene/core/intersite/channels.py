"""The channels of a site, one to each peer (paper 002, 4.1).

Given: packets in any order, some lost, some twice; which incarnation of which site to talk to. A site's incarnation
is its born, the number of the configuration in which it entered the line.
Promised: what is sent to a peer arrives once and in order, as long as both incarnations go on. What is under way fits
the part of the receive buffer that is for channels. Acks leave in the turn in which a packet came, but for those that
may be held (`hold`), and a lone record in the turn in which it was sent. Nothing of another incarnation is accepted.
A peer that acknowledges nothing for long is reported. No packet, however malformed, raises an error.
"""

from reconvene.core.intersite.channel import Channel
from reconvene.core.intersite.limits import ChannelCounters, ChannelLimits
from reconvene.wire.codec import encode
from reconvene.wire.messages import Packet

__all__ = ["Channels"]

_LATE_NS = 100_000_000
"""A site that is called so much later than it asked for was paused."""


class Channels:
    def __init__(self, site: int, limits: ChannelLimits) -> None:
        self.site = site
        self.counters = ChannelCounters()
        self.floor = 0
        """Told to every peer in every packet."""
        self.floor_changes = 0
        """How often a peer told a higher floor than before."""
        self._limits = limits
        self._channels: dict[int, Channel] = {}
        """By peer, sorted."""
        self._former: dict[int, tuple[int, int]] = {}
        """By peer: the incarnations, here and there, of the last channel that was given up."""
        self._missed: dict[int, tuple[int, int]] = {}
        """By peer: its incarnation and this site's in the last packet that came before its channel."""
        self._dead: dict[int, tuple[int, int]] = {}
        """By peer that is to be told so: this site's incarnation, and the peer's dead one."""
        self._dead_at: dict[int, int] = {}
        """When each peer was told last."""
        self._wake_at: int | None = None

    # -- the layer above

    @property
    def peers(self) -> list[int]:
        return list(self._channels)

    def connect(self, peer: int, here: int, there: int, now: int) -> None:
        """A channel between these incarnations of this site and the peer. An older one with this peer is forgotten.
        For the same incarnations again nothing happens."""
        assert peer != self.site
        old = self._channels.get(peer)
        if old is not None and (old.here, old.there) == (here, there):
            return
        self.disconnect(peer)
        former = self._former.get(peer)
        assert former is None or (here >= former[0] and there >= former[1] and (here, there) != former), (
            "a channel that was given up is not taken up again"
        )
        channel = Channel(self.site, here, there, self._limits, self.counters, now)
        channel.again = channel.changed = self._missed.pop(peer, None) == (there, here)
        self._channels[peer] = channel
        self._channels = dict(sorted(self._channels.items()))

    def disconnect(self, peer: int) -> None:
        """Gives the channel up, with all that was not acknowledged. The others have gone on without the peer: it is
        told that it is dead if it sends on."""
        channel = self._channels.pop(peer, None)
        if channel is not None:
            self._former[peer] = (channel.here, channel.there)

    def send(self, peer: int, record: bytes) -> int:
        """Queues a record. Returns its number on this channel, from 1.

        Raises Rejected if it is too large, Unavailable if too much waits already.
        """
        assert peer in self._channels, f"no channel to site {peer}"
        return self._channels[peer].send(record)

    def give_up(self, peer: int) -> None:
        """Nothing is sent to this incarnation of the peer any more, and nothing of it is taken."""
        self._channels[peer].die()

    def queued(self, peer: int) -> int:
        """Bytes that the peer has not acknowledged."""
        channel = self._channels.get(peer)
        return 0 if channel is None else channel.sender.queued

    def takes_ns(self, peer: int, more: int) -> int:
        """About how long it takes until the peer has what waits for it, and so many bytes more, at the present
        pace."""
        channel = self._channels.get(peer)
        if channel is None:
            return 0
        return channel.sender.pace.takes_ns(channel.sender.queued + more, self._equal_share)

    def mark(self, peer: int, arrived: int, released: int) -> None:
        """The layer above has the peer's records up to `arrived` complete, and has released those up to `released`.
        The peer is told with the next packet, at once if nothing else goes."""
        self._channels[peer].mark(arrived, released)

    def hold(self, peer: int, now: int) -> None:
        """Nobody waits for the ack of the packet that came last from this peer."""
        self._channels[peer].hold(now)

    def arrived(self, peer: int) -> int:
        """Up to which of the records sent to it the peer has them complete, as it marked."""
        channel = self._channels.get(peer)
        return 0 if channel is None else channel.arrived

    def released(self, peer: int) -> int:
        channel = self._channels.get(peer)
        return 0 if channel is None else channel.released

    def floor_of(self, peer: int) -> int:
        channel = self._channels.get(peer)
        return 0 if channel is None else channel.floor

    def dead(self) -> list[int]:
        """Peers that said that this incarnation of this site is dead. Nothing is sent to them any more."""
        return [peer for peer, channel in self._channels.items() if channel.dead]

    def stalled(self, now: int) -> list[int]:
        """Peers that have acknowledged nothing for long though something is under way: each standstill once."""
        self._wake(now)
        found = [peer for peer, channel in self._channels.items() if not channel.dead and channel.sender.stalls(now)]
        self.counters.stalled += len(found)
        return found

    # -- packets

    def receive(self, packet: Packet, now: int) -> list[tuple[int, bytes]]:
        """Takes a packet. Returns the peer's records that are next in order, with their numbers."""
        self._wake(now)
        peer = packet.site
        channel = self._channels.get(peer)
        if packet.dead:
            if channel is not None and packet.there == channel.here and packet.here >= channel.there:
                channel.die()
                self.counters.dead_heard += 1
            else:
                self.counters.stale += 1
            return []
        if channel is not None and (packet.here, packet.there) == (channel.there, channel.here):
            if channel.dead:
                return []
            floor = channel.floor
            records = channel.receive(packet, now)
            self.floor_changes += channel.floor > floor
            return records
        self.counters.stale += 1
        known = (channel.here, channel.there) if channel is not None else self._former.get(peer)
        if known is None or packet.here > known[1] or (packet.here == known[1] and packet.there > known[0]):
            # From an incarnation, or for one, that this site has not heard of yet.
            if peer != self.site:
                self._missed[peer] = (packet.here, packet.there)
        elif channel is None or packet.here < known[1]:
            self._dead[peer] = (known[0], packet.here)
        return []

    def flush(self, now: int) -> list[tuple[tuple[int, ...], bytes]]:
        """Ends a turn. Returns the datagrams to send, each with its destination."""
        self._wake(now)
        out: list[tuple[tuple[int, ...], bytes]] = []
        if self._dead:
            self._tell_dead(out, now)
        channels = self._channels
        floor = self.floor
        room = fallback = 0
        for peer, channel in channels.items():
            due_at = channel.due_at
            if not (channel.changed or channel.behind(floor) or (due_at is not None and due_at <= now)):
                continue
            if room == 0:
                room, fallback = self._shares(now)
            out += [((peer,), encode(packet)) for packet in channel.flush(floor, room, fallback, now)]
        self._wake_at = self.deadline()
        return out

    def _shares(self, now: int) -> tuple[int, int]:
        """What each peer may have under way to this site: one that is sending, and one that may begin at any moment.
        Half of the buffer is for all peers alike, the other half for those that are sending."""
        channels = self._channels.values()
        sending = max(sum(channel.sends(now) for channel in channels), 1)
        return self._equal_share + self._half_buffer // sending, self._equal_share

    @property
    def _half_buffer(self) -> int:
        return self._limits.buffer_bytes * 9 // 20

    @property
    def _equal_share(self) -> int:
        """Of one peer, whether it is sending or not."""
        return self._half_buffer // len(self._channels)

    def _tell_dead(self, out: list[tuple[tuple[int, ...], bytes]], now: int) -> None:
        for peer, (here, there) in sorted(self._dead.items()):
            if now - self._dead_at.get(peer, -(1 << 62)) >= self._limits.dead_every_ns:
                self._dead_at[peer] = now
                self.counters.dead_sent += 1
                out.append(((peer,), encode(Packet(self.site, here, there, 0, 0, 0, 0, 0, 0, 0, 0, 0, dead=True))))
        self._dead.clear()

    def deadline(self) -> int | None:
        """When `flush` is to be called though nothing happens."""
        at: int | None = None
        for channel in self._channels.values():
            due_at = channel.due_at
            if due_at is not None and (at is None or due_at < at):
                at = due_at
        return at

    def _wake(self, now: int) -> None:
        """Where this site was paused, no peer is to blame for that time."""
        if self._wake_at is not None and now - self._wake_at > _LATE_NS:
            for channel in self._channels.values():
                channel.sender.slept(now - self._wake_at, now)
        if self._wake_at is not None:
            self._wake_at = max(self._wake_at, now)

    def invariants(self) -> None:
        assert list(self._channels) == sorted(self._channels)
        for channel in self._channels.values():
            channel.invariants()
