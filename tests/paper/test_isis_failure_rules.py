"""Reliable Communication in the Presence of Failures, what it leaves open or gets wrong: who has failed.

Each test tells one story. It goes well here, and goes wrong with the rule that the paper prints, or with the obvious
reading of it, which the test puts in place of ours. The numbers are those of docs/deviations.md.
"""

import pytest
from tests.isis.hand import Hand

from reconvene.isis.abcast import Abcasts
from reconvene.isis.events import Flushed, IsisEvent
from reconvene.isis.gbcast import Gbcasts
from reconvene.isis.isis import Isis
from reconvene.isis.messages import Ask
from reconvene.isis.pool import Pool

# -- 7: status(m) is "sent ... if a failure protocol has been started for the destination site"


def minority_flush(hand: Hand) -> list[IsisEvent]:
    x = hand.begin(bank="abc")
    hand.cut |= {"ab", "ac"}
    hand.sites["a"].cbcast(x["a"], "bank", b"B")
    hand.sites["a"].flush(x["a"])
    hand.run(20)
    hand.install("a")
    hand.install("bc")
    hand.run(100)
    hand.cut.clear()
    hand.install("abc")
    hand.run(100)
    return [event for event in hand.seen(x["a"]) if isinstance(event, Flushed)]


def test_7_a_minoritys_flush_does_not_return() -> None:
    hand = Hand("abc")
    assert minority_flush(hand) == []
    assert hand.judge() == []


def test_7_sent_on_suspicion_a_minoritys_flush_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Isis._block

    def suspect(self: Isis) -> None:
        self.own.depart([1, 2])
        self.casting.work()
        self.processes.serve()
        ours(self)

    monkeypatch.setattr(Isis, "_block", suspect)
    hand = Hand("abc")
    assert len(minority_flush(hand)) == 1
    assert "isis.flush" in hand.judge()


# -- 10: messages of the failed that others relay


def relayed(hand: Hand) -> None:
    """a's cast is lost on its way to c; a crashes. b has it."""
    x = hand.begin(bank="abc")
    hand.cut.add("ac")
    hand.sites["a"].cbcast(x["a"], "bank", b"B")
    hand.run(3)
    hand.crash("a")
    hand.install("bc")
    hand.run(200)


def test_10_all_of_the_failed_is_pushed_before_the_failure_is_shown() -> None:
    hand = Hand("abc")
    relayed(hand)
    assert hand.judge() == []


def test_10_relayed_whenever_it_suits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pool, "of_departed", lambda self: iter(()))
    monkeypatch.setattr(Gbcasts, "received_by", lambda self, gated: {})
    hand = Hand("abc")
    relayed(hand)
    assert "isis.atomic" in hand.judge()


# -- 11: takeover


def late_commit(hand: Hand) -> None:
    """b has a's COMMIT, c has not; a is lost. c has seen much since."""
    x = hand.begin()
    hand.sites["a"].abcast(x["a"], [x["b"], x["c"]], b"first", "q")
    hand.delay_ms["ac"] = 2
    hand.run(3)
    hand.cut.add("ac")
    hand.run(3)
    assert hand.received(x["b"]) == [b"first"]
    assert hand.received(x["c"]) == []
    hand.crash("a")
    hand.install("bcd")
    hand.run(200)
    assert hand.received(x["c"]) == [b"first"]


def test_11_a_final_priority_that_anyone_knows_wins() -> None:
    hand = Hand("abcd")
    late_commit(hand)
    assert hand.judge() == []


def test_11_from_step_1_though_one_has_delivered_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = Abcasts._begin_takeover

    def anew(self: Abcasts, ask: Ask) -> None:
        self._here.barrier = self._here.priority()
        ours(self, ask)

    monkeypatch.setattr(Abcasts, "learn", lambda self, decided: None)
    monkeypatch.setattr(Abcasts, "_begin_takeover", anew)
    hand = Hand("abcd")
    late_commit(hand)
    assert "isis.abcast" in hand.judge()


def test_11_a_proposal_lies_above_all_that_was_seen_barriers_included() -> None:
    """The paper: "a priority larger than the priority of any message that was placed in the queue". A queue that is
    empty, since all was delivered, would give a priority below the barrier of a GBCAST that has come before."""
    hand = Hand("abc")
    x = hand.begin(bank="ab")
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(100)
    hand.sites["c"].abcast(x["c"], "bank", b"after", "new label")
    hand.run(100)
    act, after = (row.ts for row in hand.rows["b"] if row.layer == "isis" and row.kind == "receive")
    assert isinstance(act, list)
    assert isinstance(after, list)
    assert act < after


# -- 13: a channel that stands still


def standing_still(hand: Hand, *, suspect: bool) -> list[IsisEvent]:
    """c hears the others, and is heard, but takes no packets."""
    x = hand.begin(bank="abc")
    hand.cut |= {"ac"}
    hand.sites["a"].cbcast(x["a"], "bank", b"B")
    hand.sites["a"].flush(x["a"])
    hand.run(3000)
    if suspect and hand.suspected == ["ac"]:
        hand.install("ab")
    hand.run(500)
    return [event for event in hand.seen(x["a"]) if isinstance(event, Flushed)]


def test_13_a_standstill_is_a_suspicion() -> None:
    assert len(standing_still(Hand("abc"), suspect=True)) == 1


def test_13_without_it_flush_hangs() -> None:
    assert standing_still(Hand("abc"), suspect=False) == []


def test_13_a_newcomers_packets_before_adoption_are_not_answered() -> None:
    hand = Hand("abcd")
    hand.install("abc")
    hand.run()
    hand.hold = lambda message, site: True  # nobody is told the table
    hand.install("abcd")
    packets = len(hand.packets)
    hand.run(20)
    assert [link for link, packet in hand.packets[packets:] if "d" in link] == []
