"""How fast a channel may send: measured round trips, when to send again, and how much may be under way.

The window is what the receiver grants. Where round trips grow long, a queue is building up somewhere on the way, and
the window shrinks until it drains.
"""

from reconvene.core.intersite.limits import SMALL_BYTES, ChannelLimits
from reconvene.core.multicast.window import weight

__all__ = ["Pace"]

_SLACK_NS = 50_000_000
_JUMP_NS = 100_000_000
"""A sample counts as at most four round trips and this: the longer ones include a pause of the peer."""
_DOUBLINGS = 16
_LONG_NS = 20_000_000
"""A link is long if its shortest round trip takes this time. There the receive buffer bounds what a channel carries,
and small packets fill it better. On other links, what a packet costs to handle counts for more."""


class Pace:
    def __init__(self, limits: ChannelLimits) -> None:
        self.round_trip_ns = 0
        """Smoothed; 0: not known yet."""
        self.spread_ns = 0
        """Smoothed difference between a sample and the round trip."""
        self.valid_from = 0
        """Stamps before this one are ignored: this site slept since."""
        self._limits = limits
        self._small_bytes = min(limits.packet_bytes, SMALL_BYTES)
        self._packet = weight(limits.packet_bytes)
        self._small = weight(self._small_bytes)
        self._least_ns = 1 << 62
        self._backed_off_at = -(1 << 62)
        self._limit = limits.buffer_bytes

    def sample(self, stamp: int, now: int) -> None:
        """A packet that was sent at `stamp` is answered."""
        if not self.valid_from <= stamp <= now:
            return
        took = now - stamp
        trip = self.round_trip_ns
        if trip == 0:
            self.round_trip_ns, self.spread_ns = max(took, 1), took // 2
        else:
            took = min(took, 4 * trip + _JUMP_NS)
            self.spread_ns += (abs(took - trip) - self.spread_ns) // 4
            self.round_trip_ns = max(trip + (took - trip) // 8, 1)
        self._adapt(self.round_trip_ns, now)

    def _adapt(self, took: int, now: int) -> None:
        # By smoothed times: where delays vary, a single packet says little.
        self._least_ns = min(self._least_ns, took)
        if took <= 2 * self._least_ns + 2 * self.spread_ns + _SLACK_NS:
            self._limit += self._packet // 4
        elif now - self._backed_off_at > took:
            # Once a round trip: what is under way was sent under the old limit.
            if self._limit == self._small:
                self._least_ns = took  # one packet is under way, and nothing of ours can queue: the way is longer now
            self._limit = self._limit * 7 // 10
            self._backed_off_at = now

    def share(self, granted: int) -> int:
        """How much may be under way, where the receiver grants so much. One packet always may. After a small grant
        it grows step by step: other peers may have begun at the same moment, and the receiver must hear of them."""
        self._limit = max(min(self._limit, granted), self._small)
        return self._limit

    def takes_ns(self, queued: int, first: int) -> int:
        """About how long so many bytes take to leave. `first`: what may be under way before a first answer."""
        if self.round_trip_ns == 0:
            return queued * self._limits.resend_first_ns // first
        return queued * self.round_trip_ns // self._limit

    def packet_bytes(self, granted: int) -> int:
        """How large packets are, where the receiver grants so much. Large ones cost less to handle. But they fill a
        receive buffer badly, and of a small grant they leave much unused."""
        # Neither the present round trip nor the share: both suffer from load, and small packets would add to it.
        long = self.round_trip_ns and self._least_ns >= _LONG_NS
        return self._small_bytes if long or granted < 2 * self._packet else self._limits.packet_bytes

    def resend_after_ns(self, tries: int) -> int:
        """How long to wait for an ack before the oldest packet is sent again for the `tries`-th time, from 0."""
        limits = self._limits
        trip = self.round_trip_ns
        if trip == 0:
            first = limits.resend_first_ns
        else:
            first = trip + max(4 * self.spread_ns, limits.resend_least_ns)
        return min(first << min(tries, _DOUBLINGS), limits.resend_most_ns + 2 * trip)

    def reordered_ns(self) -> int:
        """A packet that is not acknowledged so long after it was sent, though a later one is, counts as lost."""
        trip = self.round_trip_ns
        return trip + max(trip // 4, 2 * self.spread_ns)
