"""A follower's choice of sources by hand: what is asked when, who is refused, and when the next one is tried."""

from msgspec import msgpack

from reconvene.corel.batch import Heading, Kind, encode_batch
from reconvene.corel.following.follower import Follower, first_follower_ops
from reconvene.corel.following.messages import BaseAnswer, BaseAsk, Pull, Pulled, PulledBatch
from reconvene.corel.following.pulling import Connect, FollowTurn, HangUp, LinkAction, Pulling, Timing
from reconvene.corel.following.source import Source, joint_before
from reconvene.corel.keeping.layout import Base
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.storage.memory import MemoryTables

MS = 1_000_000
TIMING = Timing(retry_ns=100 * MS, patience_ns=1_000 * MS, prefer_ns=10_000 * MS)


class Shell:
    """Disk and clock of one follower; a source is whatever the test answers."""

    def __init__(self, *sources: str) -> None:
        self.now = 0
        self.tables = MemoryTables()
        self.sources = sources
        self.incarnation = 0
        self.written: list[FollowTurn] = []
        self.start()

    def start(self) -> None:
        self.incarnation += 1
        self.tables.write(first_follower_ops(self.tables, b"follower", self.incarnation, 1))
        follower = Follower("f", self.incarnation, self.tables)
        self.pulling = Pulling(follower, "x/f", self.sources, self.now, TIMING, "x", self.sources, ["@f"])
        self.written.clear()

    def turn(self) -> list[LinkAction]:
        if self.pulling.deadline() <= self.now:
            self.pulling.tick(self.now)
        turn = self.pulling.flush(self.now, self.now)
        if turn.token:
            self.written.append(turn)
        return turn.link

    def sync(self) -> list[LinkAction]:
        """All that was written is durable."""
        for turn in self.written:
            self.tables.write(turn.ops)
            self.pulling.synced(turn.token)
        self.written.clear()
        return self.turn()

    def answer(self, answer: Pulled | BaseAnswer) -> list[LinkAction]:
        self.pulling.answered(answer, self.now)
        return self.turn()

    def opened(self) -> list[LinkAction]:
        self.pulling.opened(self.now)
        return self.turn()

    def later(self, ns: int) -> list[LinkAction]:
        self.now += ns
        return self.turn()

    def begin(self) -> list[LinkAction]:
        """Up to the first request for batches."""
        assert self.turn() == [Connect(0)]
        assert isinstance(self.opened()[0], Pull)
        assert self.answer(_pulled(0)) == [BaseAsk(0)]
        (asked,) = self.answer(BaseAnswer(_BASE, [], True, "x"))
        assert asked == Pull(0, asked.size, True, None)  # type: ignore[union-attr]
        return self.sync()


_BASE = msgpack.encode(Base(replicas=ReplicaSet.first("ab"), names={0: "a", 1: "b"}))


def _pulled(green: int, *batches: PulledBatch, origin: str = "x", chain: str = "x/a", other: bool = False) -> Pulled:
    return Pulled(origin, [chain], 0, green, green, other, list(batches))


def _batch(first: int, *messages: bytes) -> PulledBatch:
    heading = Heading(Kind.DATA, 0, 1, first, len(messages), 7)
    return PulledBatch((1, 0, first, 0), False, encode_batch(heading, messages))


def test_it_serves_only_what_is_synced_and_goes_on_there() -> None:
    shell = Shell("a")
    shell.begin()
    (asked,) = shell.answer(_pulled(5, _batch(1, b"p", b"q"), _batch(3, b"r")))
    assert isinstance(asked, Pull)
    assert asked.start == 3, "it asks on while the disk is at work"
    follower = shell.pulling.follower
    assert (follower.green, follower.received, shell.pulling.behind) == (0, 3, 5)
    assert list(follower.read(0)) == []
    shell.start()
    assert shell.pulling.follower.green == 0, "a crash before the sync loses it"
    shell.turn()
    (asked,) = shell.opened()
    assert isinstance(asked, Pull)
    assert asked.start == 0
    shell.answer(_pulled(5, _batch(1, b"p", b"q"), _batch(3, b"r")))
    shell.sync()
    assert (shell.pulling.follower.green, shell.pulling.behind) == (3, 2)
    shell.start()
    assert [position for position, _ in shell.pulling.follower.read(0)] == [0, 2]


def test_under_load_batches_are_asked_for_together() -> None:
    shell = Shell("a")
    shell.begin()
    (asked,) = shell.answer(_pulled(5, _batch(1, b"p", b"q"), _batch(3, b"r")))
    assert isinstance(asked, Pull), "at once: the source has more"
    assert shell.answer(_pulled(5, _batch(4, b"s", b"t"))) == []
    assert shell.sync() == []
    assert shell.pulling.follower.green == 5, "what it has is served meanwhile"
    assert shell.pulling.deadline() == shell.now + TIMING.rest_ns
    (asked,) = shell.later(TIMING.rest_ns)
    assert isinstance(asked, Pull)
    assert (asked.start, asked.wait) == (5, True), "from now on it is answered as soon as there is more"
    (asked,) = shell.answer(_pulled(5))
    assert isinstance(asked, Pull), "at once: there was nothing"


def test_it_asks_sooner_for_what_somebody_waits_for() -> None:
    shell = Shell("a")
    shell.begin()
    assert shell.answer(_pulled(1, _batch(1, b"p"))) == []
    shell.pulling.expect(0)
    assert shell.later(TIMING.gather_ns) == [], "it has that one"
    shell.pulling.expect(2)
    (asked,) = shell.turn()
    assert isinstance(asked, Pull), "its last answer is long enough ago"
    assert shell.answer(_pulled(2, _batch(2, b"q"))) == []
    assert shell.later(TIMING.gather_ns - 1) == []
    (asked,) = shell.later(1)
    assert isinstance(asked, Pull), "position 2 is still awaited"
    assert shell.answer(_pulled(3, _batch(3, b"r"))) == []
    assert shell.pulling.deadline() == shell.now + TIMING.rest_ns, "nobody waits any more"


def test_a_follower_that_waits_makes_its_source_ask_sooner() -> None:
    shell = Shell("a")
    shell.begin()
    shell.answer(_pulled(1, _batch(1, b"p")))
    shell.sync()
    follower = shell.pulling.follower
    source = Source(follower, lambda: "x", lambda: ["x/f"], expect=shell.pulling.expect)
    assert source.answer(Pull(0, 1, True)) is not None
    assert shell.later(TIMING.gather_ns) == [], "that one had what it asked for"
    assert source.answer(Pull(1, 1, True, joint_before(follower, 1))) is None
    (asked,) = shell.turn()
    assert isinstance(asked, Pull)


def test_a_new_source_is_asked_at_once() -> None:
    shell = Shell("a", "b")
    shell.begin()
    assert shell.answer(_pulled(2, _batch(1, b"p", b"q"))) == []
    shell.pulling.broken("gone", shell.now)
    assert shell.later(100 * MS) == [Connect(0)]
    (asked,) = shell.opened()
    assert isinstance(asked, Pull)


def test_a_source_that_is_silent_or_gone_is_followed_by_the_next() -> None:
    shell = Shell("a", "b")
    shell.begin()
    assert shell.later(1_000 * MS) == [HangUp()]
    assert shell.pulling.trouble == {"a": "it does not answer"}
    assert shell.later(100 * MS) == [Connect(0)]
    shell.pulling.broken("refused", shell.now)
    assert shell.turn() == [Connect(1)], "at once, while there are more in this round"
    (asked,) = shell.opened()
    assert isinstance(asked, Pull)
    assert shell.pulling.source == "b"
    assert shell.later(10_000 * MS)[0] == HangUp(), "after a while the first is tried again"


def test_another_log_is_refused() -> None:
    shell = Shell("a", "b")
    shell.begin()
    assert shell.answer(_pulled(9, origin="y")) == [HangUp(), Connect(1)], "the next of this round"
    assert "cluster y" in shell.pulling.refused["a"]
    shell.opened()
    assert HangUp() in shell.answer(_pulled(9, other=True))
    assert "another one" in shell.pulling.refused["b"]


def test_what_can_not_be_next_is_refused() -> None:
    shell = Shell("a")
    shell.begin()
    assert HangUp() in shell.answer(_pulled(9, _batch(5, b"far")))
    assert "expected 1" in shell.pulling.refused["a"]
    assert shell.pulling.follower.received == 0


def test_circles_are_refused_by_name_and_by_place() -> None:
    for chain in ("x/f", "@f"):
        shell = Shell("a")
        shell.turn()
        shell.opened()
        assert HangUp() in shell.answer(_pulled(9, chain=chain))
        assert "in a circle" in shell.pulling.refused["a"]
        assert shell.pulling.chain() == ["x/f"], "nothing comes from there: who follows this one need not refuse it"
    shell = Shell("a", "b")
    assert shell.pulling.chain() == ["x/f", "a", "b"], "of what was not reached, the places"
    shell.begin()
    assert shell.pulling.chain() == ["x/f", "x/a", "b"]


def test_sources_in_another_cluster_come_last() -> None:
    """Of those that were never reached nothing is known: they keep their place."""
    for reached, order in (("y/c", [0, 1, 2]), ("x/c", [0, 2, 1])):
        shell = Shell("a", "b", "c")
        shell.turn()
        shell.pulling.broken("not there yet", shell.now)
        for at, chain in ((1, "y/b"), (2, reached)):
            assert Connect(at) in shell.turn()
            shell.opened()
            shell.pulling.answered(_pulled(0, chain=chain), shell.now)
            shell.pulling._refuse("for the sake of this test")
        tried = []
        for _ in range(3):
            tried += [action for action in shell.later(600 * MS) if isinstance(action, Connect)]
            shell.pulling.broken("not there", shell.now)
        assert tried == list(map(Connect, order))
