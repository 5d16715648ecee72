"""Monitoring without a call: who is told that a watched process is over, when, and how often (4.1)."""

import pytest
from tests.isis.hand import Hand

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.isis.events import ALL, Answered, Failed, Killed, Received, SiteAdopted
from reconvene.isis.limits import IsisLimits
from reconvene.isis.messages import Decided, FlushedSite


def _hand(names: str = "abc", **options: object) -> Hand:
    hand = Hand(names, **options)  # type: ignore[arg-type]
    hand.install(names)
    hand.run()
    return hand


def _watch(hand: Hand, watcher: Process, watched: Process) -> None:
    hand.at(watcher).watch(watcher, watched)


def _told(hand: Hand, watcher: Process) -> list[Process]:
    return [event.sender for event in hand.of(Failed, watcher) if event.id is None]


def _heard(hand: Hand, process: Process) -> list[str]:
    """What the process sees, as one word each."""
    events = hand.events[hand.names[process.site]]
    return [
        event.payload.decode() if isinstance(event, Received) else "failed"
        for event in events
        if isinstance(event, Received | Failed) and event.process == process
    ]


@pytest.mark.parametrize("where", ["a", "b"])
def test_the_death_of_a_process_is_told_once(where: str) -> None:
    hand = _hand()
    watcher, watched, other = hand.open("a"), hand.open(where), hand.open("c")
    _watch(hand, watcher, watched)
    _watch(hand, watcher, watched)  # changes nothing
    _watch(hand, watcher, other)
    hand.run()
    assert _told(hand, watcher) == []
    hand.at(watched).kill(watched)
    hand.run()
    assert _told(hand, watcher) == [watched]
    hand.at(other).close(other)
    hand.run()
    assert _told(hand, watcher) == [watched, other], "also one that ends in good order"
    assert hand.judge() == []


def test_one_that_is_over_by_now_is_told_at_once_and_again() -> None:
    hand = _hand()
    watcher, near, far = hand.open("a"), hand.open("a"), hand.open("b")
    for process in (near, far):
        hand.at(process).kill(process)
    hand.run()
    for process in (near, far, far):
        _watch(hand, watcher, process)
        hand.run()
    assert _told(hand, watcher) == [near, far, far]


def test_all_that_it_sent_comes_first() -> None:
    """Its last casts, to others too, and its last replies are behind a slow link; its death is not."""
    hand = _hand(answers="b")
    watcher, watched, third = hand.open("a"), hand.open("b"), hand.open("c")
    _watch(hand, watcher, watched)
    hand.run()
    hand.at(watcher).cbcast(watcher, [watched], b"ask", replies=ALL)
    hand.run()
    hand.delay_ms |= dict.fromkeys(("bc", "cb"), 200)
    hand.at(watched).cbcast(watched, [third], b"cause")
    hand.at(watched).reply(watched, next(event.id for event in hand.of(Received, watched)), b"yes")
    hand.at(watched).cbcast(watched, [watcher, third], b"last")
    hand.at(watched).kill(watched)
    hand.run(50)
    assert _told(hand, watcher) == [], "its last cast is not everywhere"
    hand.run(1_000)
    assert _heard(hand, watcher) == ["last", "failed"]
    assert len(hand.of(Answered, watcher)) == 1
    assert hand.judge() == []


def test_the_loss_of_a_site_is_told_after_its_casts_are_everywhere() -> None:
    hand = _hand("abcd")
    watcher, third, watched = hand.open("a"), hand.open("b"), hand.open("d")
    _watch(hand, watcher, watched)
    hand.run()
    hand.cut.add("da")
    hand.at(watched).cbcast(watched, [watcher, third], b"last")
    hand.run(20)
    hand.crash("d")
    hand.hold = lambda message, site: isinstance(message, FlushedSite) and site == "c"
    hand.install("abc")
    hand.run(100)
    assert _told(hand, watcher) == [], "c has not said that it has brought all that it had"
    hand.hold = lambda message, site: False
    hand.run(100)
    assert _heard(hand, watcher) == ["last", "failed"]
    assert hand.judge() == []


def test_a_site_that_was_killed_and_is_back() -> None:
    """Its processes are over for the others while it is away, and the watches of its own are over when it is back."""
    hand = _hand()
    watcher, watched, late = hand.open("a"), hand.open("c"), hand.open("b")
    _watch(hand, watcher, watched)
    _watch(hand, watched, watcher)
    hand.at(watched).cbcast(watched, [late], b"here")
    hand.run()
    hand.install("ab")
    hand.run()
    assert _told(hand, watcher) == [watched]
    _watch(hand, late, watched)
    hand.run()
    assert _told(hand, late) == [watched], "its site is away, and has been in the line"
    hand.install("c")
    with pytest.raises(Unavailable):
        _watch(hand, watched, late)
    hand.install("abc")
    hand.run()
    (killed,) = [event for event in hand.events["c"] if isinstance(event, Killed)]
    _watch(hand, watcher, killed.process)
    _watch(hand, late, watched)
    hand.at(watcher).kill(watcher)
    hand.run()
    assert [event for event in hand.events["c"] if isinstance(event, Failed)] == []
    assert _told(hand, late) == [watched, watched]
    assert hand.judge() == []


def test_a_process_of_a_site_that_has_not_come_yet_is_not_over() -> None:
    """Somebody told the watcher of it by another way."""
    hand = _hand()
    watcher = hand.open("a")
    hand.restart("c")
    coming = hand.sites["c"].open("")
    _watch(hand, watcher, coming)  # a still believes in the last incarnation
    hand.install("ab")
    hand.run()
    assert _told(hand, watcher) == []
    hand.install("abc")
    hand.run()
    hand.at(coming).cbcast(coming, [watcher], b"here")
    hand.run()
    assert _heard(hand, watcher) == ["here"]
    hand.at(coming).kill(coming)
    hand.run()
    assert _heard(hand, watcher) == ["here", "failed"]
    assert hand.judge() == []


def test_a_process_of_the_next_life_of_a_site_is_not_over() -> None:
    """The site has begun its next life in a configuration that the others leave before they adopt it. Then it is away
    once more, and its process has begun."""
    hand = _hand()
    watcher, was = hand.open("a"), hand.open("c")
    hand.install("ab")
    hand.run()
    hand.install("c")
    hand.hold = lambda message, site: isinstance(message, Decided)
    hand.install("abc")
    hand.run()
    (killed,) = [event for event in hand.events["c"] if isinstance(event, Killed)]
    assert (killed.was, killed.process.incarnation) == (was, was.incarnation)
    hand.hold = lambda message, site: False
    hand.install("ab")
    hand.install("c")
    hand.run()
    _watch(hand, watcher, killed.process)
    _watch(hand, watcher, was)
    hand.run()
    assert _told(hand, watcher) == []
    hand.install("abc")
    hand.run()
    assert _told(hand, watcher) == [was], "the site has come back, in a later life than that of this process"
    begun = [event.process for event in hand.events["c"] if isinstance(event, Killed)][-1]
    hand.at(begun).cbcast(begun, [watcher], b"here")
    hand.at(begun).kill(begun)
    hand.run()
    assert _told(hand, watcher) == [was, killed.process]
    assert hand.judge() == []


@pytest.mark.parametrize("next_", ["abc", "ab"])
def test_a_site_view_that_is_adopted_when_it_has_ended_says_nothing_of_its_newcomers(next_: str) -> None:
    """All know the configuration to be used. Only a learns, as it leaves, what it takes to adopt it: so c has never
    entered the line there, and goes on as it was when it enters it."""
    hand = _hand()
    watcher = hand.open("a")
    hand.restart("c")
    coming = hand.sites["c"].open("")
    _watch(hand, watcher, coming)
    hand.install("abc")
    hand.take()
    hand.install(next_, late="a")
    hand.run()
    adopted = [event for event in hand.events["a"] if isinstance(event, SiteAdopted)]
    assert [[site for site, _ in event.members] for event in adopted] == [
        [0, 1, 2],
        list(map(hand.names.index, next_)),
    ]
    assert _told(hand, watcher) == []
    hand.install("abc")
    hand.run()
    assert not any(isinstance(event, Killed) for event in hand.events["c"])
    hand.at(coming).cbcast(coming, [watcher], b"here")
    hand.run()
    assert _heard(hand, watcher) == ["here"]
    hand.at(coming).kill(coming)
    hand.run()
    assert _heard(hand, watcher) == ["here", "failed"]
    assert hand.judge() == []


def test_the_watch_ends_with_the_watcher() -> None:
    hand = _hand()
    watcher, other, watched = hand.open("a"), hand.open("a"), hand.open("b")
    _watch(hand, watcher, watched)
    _watch(hand, other, watched)
    hand.run()
    hand.at(watcher).kill(watcher)
    hand.run()
    assert len(hand.sites["a"].monitor) == 1
    hand.at(other).close(other)
    hand.run()
    assert len(hand.sites["a"].monitor) == 0
    hand.at(watched).kill(watched)
    hand.run()
    assert not any(isinstance(event, Failed) for event in hand.events["a"])


def test_the_watcher_ends_between_the_loss_and_its_report() -> None:
    hand = _hand("abcd")
    watcher, watched = hand.open("a"), hand.open("d")
    _watch(hand, watcher, watched)
    hand.run()
    hand.crash("d")
    hand.hold = lambda message, site: isinstance(message, FlushedSite) and site == "c"
    hand.install("abc")
    hand.run()
    hand.at(watcher).kill(watcher)
    hand.hold = lambda message, site: False
    hand.run()
    assert _told(hand, watcher) == []


def test_limits_and_refusals() -> None:
    hand = _hand(limits=IsisLimits(watches=2))
    watcher, *others = hand.open("a"), *[hand.open("b") for _ in range(3)]
    with pytest.raises(Rejected, match="watches itself"):
        _watch(hand, watcher, watcher)
    for other in others[:2]:
        _watch(hand, watcher, other)
    with pytest.raises(Unavailable, match="2 processes are watched"):
        _watch(hand, watcher, others[2])
    hand.at(others[0]).kill(others[0])
    hand.run()
    _watch(hand, watcher, others[2])
    hand.at(watcher).kill(watcher)
    with pytest.raises(Rejected, match="is over"):
        _watch(hand, watcher, others[1])


def test_one_that_has_never_begun_is_not_over() -> None:
    hand = _hand()
    watcher = hand.open("a")
    for site in "ab":
        number = hand.sites[site].processes.next
        _watch(hand, watcher, Process(hand.names.index(site), 1, number))
    hand.run()
    assert _told(hand, watcher) == []
    begun = hand.open("b")
    hand.at(begun).cbcast(begun, [watcher], b"here")
    hand.run()
    assert hand.judge() == []


def test_many_watchers_of_one_site_cost_one_record() -> None:
    hand = _hand()
    watched = hand.open("b")
    watchers = [hand.open("a") for _ in range(20)]
    hand.run()
    before = hand.sites["a"].channels.counters.records
    for watcher in watchers:
        _watch(hand, watcher, watched)
    hand.run()
    assert hand.sites["a"].channels.counters.records == before + 1
    hand.at(watched).kill(watched)
    hand.run()
    assert all(_told(hand, watcher) == [watched] for watcher in watchers)
