"""Reliable Communication in the Presence of Failures, what it leaves open or gets wrong: what comes before a GBCAST.

Each test tells one story. It goes well here, and goes wrong with the rule that the paper prints, or with the obvious
reading of it, which the test puts in place of ours. The numbers are those of docs/deviations.md.
"""

from collections.abc import Callable

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.isis import labels
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import CastId
from reconvene.isis.gbcast import Gbcasts
from reconvene.isis.local import Outcome
from reconvene.isis.messages import AttemptId, Control, Priority, Ready
from reconvene.isis.pool import Entry
from reconvene.isis.rounds import Round


def ready_of(name: str) -> Callable[[Control, str], bool]:
    return lambda message, site: isinstance(message, Ready) and site == name


def ignore(message: Control, site: str) -> bool:
    return False


# -- 1: step 4.1, "or if there is some B' in the before list and B ≤ B'"


def early_and_late(hand: Hand) -> None:
    """p's cast is under way when the GBCAST is: it comes to b before the conclusion, and to a after it. Its label is
    below that of another cast, with which it has nothing to do, and which both have received."""
    x = hand.begin(bank="ab")
    hand.delay_ms["ca"] = 200
    hand.delay_ms["dc"] = 400
    hand.sites["d"].cbcast(x["d"], [x["a"], x["b"], x["c"]], b"unrelated", {"x": 9})
    hand.run(3)
    hand.hold = ready_of("a")
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(3)
    hand.sites["c"].cbcast(x["c"], [x["a"], x["b"]], b"B", {"x": 8})
    hand.run(10)
    hand.hold = ignore
    hand.run(600)


def test_1_labels_alone_do_not_say_what_comes_before_a_gbcast() -> None:
    hand = Hand("abcd")
    early_and_late(hand)
    assert hand.judge() == []


def test_1_by_label_a_cast_comes_before_it_here_and_after_it_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Gbcasts.open_gates

    def by_label(
        self: Gbcasts,
        number: int,
        outcome: Outcome,
        barrier: Priority,
        before: frozenset[AttemptId],
        cast: CastId | None,
    ) -> None:
        entries = self._pool.entries
        known = [entries[CastId(*key[:3])].label for key in before if CastId(*key[:3]) in entries]
        waiting = [entry for local in self._delivery.locals.values() for entry in local.waiting]
        more = {entry.key for entry in waiting if any(labels.at_most(entry.label, label) for label in known)}
        ours(self, number, outcome, barrier, before | more, cast)

    monkeypatch.setattr(Gbcasts, "open_gates", by_label)
    hand = Hand("abcd")
    early_and_late(hand)
    assert "isis.gbcast" in hand.judge()


# -- 2: step 3.3 pushes what q delivered


def passing_through(hand: Hand) -> None:
    """B is for a alone, and slow. B', which follows it, is received by b: B has passed through b's site, on its way
    to a. Both are for a, which is to receive them before the GBCAST."""
    x = hand.begin(bank="ab")
    hand.delay_ms["ca"] = 100
    hand.sites["c"].cbcast(x["c"], [x["a"]], b"B")
    hand.sites["c"].cbcast(x["c"], [x["a"], x["b"]], b"B'")
    hand.run(3)
    assert hand.received(x["b"]) == [b"B'"]
    hand.sites["b"].gbcast(x["b"], "bank", b"act")
    hand.run(500)
    assert hand.received(x["a"])[:2] == [b"B", b"B'"]
    assert hand.received(x["a"])[2:] == [b"act"], "nothing stands in its way"


def test_2_what_passed_through_comes_before_the_gbcast_too() -> None:
    hand = Hand("abc")
    passing_through(hand)
    assert hand.judge() == []


def test_2_what_was_delivered_alone_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gbcasts, "_add_causes", lambda self, found, entry: None)
    with pytest.raises(AssertionError):
        passing_through(Hand("abc"))


# -- 3: "sent" is one thing in the paper


def waiting_at_b(hand: Hand) -> dict[str, Process]:
    """c's cast arrives at b while a GBCAST holds up what b receives."""
    x = hand.begin(bank="ab")
    hand.hold = ready_of("a")
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(10)
    hand.sites["c"].cbcast(x["c"], [x["b"]], b"B")
    hand.run(6000)  # c's floor is told
    hand.hold = ignore
    hand.run(500)
    return x


def test_3_what_has_arrived_is_kept_until_it_is_delivered() -> None:
    hand = Hand("abc")
    x = waiting_at_b(hand)
    assert hand.received(x["b"]) == [b"act", b"B"]
    assert hand.judge() == []


def test_3_to_forget_what_has_arrived_loses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entry, "released", property(lambda self: self.disposed or not self.waits))
    hand = Hand("abc")
    x = waiting_at_b(hand)
    assert hand.received(x["b"]) == [b"act"]
    assert "isis.atomic" in hand.judge()


def received_by_one(hand: Hand) -> list[bytes]:
    """a has received a cast that b gets only behind the gate, where it waits."""
    x = hand.begin(bank="ab")
    hand.delay_ms["cb"] = 20
    hand.sites["c"].cbcast(x["c"], [x["a"], x["b"]], b"B")
    hand.run(3)
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(1000)
    return hand.received(x["b"])


def test_3_ready_waits_for_arrival_and_not_for_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    assert received_by_one(Hand("abc")) == [b"B", b"act"]

    monkeypatch.setattr(Entry, "complete", property(lambda self: self.released))
    assert received_by_one(Hand("abc")) == [], "both wait for each other"


# -- 5: "can be optimized simply by merging steps together"


def two_gbcasts(hand: Hand) -> None:
    """b is in both groups. B is for b and for c; a, which has received it, is in the first group alone. B comes
    before the first GBCAST at b, so before the second, and so it must at c, which knows nothing of the first."""
    x = hand.begin(one="ab", two="bc")
    hand.delay_ms["db"], hand.delay_ms["dc"] = 30, 60
    hand.sites["d"].cbcast(x["d"], [x["a"], x["b"], x["c"]], b"B")
    hand.run(3)
    assert hand.received(x["a"]) == [b"B"]
    hand.hold = ready_of("a")
    hand.sites["a"].gbcast(x["a"], "one", b"first")
    hand.run(3)
    hand.sites["c"].gbcast(x["c"], "two", b"second")
    hand.run(10)
    hand.hold = ignore
    hand.run(300)


def test_5_a_site_is_ready_once_it_is_past_all_earlier_gbcasts() -> None:
    hand = Hand("abcd")
    two_gbcasts(hand)
    assert hand.judge() == []


def test_5_gbcasts_of_overlapping_groups_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Gbcasts, round_: Round) -> None:
        number = round_[0].number
        gated = [local for local in self._delivery.locals.values() if any(g.number == number for g in local.gates)]
        casts = [entry.key for entry in self.received_by(gated).values()]
        self._said.add(number)
        self._control.conclude(Ready(number, self._here.priority(), casts))

    monkeypatch.setattr(Gbcasts, "_prepare", at_once)
    hand = Hand("abcd")
    two_gbcasts(hand)
    assert "isis.gbcast" in hand.judge()


# -- 6: "If p ∈ REM_DESTS(B), a copy of the message is placed on the delivery queue for p"


def own_cast(hand: Hand) -> None:
    x = hand.begin(bank="ab")
    hand.hold = ready_of("b")
    hand.sites["b"].gbcast(x["b"], "bank", b"act")
    hand.run(10)
    hand.sites["a"].cbcast(x["a"], "bank", b"mine")
    hand.run(10)
    hand.hold = ignore
    hand.run(100)


def test_6_the_senders_own_copy_waits_during_a_gbcast() -> None:
    hand = Hand("abc")
    own_cast(hand)
    assert hand.judge() == []


def test_6_the_senders_own_copy_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Delivery.arrive

    def at_once(self: Delivery, entry: Entry) -> None:
        ours(self, entry)
        local = self.locals.get(entry.copy.sender)
        if local is not None and entry in local.waiting:
            local.waiting.remove(entry)
            self._take(local, entry, entry.copy)

    monkeypatch.setattr(Delivery, "arrive", at_once)
    hand = Hand("abc")
    own_cast(hand)
    assert "isis.gbcast" in hand.judge()
