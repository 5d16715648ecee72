"""The check of a stored log: a consistent one passes, and every kind of damage is named."""

import pytest
from msgspec import msgpack
from msgspec.structs import replace
from tests.corel.world import MS, SECOND, World

from reconvene.corel.batch import BatchId
from reconvene.corel.keeping.check import MOST_PROBLEMS, check
from reconvene.corel.keeping.layout import (
    ACCEPTED,
    BASE,
    BODIES,
    GREEN,
    LINE,
    RECORD,
    RED,
    SESSIONS,
    VOIDS,
    YELLOW,
    body_key,
    decode_line,
    decode_place,
    decode_record,
    encode_place,
    green_key,
    piece_key,
    snapshot_key,
    table_end,
    void_key,
)
from reconvene.corel.limits import LogLimits
from reconvene.ids import UNNAMED
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op, Put


def stored() -> MemoryTables:
    """Of a replica with everything in it: a base, green, red and accepted batches, sessions, voids, a snapshot."""
    world = World("abc", limits=LogLimits(batch_bytes=16))
    world.run(SECOND)
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    for name in "ab":
        world.log(name).append_once([b"x"], b"session", 1)
        world.turn(name)
    world.run(SECOND)
    world.cluster.heal()
    world.run(2 * SECOND)
    for number in range(12):
        world.append("b", b"message %d" % number)
        world.run(5 * MS)
    world.run(SECOND)
    world.log("a").save_snapshot(10, b"s" * 100_000)
    world.log("a").save_snapshot(9, b"of another machine", name="stock")
    world.turn("a")
    world.run(SECOND)
    world.cluster.partition(["a", "bc"])
    world.run(2 * SECOND)
    for number in range(3):
        world.append("a", b"red one %d" % number)
    world.run(200 * MS)
    world.append("a", b"accepted and not logged")
    world.run(3 * MS)
    disk = world.cluster.node("a").disk
    tables = MemoryTables()
    tables.write([Put(key, value) for key, value in disk.scan(b"\x00", b"\xff")])
    return tables


@pytest.fixture(scope="module")
def sound() -> list[Op]:
    tables = stored()
    return [Put(key, value) for key, value in tables.scan(b"\x00", b"\xff")]


@pytest.fixture
def tables(sound: list[Op]) -> MemoryTables:
    tables = MemoryTables()
    tables.write(sound)
    return tables


def keys(tables: MemoryTables, table: bytes) -> list[bytes]:
    return list(tables.keys(table, table_end(table)))


def moved(tables: MemoryTables, before: bytes, after: bytes) -> None:
    tables.write([Put(after, tables.get(before)), Put(before, None)])


def test_a_log_that_hangs_together_passes(tables: MemoryTables) -> None:
    seen: list[tuple[int, int]] = []
    assert check(tables, lambda batches, size: seen.append((batches, size))) == []
    assert check(tables, full=False) == []
    assert seen[-1][0] == len(keys(tables, BODIES))
    assert all(keys(tables, table) for table in (GREEN, RED, SESSIONS, VOIDS, BODIES))
    assert check(MemoryTables()) == []


def test_what_a_start_looks_at_is_little(tables: MemoryTables) -> None:
    seen: list[int] = []
    check(tables, lambda batches, size: seen.append(batches), full=False)
    pending = sum(len(keys(tables, table)) for table in (YELLOW, RED, ACCEPTED))
    assert seen == [pending + 1], "what is not green, and the last that is"


def damage_record(tables: MemoryTables) -> None:
    tables.write([Put(RECORD, b"nonsense")])


def damage_newer(tables: MemoryTables) -> None:
    record = decode_record(tables.get(RECORD) or b"")
    tables.write([Put(RECORD, msgpack.encode(replace(record, format=99)))])


def damage_base(tables: MemoryTables) -> None:
    tables.write([Put(BASE, None)])


def damage_line(tables: MemoryTables) -> None:
    line = decode_line(tables.get(LINE) or b"")
    tables.write([Put(LINE, msgpack.encode(replace(line, green=line.green + 1)))])


def damage_last_green(tables: MemoryTables) -> None:
    line = decode_line(tables.get(LINE) or b"")
    tables.write([Put(LINE, msgpack.encode(replace(line, last_green={**line.last_green, 1: 1})))])


def damage_gap(tables: MemoryTables) -> None:
    tables.write([Put(keys(tables, GREEN)[3], None)])


def damage_first(tables: MemoryTables) -> None:
    tables.write([Put(keys(tables, GREEN)[0], None)])


def damage_end(tables: MemoryTables) -> None:
    tables.write([Put(keys(tables, GREEN)[-1], None)])


def damage_body(tables: MemoryTables) -> None:
    place = decode_place(tables.get(keys(tables, GREEN)[4]) or b"")
    tables.write([Put(body_key(place.id), None)])


def damage_other_body(tables: MemoryTables) -> None:
    one, two = (decode_place(tables.get(key) or b"").id for key in keys(tables, GREEN)[4:6])
    tables.write([Put(body_key(one), tables.get(body_key(two)))])


def damage_swap(tables: MemoryTables) -> None:
    one, two = keys(tables, GREEN)[4:6]
    first, second = tables.get(one), tables.get(two)
    tables.write([Put(one, second), Put(two, first)])


def damage_value(tables: MemoryTables) -> None:
    tables.corrupt(keys(tables, GREEN)[2])


def damage_red_key(tables: MemoryTables) -> None:
    key = keys(tables, RED)[-1]
    moved(tables, key, key[:-1] + bytes((key[-1] ^ 1,)))


def damage_red_body(tables: MemoryTables) -> None:
    place = decode_place(tables.get(keys(tables, RED)[0]) or b"")
    tables.write([Put(body_key(place.id), b"short")])


def damage_red_gap(tables: MemoryTables) -> None:
    tables.write([Put(keys(tables, RED)[0], None)])


def damage_count(tables: MemoryTables) -> None:
    key = keys(tables, RED)[0]
    place = decode_place(tables.get(key) or b"")
    tables.write([Put(key, encode_place(replace(place, count=place.count + 1)))])


def damage_session(tables: MemoryTables) -> None:
    tables.write([Put(keys(tables, SESSIONS)[0], b"nonsense")])


def damage_void(tables: MemoryTables) -> None:
    tables.write([Put(void_key(1 << 40), msgpack.encode((0,)))])


def damage_piece(tables: MemoryTables) -> None:
    tables.write([Put(piece_key(UNNAMED, 10, 1), b"x")])


def damage_snapshot(tables: MemoryTables) -> None:
    tables.write([Put(snapshot_key(UNNAMED, 10), b"nonsense")])


def damage_orphan(tables: MemoryTables) -> None:
    tables.write([Put(body_key(BatchId(7, 1)), b"who am I")])


ALWAYS = "found at every start"
DAMAGES = [
    (damage_record, "the log's record", ALWAYS),
    (damage_newer, "newer program: format 99", ALWAYS),
    (damage_base, "the log's base is missing", ALWAYS),
    (damage_line, "but the line is at", ALWAYS),
    (damage_last_green, "not those of the green line", ""),
    (damage_gap, "was expected", ""),
    (damage_first, "green: ", ALWAYS),
    (damage_end, "but the line is at", ALWAYS),
    (damage_body, "is missing", ""),
    (damage_other_body, "it is ", ""),
    (damage_swap, "of its author was expected", ""),
    (damage_value, "corrupt", ""),
    (damage_red_key, "does not lie where its timestamp says", ALWAYS),
    (damage_red_body, "shorter than its heading", ALWAYS),
    (damage_red_gap, "of its author was expected", ALWAYS),
    (damage_count, "it is ", ALWAYS),
    (damage_session, "a client session", ALWAYS),
    (damage_void, "where no batch is", ALWAYS),
    (damage_piece, "its checksum does not match", ""),
    (damage_snapshot, "of a snapshot", ALWAYS),
    (damage_orphan, "1 batches are stored that nothing names", ""),
]


@pytest.mark.parametrize(("damage", "named", "when"), DAMAGES, ids=[each[0].__name__ for each in DAMAGES])
def test_damage_is_named(tables: MemoryTables, damage: object, named: str, when: str) -> None:
    assert callable(damage)
    damage(tables)
    problems = check(tables)
    assert any(named in problem for problem in problems), problems
    if when == ALWAYS:
        assert check(tables, full=False)


def test_there_is_an_end_to_it(tables: MemoryTables) -> None:
    place = encode_place(decode_place(tables.get(keys(tables, GREEN)[0]) or b""))
    tables.write([Put(green_key((1 << 40) + 2 * number), place) for number in range(MOST_PROBLEMS)])
    problems = check(tables)
    assert len(problems) == MOST_PROBLEMS + 1
    assert "the check ends here" in problems[-1]
