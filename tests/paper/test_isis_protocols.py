"""Reliable Communication in the Presence of Failures, section 4.3: the steps of ABCAST, CBCAST and GBCAST."""

from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.isis.messages import Ask, Commit, Control, Copy, Propose, Ready, Takeover

# -- 4.3.1, ABCAST


def test_steps_1_to_4() -> None:
    """ "The sender transmits msg to its destinations"; each "assigns this message a priority larger than the priority
    of any message that was placed in the queue"; the sender "computes the maximum value of all the priorities it
    received, and sends this value back"."""
    hand = Hand("abc")
    x = hand.begin()
    for _ in range(5):
        hand.sites["b"].abcast(x["b"], [x["b"]], b"only here")  # b's counter is ahead
    hand.run()
    hand.sites["a"].abcast(x["a"], [x["b"], x["c"]], b"m")
    hand.run()
    proposals = [proposal.priority for link in ("ba", "ca") for proposal in hand.records(link, Propose)]
    assert len(hand.records("ab", Ask)) == len(hand.records("ac", Ask)) == 1
    assert len(proposals) == 2
    commits = [commit.priority for link in ("ab", "ac") for commit in hand.records(link, Commit)]
    assert commits == [max(proposals)] * 2
    assert proposals[0] > proposals[1]
    assert proposals[0][1] == 1, "the site is the suffix that makes it unique"


def test_step_4_the_head_of_the_queue_holds_up_the_rest() -> None:
    """ "... until the priority queue becomes empty or the message with the lowest priority is undeliverable. In the
    latter case no more messages are transferred until the message at the head of the queue becomes deliverable"."""
    hand = Hand("abcd")
    x = hand.begin()
    hand.delay_ms["da"] = 50
    hand.sites["a"].abcast(x["a"], [x["c"], x["d"]], b"first")
    hand.run(2)
    hand.sites["b"].abcast(x["b"], [x["c"]], b"second")
    hand.run(10)
    assert hand.received(x["c"]) == []
    hand.run(100)
    assert hand.received(x["c"]) == [b"first", b"second"]


def taken_over(hand: Hand, x: dict[str, Process], *, asked: bool = True) -> None:
    """a is lost; b and c have the ABCAST, with the same priority."""
    hand.crash("a")
    hand.install("bcd")
    hand.run(200)
    assert hand.received(x["b"]) == hand.received(x["c"]) == [b"m"]
    assert any(ask.round for ask in hand.records("bc", Ask)) == asked, "has b asked again?"
    assert hand.judge() == []


def test_takeover_where_one_has_never_received_it() -> None:
    """ "A participant being interrogated either has never received the message or responds with the priority and
    tag." """
    hand = Hand("abcd")
    x = hand.begin()
    hand.cut.add("ac")
    hand.sites["a"].abcast(x["a"], [x["b"], x["c"]], b"m")
    hand.run(5)
    assert not hand.sites["c"].abcasts.items
    taken_over(hand, x)


def test_takeover_where_all_have_it_undeliverable() -> None:
    """ "Otherwise, it resumes from step 1." """
    hand = Hand("abcd")
    x = hand.begin()
    hand.cut.add("ca")  # the proposal does not arrive
    hand.sites["a"].abcast(x["a"], [x["b"], x["c"]], b"m")
    hand.run(5)
    assert [item.final for name in "bc" for item in hand.sites[name].abcasts.items.values()] == [False, False]
    taken_over(hand, x)
    assert len(hand.records("cb", Takeover)) == 1, "c has given it to the oldest site of its destinations"


def test_takeover_where_one_has_it_deliverable() -> None:
    """ "If any process has marked the message deliverable, the new coordinator distributes the corresponding priority
    to the other processes (step 3)." It has been delivered there: "each process retain information about messages
    even after they are placed on the delivery queue". Here the site that knows the priority tells it itself, before
    the site view is adopted, and nobody needs to ask."""
    hand = Hand("abcd")
    x = hand.begin()
    hand.sites["a"].abcast(x["a"], [x["b"], x["c"]], b"m")
    hand.run(1.5)
    hand.cut.add("ac")  # the COMMIT
    hand.run(5)
    assert (hand.received(x["b"]), hand.received(x["c"])) == ([b"m"], [])
    (item,) = hand.sites["b"].abcasts.items.values()
    final = item.priority
    taken_over(hand, x, asked=False)
    (ts,) = [row.ts for row in hand.rows["c"] if row.kind == "receive"]
    assert ts == list(final)


# -- 4.3.2, CBCAST


def test_a_packet_holds_what_precedes_in_order() -> None:
    """ "... whenever a message B is sent from a process p to a process q, a copy of every undelivered message B' that
    precedes B ... is also sent to q with B, even if q is not a destination for B'"; "if Bi ≤ Bj, then i < j"."""
    hand = Hand("abcd")
    x = hand.begin()
    hand.delay_ms["ad"] = 50
    hand.sites["a"].cbcast(x["a"], [x["d"]], b"1")
    hand.sites["a"].cbcast(x["a"], [x["d"]], b"2")
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"3")
    hand.run(3)
    assert [copy.payload for copy in hand.records("ab", Copy)] == [b"1", b"2", b"3"]
    hand.sites["b"].cbcast(x["b"], [x["c"]], b"4")
    hand.run(3)
    assert [copy.payload for copy in hand.records("bc", Copy)] == [b"1", b"2", b"3", b"4"]
    assert hand.received(x["c"]) == [b"4"], "the others are in transit to another process"
    assert {cast.counter for cast in hand.sites["c"].pool.entries if cast.site == 0} == {1, 2, 3}
    hand.run(200)
    assert hand.judge() == []


def test_duplicates_that_come_by_different_routes_are_discarded() -> None:
    """Rule 4: "multiple copies could be delivered by different routes (duplicates are discarded)". b and c are lost
    together with a's channel to d; what each has pushed comes to d once."""
    hand = Hand("abcde")
    x = hand.begin()
    hand.cut.add("ad")
    hand.sites["a"].cbcast(x["a"], [x["b"], x["c"], x["d"]], b"m")
    hand.run(3)
    hand.crash("a")
    hand.install("bcde")
    hand.run(200)
    assert hand.received(x["d"]) == [b"m"]
    assert hand.judge() == []


def test_the_senders_own_copy_is_delivered_at_once() -> None:
    """ "If p ∈ REM_DESTS(B), a copy of the message is placed on the delivery queue for p ... The process p can then
    continue as if the message had already been sent." """
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    hand.cut |= {"ab", "ac"}
    hand.sites["a"].cbcast(x["a"], "bank", b"m")
    hand.turn("a")
    assert hand.received(x["a"]) == [b"m"]


def test_one_copy_for_all_processes_of_a_site() -> None:
    """Optimizations 1 and 2: "One intersite packet could suffice to transfer messages from a set of processes at one
    site to all destination processes at another"; "each message would be represented at most once at each site"."""
    hand = Hand("ab")
    x = hand.begin()
    others = [hand.open("b") for _ in range(3)]
    hand.sites["a"].cbcast(x["a"], [x["b"], *others], b"m")
    hand.turn("a")
    hand.run(1.2)
    assert len(hand.records("ab", Copy)) == 1
    assert len(hand.sites["b"].pool) <= 1
    assert all(hand.received(process) == [b"m"] for process in (x["b"], *others))


def test_nothing_is_sent_twice_to_a_site() -> None:
    """Optimization 3: "include B in a packet to a site only if it has not already been sent there"."""
    hand = Hand("abc")
    x = hand.begin()
    hand.delay_ms["ac"] = 50
    hand.sites["a"].cbcast(x["a"], [x["c"]], b"far")
    for place in range(10):
        hand.sites["a"].cbcast(x["a"], [x["b"]], b"%d" % place)
        hand.run(1)
    payloads = [copy.payload for copy in hand.records("ab", Copy)]
    assert payloads.count(b"far") == 1
    assert len(payloads) == 11


# -- 4.3.3, GBCAST


def hold_ready(name: str, hand: Hand) -> None:
    def hold(message: Control, site: str) -> bool:
        return isinstance(message, Ready) and site == name

    hand.hold = hold


def release(hand: Hand) -> None:
    hand.hold = lambda message, site: False


def test_what_a_member_has_received_comes_first_everywhere_and_the_rest_after() -> None:
    """Steps 3.2 to 4.3: a wait queue; what one has received is pushed to the others; "any messages in the wait queue
    that are also in the before list are now transferred"; then the GBCAST; then the rest."""
    hand = Hand("abc")
    x = hand.begin(bank="ab")
    hand.delay_ms["cb"] = 400
    hand.sites["c"].cbcast(x["c"], [x["a"], x["b"]], b"before")
    hand.run(3)
    assert hand.received(x["a"]) == [b"before"]
    hold_ready("b", hand)
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(5)
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"after")
    hand.run(10)
    assert hand.received(x["b"]) == [], "it waits"
    release(hand)
    hand.run(30)
    assert hand.received(x["b"]) == [b"before", b"act", b"after"], "long before c's own copy comes"
    hand.run(1000)
    assert hand.judge() == []


def test_abcasts_below_the_barrier_come_first() -> None:
    """Part 2: "when a GBCAST message reaches the head of an ABCAST priority queue, further delivery of messages from
    that queue will be suspended", in all queues, also of labels that are used only later."""
    hand = Hand("abcd")
    x = hand.begin(bank="ab")
    hand.delay_ms["bc"] = 40
    hand.sites["c"].abcast(x["c"], [x["a"], x["b"]], b"before", "x")  # undecided while b's proposal is under way
    hand.run(3)
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(3)
    hand.sites["d"].abcast(x["d"], [x["a"], x["b"]], b"after", "y")
    hand.run(200)
    for name in "ab":
        assert hand.received(x[name]) == [b"before", b"act", b"after"]
    assert hand.judge() == []


def test_a_gbcast_whose_sender_dies_is_delivered_by_all_or_none() -> None:
    """ "GBCAST is atomic because no participant can deliver a GBCAST message until all have received it; hence, if
    any delivers it, all can restart the protocol." Here it has no coordinator: what is announced is concluded."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hold_ready("b", hand)
    hand.sites["a"].gbcast(x["a"], "bank", b"act")
    hand.run(5)
    hand.crash("a")
    release(hand)
    hand.install("bcd")
    hand.run(100)
    for name in "bc":
        assert hand.told(x[name])[-2:] == [b"act", (x["b"], x["c"])]
    assert hand.judge() == []


def test_part_1_a_failure_view_comes_after_the_abcasts_of_the_failed() -> None:
    """Step 1.3: "q waits until all ABCASTs from f have become deliverable"."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hand.cut.add("ac")
    hand.sites["a"].abcast(x["a"], "bank", b"m")
    hand.run(5)
    hand.crash("a")
    hand.install("bcd")
    hand.run(200)
    for name in "bc":
        assert hand.told(x[name])[-2:] == [b"m", (x["b"], x["c"])]
    assert hand.judge() == []


def test_one_flush_for_a_site_and_not_for_each_process() -> None:
    """ "... the flush that is done in part 1 could be invoked directly from the view management protocol; then,
    instead of doing this on a per-process basis ... it would occur on a per-site basis": one message of each site
    for the flush, and one before it for what is decided, whatever the number of groups."""
    hand = Hand("abc")
    x = hand.begin(**{f"g{place}": "abc" for place in range(10)})
    said: list[str] = []

    def count(message: Control, site: str) -> bool:
        said.append(type(message).__name__)
        return False

    hand.hold = count
    hand.crash("c")
    hand.install("ab")
    hand.run(100)
    assert said == ["Decided", "Decided", "FlushedSite", "FlushedSite"]
    assert sum(told == (x["a"], x["b"]) for told in hand.told(x["a"])[-10:]) == 10


def test_a_growing_view_is_locked_and_another_is_not() -> None:
    """ "During the first phase of a GBCAST operation that increases the group membership, this lock would be
    acquired"; "It is not necessary to lock the view for GBCASTs that do not increase the group membership"; "it
    suffices to order all pending ABCAST and CBCAST events before the GBCAST"; "The view lock would then be released
    when the GBCAST delivery takes place"."""
    hand = Hand("abc")
    x = hand.begin(bank="ab")
    hand.delay_ms["ab"] = 20
    hold_ready("b", hand)
    hand.sites["a"].cbcast(x["a"], "bank", b"pending")
    hand.sites["c"].join(x["c"], "bank")
    hand.run(5)
    hand.sites["a"].cbcast(x["a"], "bank", b"locked")
    hand.sites["a"].cbcast(x["a"], [x["b"]], b"not to the group")
    hand.run(3)
    casts = [row.msg for row in hand.rows["a"] if row.kind == "cbcast"]
    assert casts == ["a:1:1"], "what the process asks for goes out in its order"
    release(hand)
    hand.run(100)
    whole = (x["a"], x["b"], x["c"])
    assert hand.told(x["b"])[-4:] == [b"pending", whole, b"locked", b"not to the group"]
    assert hand.told(x["c"]) == [whole, b"locked"]
    assert hand.judge() == []

    hold_ready("b", hand)
    hand.sites["c"].gbcast(x["c"], "bank", b"act")
    hand.run(5)
    hand.sites["a"].cbcast(x["a"], "bank", b"unlocked")
    hand.turn("a")
    assert [row.msg for row in hand.rows["a"] if row.kind == "cbcast"][-1] == "a:1:4", "it goes out at once"
