"""The adaptive total order protocol: slots are handed out by weight, and the weights follow the traffic.

Given by evs: every numbered frame in causal order, own ones included.
Promised: every member returns the same frames in the same order, that of (distribution, slot), also when a partition
separates it from the others. What it returns at a configuration change follows from the frames alone.

A member's *place* is the lowest (distribution, slot) that it can still use: its first own slot above all that it
has named or passed, in the distribution that it last tagged a frame with. A frame is ready when it lies below
every member's place. That is figures 4 to 6 of the paper in one comparison: a slot is waited for until its owner
has used it, passed it or moved to a higher distribution. The ordering distribution ends when all members have moved
and nothing of it is left.

Invalid parts of a frame are ignored by a rule with the same result at every member (see distributions.py), and
counted in `ignored`. Its parts are judged in this order, and one that fails voids those after it: its sender is a
member; its weights, if any, are valid; its tag is not below its sender's last, and known to its sender; its slot
is its sender's own, not below its place and not absurdly far above it; nor is what it passes.
"""

from heapq import heappop, heappush

from reconvene.core.order.distributions import MAX_STEP, Distributions
from reconvene.core.order.engine import Key, Note, Stamp
from reconvene.core.order.policies import Policy
from reconvene.wire.messages import Frame

__all__ = ["LEAD_FRAMES", "Atop"]

LEAD_FRAMES = 32
"""A silent member passes its slots ahead for as many frames of one busy sender, at equal weights."""

_SILENT = 6
"""A member that had to pass this many times since its last ordered frame is silent."""

_BITS = 64
_SLOT = (1 << _BITS) - 1
"""A place is one integer, distribution · 2⁶⁴ + slot, so that places compare at once."""


class Atop:
    def __init__(self, number: int, members: int, rank: int, generator: str, policy: Policy) -> None:
        self.number = number
        self.rank = rank
        self.policy = policy
        self._watching = policy.watches
        self.ignored = 0
        self.dummies = 0
        """Own frames that carried nothing but passes or a tag."""
        self.introduced = 0
        """Own frames that introduced a distribution."""
        self._distributions = Distributions(number, members, generator)
        first = self._distributions.newest
        self._tags = [0] * members
        self._sequences = [first.sequence] * members
        self._places = [first.sequence.next_own(member, -1) for member in range(members)]
        self._limit = min(self._places)
        self._pending: list[tuple[int, Frame]] = []
        self._theirs = -1
        """The highest place that an ordered frame of others has used."""
        self._passed = _SILENT
        """How often this site passed since its last ordered frame."""
        self._skipping = False
        self._last = -1

    # Own frames

    def stamp(self, clock: int, now: int) -> Stamp:
        dist, slot, _ = self._next()
        return Stamp(dist, slot)

    def _next(self) -> tuple[int, int, int]:
        """The sending distribution, the slot of the next ordered frame, and the first slot that it could have.

        It jumps over what others have used, so that the order keeps up with its fastest sender and an own frame
        does not hold up later ones; naming the slot passes those in between.
        """
        newest = self._distributions.newest
        if self._tags[self.rank] == newest.id:
            first = self._places[self.rank] & _SLOT
        else:
            first = newest.sequence.next_own(self.rank, -1)
        used = self._used(newest.id)
        if used < first:
            return newest.id, first, first
        return newest.id, newest.sequence.next_own(self.rank, min(used, first + MAX_STEP // 2)), first

    def _used(self, dist: int) -> int:
        """The highest slot of this distribution, the newest, that others' ordered frames have used; -1: none."""
        return self._theirs & _SLOT if self._theirs >> _BITS == dist else -1

    def note(self, now: int) -> Note | None:
        if self._skipping:
            return None
        weights = None if self._distributions.open else self.policy.propose(now)
        if weights is not None:
            return Note(self._distributions.next_id(self.rank), self._lead(), weights)
        if self._passed < _SILENT and not self.awaited():
            return None  # its own messages will carry it; if not, others will wait
        dist, _, first = self._next()
        if not self._must_pass(dist, first):
            return None
        used = self._used(dist)
        return Note(dist, min(used + 1 + self._lead(), first + MAX_STEP // 2), [])

    def _must_pass(self, dist: int, first: int) -> bool:
        if self.awaited():
            return True
        if self._tags[self.rank] != dist:
            return True  # section 5: a silent member adopts a new distribution by a dummy
        # Half of the lead is kept, so that a busy sender need not wait for it. What others passed does not count.
        used = self._used(dist)
        return used >= 0 and used + self._lead() // 2 >= first

    def _lead(self) -> int:
        """How far beyond others' frames to pass. A member that just sent will send again, and near slots bring
        its frame into the order soonest; each pass in vain makes that less likely."""
        if self._passed >= _SILENT:
            return LEAD_FRAMES * len(self._places)
        return len(self._places) * ((1 << self._passed) - 1)

    def awaited(self) -> bool:
        return self._theirs > self._places[self.rank]

    def wants_alive(self) -> bool:
        return False

    def deadline(self) -> int | None:
        # While a new distribution is being taken up none is proposed; the frame that ends that comes with a turn.
        return None if self._distributions.open or self._skipping else self.policy.deadline()

    # All frames

    def receive(self, frame: Frame, now: int) -> None:
        sender = frame.sender
        if sender >= len(self._places):
            self.ignored += 1
            return
        if self._distributions.open:
            self._distributions.read_acks(frame)
        if (frame.dist != self._tags[sender] or frame.weights) and not self._retag(frame, now):
            return
        place = self._places[sender]
        slot = frame.slot
        if slot >= 0:
            key = frame.dist << _BITS | slot
            after = self._sequences[sender].after(sender, slot)
            if after < 0 or key < place or key > place + MAX_STEP:
                self.ignored += 1
                return
            heappush(self._pending, (key, frame))
            self._note_use(sender, key, frame, now)
            self._move(sender, key + after - slot)
        passes = frame.passes
        if passes:
            self._pass(frame, passes)

    def _note_use(self, sender: int, key: int, frame: Frame, now: int) -> None:
        if sender == self.rank:
            self._passed = 0
        elif key > self._theirs:
            self._theirs = key
        if self._watching and frame.messages:
            self.policy.observe(sender, len(frame.messages), now)

    def _pass(self, frame: Frame, passes: int) -> None:
        sender = frame.sender
        slot = self._places[sender] & _SLOT
        if passes > slot + MAX_STEP:
            self.ignored += 1
        elif passes > slot:
            self._move(sender, frame.dist << _BITS | self._sequences[sender].next_own(sender, passes - 1))
        if sender == self.rank and frame.slot < 0 and not frame.weights:
            self._count_dummy()

    def _count_dummy(self) -> None:
        self.dummies += 1
        self._passed = min(self._passed + 1, _SILENT)

    def _retag(self, frame: Frame, now: int) -> bool:
        """Whether the frame's distribution is its sender's now."""
        sender = frame.sender
        if frame.weights:
            made = self._distributions.introduce(frame, self._tags[sender])
            if made is None:
                self.ignored += 1
                return False
            if made is self._distributions.newest:
                self.policy.adopted(sender, made.weights, now)
            if sender == self.rank:
                self.introduced += 1
        tag = self._tags[sender]
        if frame.dist < tag or (known := self._distributions.taggable(sender, frame.dist)) is None:
            # A frame without a part in the order need not know where the order is.
            self.ignored += frame.slot >= 0 or frame.passes > 0 or frame.dist > tag
            return False
        self._tags[sender] = known.id
        self._sequences[sender] = known.sequence
        self._move(sender, known.id << _BITS | known.sequence.next_own(sender, -1))
        self._distributions.forget(self._tags)
        if sender == self.rank and not (frame.weights or frame.slot >= 0 or frame.passes):
            self._count_dummy()
        return True

    def _move(self, member: int, place: int) -> None:
        lowest = self._places[member] == self._limit
        self._places[member] = place
        if lowest:
            self._limit = self._horizon()

    def _horizon(self) -> int:
        """No member can still use a slot below this place."""
        return min(self._places)

    def heard(self, rank: int, clock: int) -> None:
        pass

    # The order

    def peek(self) -> tuple[Key, Frame] | None:
        if not self._pending:
            return None
        place, frame = self._pending[0]
        if place >= self._limit and not self._skipping:
            return None
        return (place >> _BITS, place & _SLOT), frame

    def advance(self) -> None:
        self._last = heappop(self._pending)[0]

    def key(self, frame: Frame) -> Key:
        return (frame.dist, frame.slot)

    def timestamp(self, key: Key) -> tuple[int, ...]:
        return (self.number, *key)

    def clocks(self) -> list[int]:
        return [0] * len(self._places)

    def merge(self, clocks: list[int]) -> None:
        pass

    def skip_empty(self) -> None:
        self._skipping = self._skip()

    def _skip(self) -> bool:
        """Whether empty slots are passed over in the transitional configuration (figures 4 and 6: a new view)."""
        return True

    def round_trips(self, spreads: list[int | None]) -> None:
        self.policy.round_trips(spreads)

    def invariants(self) -> None:
        assert self._limit == self._horizon(), "the horizon is up to date"
        assert all(place > self._last for place, _ in self._pending), "nothing comes before what was given"
        assert all(place < self._places[frame.sender] for place, frame in self._pending)
        assert all(place >> _BITS == tag for place, tag in zip(self._places, self._tags, strict=True))
        assert max(self._tags) <= self._distributions.newest.id
