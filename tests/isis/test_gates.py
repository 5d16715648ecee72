"""Gates of GBCASTs where members die, leave, or are none: what stands in whose way."""

from tests.isis.hand import Hand

from reconvene.isis.events import Rejection
from reconvene.isis.messages import Announce


def test_a_gbcast_to_a_group_that_is_empty_by_then() -> None:
    """Nobody will say that it is ready. What is announced after it must not wait for ever."""
    hand = Hand("abc")
    x = hand.begin(bank="a")
    hand.hold = lambda message, site: site == "b" and isinstance(message, Announce)
    hand.sites["b"].gbcast(x["b"], "bank", b"to nobody")
    hand.run(5)
    hand.sites["a"].leave(x["a"], "bank")
    hand.run(20)
    hand.hold = lambda message, site: False
    hand.join(x["c"], "bank")
    assert hand.told(x["c"]) == [(x["c"],)]
    assert hand.judge() == []


def test_casts_of_a_dead_member_belong_to_the_view_that_ends() -> None:
    """c dies while its cast is under way. The group must not grow before it has arrived: it would be rejected."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hand.delay_ms["cb"] = 100
    hand.sites["c"].cbcast(x["c"], "bank", b"last words", "x")
    hand.sites["c"].abcast(x["c"], "bank", b"last order")
    hand.run(1)
    hand.sites["c"].kill(x["c"])
    hand.sites["d"].join(x["d"], "bank")
    hand.run(500)
    assert not any(isinstance(event, Rejection) for events in hand.events.values() for event in events)
    assert sorted(hand.received(x["b"])) == [b"last order", b"last words"]
    assert hand.told(x["d"])[-1] == (x["a"], x["b"], x["d"])
    assert hand.judge() == []


def test_a_process_that_has_left_has_no_gate() -> None:
    """a leaves one group, whose next GBCAST is announced already: a's site is not asked for that, and its barrier is
    low. Before it, a has a gate of another group, which waits for an ABCAST between the two barriers."""
    hand = Hand("abcd")
    x = hand.begin(one="ab", two="ac")
    hand.delay_ms["dc"], hand.delay_ms["ac"] = 200, 60
    hand.sites["d"].cbcast(x["d"], [x["a"], x["c"]], b"to be pushed")
    hand.run(3)
    hand.sites["a"].leave(x["a"], "one")
    hand.turn("a")
    hand.sites["c"].gbcast(x["c"], "two", b"act")
    hand.turn("c")
    hand.sites["b"].gbcast(x["b"], "one", b"act")
    hand.run(10)
    assert hand.received(x["b"]) == [b"act"]
    hand.sites["d"].abcast(x["d"], [x["a"]], b"between")
    hand.run(500)
    assert hand.received(x["a"]) == [b"to be pushed", b"between", b"act"]
    assert hand.judge() == []


def test_joins_that_begin_together_have_gates_of_their_own() -> None:
    """b failed last, and a has waited for it: both joins are opened when b is back. That of b does not concern a's
    site, and its barrier is low. Before it, a has a gate of another group, as above."""
    hand = Hand("abcd")
    hand.install("abcd")
    hand.run()
    for name in "ab":
        hand.sites[name].join(hand.open(name), "one", last_to_fail=True)
        hand.run(60)
    hand.install("bcd")
    hand.run(60)
    for name in "abcd":
        hand.restart(name)
    x = hand.begin(two="ac")
    hand.sites["a"].join(x["a"], "one", last_to_fail=True)
    hand.run(60)
    hand.delay_ms["dc"], hand.delay_ms["ac"] = 200, 60
    hand.sites["d"].cbcast(x["d"], [x["a"], x["c"]], b"to be pushed")
    hand.run(3)
    hand.sites["c"].gbcast(x["c"], "two", b"act")
    hand.turn("c")
    hand.sites["b"].join(x["b"], "one", last_to_fail=True)
    hand.run(10)
    assert hand.views(x["b"]) == [(x["b"],)]
    hand.sites["d"].abcast(x["d"], [x["a"]], b"between")
    hand.run(500)
    assert hand.received(x["a"]) == [b"to be pushed", b"between", b"act"]
    assert hand.views(x["a"])[-1] == (x["b"], x["a"])
    assert hand.judge() == []


def test_what_was_accepted_before_a_group_grew_is_not_sent_again() -> None:
    """b receives the casts, and its site is lost before its verdict arrives. The group has grown: the newcomer has
    seen a view that came after them."""
    hand = Hand("abcd")
    x = hand.begin(bank="b")
    hand.delay_ms["bc"] = 100
    hand.sites["c"].cbcast(x["c"], "bank", b"m")
    hand.run(3)
    assert hand.received(x["b"]) == [b"m"]
    hand.join(x["d"], "bank")
    hand.cut.add("bc")
    hand.crash("b")
    hand.install("acd")
    hand.run(500)
    assert [row.attempt for row in hand.rows["c"] if row.kind == "cbcast"] == [0]
    assert hand.received(x["d"]) == []
    assert hand.judge() == []
