"""Reliable Communication in the Presence of Failures, sections 2, 3 and 3.1: failures, process groups, views."""

from random import Random

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.isis.events import Blocked, Killed, Received, ViewShown

# -- 2, system characteristics


def test_no_information_survives_a_failure() -> None:
    """ "No information survives a failure." A site that restarts has no processes, no groups, no messages."""
    hand = Hand("abc")
    hand.begin(bank="abc")
    hand.crash("c")
    hand.install("ab")
    hand.run()
    hand.start("c")
    hand.install("abc")
    hand.run()
    again = hand.open("c")
    assert again.incarnation == 2
    assert hand.received(again) == []
    told = hand.sites["c"].table.groups["bank"].members()
    assert [member.site for member in told] == [0, 1], "the others tell it who is there"


def test_the_failure_of_a_process_is_noticed_by_its_site() -> None:
    """ "If the site at which a failed process was executing remains operational, we assume that the failure is
    detected ... and that any interested parties are notified." """
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    hand.sites["c"].kill(x["c"])
    hand.run()
    assert hand.told(x["a"])[-1] == hand.told(x["b"])[-1] == (x["a"], x["b"])


def test_all_processes_of_a_site_fail_with_it() -> None:
    """ "... if a site crashes, all the processes executing on it fail ..." """
    hand = Hand("abc")
    x = hand.begin(bank="abc", till="c")
    other = hand.open("c")
    hand.join(other, "bank")
    hand.crash("c")
    hand.install("ab")
    hand.run()
    assert hand.told(x["a"])[-1] == (x["a"], x["b"])
    assert hand.judge() == []


def test_a_minority_blocks_and_does_nothing_wrong() -> None:
    """ "Our protocols may block but do not take erroneous actions if the system partitions." And: "preventing
    communication with a cluster when a majority of its sites have failed"."""
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    before = len(hand.seen(x["a"]))
    hand.install("a")
    hand.install("bc")
    hand.run()
    assert [type(event) for event in hand.seen(x["a"])[before:]] == [Blocked]
    with pytest.raises(Unavailable):
        hand.sites["a"].cbcast(x["a"], "bank", b"m")
    assert hand.told(x["b"])[-1] == (x["b"], x["c"])
    assert hand.judge() == []


def test_failures_are_seen_in_one_order() -> None:
    """ "... the order in which failures are perceived to have occurred may vary from process to process ... a
    protocol is run to reach agreement with other processes that a failure event has occurred and to order it"."""
    hand = Hand("abcde")
    x = hand.begin(bank="abcde")
    hand.crash("d")
    hand.install("abce")
    hand.run(1.5)  # the change is under way
    hand.crash("e")
    hand.install("abc")
    hand.run()
    views = [[told for told in hand.told(x[name]) if isinstance(told, tuple)] for name in "abc"]
    assert views[0][-2:] == views[1][-2:] == views[2][-2:]
    assert views[0][-1] == (x["a"], x["b"], x["c"])
    assert hand.judge() == []


def test_nobody_talks_to_a_process_whose_state_is_inconsistent() -> None:
    """ "... after a process learns of such an event ... it will never communicate with another process whose state is
    inconsistent with this information." What was cut off comes back under another identity."""
    hand = Hand("abc")
    x = hand.begin(bank="abc")
    hand.sites["a"].cbcast(x["a"], "bank", b"unheard")
    hand.cut |= {"ab", "ac"}
    hand.run(5)
    hand.install("a")
    hand.install("bc")
    hand.run()
    hand.cut.clear()
    hand.install("abc")
    hand.run(300)
    (killed,) = [event for event in hand.events["a"] if isinstance(event, Killed)]
    assert killed.was == x["a"] != killed.process
    assert hand.received(x["b"]) == hand.received(x["c"]) == []
    with pytest.raises(Rejected):
        hand.sites["a"].cbcast(x["a"], "bank", b"as who it was")
    assert hand.judge() == []


# -- 3, fault-tolerant process groups


@pytest.mark.parametrize("seed", range(5))
def test_exactly_one_member_responds_to_each_request(seed: int) -> None:
    """ "The operational process having the smallest ID responds": all members must have the same view when they
    receive the request, also while members fail and join. What the failed one did, nobody has seen."""
    random = Random(seed)
    hand = Hand("abcde")
    x = hand.begin(server="abc")
    view: dict[Process, tuple[Process, ...]] = dict.fromkeys((x["b"], x["c"]), (x["a"], x["b"], x["c"]))
    responds: dict[bytes, set[Process]] = {}

    def see(event: object) -> None:
        if isinstance(event, ViewShown):
            view[event.process] = event.ranked
        elif isinstance(event, Received) and event.process != x["a"]:
            responds.setdefault(event.payload, set()).add(min(view[event.process]))

    hand.on_event = see
    for place in range(30):
        hand.sites["e"].cbcast(x["e"], "server", b"%d" % place)
        hand.delay_ms["e" + random.choice("bc")] = random.choice((0.5, 3, 9))
        if place == 10:
            hand.crash("a")
            hand.install("bcde")
        if place == 20:
            hand.sites["d"].join(x["d"], "server")
        hand.run(random.choice((0.2, 1, 4)))
    hand.run(500)
    assert len(responds) == 30
    assert all(len(who) == 1 for who in responds.values())
    assert hand.judge() == []


# -- 3.1, GBCAST and views


def test_members_keep_a_copy_of_the_view_and_act_on_it_directly() -> None:
    """ "... make it possible for each member to maintain a local copy of the view, updating it on reception of a
    GBCAST message": views come in one numbered sequence, by each kind of change."""
    hand = Hand("abcd")
    x = hand.begin(bank="abc")
    hand.sites["a"].rank(x["a"], "bank", [x["c"], x["a"], x["b"]])
    hand.run()
    hand.sites["b"].set_properties(x["b"], "bank", {"mode": b"ro"})
    hand.run()
    hand.sites["b"].leave(x["b"], "bank")
    hand.run()
    hand.sites["a"].kill(x["a"])
    hand.run()
    hand.join(x["d"], "bank")
    shown = [event for event in hand.seen(x["c"]) if isinstance(event, ViewShown)]
    assert [(event.view, event.ranked) for event in shown] == [
        (3, (x["a"], x["b"], x["c"])),
        (4, (x["c"], x["a"], x["b"])),
        (5, (x["c"], x["a"], x["b"])),
        (6, (x["c"], x["a"])),
        (7, (x["c"],)),
        (8, (x["c"], x["d"])),
    ]
    assert [event.properties for event in shown[2:]] == [{"mode": b"ro"}] * 4
    assert shown[4].lost == (x["a"],), "a failure, and no leave"
    assert hand.judge() == []


def test_a_failure_gbcast_comes_after_all_messages_of_the_failed() -> None:
    """ "... a failure GBCAST be delivered after any other messages sent by the failed process. Thus, once a process
    is observed to fail, it will never be heard from again." """
    for end in ("kill", "crash"):
        hand = Hand("abc")
        x = hand.begin(bank="abc")
        hand.delay_ms["cb"] = 30
        hand.sites["c"].cbcast(x["c"], "bank", b"last words")
        hand.sites["c"].abcast(x["c"], "bank", b"last order")
        hand.run(2.5)
        if end == "kill":
            hand.sites["c"].kill(x["c"])
        else:
            hand.crash("c")
            hand.install("ab")
        hand.run(300)
        for name in "ab":
            told = hand.told(x[name])
            assert told[-1] == (x["a"], x["b"])
            assert b"last words" in told
        assert hand.judge() == []


@pytest.mark.parametrize("seed", range(10))
def test_gbcasts_have_the_same_place_among_all_broadcasts_everywhere(seed: int) -> None:
    """ "... the order in which GBCASTs are delivered relative to the delivery of all other sorts of broadcasts
    (including other GBCASTs) is the same at all overlapping destinations"."""
    random = Random(seed)
    hand = Hand("abcd")
    x = hand.begin(one="abc", two="bcd")
    for place in range(60):
        name = random.choice("abcd")
        group = random.choice(("one", "two"))
        payload = b"%d" % place
        hand.delay_ms[name + random.choice("abcd")] = random.choice((0.3, 1, 7))
        match random.randrange(4):
            case 0:
                hand.sites[name].gbcast(x[name], group, b"G" + payload)
            case 1:
                hand.sites[name].abcast(x[name], group, payload, random.choice(("", "q")))
            case _:
                hand.sites[name].cbcast(x[name], group, payload)
        hand.run(random.choice((0.1, 0.5, 3)))
    hand.run(1000)
    for one, other in (("b", "c"), ("a", "b"), ("c", "d")):
        mine, theirs = hand.received(x[one]), hand.received(x[other])
        both = set(mine) & set(theirs)
        for act in [payload for payload in both if payload.startswith(b"G")]:
            assert {m for m in mine[: mine.index(act)] if m in both} == {
                m for m in theirs[: theirs.index(act)] if m in both
            }
    assert hand.judge() == []


def test_the_last_to_fail_are_known_when_all_have_failed() -> None:
    """Members that record each view before they use it can tell, after all have failed, who failed last. The others
    wait for these, and take up the group behind them."""
    hand = Hand("abcd")
    hand.install("abcd")
    hand.run()
    for name in "abc":
        hand.at(first := hand.open(name)).join(first, "bank", last_to_fail=True)
        hand.run(60)
    hand.install("bcd")  # a fails first
    hand.run(60)
    for name in "abcd":
        hand.restart(name)
    hand.install("abcd")
    hand.run()
    x = {name: hand.open(name) for name in "abc"}
    for name in "abc":
        assert [hand.views(process) for process in x.values()] == [[], [], []]
        hand.at(x[name]).join(x[name], "bank", last_to_fail=True)
        hand.run(60)
    assert hand.of(ViewShown, x["b"])[0].last_to_fail == (1, 2)
    assert hand.views(x["a"])[-1] == (x["b"], x["c"], x["a"])
    assert hand.judge() == []
