"""Client sessions: an append counts once, however often it is retried, wherever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corel.world import MS, SECOND, World

from reconvene.corel.batch import Heading, Kind, Source, encode_batch
from reconvene.corel.layout import SESSIONS
from reconvene.corel.limits import LogLimits
from reconvene.corel.retries import MOST_RUNS, Part, Positions
from reconvene.corel.sessions import MOST_RANGES, Sessions, check_session
from reconvene.errors import Malformed, Rejected
from reconvene.storage.memory import MemoryTables


def batch(*sources: Source, first: int = 1) -> tuple[Heading, bytes]:
    count = max(source.start + source.count for source in sources)
    heading = Heading(Kind.DATA, 0, 1, first, count, 0, True)
    return heading, encode_batch(heading, [b"m"] * count, sources)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), max_size=30))
def test_a_number_counts_where_it_is_first(runs: list[tuple[int, int]]) -> None:
    sessions = Sessions(SESSIONS, 10)
    seen: set[int] = set()
    position = 0
    for number, count in runs:
        void = sessions.take(*batch(Source(b"s", number, 0, count)), position)
        assert void == tuple(index for index in range(count) if number + index in seen)
        seen.update(range(number, number + count))
        assert all(sessions.has(b"s", taken) == (taken in seen) for taken in range(50))
        position += count


def test_one_batch_may_hold_the_same_number_twice() -> None:
    sessions = Sessions(SESSIONS, 10)
    assert sessions.take(*batch(Source(b"s", 1, 0, 2), Source(b"t", 1, 2, 1), Source(b"s", 2, 3, 1)), 0) == (3,)


def test_the_session_that_was_silent_for_longest_is_forgotten() -> None:
    sessions = Sessions(SESSIONS, 2)
    for position, name in enumerate([b"a", b"b", b"a", b"c"]):
        sessions.take(*batch(Source(name, position, 0, 1)), position)
    assert [session for session, _ in sorted(sessions.rows())] == [b"a", b"c"]
    tables = MemoryTables()
    tables.write(sessions.changes())
    again = Sessions(SESSIONS, 2)
    again.load(tables)
    assert list(again.rows()) == list(sessions.rows())
    again.take(*batch(Source(b"d", 1, 0, 1)), 9)
    tables.write(again.changes())
    assert [key for key, _ in tables.scan(SESSIONS, b"\xff")] == [SESSIONS + b"c", SESSIONS + b"d"]


def test_gaps_are_bounded_and_the_lowest_numbers_stay_known() -> None:
    sessions = Sessions(SESSIONS, 2)
    for place in range(MOST_RANGES + 10):
        sessions.take(*batch(Source(b"s", 3 * place, 0, 1)), place)
    assert sessions.has(b"s", 0)
    assert not sessions.has(b"s", 3)
    assert sessions.has(b"s", 3 * (MOST_RANGES + 9))


def test_sources_that_make_no_sense_are_none() -> None:
    sessions = Sessions(SESSIONS, 2)
    heading = Heading(Kind.DATA, 0, 1, 1, 1, 0, True)
    for source in (Source(b"", 1, 0, 1), Source(b"x" * 65, 1, 0, 1), Source(b"s", 1, 0, 2), Source(b"s", -1, 0, 1)):
        assert sessions.take(heading, encode_batch(heading, [b"m"], [source]), 0) == ()
    assert len(sessions) == 0
    with pytest.raises(Malformed):
        sessions.restore([(b"s", b"nonsense")])
    with pytest.raises(Rejected):
        check_session(b"", 1)
    with pytest.raises(Rejected):
        check_session(b"s", -1)


def test_positions_of_the_oldest_are_forgotten() -> None:
    positions = Positions()
    for number in range(MOST_RUNS + 1):
        positions.add(b"s", 2 * number, 1, number)
    assert positions.find(b"s", 0) is None
    assert positions.find(b"s", 2) == (1, 1)
    assert positions.find(b"s", 3) is None


# -- in a cluster


def once(world: World, name: str, number: int, *messages: bytes, session: bytes = b"s") -> list[Part]:
    parts = world.log(name).append_once(messages, session, number)
    world.turn(name)
    return parts


def test_a_retry_is_taken_once_before_and_after_it_is_green() -> None:
    world = World("abc")
    world.run(SECOND)
    (taken,) = once(world, "a", 1, b"x", b"y")
    assert taken.new
    assert (taken.number, taken.count, taken.author, taken.first) == (1, 2, 0, 1)
    again = once(world, "a", 1, b"x", b"y", b"z")
    assert again == [Part(1, 2, 0, 1), Part(3, 1, 0, 3, new=True)]
    world.run(SECOND)
    for name in "abc":
        assert world.texts(name) == [b"x", b"y", b"z"]
        assert once(world, name, 2, b"y", b"z") == [Part(2, 1, position=1), Part(3, 1, position=2)]
    world.run(SECOND)
    world.agree("abc")


def test_a_retry_is_known_after_a_restart_and_a_recovery() -> None:
    world = World("abc")
    world.run(SECOND)
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    once(world, "a", 1, b"x")
    world.run(100 * MS)
    world.cluster.crash("a")
    world.cluster.restart("a")
    assert once(world, "a", 1, b"x") == [Part(1, 1, 0, 1)]
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    assert world.texts("b") == [b"x"]
    world.cluster.crash("b")
    world.cluster.restart("b")
    assert once(world, "b", 1, b"x") == [Part(1, 1, position=0)], "also where the green batch was read again"
    world.cluster.heal()
    world.run(2 * SECOND)
    assert once(world, "c", 1, b"x") == [Part(1, 1, position=0)]
    world.agree("abc")


def test_of_two_copies_the_second_in_the_order_is_void() -> None:
    world = World("abc")
    world.run(SECOND)
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    once(world, "a", 1, b"x", b"y")
    (taken,) = once(world, "b", 2, b"y")
    assert taken.new
    world.run(SECOND)
    once(world, "b", 3, b"z")
    world.run(SECOND)
    assert world.texts("b") == [b"y", b"z"]
    world.cluster.heal()
    world.run(2 * SECOND)
    for name in "abc":
        assert world.texts(name) == [b"y", b"z", b"x"], "nothing accepted is lost, nothing counts twice"
        replica = world.log(name)
        (position, heading) = world.green(name)[-1]
        assert replica.voids(position, heading) == (1,)
        assert replica.positions(position, heading) == [2, 0]
    world.cluster.crash("c")
    world.cluster.restart("c")
    world.run(2 * SECOND)
    assert world.texts("c") == [b"y", b"z", b"x"]
    world.agree("abc")
    world.verified()


def test_an_append_is_taken_whole_or_not_at_all() -> None:
    world = World("abc", limits=LogLimits(red_messages=3))
    world.cluster.partition(["a", "b", "c"])
    world.run(SECOND)
    once(world, "a", 2, b"x")
    with pytest.raises(Exception, match="wait to be ordered"):
        once(world, "a", 1, b"w", b"x", b"y", b"z")
    assert [part.new for part in once(world, "a", 1, b"w", b"x", b"y")] == [True, False, True]


@pytest.mark.parametrize("seed", range(8))
def test_clients_that_retry_anywhere_amid_faults(seed: int) -> None:
    world = World("abc", seed)
    world.run(SECOND)
    random, cluster = world.random, world.cluster
    numbers = dict.fromkeys((b"one", b"two", b"three"), 0)
    taken: dict[tuple[bytes, int], bytes] = {}
    unsure: set[tuple[bytes, int]] = set()
    for _ in range(40):
        fault = random.random()
        names = [name for name in "abc" if world.up(name)]
        if fault < 0.08:
            cluster.partition(random.choice([["a", "bc"], ["ab", "c"], ["a", "b", "c"], ["ac", "b"]]))
        elif fault < 0.16:
            cluster.heal()
        elif fault < 0.24 and len(names) > 1:
            cluster.crash(random.choice(names))
        elif fault < 0.40 and len(names) < 3:
            cluster.restart(random.choice([name for name in "abc" if name not in names]))
        names = [name for name in "abc" if world.up(name)]
        session = random.choice(sorted(numbers))
        # A client sends something new, or some of its last again, to whichever replica answers.
        number = max(0, numbers[session] - random.choice([0, 0, 1, 3]))
        count = random.randint(1, 4)
        messages = [session + b"%d" % (number + index) for index in range(count)]
        once(world, random.choice(names), number, *messages, session=session)
        numbers[session] = max(numbers[session], number + count)
        for index, message in enumerate(messages):
            taken[session, number + index] = message
            unsure.add((session, number + index))  # it is lost if the replica crashes before its sync
        world.run(random.choice([1, 20, 300, 1500]) * MS)
    cluster.heal()
    for name in "abc":
        if not world.up(name):
            cluster.restart(name)
    world.run(4 * SECOND)
    for (session, number), message in sorted(taken.items()):
        once(world, random.choice("abc"), number, message, session=session)
    world.run(3 * SECOND)
    world.agree("abc")
    for name in "abc":
        assert sorted(world.texts(name)) == sorted(taken.values()), f"seed {seed}: each counts once"
    world.verified()
