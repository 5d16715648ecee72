"""Section 4.3 of the ATOP paper, condition by condition, and what section 5 says of dummies.

Three members p, q, r; the sequence is the example of section 4.2, written out below; the second distribution
gives q every other slot.
"""

import pytest

from reconvene.core.order import Atop, Note, Stamp
from reconvene.core.order.generators import Sequence
from reconvene.core.order.policies import NoAdaptation
from reconvene.wire.messages import Frame

P, Q, R = range(3)
NUMBER = 9


class Written:
    """A sequence written out, repeated."""

    def __init__(self, owners: list[int]) -> None:
        self.owners = owners

    def owner(self, slot: int) -> int:
        return self.owners[slot % len(self.owners)]

    def next_own(self, rank: int, above: int) -> int:
        return next(slot for slot in range(above + 1, above + 100) if self.owner(slot) == rank)

    def after(self, rank: int, slot: int) -> int:
        return self.next_own(rank, slot) if self.owner(slot) == rank else -1


def written(generator: str, weights: list[int], seed: tuple[int, int]) -> Sequence:
    return Written([P, Q, P, Q, P, P, R, P] if weights == [1, 1, 1] else [Q, P, Q, R])


class Once(NoAdaptation):
    """Proposes one distribution, when told."""

    def __init__(self) -> None:
        self.weights: list[int] | None = None

    def propose(self, now: int) -> list[int] | None:
        weights, self.weights = self.weights, None
        return weights


class Site:
    """An engine, and frames by anyone as it would receive them."""

    def __init__(self, rank: int = R) -> None:
        self.rank = rank
        self.policy = Once()
        self.engine = Atop(NUMBER, 3, rank, "written", self.policy)
        self.seqs = [0, 0, 0]

    def receive(
        self,
        sender: int,
        slot: int = -1,
        dist: int = 0,
        passes: int = 0,
        weights: list[int] | None = None,
        acks: list[int] | None = None,
    ) -> None:
        self.seqs[sender] += 1
        self.engine.receive(
            Frame(
                conf=NUMBER,
                sender=sender,
                seq=self.seqs[sender],
                clock=0,
                acks=acks or [],
                service=2,
                part=0,
                first=0,
                messages=[b""] if slot >= 0 else [],
                dist=dist,
                slot=slot,
                passes=passes,
                weights=weights or [],
            ),
            0,
        )
        self.engine.invariants()

    def say(self, note: Note | None) -> None:
        assert note is not None
        self.receive(self.rank, dist=note.dist, passes=note.passes, weights=note.weights)

    def send(self, acks: list[int] | None = None) -> Stamp:
        stamp = self.engine.stamp(0, 0)
        self.receive(self.rank, stamp.slot, stamp.dist, acks=acks)
        return stamp

    def given(self) -> list[tuple[int, int]]:
        keys = []
        while (found := self.engine.peek()) is not None:
            self.engine.advance()
            keys.append(found[0])
        return keys


@pytest.fixture(autouse=True)
def _sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconvene.core.order.distributions.make_sequence", written)


def test_the_first_slot_is_its_owners_alone() -> None:
    """4.2: the first slot is p's; a frame of q's in the second waits for it."""
    site = Site()
    site.receive(Q, 1)
    assert site.given() == []
    site.receive(P, 0)
    assert site.given() == [(0, 0), (0, 1)]


def test_slots_are_given_in_the_sequence_order_not_in_the_order_of_arrival() -> None:
    """Figure 5, condition 3."""
    site = Site()
    site.receive(P, 0)
    site.receive(P, 2)
    assert site.given() == [(0, 0)]
    site.receive(Q, 1)
    assert site.given() == [(0, 1), (0, 2)]


def test_a_senders_frames_come_in_the_order_of_sending() -> None:
    """Figure 5, condition 4: a slot below one that its sender has named can't be filled any more."""
    site = Site()
    site.receive(P, 2)
    site.receive(P, 0)
    assert site.engine.ignored == 1
    site.receive(Q, 3)
    assert site.given() == [(0, 2), (0, 3)]


def test_naming_a_slot_passes_the_senders_own_below_it() -> None:
    """Beyond figure 5: no dummy is needed for slots that a sender jumps over."""
    site = Site()
    site.receive(P, 7)
    site.receive(Q, 3)
    assert site.given() == [(0, 3)]
    site.receive(R, 6)
    assert site.given() == [(0, 6), (0, 7)]


def test_a_frame_must_carry_the_ordering_distribution() -> None:
    """Figure 5, condition 2, and figure 4, condition 3: a frame of a later distribution waits until everyone
    has tagged a frame with one."""
    site = Site()
    site.receive(P, dist=3, weights=[1, 2, 1])
    site.receive(Q, 0, dist=3, acks=[P, 1])
    assert site.given() == []
    site.receive(R, dist=3, acks=[P, 1])
    assert site.given() == [(3, 0)]


def test_what_is_left_of_the_old_distribution_comes_first() -> None:
    """Figure 4, condition 1: the ordering distribution stays while a frame of it is pending."""
    site = Site()
    site.receive(P, 2)
    site.receive(P, dist=3, weights=[1, 2, 1])
    site.receive(Q, 0, dist=3, acks=[P, 2])
    assert site.given() == [(0, 2)]  # p and q have gone on, and slots 0 and 1 with them; r's first is 6
    site.receive(R, dist=3, acks=[P, 2])
    assert site.given() == [(3, 0)]


def test_a_skipped_turn() -> None:
    """Figure 6: q's turn is skipped once q has tagged a frame with a later distribution, and not before."""
    site = Site()
    site.receive(P, 0)
    site.receive(P, 2)
    site.receive(P, dist=3, weights=[1, 2, 1])
    assert site.given() == [(0, 0)]
    site.receive(Q, 2, dist=3, acks=[P, 3])
    assert site.given() == [(0, 2)]


def test_the_next_distribution_is_the_lowest_that_is_used() -> None:
    """Figure 4, step 1: two issuers at once; the lower of the two distributions orders first."""
    site = Site()
    site.receive(P, dist=3, weights=[1, 2, 1])
    site.receive(P, 1, dist=3)
    site.receive(Q, dist=4, weights=[1, 2, 1])
    site.receive(Q, 0, dist=4)
    site.receive(R, 3, dist=4, acks=[P, 2, Q, 2])
    assert site.given() == [(3, 1)]  # q and r have gone beyond 3 without using it; p may still use it
    site.receive(P, 5, dist=4, acks=[Q, 2])
    assert site.given() == [(4, 0)]
    site.receive(Q, passes=8, dist=4)
    site.receive(R, passes=8, dist=4)
    assert site.given() == [(4, 3), (4, 5)]


def test_slots_start_anew_with_each_distribution() -> None:
    """Figure 4, steps 2 and 3: the count and the sequence begin again."""
    site = Site()
    site.receive(P, 7)
    site.receive(P, dist=3, weights=[1, 2, 1])
    assert site.engine.stamp(0, 0) == Stamp(3, 3)  # r's first in Q P Q R


def test_everything_is_given_before_a_new_view() -> None:
    """Figure 3, and figures 4 and 6 where a view is pending: empty slots and missing tags hold nothing up."""
    site = Site()
    site.receive(P, 7)
    site.receive(P, dist=3, weights=[1, 2, 1])
    site.receive(Q, 3)
    site.receive(P, 1, dist=3)
    site.engine.merge([0, 0, 0])
    assert site.given() == [(0, 3)]  # slot 6 is r's, and may be in use elsewhere
    site.engine.skip_empty()
    assert site.given() == [(0, 7), (3, 1)]
    assert site.engine.note(0) is None
    assert site.engine.deadline() is None


def test_the_timestamp_is_configuration_distribution_and_number() -> None:
    site = Site()
    assert site.engine.timestamp((3, 17)) == (NUMBER, 3, 17)


def test_the_sending_distribution_is_the_highest_known() -> None:
    """4.3, sending: a lower one that arrives later is not used."""
    site = Site()
    assert site.send() == Stamp(0, 6)
    site.receive(Q, dist=4, weights=[1, 2, 1])
    site.receive(P, dist=3, weights=[2, 2, 1])
    assert site.send(acks=[Q, 1]).dist == 4


def test_the_first_frame_tagged_with_a_distribution_bears_its_weights() -> None:
    """4.3, sending. An id that no other issuer can make: counter · members + rank."""
    site = Site(Q)
    site.policy.weights = [1, 2, 1]
    note = site.engine.note(0)
    assert note is not None
    assert note.weights == [1, 2, 1]
    assert note.dist == 4
    site.say(note)
    assert site.engine.introduced == 1
    assert site.engine.dummies == 0
    assert site.send().dist == 4


def test_no_distribution_is_proposed_while_one_is_taken_up() -> None:
    site = Site(Q)
    site.receive(P, dist=3, weights=[1, 2, 1])
    site.policy.weights = [1, 2, 1]
    note = site.engine.note(0)
    assert note is None or note.weights == []
    site.receive(Q, 0, dist=3, acks=[P, 1])
    site.receive(R, 3, dist=3, acks=[P, 1])
    note = site.engine.note(0)
    assert note is not None
    assert note.weights == [1, 2, 1]
    assert note.dist == 7


def test_a_silent_member_goes_along_by_one_dummy() -> None:
    """Section 5: it is tagged with the new distribution, passes ahead at once, and is not repeated."""
    site = Site()
    site.receive(P, dist=3, weights=[1, 2, 1])
    note = site.engine.note(0)
    assert note is not None
    assert note.dist == 3
    assert note.passes > 0
    site.receive(R, dist=3, passes=note.passes, acks=[P, 1])
    assert site.engine.dummies == 1
    assert site.engine.note(0) is None


def test_an_active_member_goes_along_with_its_next_frame_or_when_awaited() -> None:
    """Section 5's dummy is for those who have nothing to send."""
    site = Site()
    site.send()
    site.receive(P, dist=3, weights=[1, 2, 1])
    assert site.engine.note(0) is None
    site.receive(Q, 0, dist=3, acks=[P, 1])
    assert site.engine.awaited()
    assert site.engine.note(0) == Note(3, 1, [])


def test_an_active_member_passes_just_what_is_awaited_and_ever_more() -> None:
    """Near slots bring its next frame into the order soonest; each pass in vain lengthens the next."""
    site = Site()
    site.send()
    reached = []
    for _ in range(7):
        own = site.engine.stamp(0, 0).slot
        used = Written([P, Q, P, Q, P, P, R, P]).next_own(P, own)
        site.receive(P, used)
        assert site.engine.awaited()
        note = site.engine.note(0)
        assert note is not None
        reached.append(note.passes - used - 1)
        site.say(note)
        assert site.engine.note(0) is None
    assert reached == [0, 3, 9, 21, 45, 93, 96]
    assert site.engine.dummies == 7


def test_passes_never_cause_passes() -> None:
    site = Site()
    for sender in (P, Q):
        site.receive(sender, passes=10_000)
    assert site.engine.note(0) is None
    assert not site.engine.awaited()


def test_frames_outside_the_order_say_nothing() -> None:
    """Fifo and causal frames bear no tag: distribution 0, no slot."""
    site = Site()
    site.receive(P, dist=3, weights=[1, 2, 1])
    site.receive(P)
    site.receive(Q)
    assert site.engine.ignored == 0
    assert site.given() == []
    assert site.engine.note(0) is not None
