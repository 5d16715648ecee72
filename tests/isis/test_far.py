"""Casts to other clusters at one site, by hand: what waits for what, and what is refused."""

from collections.abc import Sequence

import pytest
from tests.isis.hand import Hand

from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import Service
from reconvene.isis.far import Far
from reconvene.isis.far_events import FarFailed, FarProcess, FarReceived, FarUnreachable, Origin
from reconvene.isis.far_messages import FarCast, FarOver, FarWatch, decode_far, encode_far

Z = FarProcess("paris", "z", 1, 1)
PARIS = Origin("paris", "z", 1)


class Reached:
    """A site's part in the tree of clusters, as ISIS sees it: what is sent is kept."""

    domain = "berlin"
    flows = True

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
            far.begin(1)
            far.enter(("berlin", "paris"))
            far.view("isis:bank", (Z, *(self.far["a"].name(process) for process in self.x.values())))

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
    berlin.far["a"].cbcast(berlin.x["a"], "bank", b"far")
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
    berlin.far["a"].cbcast(berlin.x["a"], "bank", b"far", "other")
    berlin.hand.run(20)
    assert len(berlin.reached["a"].sent) == 1


def test_the_next_cast_within_the_cluster_waits_for_it(berlin: Berlin) -> None:
    berlin.far["a"].cbcast(berlin.x["a"], [Z], b"far")
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
    data = cast(1, [berlin.far["a"].name(berlin.x["a"]), berlin.far["a"].name(berlin.x["b"])])
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
    berlin.far["b"].begin(2)
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
    told = [event for event in berlin.hand.events["a"] if isinstance(event, FarFailed | FarUnreachable)]
    assert told == [FarUnreachable(x, "paris"), FarFailed(x, Z)], "oslo does not speak for paris"


def test_its_own_site_says_that_a_process_is_over(berlin: Berlin) -> None:
    name = berlin.far["b"].name(berlin.x["b"])
    for site in "abc":
        berlin.take(site, PARIS, 1, encode_far(FarWatch(1, name)))
    berlin.hand.sites["b"].kill(berlin.x["b"])
    berlin.hand.run(100)
    said = {site: [decode_far(data) for _, _, data in berlin.reached[site].sent] for site in "abc"}
    assert said == {"a": [], "b": [FarOver(1, name)], "c": []}


def test_of_a_lost_site_the_oldest_says_so(berlin: Berlin) -> None:
    name = berlin.far["b"].name(berlin.x["b"])
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
        far.cbcast(x, "nobody", b"")
    with pytest.raises(Rejected, match="does not leave domain berlin"):
        far.abcast(x, "closed", b"")
    with pytest.raises(Rejected, match="bytes"):
        far.cbcast(x, "bank", bytes((1 << 20) + 1))
    with pytest.raises(Rejected, match="expected 1 to 4096"):
        far.cbcast(x, [], b"")
    with pytest.raises(Unavailable, match="out of reach"):
        far.cbcast(x, [FarProcess("rome", "r", 1, 1)], b"")
    with pytest.raises(Rejected, match="of this cluster"):
        far.watch(x, far.name(berlin.x["b"]))
    for data in (b"", b"\x93\x01", b"\xff" * 9):
        with pytest.raises(Malformed):
            decode_far(data)
        berlin.take("a", PARIS, 1, data)
    assert berlin.hand.sites["a"].here.malformed == 3


def test_without_room_they_wait(berlin: Berlin) -> None:
    berlin.reached["a"].free = 0
    for _ in range(3):
        berlin.far["a"].abcast(berlin.x["a"], "bank", b"far", "queue")
    berlin.hand.run(20)
    assert berlin.reached["a"].sent == []
    berlin.reached["a"].free = 100
    berlin.hand.run(20)
    assert [service for service, _, _ in berlin.reached["a"].sent] == [Service.AGREED] * 3
