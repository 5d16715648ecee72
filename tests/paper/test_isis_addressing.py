"""Reliable Communication in the Presence of Failures, sections 3.6 and 3.7: group addressing, checkpoints, state."""

from random import Random

import pytest
from tests.isis.hand import Hand

from reconvene.isis.events import Received, Rejection, StateChunk, StateDone, StateWanted, ViewShown

# -- 3.6, group addressing


def growing(hand: Hand) -> None:
    """c joins while d's cast to a and b is under way."""
    x = hand.begin(bank="ab")
    hand.delay_ms["da"], hand.delay_ms["db"] = 40, 60
    hand.sites["d"].cbcast(x["d"], "bank", b"m")
    hand.join(x["c"], "bank")
    hand.run(500)


def test_views_are_numbered_and_a_cast_names_its_view() -> None:
    """ "... each process group member to number its process group views sequentially"; "the cached information would
    be used to compute DESTS(B), and the view number included in the message"."""
    hand = Hand("abcd")
    growing(hand)
    views = [row.view for row in hand.rows["a"] if row.kind == "view"]
    assert views == [1, 2, 3]
    attempts = [(row.attempt, row.view, row.dests) for row in hand.rows["d"] if row.kind == "cbcast"]
    assert attempts == [(0, 2, ["a:1:1", "b:1:1"]), (1, 3, ["a:1:1", "b:1:1", "c:1:1"])]


def test_all_reject_if_any_does_and_it_goes_out_again() -> None:
    """ "On delivery, if a recipient finds that the process group view has changed, it rejects the message. Since all
    recipients have the same view when they receive the message, they all reject it if any do so. A rejected broadcast
    can then be retransmitted to an updated set of destinations, and the cache updated." """
    hand = Hand("abcd")
    growing(hand)
    for name in "ab":
        kinds = [
            (type(event), event.attempt) for event in hand.events[name] if isinstance(event, Rejection | Received)
        ]
        assert kinds == [(Rejection, 0), (Received, 1)]
    assert hand.judge() == []


def test_a_view_that_only_lost_members_is_no_reason_to_reject() -> None:
    """ "... both cases are treated as if atomic delivery had occurred in the view that existed prior to the failure":
    a destination that has failed does not make the cast go out again."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hand.delay_ms["da"] = hand.delay_ms["db"] = hand.delay_ms["dc"] = 40
    hand.sites["d"].cbcast(x["d"], "bank", b"m")
    hand.run(3)
    hand.crash("c")
    hand.install("abd")
    hand.run(300)
    assert [row.attempt for row in hand.rows["a"] if row.kind == "receive"] == [0]
    assert hand.judge() == []


@pytest.mark.parametrize("reaches", [False, True])
@pytest.mark.parametrize("kind", ["cbcast", "abcast"])
def test_whether_the_failed_received_it_makes_no_difference(reaches: bool, kind: str) -> None:
    """A process that fails counts as if it had received what was cast in its last view, whether or not it did: the
    others receive that before the view without it."""
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    if not reaches:
        hand.cut = hand.links(to="c")
    getattr(hand.sites["b"], kind)(x["b"], "bank", b"m")
    hand.run(5)
    assert hand.received(x["c"]) == ([b"m"] if reaches else [])
    hand.crash("c")
    hand.install("ab")
    hand.run(100)
    for name in "ab":
        assert hand.told(x[name])[-2:] == [b"m", (x["a"], x["b"])]
    assert hand.judge() == []


def test_c_does_not_overtake_b() -> None:
    """ "... consider three CBCASTs A → B → C, and assume that A and B have been transmitted using incorrect
    destinations. If the cache is updated promptly after A is rejected, C could be transmitted using the corrected
    destinations before B is rejected and retransmitted." """
    hand = Hand("abcd")
    x = hand.begin(bank="ab")
    hand.delay_ms["da"], hand.delay_ms["db"] = 40, 60
    hand.sites["d"].cbcast(x["d"], "bank", b"A")
    hand.run(5)
    hand.sites["d"].cbcast(x["d"], "bank", b"B")
    hand.join(x["c"], "bank")
    hand.sites["d"].cbcast(x["d"], "bank", b"C")
    hand.run(500)
    for name in "abc":
        assert hand.received(x[name]) == [b"A", b"B", b"C"]
    rejected = [event.id.counter for event in hand.events["a"] if isinstance(event, Rejection)]
    assert rejected == [1, 2]
    assert hand.judge() == []


def test_what_follows_the_next_attempt_does_not_take_the_last_one_for_it() -> None:
    """ "C might then be delivered before the retransmission of B occurs, which would violate the causal order": also
    where C is another process's, and comes before both attempts of B."""
    hand = Hand("abcd")
    x = hand.begin(bank="ab")
    hand.delay_ms["db"], hand.delay_ms["da"] = 5, 40
    hand.sites["d"].cbcast(x["d"], "bank", b"B")
    hand.sites["c"].join(x["c"], "bank")
    hand.run(20)
    assert hand.received(x["b"]) == [b"B"]
    hand.sites["b"].cbcast(x["b"], "bank", b"C")
    hand.run(500)
    at_a = [(type(event), event.id.site) for event in hand.seen(x["a"]) if isinstance(event, Rejection | Received)]
    assert at_a == [(Rejection, 3), (Received, 3), (Received, 1)]
    assert hand.judge() == []


@pytest.mark.parametrize("seed", range(5))
def test_a_members_casts_are_never_rejected(seed: int) -> None:
    """ "... the addressing protocol never iterates in the common situation in which a member of a process group
    broadcasts to the other members of the group ... because we lock the view when the group membership is
    growing"."""
    random = Random(seed)
    hand = Hand("abcde")
    x = hand.begin(bank="ab")
    for place in range(60):
        name = random.choice("ab")
        hand.delay_ms[name + random.choice("abcde")] = random.choice((0.3, 1, 7))
        if random.random() < 0.5:
            hand.sites[name].cbcast(x[name], "bank", b"%d" % place)
        else:
            hand.sites[name].abcast(x[name], "bank", b"%d" % place)
        if place in (20, 30, 40):
            newcomer = "cde"[place // 10 - 2]
            hand.sites[newcomer].join(x[newcomer], "bank")
        hand.run(random.choice((0.1, 1, 3)))
    hand.run(500)
    assert not any(isinstance(event, Rejection) for events in hand.events.values() for event in events)
    assert len(hand.received(x["a"])) == 60
    assert hand.judge() == []


# -- 3.7, checkpoints and state


@pytest.mark.parametrize("seed", range(3))
def test_checkpoints_are_consistent(seed: int) -> None:
    """ "Any process can issue a GBCAST to the membership of the group (including itself), and when this GBCAST is
    received, it is safe to make the checkpoint immediately. The resulting checkpoints will be consistent"."""
    random = Random(seed)
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    for place in range(150):
        name = random.choice("abc")
        hand.delay_ms[name + random.choice("abc")] = random.choice((0.3, 2, 9))
        hand.sites[name].cbcast(x[name], "bank", b"%d" % place)
        if place == 20:
            hand.sites["b"].gbcast(x["b"], "bank", b"checkpoint")
        hand.run(0.5)
    hand.run(300)
    saved = []
    for name in "abc":
        received = hand.received(x[name])
        saved.append(set(received[: received.index(b"checkpoint")]))
    assert saved[0] == saved[1] == saved[2]
    assert 0 < len(saved[0]) < 150


def transfer(hand: Hand, chunks: int) -> None:
    """Members give their state in chunks, one a millisecond."""

    def see(event: object) -> None:
        if isinstance(event, StateWanted):
            for place in range(event.first, chunks):
                hand.later(
                    place - event.first + 1,
                    event.process,
                    lambda isis, place=place: isis.give(  # type: ignore[misc]
                        event.process,
                        event.group,
                        event.view,
                        event.newcomer,
                        place,
                        b"%d" % place,
                        place + 1 == chunks,
                    ),
                )

    hand.on_event = see


def test_a_newcomer_gets_the_state_and_meanwhile_receives() -> None:
    """ "At the time the recovery GBCAST is received, one process group member is designated the coordinator for the
    state transfer"; "While the state transfer is under way, the new group member may receive other sorts of messages,
    since the view will already have changed to include it." """
    hand = Hand("abc", state="abc")
    x = hand.begin(bank="a")
    transfer(hand, 5)
    hand.join(x["b"], "bank")
    hand.sites["c"].join(x["c"], "bank")
    hand.run(5)
    hand.sites["a"].cbcast(x["a"], "bank", b"meanwhile")
    hand.run(100)
    seen = [event for event in hand.seen(x["c"]) if isinstance(event, ViewShown | StateChunk | StateDone | Received)]
    assert isinstance(seen[0], ViewShown)
    assert [event.data for event in seen if isinstance(event, StateChunk)] == [b"%d" % place for place in range(5)]
    assert isinstance(seen[-1], StateDone)
    assert any(isinstance(event, Received) for event in seen[:-1])
    givers = {event.process for events in hand.events.values() for event in events if isinstance(event, StateWanted)}
    assert givers == {x["a"]}, "one of them"
    assert hand.judge() == []


def test_a_cohort_resumes_the_transfer() -> None:
    """ "If the coordinator fails before completing the transfer, the cohorts will receive a failure GBCAST, and one
    then takes over to restart or resume the transfer." """
    hand = Hand("abcd", state="abc")
    x = hand.begin(bank="a")
    transfer(hand, 6)
    hand.join(x["b"], "bank")
    hand.sites["c"].join(x["c"], "bank")
    hand.run(6)
    got = sum(isinstance(event, StateChunk) for event in hand.seen(x["c"]))
    assert 0 < got < 6
    hand.crash("a")
    hand.install("bcd")
    hand.run(100)
    chunks = [event.index for event in hand.seen(x["c"]) if isinstance(event, StateChunk)]
    assert chunks == list(range(6)), "each once"
    (cohort,) = [event for event in hand.seen(x["b"]) if isinstance(event, StateWanted)]
    assert 0 < cohort.first < 6, "it goes on where the coordinator was"
    assert hand.judge() == []


@pytest.mark.parametrize("crash", [False, True])
def test_a_state_vector_has_a_contribution_of_each_member(crash: bool) -> None:
    """ "the recovery GBCAST as a synchronous RPC that returns a state vector (with a state contribution from each
    current member of the group)"; "Unless all current members fail, at least one member will return the present
    state." """
    hand = Hand("abcd", state="abc")
    x = hand.begin(bank="a")
    transfer(hand, 4)
    hand.join(x["b"], "bank")
    hand.run(20)
    hand.sites["c"].join(x["c"], "bank", vector=True)
    hand.run(6)
    if crash:
        hand.crash("a")
        hand.install("bcd")
    hand.run(100)
    chunks = [(event.member, event.index) for event in hand.seen(x["c"]) if isinstance(event, StateChunk)]
    assert [index for member, index in chunks if member == x["b"]] == list(range(4))
    of_a = [index for member, index in chunks if member == x["a"]]
    assert of_a == list(range(len(of_a)))
    assert len(of_a) < 4 if crash else len(of_a) == 4
    assert sum(isinstance(event, StateDone) for event in hand.seen(x["c"])) == 1
    assert hand.judge() == []


def test_a_state_vector_with_a_contribution_from_each_member() -> None:
    """ "... a synchronous RPC that returns a state vector (with a state contribution from each current member of the
    group)"; "Unless all current members fail, at least one member will return the present state." """
    hand = Hand("abcd", state="abc")
    x = hand.begin(bank="a")
    transfer(hand, 3)
    hand.join(x["b"], "bank")
    hand.sites["c"].join(x["c"], "bank", vector=True)
    hand.run(3)
    hand.crash("a")
    hand.install("bcd")
    hand.run(100)
    givers = {event.process for events in hand.events.values() for event in events if isinstance(event, StateWanted)}
    assert givers >= {x["a"], x["b"]}
    assert any(isinstance(event, StateDone) for event in hand.seen(x["c"]))
    assert hand.judge() == []
