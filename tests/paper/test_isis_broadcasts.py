"""Reliable Communication in the Presence of Failures, sections 3.2 to 3.5: ABCAST, CBCAST, and their uses."""

from random import Random

import pytest
from tests.isis.hand import Hand

from reconvene.isis.events import ALL, Answered, Failed, Flushed

# -- 3.2, ABCAST


@pytest.mark.parametrize("seed", range(5))
def test_a_replicated_queue(seed: int) -> None:
    """ "If items are inserted into and removed from each copy of the queue in the same order, no inconsistencies will
    arise": "if two ABCASTs with the same label have destinations in common, they will be delivered in the same order
    at all such destinations"."""
    random = Random(seed)
    hand = Hand("abcd")
    x = hand.begin()
    for place in range(40):
        name = random.choice("abcd")
        to = [x[other] for other in random.sample("abcd", random.randint(1, 4))]
        hand.delay_ms[name + random.choice("abcd")] = random.choice((0.3, 1, 7))
        hand.sites[name].abcast(x[name], to, b"%d" % place, "queue 7")
        hand.run(random.choice((0.1, 1)))
    hand.run(500)
    for one in "abcd":
        for other in "abcd":
            mine, theirs = hand.received(x[one]), hand.received(x[other])
            assert [m for m in mine if m in theirs] == [m for m in theirs if m in mine]
    assert hand.judge() == []


def test_another_label_does_not_wait() -> None:
    """The label says which ABCASTs are ordered: a queue that stands still holds up no other."""
    hand = Hand("abc")
    x = hand.begin()
    hand.delay_ms["ca"] = 200
    hand.sites["a"].abcast(x["a"], [x["a"], x["c"]], b"slow", "one")
    hand.run(5)
    hand.sites["a"].abcast(x["a"], [x["a"], x["b"]], b"other", "two")
    hand.sites["a"].abcast(x["a"], [x["a"], x["b"]], b"same", "one")
    hand.run(50)
    assert hand.received(x["a"]) == [b"other"]
    hand.run(500)
    assert hand.received(x["a"]) == [b"other", b"slow", b"same"]


def test_a_failed_recipients_order_holds_where_the_others_can_know_it() -> None:
    """ "Are the operational destinations required to employ the same delivery ordering as was used by the failed
    process ...? The protocol ... provides only the latter form of consistency." The reader's exercise: a commits its
    own ABCAST, receives it and the next one, and is lost before anyone has heard of its COMMIT. The site that takes
    it over goes by the priorities that were proposed before, so the order is the same here. It need not be where the
    highest was proposed by the lost site."""
    hand = Hand("abcd")
    x = hand.begin()
    everyone = [x["a"], x["b"], x["c"]]
    hand.sites["a"].abcast(x["a"], everyone, b"first")
    hand.run(1.5)
    hand.cut |= {"ab", "ac"}  # the COMMIT is lost
    hand.sites["d"].abcast(x["d"], everyone, b"second")
    hand.run(10)
    assert hand.received(x["a"]) == [b"first", b"second"]
    assert hand.received(x["b"]) == []
    hand.crash("a")
    hand.install("bcd")
    hand.run(200)
    assert hand.received(x["b"]) == hand.received(x["c"]) == [b"first", b"second"]
    assert hand.judge() == []


# -- 3.3, CBCAST


def test_an_increment_comes_after_what_set_the_variable() -> None:
    """ "... a computation that first sets copies of a replicated variable to zero and later increments the variable
    ... the increment must always occur second." """
    hand = Hand("abc")
    x = hand.begin(copies="abc")
    hand.delay_ms["ac"] = 50
    hand.sites["a"].cbcast(x["a"], "copies", b"x = 0", "x")
    hand.run(3)
    hand.sites["b"].cbcast(x["b"], "copies", b"x += 1", "x")
    hand.run(200)
    assert hand.received(x["c"]) == [b"x = 0", b"x += 1"]


def test_updates_of_another_variable_do_not_wait() -> None:
    """ "Even though there is a potential causal relation between B and B' ... there may be no real causal relation":
    "it orders broadcasts relative to each other if they are potentially causal and if the clabels indicate that"."""
    hand = Hand("abc")
    x = hand.begin(copies="abc")
    hand.delay_ms["ac"] = 50
    hand.sites["a"].cbcast(x["a"], "copies", b"x", "x")
    hand.run(3)
    hand.sites["b"].cbcast(x["b"], "copies", b"y", "y")
    hand.run(200)
    assert hand.received(x["c"]) == [b"y", b"x"]
    assert hand.judge() == []


@pytest.mark.parametrize("told", [False, True])
def test_bottles_are_under_the_taps_before_they_are_opened(told: bool) -> None:
    """Two commands of different processes have no order of their own. If the devices tell the second process that
    they have carried out the first command, causality relates the two, at every device."""
    hand = Hand("abcd")
    p, q, near, far = hand.begin().values()
    hand.delay_ms["ad"] = 50
    hand.at(p).cbcast(p, [near, far], b"place the bottles")
    hand.run(3)
    if told:
        hand.at(near).cbcast(near, [q], b"they stand")
        hand.run(3)
    hand.at(q).cbcast(q, [near, far], b"open the taps")
    hand.run(200)
    assert hand.received(near) == [b"place the bottles", b"open the taps"]
    assert hand.received(far) == (hand.received(near) if told else hand.received(near)[::-1])
    assert hand.judge() == []


@pytest.mark.parametrize("label", [None, "x", {"x": 4, "y": 1}])
def test_precedes_is_closed_over_senders_and_receivers(label: str | dict[str, int] | None) -> None:
    """Rules A and B, "the transitive closure": a chain over processes that are no destinations of its beginning."""
    hand = Hand("abcd")
    x = hand.begin()
    hand.delay_ms["ad"] = 100
    hand.sites["a"].cbcast(x["a"], [x["d"]], b"1", label)  # A: a sends this, then that
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"2", label)
    hand.run(3)
    hand.sites["b"].cbcast(x["b"], [x["c"]], b"3", label)  # B: b had received that
    hand.run(3)
    hand.sites["c"].cbcast(x["c"], [x["d"]], b"4", label)
    hand.run(300)
    assert hand.received(x["d"]) == [b"1", b"4"]
    assert hand.judge() == []


def test_a_label_below_an_earlier_one_is_taken_and_not_ordered() -> None:
    """Footnote 1: "if a broadcast is labeled in this way, the CBCAST primitive does not guarantee that this order
    will be observed"."""
    hand = Hand("abc")
    x = hand.begin()
    hand.delay_ms["ab"] = 30
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"9", {"x": 9})
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"3", {"x": 3})
    hand.run(200)
    assert sorted(hand.received(x["b"])) == [b"3", b"9"]
    assert hand.sites["a"].casting.unordered == 1
    assert hand.judge() == []


# -- 3.4, additional primitives


@pytest.mark.parametrize("seed", range(5))
def test_causal_atomic_broadcast(seed: int) -> None:
    """ "causal atomic broadcast, which provides a global ordering and also respects causality"."""
    random = Random(seed)
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    for place in range(30):
        name = random.choice("abcd")
        hand.delay_ms[name + random.choice("abcd")] = random.choice((0.3, 1, 7))
        if random.random() < 0.5:
            hand.sites[name].abcast(x[name], "bank", b"%d" % place, "q", causal=True)
        else:
            hand.sites[name].cbcast(x[name], [x[other] for other in random.sample("abcd", 2)], b"%d" % place)
        hand.run(random.choice((0.1, 1, 4)))
    hand.run(500)
    assert hand.judge() == []


def test_minimal_broadcast() -> None:
    """ "minimal broadcast, which provides guaranteed delivery, but without respecting any ordering constraints": here
    a label without components, which precedes nothing."""
    hand = Hand("abc")
    x = hand.begin()
    hand.delay_ms["ac"] = 50
    hand.sites["a"].cbcast(x["a"], [x["b"], x["c"]], b"1", {})
    hand.run(3)
    hand.sites["b"].cbcast(x["b"], [x["c"]], b"2", {})
    hand.run(200)
    assert hand.received(x["c"]) == [b"2", b"1"]
    assert hand.judge() == []


# -- 3.5, synchronous and asynchronous uses


def test_a_replicated_procedure_call() -> None:
    """ "The caller would simply pause until replies were received from all the participants (observation of a failure
    constitutes a reply in this case)." """
    hand = Hand("abcd", answers="bc")
    x = hand.begin(server="bcd")
    hand.sites["a"].abcast(x["a"], "server", b"call", replies=ALL)
    hand.run()
    (call,) = {row.msg for row in hand.rows["a"] if row.kind == "abcast"}
    request = next(iter(hand.sites["b"].delivery.locals[x["b"]].owed))
    hand.sites["b"].reply(x["b"], request, b"done")
    hand.run()
    hand.crash("c")
    hand.install("abd")
    hand.run()
    ends = [event for event in hand.seen(x["a"]) if isinstance(event, Answered | Failed)]
    assert {(type(event), event.sender) for event in ends} == {
        (Answered, x["b"]),
        (Failed, x["c"]),
        (Answered, x["d"]),  # it does not reply: its site does, with nothing
    }
    assert len(hand.sites["a"].calls) == 0
    assert call == "a:1:1"
    assert hand.judge() == []


def test_one_reply_suffices_to_an_asynchronous_broadcast() -> None:
    """ "... an asynchronous broadcast in which no replies, or just one reply, suffice." """
    hand = Hand("abc", answers="b")
    x = hand.begin(server="bc")
    hand.sites["a"].cbcast(x["a"], "server", b"call", replies=1)
    hand.run()
    assert len(hand.sites["a"].calls) == 0
    assert [event.sender for event in hand.seen(x["a"]) if isinstance(event, Answered)] == [x["c"]]


def test_extended_atomicity() -> None:
    """ "If process s receives a message m and subsequently sends a message m' to process t before failing, then,
    unless t fails as well, m must be delivered to its remaining (operational) destinations." """
    hand = Hand("abcde")
    x = hand.begin()
    hand.cut |= {"ac", "bc"}
    hand.sites["a"].cbcast(x["a"], [x["b"], x["c"]], b"m")
    hand.run(3)
    hand.sites["b"].cbcast(x["b"], [x["d"]], b"m'")
    hand.run(3)
    assert hand.received(x["d"]) == [b"m'"]
    hand.crash("a")
    hand.crash("b")
    hand.install("cde")
    hand.run(100)
    assert hand.received(x["c"]) == [b"m"], "nobody who sent it or received it is left"
    assert hand.judge() == []


def test_without_a_witness_a_suffix_may_be_lost() -> None:
    """ "In the event of a failure, a suffix of a sequence of asynchronous broadcasts could be lost, and the system
    state would still be internally consistent"."""
    hand = Hand("abc")
    x = hand.begin()
    hand.sites["a"].cbcast(x["a"], [x["b"], x["c"]], b"1")
    hand.run(3)
    hand.cut |= {"ab", "ac"}
    hand.sites["a"].cbcast(x["a"], [x["b"], x["c"]], b"2")
    hand.run(3)
    hand.crash("a")
    hand.install("bc")
    hand.run(100)
    assert hand.received(x["b"]) == hand.received(x["c"]) == [b"1"]
    assert hand.judge() == []


def test_flush_blocks_its_caller_until_all_is_delivered() -> None:
    """ "... a flush primitive is provided, which blocks its caller until all its pending asynchronous broadcasts have
    been delivered to their (operational) destinations"; "flush will only pause while transmission of the last few
    broadcasts completes"."""
    hand = Hand("abc")
    x = hand.begin(backups="abc")
    hand.delay_ms["ac"] = 40
    hand.sites["a"].cbcast(x["a"], "backups", b"checkpoint")
    hand.sites["a"].flush(x["a"])
    hand.run(30)
    assert not any(isinstance(event, Flushed) for event in hand.seen(x["a"]))
    hand.run(50)
    assert any(isinstance(event, Flushed) for event in hand.seen(x["a"]))
    assert hand.received(x["c"]) == [b"checkpoint"]
    hand.sites["b"].flush(x["b"])
    hand.run(3)
    assert any(isinstance(event, Flushed) for event in hand.seen(x["b"])), "nothing is pending: a round trip"
    assert hand.judge() == []
