"""Casts to other clusters at one site, by hand: what waits for what, and what is refused."""

from collections.abc import Sequence

import pytest
from tests.isis.hand import Hand

from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import MessageId, Service
from reconvene.isis.events import ALL
from reconvene.isis.far import Far
from reconvene.isis.far_events import (
    FarCallOver,
    FarFailed,
    FarProcess,
    FarReachable,
    FarReceived,
    FarUnreachable,
    FarUnwatched,
    Origin,
)
from reconvene.isis.far_messages import FarCast, FarMessage, FarOver, FarRefused, FarWatch, decode_far, encode_far
from reconvene.isis.messages import Marked

Z = FarProcess("paris", "z", 1, 1)
PARIS = Origin("paris", "z", 1)


class Reached:
    """A site's part in the tree of clusters, as ISIS sees it: what is sent is kept."""

    domain = "berlin"
    message_bytes = 8 << 20

    def __init__(self, sites: Sequence[str]) -> None:
        self.sites = sites
        self.sent: list[tuple[Service, str, bytes]] = []
        self.taken: dict[Origin, int] = {}
        self.left: list[str] = []
        self.free = 100

    def passes(self, group: str) -> bool:
        return group != "isis:closed"

    def room(self) -> int:
        return self.free

    def send(self, service: Service, group: str, data: bytes) -> None:
        self.sent.append((service, group, data))

    def join(self, group: str, process: str) -> None:
        """Nobody looks."""

    def leave(self, group: str, process: str) -> None:
        self.left.append(process)

    def has(self, origin: Origin, counter: int) -> bool:
        return self.taken.get(origin, 0) >= counter


class Berlin:
    """Sites a, b and c, and a process of each."""

    def __init__(self) -> None:
        self.hand = Hand("abc")
        self.reached = {name: Reached("abc") for name in "abc"}
        self.far: dict[str, Far] = {name: self.hand.sites[name].extend(self.reached[name]) for name in "abc"}
        self.hand.install("abc")
        self.hand.run()
        self.x = {name: self.hand.open(name) for name in "abc"}
        for far in self.far.values():
            far.marks.begin(1)
            far.enter(("berlin", "paris"))
            far.casting.view("isis:bank", (Z, *(self.far["a"].casting.name(process) for process in self.x.values())))

    def take(self, site: str, origin: Origin, counter: int, data: bytes) -> None:
        self.reached[site].taken[origin] = counter
        self.far[site].take(origin, counter, "1", data, flows=True)

    def got(self, site: str) -> list[bytes]:
        """What process 1 of the site has received from crossings."""
        return [event.payload for event in self.hand.events[site] if isinstance(event, FarReceived)]


def cast(number: int, to: list[FarProcess], payload: bytes = b"far") -> bytes:
    return encode_far(FarCast(number, 1, [("", number)], None, to, "bank", number, payload))


@pytest.fixture
def berlin() -> Berlin:
    return Berlin()


def test_it_leaves_once_what_precedes_it_is_everywhere(berlin: Berlin) -> None:
    hand, reached = berlin.hand, berlin.reached["a"]
    hand.cut.add("ab")
    hand.sites["a"].cbcast(berlin.x["a"], [berlin.x["b"]], b"near")
    berlin.far["a"].casting.cbcast(berlin.x["a"], "bank", b"far")
    hand.run(100)
    assert reached.sent == []
    hand.cut.clear()
    hand.run(2_000)
    ((service, group, data),) = reached.sent
    assert (service, group) == (Service.CAUSAL, "isis:bank")
    message = decode_far(data)
    assert isinstance(message, FarCast)
    assert message.payload == b"far"
    assert Z in message.to


def test_another_topic_does_not_wait(berlin: Berlin) -> None:
    berlin.hand.cut.add("ab")
    berlin.hand.sites["a"].cbcast(berlin.x["a"], [berlin.x["b"]], b"near", "topic")
    berlin.far["a"].casting.cbcast(berlin.x["a"], "bank", b"far", "other")
    berlin.hand.run(20)
    assert len(berlin.reached["a"].sent) == 1


def test_the_next_cast_within_the_cluster_waits_for_it(berlin: Berlin) -> None:
    berlin.far["a"].casting.cbcast(berlin.x["a"], [Z], b"far")
    berlin.hand.sites["a"].cbcast(berlin.x["a"], [berlin.x["b"]], b"near")
    berlin.hand.run(100)
    assert berlin.hand.received(berlin.x["b"]) == []
    ((_, _, data),) = berlin.reached["a"].sent
    berlin.take("a", Origin("berlin", "a", 1), 1, data)
    berlin.take("b", Origin("berlin", "a", 1), 1, data)
    berlin.hand.run(100)
    assert berlin.hand.received(berlin.x["b"]) == [b"near"]


def test_what_follows_a_crossing_is_read_after_it(berlin: Berlin) -> None:
    """a has taken a cast from paris, and casts to b, which has not."""
    data = cast(1, [berlin.far["a"].casting.name(berlin.x["a"]), berlin.far["a"].casting.name(berlin.x["b"])])
    berlin.take("a", PARIS, 1, data)
    berlin.hand.sites["a"].cbcast(berlin.x["a"], [berlin.x["b"]], b"near")
    berlin.hand.run(100)
    assert berlin.hand.received(berlin.x["b"]) == []
    berlin.take("b", PARIS, 1, data)
    berlin.hand.run(100)
    assert berlin.hand.received(berlin.x["b"]) == [b"near"]
    assert berlin.got("b") == [b"far"]


def test_in_a_later_configuration_nobody_waits_for_it(berlin: Berlin) -> None:
    berlin.take("a", PARIS, 1, cast(1, [Z]))
    berlin.hand.sites["a"].cbcast(berlin.x["a"], [berlin.x["b"]], b"near")
    berlin.hand.run(100)
    assert berlin.hand.received(berlin.x["b"]) == []
    berlin.far["b"].marks.begin(2)
    berlin.hand.run(100)
    assert berlin.hand.received(berlin.x["b"]) == [b"near"]


def test_what_is_watched_is_asked_for_again_and_fails_once(berlin: Berlin) -> None:
    far, reached, x = berlin.far["a"], berlin.reached["a"], berlin.x["a"]
    far.watch(x, Z)
    far.watch(x, Z)
    berlin.hand.run(5)
    far.watches.unreachable("paris")
    far.enter(("berlin",))
    with pytest.raises(Unavailable, match="out of reach"):
        far.watch(x, FarProcess("paris", "z", 1, 2))
    far.enter(("berlin", "paris"))
    berlin.hand.run(5)
    watches = [decode_far(data) for _, _, data in reached.sent]
    assert [watch.process for watch in watches if isinstance(watch, FarWatch)] == [Z, Z]
    over = encode_far(FarOver(1, Z))
    berlin.take("a", Origin("oslo", "o", 1), 1, over)
    berlin.take("a", PARIS, 1, over)
    berlin.take("a", PARIS, 2, over)
    berlin.hand.run(5)
    found = told(berlin, FarFailed, FarUnreachable, FarReachable)
    assert found == [FarUnreachable(x, Z), FarReachable(x, Z), FarFailed(x, Z)], "oslo does not speak for paris"


def test_its_own_site_says_that_a_process_is_over(berlin: Berlin) -> None:
    name = berlin.far["b"].casting.name(berlin.x["b"])
    for site in "abc":
        berlin.take(site, PARIS, 1, encode_far(FarWatch(1, name)))
    berlin.hand.sites["b"].kill(berlin.x["b"])
    berlin.hand.run(100)
    said = {site: [decode_far(data) for _, _, data in berlin.reached[site].sent] for site in "abc"}
    assert said == {"a": [], "b": [FarOver(1, name)], "c": []}


def test_of_a_lost_site_the_oldest_says_so(berlin: Berlin) -> None:
    name = berlin.far["b"].casting.name(berlin.x["b"])
    for site in "abc":
        berlin.take(site, PARIS, 1, encode_far(FarWatch(1, name)))
    berlin.hand.cut |= berlin.hand.links(to="b")
    berlin.hand.install("ac")
    berlin.hand.run(500)
    said = {site: [decode_far(data) for _, _, data in berlin.reached[site].sent] for site in "ac"}
    assert said == {"a": [FarOver(1, name)], "c": []}


def test_what_is_refused(berlin: Berlin) -> None:
    far, x = berlin.far["a"], berlin.x["a"]
    with pytest.raises(Rejected, match="no cluster that can be reached"):
        far.casting.cbcast(x, "nobody", b"")
    with pytest.raises(Rejected, match="does not leave domain berlin"):
        far.casting.abcast(x, "closed", b"")
    with pytest.raises(Rejected, match="bytes"):
        far.casting.cbcast(x, "bank", bytes((1 << 20) + 1))
    with pytest.raises(Rejected, match="expected 1 to 4096"):
        far.casting.cbcast(x, [], b"")
    with pytest.raises(Unavailable, match="out of reach"):
        far.casting.cbcast(x, [FarProcess("rome", "r", 1, 1)], b"")
    with pytest.raises(Rejected, match="of this cluster"):
        far.watch(x, far.casting.name(berlin.x["b"]))
    for data in (b"", b"\x93\x01", b"\xff" * 9):
        with pytest.raises(Malformed):
            decode_far(data)
        berlin.take("a", PARIS, 1, data)
    assert berlin.hand.sites["a"].here.malformed == 3


def test_without_room_they_wait(berlin: Berlin) -> None:
    berlin.reached["a"].free = 0
    for _ in range(3):
        berlin.far["a"].casting.abcast(berlin.x["a"], "bank", b"far", "queue")
    berlin.hand.run(20)
    assert berlin.reached["a"].sent == []
    berlin.reached["a"].free = 100
    berlin.hand.run(20)
    assert [service for service, _, _ in berlin.reached["a"].sent] == [Service.AGREED] * 3


def said(berlin: Berlin, site: str = "a") -> list[FarMessage]:
    """What the site has sent to other clusters, and not shown here before."""
    sent = berlin.reached[site].sent
    found = [decode_far(data) for _, _, data in sent]
    sent.clear()
    return found


def told(berlin: Berlin, *kinds: type) -> list[object]:
    return [event for event in berlin.hand.events["a"] if isinstance(event, kinds)]


def test_members_stay_until_their_cluster_has_told(berlin: Berlin) -> None:
    """A wide configuration begins with no roster. A cast to a group misses nobody meanwhile."""
    casting, mine = berlin.far["a"].casting, berlin.far["a"].casting.name(berlin.x["a"])
    berlin.far["a"].enter(("berlin", "paris"))
    casting.view("isis:bank", (mine,))
    casting.told({"berlin"})
    assert casting.members("bank") == (mine, Z)
    casting.told({"berlin", "paris"})
    assert casting.members("bank") == (mine,), "paris has told, and has no member"
    casting.view("isis:bank", (mine, Z))
    berlin.far["a"].enter(("berlin",))
    assert casting.groups() == {"bank": (mine,)}, "paris is out of reach"


def test_a_process_whose_site_has_not_come_yet_is_not_over(berlin: Berlin) -> None:
    """b crashes, starts again, and a process of its next incarnation is watched before the others let b in."""
    berlin.hand.cut |= berlin.hand.links(to="b")
    berlin.hand.install("ac")
    berlin.hand.run(500)
    process = FarProcess("berlin", "b", 2, 1)
    for site in "ac":
        berlin.take(site, PARIS, 1, encode_far(FarWatch(1, process)))
    berlin.hand.run(50)
    assert said(berlin) == said(berlin, "c") == []
    gone = FarProcess("berlin", "b", 0, 1)
    for site in "ac":
        berlin.take(site, PARIS, 2, encode_far(FarWatch(2, gone)))
    berlin.hand.run(50)
    assert said(berlin) == [FarOver(1, gone)], "that one is of an earlier life"


def test_a_watch_that_there_is_no_room_for_is_refused(berlin: Berlin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconvene.isis.far_watches._MOST_WATCHED", 1)
    first, second = (berlin.far[site].casting.name(berlin.x[site]) for site in "bc")
    nowhere = FarProcess("berlin", "q", 1, 1)
    for counter, process in enumerate((first, second, nowhere), 1):
        for site in "abc":
            berlin.take(site, PARIS, counter, encode_far(FarWatch(counter, process)))
    berlin.hand.run(50)
    assert said(berlin, "c") == [FarRefused(1, second)]
    assert said(berlin) == [FarRefused(1, nowhere)]
    assert said(berlin, "b") == []


def test_a_refused_watch_is_told_once(berlin: Berlin) -> None:
    far, x = berlin.far["a"], berlin.x["a"]
    far.watch(x, Z)
    for counter in (1, 2):
        berlin.take("a", PARIS, counter, encode_far(FarRefused(counter, Z)))
    berlin.hand.run(5)
    assert told(berlin, FarUnwatched) == [FarUnwatched(x, Z)]
    assert len(far.watches) == 0


def test_what_was_said_of_a_process_every_site_forgets(berlin: Berlin) -> None:
    name = berlin.far["b"].casting.name(berlin.x["b"])
    for site in "abc":
        berlin.take(site, PARIS, 1, encode_far(FarWatch(1, name)))
    assert [berlin.far[site].watches.watched for site in "abc"] == [1, 1, 1]
    for site in "abc":
        berlin.take(site, Origin("berlin", "b", 1), 1, encode_far(FarOver(1, name)))
    assert [berlin.far[site].watches.watched for site in "abc"] == [0, 0, 0]


def test_a_mark_names_what_is_new(berlin: Berlin) -> None:
    marks = berlin.far["a"].marks
    oslo = Origin("oslo", "o", 1)
    berlin.take("a", PARIS, 1, cast(1, [Z]))
    berlin.take("a", oslo, 1, cast(1, [Z]))
    assert marks.mark(1) == Marked(1, [(*oslo, 1), (*PARIS, 1)])
    assert marks.mark(1) is None
    berlin.take("a", PARIS, 2, cast(2, [Z]))
    assert marks.mark(1) == Marked(1, [(*PARIS, 2)])
    assert marks.mark(2) == Marked(1, [(*oslo, 1), (*PARIS, 2)])


def test_what_is_dropped_is_counted_and_holds_up_nobody(berlin: Berlin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process's next cast within its cluster waits for its last one to others: also where that is dropped."""
    monkeypatch.setattr("reconvene.isis.far._MOST_HELD", 1)
    far, x = berlin.far["a"], berlin.x["a"]
    far.casting.cbcast(x, [Z], b"first")
    far.casting.cbcast(x, [Z], b"second")
    berlin.hand.run(5)
    here = berlin.hand.sites["a"].here
    here.open = False
    for counter, (_, _, data) in enumerate(list(berlin.reached["a"].sent), 1):
        berlin.take("a", Origin("berlin", "a", 1), counter, data)
    here.open = True
    far.adopt()
    assert far.dropped == 1
    assert berlin.hand.sites["a"].delivery.locals[x].crossing == set()


def test_replies_failures_and_what_is_out_of_reach_end_a_call(berlin: Berlin) -> None:
    far, x = berlin.far["a"], berlin.x["a"]
    y, o = FarProcess("paris", "z", 1, 2), FarProcess("oslo", "o", 1, 1)
    far.enter(("berlin", "oslo", "paris"))
    far.casting.cbcast(x, [Z, y, o], b"?", replies=ALL)
    berlin.hand.run(5)
    request, *watches = said(berlin)
    assert isinstance(request, FarCast)
    assert request.replies == ALL
    assert {watch.process for watch in watches if isinstance(watch, FarWatch)} == {Z, y, o}
    asked = MessageId("berlin", "a", 1, request.number)
    mine = far.casting.name(x)
    for number in (1, 2):
        reply = FarCast(number, 1, [("", 9)], None, [mine], None, 9, b"!", 0, request.number)
        berlin.take("a", PARIS, number, encode_far(reply))
    far.watches.unreachable("oslo")
    berlin.take("a", PARIS, 3, encode_far(FarOver(3, y)))
    berlin.hand.run(5)
    found = told(berlin, FarReceived, FarFailed, FarUnreachable, FarCallOver)
    assert [one.answers for one in found if isinstance(one, FarReceived)] == [request.number] * 2
    assert found[2:] == [FarUnreachable(x, o, asked), FarFailed(x, y, asked), FarCallOver(x, asked)]
    assert len(far.calls) == 0


def test_one_reply_is_enough_where_one_is_asked_for(berlin: Berlin) -> None:
    far, x = berlin.far["a"], berlin.x["a"]
    y = FarProcess("paris", "z", 1, 2)
    far.casting.abcast(x, [Z, y], b"?", "queue", replies=1)
    reply = FarCast(1, 1, [("", 9)], None, [far.casting.name(x)], None, 9, b"!", 0, 1)
    berlin.take("a", PARIS, 1, encode_far(reply))
    berlin.hand.run(5)
    assert [one.id.counter for one in told(berlin, FarCallOver) if isinstance(one, FarCallOver)] == [1]


def test_a_process_replies_once_and_a_silent_one_by_its_site(berlin: Berlin) -> None:
    hand, far = berlin.hand, berlin.far["a"]
    talks = hand.sites["a"].open(answers=True)
    names = [far.casting.name(process) for process in (talks, berlin.x["a"])]
    request = FarCast(1, 1, [("", 1)], None, names, None, 1, b"?", ALL)
    berlin.take("a", PARIS, 1, encode_far(request))
    hand.run(5)
    (silent,) = said(berlin)
    assert isinstance(silent, FarCast)
    assert (silent.to, silent.answers, silent.payload, silent.sender) == ([Z], 1, b"", berlin.x["a"].number)
    asked = MessageId("paris", "z", 1, 1)
    far.casting.reply(talks, asked, b"!")
    with pytest.raises(Rejected, match="a second reply"):
        far.casting.reply(talks, asked, b"again")
    hand.run(5)
    (reply,) = said(berlin)
    assert isinstance(reply, FarCast)
    assert (reply.to, reply.answers, reply.payload) == ([Z], 1, b"!")


def test_what_would_not_fit_into_a_crossing_is_refused(berlin: Berlin) -> None:
    berlin.reached["a"].message_bytes = 4_000
    with pytest.raises(Rejected, match="with its 100 destinations"):
        berlin.far["a"].casting.cbcast(berlin.x["a"], [Z._replace(number=number) for number in range(100)], b"")
    with pytest.raises(Rejected, match="3 replies of 1 destinations"):
        berlin.far["a"].casting.cbcast(berlin.x["a"], [Z], b"", replies=3)


def test_who_ends_watches_nobody_and_is_in_no_group(berlin: Berlin) -> None:
    far, x = berlin.far["a"], berlin.x["a"]
    far.casting.join(x, "bank")
    far.watch(x, Z)
    far.casting.cbcast(x, [Z], b"?", replies=1)
    berlin.hand.sites["a"].kill(x)
    assert (len(far.watches), len(far.calls), berlin.reached["a"].left) == (0, 0, [far.casting.name(x).local])


def test_a_killed_site_asks_again_for_whom_it_watches(berlin: Berlin) -> None:
    """What it was about to send is gone with its processes; the next one that watches the same process is heard."""
    far, reached = berlin.far["a"], berlin.reached["a"]
    reached.free = 0
    far.watch(berlin.x["a"], Z)
    berlin.hand.run(5)
    far.end(berlin.x["a"])
    far.reset()
    reached.free = 100
    far.watch(berlin.hand.open("a"), Z)
    berlin.hand.run(5)
    assert [message.process for message in said(berlin) if isinstance(message, FarWatch)] == [Z]
