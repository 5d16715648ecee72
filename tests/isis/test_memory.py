"""What the layer of a site holds is the same after a few rounds of work and after many, at rest: processes that come
and go, casts of all kinds, calls, views, sites that are lost and killed leave nothing behind."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from tests.isis.hand import Hand
from tests.reachable import grown, held

from reconvene.core.groups.events import Process
from reconvene.errors import ReconveneError, Rejected
from reconvene.isis.calls import Calls
from reconvene.isis.events import ALL, Answered, IsisEvent, Killed, Received, StateWanted, ViewShown
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Local
from reconvene.isis.messages import Ready
from reconvene.isis.pool import Entry

NAMES = "abcd"
LASTING = "abc"
"""Sites whose layer lives as long as the test. Of these, c is killed now and then: the others go on without it."""
OWED = 8
IDLE_MS = 6_000
"""After so long, sites that exchange nothing else have told each other what is everywhere."""


class Town:
    """At each site two processes that stay: a *talker* casts, and a *listener* only receives. All but the listeners
    answer. Others come and go."""

    def __init__(self) -> None:
        self.hand = Hand(NAMES, limits=IsisLimits(owed_replies=OWED))
        self.hand.on_event = self._see
        self.groups: dict[Process, list[str]] = {}
        """Of each process that is not over."""
        self.talkers: list[Process] = []
        self.listeners: list[Process] = []
        self._seen: list[IsisEvent] = []
        self.rounds = 0
        self.hand.install(NAMES)
        self.hand.run()
        for name in NAMES:
            self._settle_at(name)
        self.settle()

    # -- processes

    def _settle_at(self, name: str) -> None:
        self.talkers.append(self._open(name, ["bank", "till"]))
        self.listeners.append(self._open(name, ["bank"]))

    def _open(self, name: str, groups: list[str]) -> Process:
        process = self.hand.sites[name].open(f"{name}{self.rounds}", answers=True, state=True)
        self.groups[process] = groups
        self._join(process)
        return process

    def _join(self, process: Process) -> None:
        isis = self.hand.at(process)
        for group in self.groups[process]:
            isis.join(process, group, vector=group == "till")

    def _end(self, process: Process, *, dead: bool) -> None:
        isis = self.hand.at(process)
        (isis.kill if dead else isis.close)(process)
        del self.groups[process]

    def _see(self, event: IsisEvent) -> None:
        self._seen.append(event)

    def settle(self) -> None:
        """Until everything is done, and all that is asked of the processes is answered."""
        while True:
            self.hand.run(100)
            seen, self._seen = self._seen, []
            if not seen:
                return
            for event in seen:
                with suppress(ReconveneError):  # what is asked, or asks, may be over
                    self._answer(event)

    def _answer(self, event: IsisEvent) -> None:
        if isinstance(event, Killed) and event.was in self.groups:
            self._move(event.was, event.process)
        elif isinstance(event, Received) and event.replies and event.process not in self.listeners:
            self.hand.at(event.process).reply(event.process, event.id, b"yes")
        elif isinstance(event, StateWanted):
            isis = self.hand.at(event.process)
            for index in range(event.first, 2):
                data = b"state"
                isis.give(event.process, event.group, event.view, event.newcomer, index, data, index == 1)

    def _move(self, was: Process, process: Process) -> None:
        self.groups[process] = self.groups.pop(was)
        for kind in (self.talkers, self.listeners):
            if was in kind:
                kind[kind.index(was)] = process
        self._join(process)

    # -- work

    def round(self) -> None:
        """All of it once; every name of a label and a queue is a new one."""
        self.rounds += 1
        guests = [self._open(name, ["bank", "inn"]) for name in NAMES]
        self.settle()
        self._cast([*self.talkers, *guests])
        self.hand.run(1)
        self._end(guests[0], dead=True)
        self.settle()
        self.hand.at(guests[1]).leave(guests[1], "bank")
        self.groups[guests[1]].remove("bank")
        self.hand.at(guests[2]).set_properties(guests[2], "inn", {"rounds": b"%d" % self.rounds})
        self.settle()
        self._end(guests[1], dead=False)
        self._lose_d()
        self._kill_c()
        for process in [process for process in self.groups if "inn" in self.groups[process]]:
            self._end(process, dead=False)
        self.settle()
        self.hand.run(IDLE_MS)
        self.hand.take()
        self.hand.packets.clear()

    def _cast(self, processes: Iterable[Process]) -> None:
        members = [*self.talkers, *self.listeners]
        topic = f"topic {self.rounds}"
        for process in processes:
            isis = self.hand.at(process)
            isis.cbcast(process, "bank", b"a balance")
            isis.cbcast(process, "bank", b"of a topic", topic)
            isis.cbcast(process, "till", b"of some components", {topic: self.rounds, "x": 1})
            isis.abcast(process, "bank", b"in a queue", topic)
            isis.abcast(process, "bank", b"in a queue, causal", topic, causal=True)
            isis.cbcast(process, "bank", b"who is there", replies=1)
            isis.abcast(process, "till", b"and who here", topic, replies=ALL)
            isis.cbcast(process, members, b"to some", replies=2)
            isis.gbcast(process, "bank", b"to all, at one place")
            isis.flush(process)

    def _lose_d(self) -> None:
        hand = self.hand
        self._cast(self.talkers)
        hand.run(1)
        hand.crash("d")
        lost = [process for process in self.groups if hand.names[process.site] == "d"]
        for process in lost:
            del self.groups[process]
        self.talkers = [process for process in self.talkers if process not in lost]
        self.listeners = [process for process in self.listeners if process not in lost]
        hand.install("abc")
        self.settle()
        self._cast(self.talkers)
        self.settle()
        hand.start("d")
        hand.install(NAMES)
        self.settle()
        self._settle_at("d")
        self.settle()

    def _kill_c(self) -> None:
        hand = self.hand
        self._cast(self.talkers)
        hand.run(1)
        hand.cut = hand.links(of="c") | hand.links(to="c")
        hand.install("c")
        hand.install("abd")
        self.settle()
        self._cast(process for process in self.talkers if hand.names[process.site] != "c")
        self.settle()
        hand.cut = set()
        hand.install(NAMES)
        self.settle()

    # -- what the sites hold

    def held(self) -> dict[str, Counter[str]]:
        return {name: held(self.hand.sites[name]) for name in LASTING}


def after_more_rounds(town: Town, few: int, more: int) -> dict[str, dict[str, tuple[int, int]]]:
    """By site: what it holds more of than `more` rounds before."""
    for _ in range(few):
        town.round()
    before = town.held()
    for _ in range(more):
        town.round()
    after = town.held()
    for name in LASTING:
        isis = town.hand.sites[name]
        assert (isis.step, len(isis.own.open)) == ("isis: idle", 0)
        assert len(isis.delivery.locals) == 2, "the guests are over"
    return {name: found for name in LASTING if (found := grown(before[name], after[name]))}


def test_nothing_grows() -> None:
    assert after_more_rounds(Town(), 2, 4) == {}


def _keeps_the_past(self: Entry) -> None:
    self.disposed = True


def _owes_for_ever(self: Calls, local: Local) -> None:
    pass


@pytest.mark.parametrize(
    ("kind", "method", "leak", "where"),
    [(Entry, "dispose", _keeps_the_past, "Local.past"), (Calls, "_answer_oldest", _owes_for_ever, "Local.owed")],
)
def test_what_grows_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: type, method: str, leak: Callable[..., None], where: str
) -> None:
    monkeypatch.setattr(kind, method, leak)
    town = Town()
    town.hand.honest = False
    found = after_more_rounds(town, 1, 1)
    assert all(where in found.get(name, {}) for name in "ab"), found


def test_a_process_that_never_casts_keeps_nothing_that_is_everywhere() -> None:
    hand = Hand("ab")
    processes = hand.begin(bank="ab")
    listener = hand.at(processes["b"]).delivery.locals[processes["b"]]
    hand.cut = {"ba"}
    for number in range(20):
        hand.at(processes["a"]).cbcast(processes["a"], "bank", b"%d" % number)
    hand.run(20)
    assert len(hand.received(processes["b"])) == 20
    assert len(listener.past) == 20, "a does not know yet that b has them"
    hand.cut = set()
    hand.run(IDLE_MS)
    assert not listener.past


def test_what_a_process_wanted_of_a_group_goes_when_it_leaves() -> None:
    hand = Hand("ab", answers="ab", state="ab")
    process = hand.begin()["a"]
    local = hand.at(process).delivery.locals[process]
    hand.at(process).requests.join(process, "bank", vector=True, answers=False)
    hand.run()
    assert (local.vectors, local.silent, local.stateful) == ({"bank"}, {"bank"}, {"bank"})
    hand.at(process).leave(process, "bank")
    hand.run()
    assert (local.vectors, local.silent, local.stateful) == (set(), set(), set())


def test_the_oldest_of_too_many_requests_is_answered_with_nothing() -> None:
    hand = Hand("ab", limits=IsisLimits(owed_replies=2))
    asker, member = hand.begin()["a"], hand.open("b", "bank", answers=True)
    for question in (b"1", b"2", b"3"):
        hand.at(asker).cbcast(asker, "bank", question, replies=1)
    hand.run()
    first, *others = hand.of(Received, member)
    assert [(reply.id, reply.payload) for reply in hand.of(Answered, asker)] == [(first.id, b"")]
    with pytest.raises(Rejected, match="a second reply"):
        hand.at(member).reply(member, first.id, b"late")
    for received in others:
        hand.at(member).reply(member, received.id, b"in time")
    hand.run()
    assert [reply.payload for reply in hand.of(Answered, asker)] == [b"", b"in time", b"in time"]
    assert hand.judge() == []


def test_gbcasts_wait_where_too_many_are_open() -> None:
    hand = Hand("ab", limits=IsisLimits(open_gbcasts=3))
    processes = hand.begin(bank="ab")
    isis, process = hand.sites["a"], processes["a"]
    held = isis.delivery.locals[process].held
    hand.hold = lambda message, site: True
    for number in range(6):
        isis.set_properties(process, "bank", {"number": b"%d" % number})
    hand.run()
    assert (len(isis.control), len(held)) == (3, 3), "not sent yet"
    hand.hold = lambda message, site: isinstance(message, Ready)
    hand.run()
    assert held, "not concluded"
    assert len(isis.table.open) == 6 - len(held)
    hand.take()
    hand.hold = lambda message, site: False
    hand.run()
    assert not held
    for other in processes.values():
        shown = [view.properties["number"] for view in hand.of(ViewShown, other)]
        assert shown == [b"%d" % number for number in range(6)]
    assert hand.judge() == []
