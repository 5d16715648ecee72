"""Every version of the stored log is migrated by this program, or rejected in one line.

`versions` has a directory of each, as the program of its time left it. The present one's is made by running this
file: `python -m tests.corel.keeping.test_migrate`.
"""

import shutil
from pathlib import Path

import pytest
from msgspec import msgpack
from msgspec.structs import replace
from tests.corel.keeping.test_check import stored

from reconvene.corel.batch import messages_of
from reconvene.corel.keeping.check import check
from reconvene.corel.keeping.layout import FORMAT, RECORD, SNAPSHOTS, decode_record
from reconvene.corel.keeping.migrate import STEPS, migrations, version_of
from reconvene.corel.replica import Replica
from reconvene.errors import Malformed, Unavailable
from reconvene.ids import UNNAMED
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op, Put, Reader

VERSIONS = Path(__file__).parent / "versions"


def test_there_is_a_directory_of_each_version() -> None:
    assert sorted(path.name for path in VERSIONS.iterdir()) == [str(number) for number in range(1, FORMAT + 1)]


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_a_version_is_taken_up(version: int, tmp_path: Path) -> None:
    shutil.copytree(VERSIONS / str(version), tmp_path / "store")
    store = LmdbStore(tmp_path / "store")
    try:
        for ops in migrations(store):
            store.write(ops)
        assert version_of(store) == FORMAT
        assert check(store) == []
        replica = Replica("a", "abc", 2, store)
        bodies = replica.queue.bodies
        green = [
            message
            for position, heading in replica.read(replica.base)
            for index, message in enumerate(messages_of(bodies.get(heading.id)))
            if index not in replica.voids(position, heading)
        ]
        assert green == [b"x", *(b"message %d" % number for number in range(12))]
        pending = [
            *(entry.heading for entry in replica.queue.pending()),
            *(w.heading for w in replica.queue.accepted),
        ]
        assert [message for heading in pending for message in messages_of(bodies.get(heading.id))][:3] == [
            b"red one %d" % number for number in range(3)
        ]
        snapshots = replica.snapshots
        assert snapshots.read(UNNAMED, 0, 1 << 20) == b"s" * 100_000
        assert snapshots.uses[UNNAMED].here
        assert sorted(snapshots.uses) == ([UNNAMED] if version == 1 else ["stock", UNNAMED])
        if version > 1:
            assert snapshots.read("stock", 0, 1 << 20) == b"of another machine"
        assert not replica.append_once([b"x"], b"session", 1)[0].new
        assert replica.replicas.names() == ["a", "b", "c"]
        assert replica.record.kept is not None
        assert replica.record.kept.established.numbers() == (0, 1, 2)
        assert (replica.record.kept.established.number > 0) == (version > 2), "no session was kept before"
    finally:
        store.close()


def written(**changes: int) -> MemoryTables:
    tables = stored()
    record = decode_record(tables.get(RECORD) or b"")
    tables.write([Put(RECORD, msgpack.encode(replace(record, **changes)))])
    return tables


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(Unavailable, match=f"newer program: format {FORMAT + 1}; this one knows up to {FORMAT}"):
        list(migrations(written(format=FORMAT + 1)))


def test_a_version_without_a_way_on_is_refused() -> None:
    with pytest.raises(Unavailable, match="too old"):
        list(migrations(written(format=0), STEPS))


def test_steps_are_taken_one_after_the_other() -> None:
    taken: list[int] = []

    def step(tables: Reader) -> list[Op]:
        found = msgpack.decode(tables.get(RECORD) or b"", type=dict[str, object])
        version = found["format"]
        assert isinstance(version, int)
        taken.append(version)
        return [Put(RECORD, msgpack.encode({**found, "format": version + 1}))]

    tables = written(format=FORMAT)
    steps = {FORMAT: step, FORMAT + 1: step}
    for ops in migrations(tables, steps, FORMAT + 2):
        tables.write(ops)
    assert taken == [FORMAT, FORMAT + 1]
    assert version_of(tables) == FORMAT + 2


def test_what_is_known_of_an_old_snapshot_must_make_sense() -> None:
    tables = written(format=1)
    tables.write([Put(SNAPSHOTS + bytes(8), b"nonsense")])
    with pytest.raises(Malformed, match="what is known of a snapshot"):
        list(migrations(tables))


def test_a_step_that_was_not_written_is_noticed() -> None:
    with pytest.raises(Malformed, match="after a step"):
        list(migrations(written(), {FORMAT: lambda tables: []}, FORMAT + 1))


def test_what_is_no_record_is_refused() -> None:
    tables = MemoryTables()
    assert version_of(tables) is None
    assert list(migrations(tables)) == []
    for nonsense in (b"nonsense", msgpack.encode({"format": "one"})):
        tables.write([Put(RECORD, nonsense)])
        with pytest.raises(Malformed):
            version_of(tables)


def main() -> None:
    target = VERSIONS / str(FORMAT)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    store = LmdbStore(target)
    tables = stored()
    store.write([Put(key, value) for key, value in tables.scan(b"\x00", b"\xff")])
    store.close()
    (target / "lock.mdb").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
