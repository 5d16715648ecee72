"""No turn does more than its share, however much waits; a crash between two turns of a step does no harm."""

from collections.abc import Callable

import pytest
from tests.corel.world import MS, SECOND, World

from reconvene.corel.limits import LogLimits
from reconvene.corel.paper.phases import Phase
from reconvene.corel.turn_share import BATCH_BYTES, MESSAGE_BYTES
from reconvene.sim.disk import Disk
from reconvene.sim.log_site import LogSite
from reconvene.stack.log import LogLayer
from reconvene.stack.stack import Stack
from reconvene.stack.turn import Turn

ONE_A_BATCH = LogLimits(batch_bytes=8)
SHARE = ONE_A_BATCH.turn_bytes
MIB = 1 << 20


class Watched:
    """What each turn of each replica did, at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.green = self.events = self.reported = self.read = self.sent = 0
        self._reads = 0
        flush, get = Stack.flush, Disk.get

        def counted_get(disk: Disk, key: bytes) -> bytes | None:
            found = get(disk, key)
            self._reads += len(found or b"")
            return found

        def counted_flush(stack: Stack, now: int, time: int) -> Turn:
            assert isinstance(stack, LogSite)
            before, self._reads = stack.replica.green, 0
            turn = flush(stack, now, time)
            self.green = max(self.green, stack.replica.green - before)
            self.events = max(self.events, len(turn.log))
            self.reported = max(self.reported, sum(getattr(event, "batch", _NONE).count for event in turn.log))
            self.read = max(self.read, self._reads)
            self.sent = max(self.sent, sum(len(data) for _, data in turn.datagrams))
            return turn

        monkeypatch.setattr(Stack, "flush", counted_flush)
        monkeypatch.setattr(Disk, "get", counted_get)


class _None:
    count = 0


_NONE = _None()


def with_red(limits: LogLimits, messages: list[bytes]) -> World:
    """c is cut off, and takes these."""
    world = World("abc", limits=limits, check_every=0)
    world.run()
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    world.append("c", *messages)
    for _ in range(100):
        if world.log("c").queue.red_messages == len(messages):
            return world
        world.run(100 * MS)
    raise AssertionError("they are red")


def test_many_batches_that_rejoin_take_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * SHARE // BATCH_BYTES
    world = with_red(ONE_A_BATCH, [b"%08d" % number for number in range(count)])
    watched = Watched(monkeypatch)
    world.cluster.heal()
    world.run(4 * SECOND)
    assert world.log("a").green == count
    most = SHARE // (BATCH_BYTES + MESSAGE_BYTES) + 1
    assert 1 < watched.green <= most
    assert watched.events <= 4 * most, "logged, yellow and green, of what was handled in the turn"
    world.agree("abc")


def test_reports_of_many_messages_take_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LogLimits(batch_bytes=2_000, batch_messages=1_000, turn_messages=500)
    world = with_red(limits, [b"%d" % number for number in range(6_000)])
    watched = Watched(monkeypatch)
    world.cluster.heal()
    world.run(4 * SECOND)
    assert world.log("b").green == 6_000
    assert 0 < watched.reported <= 500 + limits.batch_messages
    world.verified()


def test_large_messages_that_rejoin_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are they read at all where only their size is needed."""
    world = with_red(LogLimits(cache_bytes=0), [b"%02d" % number * (MIB // 2) for number in range(12)])
    watched = Watched(monkeypatch)
    world.cluster.heal()
    world.run(4 * SECOND)
    assert world.log("a").green == 12
    assert MIB <= watched.read <= SHARE + MIB + 100
    assert watched.sent <= SHARE
    world.agree("abc")


def test_a_site_alone_sends_itself_what_waits_in_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the share bounds it there: no other site has to acknowledge anything."""
    world = World("abc", limits=ONE_A_BATCH, check_every=0)
    world.cluster.partition(["ab", "c"])
    count = 3 * SHARE // BATCH_BYTES
    replica = world.log("c")
    held = Held(monkeypatch)
    world.append("c", *(b"%08d" % number for number in range(count)))
    while len(replica.queue.accepted) < count:
        world.run(MS)
    held.end()
    logged = [0]

    flush = Stack.flush

    def counted(stack: Stack, now: int, time: int) -> Turn:
        assert isinstance(stack, LogSite)
        before = stack.replica.queue.red_messages
        turn = flush(stack, now, time)
        logged.append(stack.replica.queue.red_messages - before)
        return turn

    monkeypatch.setattr(Stack, "flush", counted)
    world.turn("c")
    world.run(SECOND)
    assert replica.queue.red_messages == count
    assert 1 < max(logged) <= SHARE // BATCH_BYTES + 8


class Held:
    """What a replica has accepted is not sent, until the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._speak = LogLayer.speak
        monkeypatch.setattr(LogLayer, "speak", lambda layer, outlet: False)

    def end(self) -> None:
        self._monkeypatch.setattr(LogLayer, "speak", self._speak)


def in_commit(world: World) -> bool:
    return bool(world.log("c").queue.turning)


def in_establishing(world: World) -> bool:
    replica = world.log("c")
    return replica.phase is Phase.COMMIT and replica.green > 0 and bool(replica.queue.yellow)


@pytest.mark.parametrize("moment", [in_commit, in_establishing])
@pytest.mark.parametrize("crashed", ["c", "abc"])
def test_a_crash_between_two_turns_of_a_step(moment: Callable[[World], bool], crashed: str) -> None:
    world = with_red(LogLimits(batch_bytes=8, turn_bytes=4 * BATCH_BYTES), [b"%08d" % number for number in range(60)])
    world.cluster.heal()
    while not moment(world):
        assert world.cluster.loop.step(10 * SECOND), "the moment comes"
    for name in crashed:
        world.cluster.crash(name)
    world.run(SECOND)
    for name in crashed:
        world.cluster.restart(name)
    world.run(4 * SECOND)
    assert world.log("a").green == 60
    world.agree("abc")
    world.verified()
