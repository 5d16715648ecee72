"""The distributions of one configuration: which member introduced them, and which member may tag a frame with which.

Given: numbered frames in causal order.
Promised: the same answer at every member to whether a distribution is valid and whether a frame may be tagged
with it. So the answer rests on nothing but the frame, its sender's earlier frames and the frames that these
acknowledge. Other frames that this site happens to have must not count.
"""

from reconvene.core.order.generators import Sequence, make_sequence
from reconvene.wire.messages import Frame

__all__ = ["MAX_STEP", "MAX_TOTAL", "Distribution", "Distributions"]

MAX_TOTAL = 4096
"""A distribution's weights together: bounds the tables made from them."""

MAX_STEP = 1 << 32
"""How far a sender's frame may go beyond its last one, in slots or distribution ids. No valid frame comes
near it; without it one invalid frame could use up the numbers."""


class Distribution:
    __slots__ = ("id", "issuer", "seen", "seq", "sequence", "weights")

    def __init__(self, id: int, issuer: int, seq: int, weights: list[int], sequence: Sequence) -> None:  # noqa: A002
        self.id = id
        self.issuer = issuer
        self.seq = seq
        """The frame that introduced it."""
        self.weights = weights
        self.sequence = sequence
        self.seen = 1 << issuer
        """Bits: the members that have acknowledged that frame in a frame of their own."""


class Distributions:
    """The one with the highest id is the sending distribution (section 4.3). The first has id 0 and equal
    weights; later ones counter · members + the issuer's rank, so that no two issuers can make the same."""

    def __init__(self, number: int, members: int, generator: str) -> None:
        self.number = number
        self.members = members
        self.generator = generator
        first = self._make(0, 0, 0, [1] * members)
        first.seen = (1 << members) - 1
        self.newest = first
        self._known = {0: first}
        self.open = False
        """Some member has not yet tagged a frame with the highest: its acks must be read."""

    def _make(self, dist: int, issuer: int, seq: int, weights: list[int]) -> Distribution:
        sequence = make_sequence(self.generator, weights, (self.number, dist))
        return Distribution(dist, issuer, seq, weights, sequence)

    def next_id(self, issuer: int) -> int:
        return (self.newest.id // self.members + 1) * self.members + issuer

    def introduce(self, frame: Frame, tag: int) -> Distribution | None:
        """The distribution that this frame introduces, if it is valid. `tag`: its sender's last."""
        dist = frame.dist
        if (
            dist % self.members != frame.sender
            or not tag < dist <= tag + MAX_STEP
            or len(frame.weights) != self.members
            or min(frame.weights) < 1
            or sum(frame.weights) > MAX_TOTAL
        ):
            return None
        made = self._make(dist, frame.sender, frame.seq, list(frame.weights))
        self._known[dist] = made
        if dist > self.newest.id:
            self.newest = made
        self.open = self.members > 1
        return made

    def read_acks(self, frame: Frame) -> None:
        """Notes which introductions this frame acknowledges. Causal order brings the introduction before every
        frame that does, so none is missed."""
        acks = frame.acks
        for index in range(0, len(acks) - 1, 2):
            for dist in self._known.values():
                if dist.issuer == acks[index] and dist.seq <= acks[index + 1]:
                    dist.seen |= 1 << frame.sender

    def taggable(self, sender: int, dist: int) -> Distribution | None:
        """The distribution, if this sender's frames show that it knows it."""
        known = self._known.get(dist)
        return known if known is not None and known.seen >> sender & 1 else None

    def forget(self, tags: list[int]) -> None:
        """Drops what no member can tag a frame with any more. `tags`: each member's last."""
        lowest = min(tags)
        for dist in [dist for dist in self._known if dist < lowest]:
            del self._known[dist]
        self.open = lowest < self.newest.id
