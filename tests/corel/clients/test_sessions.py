"""Client sessions: an append counts once, however often it is retried, wherever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corel.world import MS, SECOND, World
from tests.sim.chunks import few

from reconvene.corel.batch import Heading, Kind, Origin, Source, encode_batch
from reconvene.corel.clients.ranges import Ranges, has, include, length_with
from reconvene.corel.clients.session_index import MOST_RUNS, SessionIndex, SessionRun
from reconvene.corel.clients.session_table import MOST_RANGES, OUTPOST, SessionTable, check_session
from reconvene.corel.clients.sessions import Sessions
from reconvene.corel.keeping.bodies import Bodies
from reconvene.corel.keeping.layout import SESSIONS, body_key
from reconvene.corel.limits import LogLimits
from reconvene.errors import Malformed, Rejected
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Put


def batch(*sources: Source, first: int = 1) -> tuple[Heading, bytes]:
    count = max(source.start + source.count for source in sources)
    heading = Heading(Kind.DATA, 0, 1, first, count, 0, True)
    return heading, encode_batch(heading, [b"m"] * count, sources)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), max_size=30))
def test_a_number_counts_where_it_is_first(runs: list[tuple[int, int]]) -> None:
    sessions = SessionTable(SESSIONS, 10)
    seen: set[int] = set()
    position = 0
    for number, count in runs:
        void = sessions.take(*batch(Source(b"s", number, 0, count)), position)
        assert void == tuple(index for index in range(count) if number + index in seen)
        seen.update(range(number, number + count))
        assert all(sessions.has(b"s", taken) == (taken in seen) for taken in range(50))
        position += count


def test_one_batch_may_hold_the_same_number_twice() -> None:
    sessions = SessionTable(SESSIONS, 10)
    assert sessions.take(*batch(Source(b"s", 1, 0, 2), Source(b"t", 1, 2, 1), Source(b"s", 2, 3, 1)), 0) == (3,)


def test_the_session_that_was_silent_for_longest_is_forgotten() -> None:
    sessions = SessionTable(SESSIONS, 2)
    for position, name in enumerate([b"a", b"b", b"a", b"c"]):
        sessions.take(*batch(Source(name, position, 0, 1)), position)
    assert [session for session, _ in sorted(sessions.rows())] == [b"a", b"c"]
    tables = MemoryTables()
    tables.write(sessions.changes())
    again = SessionTable(SESSIONS, 2)
    again.load(tables)
    assert list(again.rows()) == list(sessions.rows())
    again.take(*batch(Source(b"d", 1, 0, 1)), 9)
    tables.write(again.changes())
    assert [key for key, _ in tables.scan(SESSIONS, b"\xff")] == [SESSIONS + b"c", SESSIONS + b"d"]


def test_the_order_forgets_no_number_that_was_taken() -> None:
    """Each of several replicas may have taken as many gaps as it could remember, without hearing of the others'."""
    sessions = SessionTable(SESSIONS, 2)
    for place in range(3 * MOST_RANGES):
        assert sessions.take(*batch(Source(b"s", 3 * place, 0, 1)), place) == ()
    for place in range(3 * MOST_RANGES):
        assert sessions.take(*batch(Source(b"s", 3 * place, 0, 1)), 1_000 + place) == (0,)
    again = SessionTable(SESSIONS, 2)
    again.restore(sessions.rows())
    assert list(again.rows()) == list(sessions.rows())


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 6)), max_size=40),
    st.tuples(st.integers(0, 60), st.integers(1, 6)),
)
def test_ranges_are_a_set_of_numbers(runs: list[tuple[int, int]], more: tuple[int, int]) -> None:
    ranges: Ranges = []
    seen: set[int] = set()
    for number, count in runs:
        before = include(ranges, number, number + count - 1)
        there = {found for first, last in before for found in range(first, last + 1)}
        assert there == seen & set(range(number, number + count))
        seen.update(range(number, number + count))
        assert ranges == as_ranges(seen)
    assert all(has(ranges, number) == (number in seen) for number in range(70))
    number, count = more
    assert length_with(ranges, number, number + count - 1) == len(
        as_ranges(seen | set(range(number, number + count)))
    )


def as_ranges(numbers: set[int]) -> Ranges:
    found: Ranges = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def test_sources_that_make_no_sense_are_none() -> None:
    sessions = SessionTable(SESSIONS, 2)
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
    index = SessionIndex(SessionTable(SESSIONS, 10))
    for number in range(MOST_RUNS + 1):
        index.place(b"s", 2 * number, 1, number)
    assert index.position(b"s", 0) is None
    assert index.position(b"s", 2) == (1, 1)
    assert index.position(b"s", 3) is None


# -- in a cluster


def once(world: World, name: str, number: int, *messages: bytes, session: bytes = b"s") -> list[SessionRun]:
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
    assert again == [SessionRun(1, 2, 0, 1, incarnation=1), SessionRun(3, 1, 0, 3, new=True, incarnation=1)]
    world.run(SECOND)
    for name in "abc":
        assert world.texts(name) == [b"x", b"y", b"z"]
        assert once(world, name, 2, b"y", b"z") == [
            SessionRun(2, 1, 0, 2, position=1, incarnation=1),
            SessionRun(3, 1, 0, 3, position=2, incarnation=1),
        ]
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
    assert once(world, "a", 1, b"x") == [SessionRun(1, 1, 0, 1, incarnation=1)]
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    assert world.texts("b") == [b"x"]
    world.cluster.crash("b")
    world.cluster.restart("b")
    assert once(world, "b", 1, b"x") == [SessionRun(1, 1, 0, 1, position=0, incarnation=1)], (
        "also where the green batch was read again"
    )
    world.cluster.heal()
    world.run(2 * SECOND)
    assert once(world, "c", 1, b"x") == [SessionRun(1, 1, 0, 1, position=0, incarnation=1)]
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


def test_what_cannot_be_remembered_is_refused_and_nothing_is_taken_twice() -> None:
    world = World("abc")
    world.run(SECOND)
    numbers = world.random.sample(range(1, 10_000), 150)
    counting: list[bytes] = []
    for number in numbers:
        try:
            (part,) = once(world, "a", number, b"%d" % number)
        except Rejected:
            assert len(counting) >= MOST_RANGES
        else:
            assert part.new
            counting.append(b"%d" % number)
        if world.random.random() < 0.1:
            world.run(200 * MS)
    for name in "abc":
        world.run(SECOND)
        for number in numbers:
            if b"%d" % number in counting:
                assert not once(world, name, number, b"%d" % number)[0].new
    assert len(as_ranges(set(map(int, counting)))) == MOST_RANGES
    world.run(SECOND)
    assert sorted(world.texts("b")) == sorted(counting)
    # Where a gap is filled, there is room for another one.
    (_, low), (high, _), *_ = as_ranges(set(map(int, counting)))
    once(world, "a", low + 1, *[b"x"] * (high - low - 1))
    world.run(SECOND)
    once(world, "b", 20_000, b"one more")
    with pytest.raises(Rejected, match="gaps"):
        once(world, "b", 30_000, b"one too many")
    world.run(SECOND)
    world.agree("abc")


def test_gaps_that_replicas_took_apart_are_all_remembered() -> None:
    world = World("abc")
    world.run(SECOND)
    world.cluster.partition(["a", "b", "c"])
    world.run(2 * SECOND)
    for start, name in enumerate("abc"):
        for place in range(MOST_RANGES):
            once(world, name, 10 * place + 3 * start, b"%d" % (10 * place + 3 * start))
        with pytest.raises(Rejected, match="gaps"):
            once(world, name, 9_999, b"too many")
    world.cluster.heal()
    world.run(3 * SECOND)
    for name in "abc":
        assert len(world.texts(name)) == 3 * MOST_RANGES
        for place in range(MOST_RANGES):
            for start in range(3):
                number = 10 * place + 3 * start
                assert not once(world, name, number, b"%d" % number)[0].new
        with pytest.raises(Rejected, match="gaps"):
            once(world, name, 9_999, b"still too many")
        world.cluster.crash(name)
        world.cluster.restart(name)
        world.run(2 * SECOND)
    assert once(world, "a", 1, b"1", b"2")[0].new, "a number that makes no further gap"
    world.run(SECOND)
    world.agree("abc")
    world.verified()


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_random_numbers_anywhere_count_once_or_are_refused(seed: int) -> None:
    """Against an oracle that remembers everything: what was taken is in the log once, what was refused is not."""
    world = World("abc", seed)
    world.run(SECOND)
    random, cluster = world.random, world.cluster
    taken: set[int] = set()
    refused: set[int] = set()
    for _ in range(150):
        if random.random() < 0.05:
            cluster.partition(random.choice([["a", "bc"], ["ab", "c"], ["a", "b", "c"], ["abc"]]))
            world.run(random.choice([20, 500, 2_000]) * MS)
        number = random.randrange(500)
        for name in random.sample("abc", 2):
            try:
                once(world, name, number, b"%d" % number)
                taken.add(number)
            except Rejected:
                refused.add(number)
    cluster.heal()
    world.run(4 * SECOND)
    for number in sorted(taken):
        for name in "abc":
            assert not once(world, name, number, b"%d" % number)[0].new
    world.run(SECOND)
    assert len(as_ranges(taken)) > MOST_RANGES, "together they took more than each of them would"
    assert refused - taken
    world.agree("abc")
    assert sorted(map(int, world.texts("a"))) == sorted(taken)
    assert {row for name in "abc" for row in world.log(name).sessions.green.ranges(b"s")} == set(as_ranges(taken))


def test_a_number_with_other_data_is_refused() -> None:
    world = World("abc")
    world.run(SECOND)
    world.log("a").append_once([b"one", b"two"], b"s", 1)
    with pytest.raises(Rejected, match=r"number 2 .*other data"):
        world.log("a").append_once([b"one", b"2"], b"s", 1)  # in the same turn, in no batch yet
    world.turn("a")
    with pytest.raises(Rejected, match=r"number 2 .*other data"):
        world.log("a").append_once([b"2", b"three"], b"s", 2)
    assert [part.new for part in once(world, "a", 1, b"one", b"two")] == [False]
    world.run(SECOND)
    for name in "abc":
        with pytest.raises(Rejected, match=r"b's', number 1 .*other data"):
            once(world, name, 1, b"another")
        assert [part.new for part in once(world, name, 1, b"one", b"two")] == [False]
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    once(world, "a", 3, b"three")
    world.run(100 * MS)
    world.cluster.crash("a")
    world.cluster.restart("a")
    with pytest.raises(Rejected, match=r"number 3 .*other data"):
        once(world, "a", 3, b"3")
    world.cluster.partition(["ab", "c"])
    world.run(2 * SECOND)
    with pytest.raises(Rejected, match=r"number 3 .*other data"):
        once(world, "b", 3, b"3")
    world.cluster.heal()
    world.run(2 * SECOND)
    assert world.texts("c") == [b"one", b"two", b"three"]


def test_what_is_told_of_a_retry() -> None:
    """Its id, as long as the log holds it."""
    world = World("abc")
    world.run(SECOND)
    once(world, "a", 1, b"x")
    assert once(world, "a", 1, b"x") == [SessionRun(1, 1, 0, 1, incarnation=1)]
    world.run(SECOND)
    world.cluster.crash("a")
    world.cluster.restart("a")
    world.run(SECOND)
    assert once(world, "c", 1, b"x") == [SessionRun(1, 1, 0, 1, position=0, incarnation=1)]
    replica = world.log("c")
    replica.truncate(1)
    world.run(SECOND)
    assert replica.base == 1
    (part,) = once(world, "c", 1, b"other: it cannot be told any more")
    assert (part.new, part.author) == (False, None)


@pytest.mark.parametrize("seed", few(range(8), 3))
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


def _copy(first: int, *numbers: int) -> tuple[Heading, bytes]:
    """A replica's batch of an outpost's messages."""
    return batch(Source(OUTPOST + b"o", numbers[0], 0, len(numbers), Origin("o", 1)), first=first)


def _sessions(tables: MemoryTables) -> Sessions:
    return Sessions(tables, Bodies(tables, 1 << 20), 10)


def test_a_second_copy_is_not_the_first_because_the_first_was_forgotten() -> None:
    """After a restart the places of the last green batches alone are known; a copy of an earlier one is void, and its
    place is not that of the message."""
    tables = MemoryTables()
    before = _sessions(tables)
    first, second = _copy(1, 1, 2, 3), _copy(4, 2, 3, 4)
    tables.write([*before.take(*first, 10), *before.changes()])
    assert [before.place_of(OUTPOST + b"o", number) for number in (1, 2, 3)] == [10, 11, 12]
    after = _sessions(tables)
    tables.write([Put(body_key(second[0].id), second[1]), *after.take(*second, 900), *after.changes()])
    assert after.voids(900, second[0]) == (0, 1)
    assert [after.place_of(OUTPOST + b"o", number) for number in (2, 3, 4)] == [None, None, 902]
    again = _sessions(tables)
    again.look_back([(900, second[0])])
    assert [again.place_of(OUTPOST + b"o", number) for number in (2, 3, 4)] == [None, None, 902]
