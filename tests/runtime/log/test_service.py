"""The log of real sites, all in this process: what is promised to clients that append, read and watch."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import lmdb
import pytest
from msgspec.structs import replace
from tests.client.places import LogLines, cluster, short_dir
from tests.durable import durable

from reconvene.corel.batch import BatchId
from reconvene.corel.events import Color
from reconvene.corel.following.follower import Follower, first_follower_ops
from reconvene.corel.following.messages import Pull
from reconvene.corel.following.pulling import Pulling
from reconvene.corel.keeping.layout import LINE, body_key, decode_line
from reconvene.errors import Malformed, OutcomeUnknown, Rejected, Unavailable
from reconvene.runtime.config.settings import Config, LogSettings, Timing
from reconvene.runtime.log.service import LogService
from reconvene.runtime.node.main import running
from reconvene.runtime.site.engine import SiteEngine
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op
from reconvene.trace.reader import read_trace
from reconvene.wire.client_log import Append, Order

QUICK = Timing(beacon_every_ns=20_000_000, suspect_base_ns=200_000_000, round_patience_ns=100_000_000)


def configs(directory: Path, names: str, **log: object) -> list[Config]:
    told = replace(LogSettings(), **log)
    return [replace(config, timing=QUICK) for config in cluster(directory, names, log=told)]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


def of(engine: SiteEngine) -> LogService:
    assert engine.log is not None
    return engine.log


def in_primary(engine: SiteEngine, sites: int) -> Callable[[], bool]:
    return lambda: of(engine).status()["primary"] != 0 and len(of(engine)._replica.participants) == sites


@asynccontextmanager
async def sites(*told: Config) -> AsyncIterator[list[SiteEngine]]:
    """All of the sites are in one primary component."""
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(running(config)) for config in told]
        engines = list(await asyncio.gather(*opening))
        for engine in engines:
            await until(in_primary(engine, len(told)))
        yield engines


@pytest.fixture
def log_lines() -> Iterator[LogLines]:
    lines = LogLines()
    log = logging.getLogger("reconvene.site")
    log.addHandler(lines)
    yield lines
    log.removeHandler(lines)


def first(log: LogService, messages: Sequence[bytes]) -> int:
    """Appends; returns the counter of the first message."""
    return log.append(Append(0, list(messages))).parts[0].first


def test_from_append_to_green() -> None:
    async def scenario(directory: Path) -> None:
        async with sites(*configs(directory, "abc")) as (a, b, c):
            greens: list[int] = []
            colors: list[tuple[Color, str, int, int, int]] = []
            end = of(b).watch(greens.append)
            of(b).watch_colors(colors.extend)
            counter = first(of(a), [b"one", b"two"])
            assert not durable(of(a), counter).done()
            await durable(of(a), counter + 1)
            position = await of(a).ordered(counter + 1)
            assert (counter, position) == (1, 1)
            await until(lambda: of(b).green == of(c).green == 2)
            for engine in (a, b, c):
                (batch,) = of(engine).read(0, 100, 1 << 20)
                assert (batch.position, batch.author, batch.incarnation, batch.first) == (0, "a", 1, 1)
                assert batch.messages == [b"one", b"two"]
                (batch,) = of(engine).read(1, 100, 1 << 20)
                assert (batch.position, batch.first, batch.messages) == (1, 2, [b"two"])
                assert of(engine).read(2, 100, 1 << 20) == []
            assert greens[-1] == 2
            assert colors == [(Color.YELLOW, "a", 1, 1, 2), (Color.GREEN, "a", 1, 1, 2)]
            end()
            await asyncio.gather(*(of(engine).barrier() for engine in (a, b, c) for _ in range(3)))
            await of(c).ordered(first(of(c), [b"three"]))
            await until(lambda: of(b).green == 3)
            assert greens[-1] == 2, "a subscription that has ended is not notified any more"
            with pytest.raises(Rejected, match="position 4 is beyond the green line, which is at 3"):
                of(b).read(4, 1, 1)
            with pytest.raises(Rejected, match="nothing to append"):
                of(b).append(Append(0, []))
            status = of(b).status()
            assert (status["green"], status["yellow"], status["red"], status["storage"]) == (3, 0, 0, "ok")

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_reads_from_disk_after_a_restart() -> None:
    async def scenario(directory: Path) -> None:
        (config,) = configs(directory, "a", batch_bytes=512)
        messages = [b"%04d" % number for number in range(1000)]
        async with sites(config) as (a,):
            assert await of(a).ordered(first(of(a), messages) + 999) == 999
        store = LmdbStore(config.dir / "store")
        line = store.get(LINE)
        store.close()
        assert line is not None
        assert decode_line(line).green == 1000, "a clean stop leaves nothing to be learned again"
        async with sites(config) as (a,):
            log = of(a)
            assert await log.ordered(500) == 499
            await durable(log, 1000)
            assert [batch.position for batch in log.read(450, 1, 1 << 20)] == [450]
            found, position = list[bytes](), 0
            while position < log.green:
                batches = log.read(position, 100, 1000)
                assert sum(len(batch.messages) for batch in batches) < 300
                found += [message for batch in batches for message in batch.messages]
                position = batches[-1].position + len(batches[-1].messages)
            assert found == messages
            assert first(log, [b"next"]) == 1001
            assert await log.ordered(1001) == 1000
            assert log.read(1000, 1, 1)[0].incarnation == 2

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_minority_accepts_until_its_limit_and_goes_on_when_it_has_room() -> None:
    async def scenario(directory: Path) -> None:
        one, two = configs(directory, "ab", red_messages=10)
        async with running(one) as a:
            log = of(a)
            await until(lambda: log.status()["phase"] == "open")
            counter = first(log, [b"%d" % number for number in range(8)])
            await durable(log, counter + 7)
            await until(lambda: log.status()["red"] == 8)
            assert log.room.free() == 2
            with pytest.raises(Unavailable, match=r"8 messages of .* bytes wait to be ordered: at most 10 of"):
                log.append(Append(0, [b"x"] * 3))
            log.append(Append(0, [b"8", b"9"]))
            waiting = asyncio.create_task(log.room.wait())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            assert {(color, batch.author) for color, batch in log.pending(100)} == {(Color.RED, "a")}
            assert [message for _, batch in log.pending(100) for message in batch.messages] == [
                b"%d" % number for number in range(10)
            ]
            assert len(log.pending(1)) == 1
            ordered = log.ordered(counter + 7)
            async with running(two):
                await waiting
                assert await ordered == 7
                await until(lambda: log.room.free() == 10)
                assert log.pending(100) == []

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_log_that_reaches_its_limit_on_disk_takes_nothing_more(log_lines: LogLines) -> None:
    async def fill(log: LogService) -> int:
        for taken in range(200):
            try:
                await log.ordered(first(log, [bytes(1 << 19)]))
            except Unavailable as error:
                return taken if "log.max_bytes" in str(error) else 0
        raise AssertionError("it has no limit")

    async def scenario(directory: Path) -> None:
        told = configs(directory, "a", max_bytes=40 << 20, red_bytes=16 << 20, snapshot_bytes=1 << 20)
        async with sites(*told) as (engine,):
            assert 70 < await fill(of(engine)) < 90
            assert "log.max_bytes" in engine.storage()
            assert of(engine).read(0, 1, 1)[0].messages == [bytes(1 << 19)]
            assert sum("the log is full" in line for line in log_lines.lines) == 1

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_trace_that_begins_after_its_log_is_refused_by_its_readers() -> None:
    async def scenario(directory: Path) -> None:
        config = configs(directory, "a")[0]
        async with sites(config) as (engine,):
            await of(engine).ordered(first(of(engine), [b"before"]))
        traced = replace(config, trace=replace(config.trace, dir=directory / "trace"))
        async with sites(traced) as (engine,):
            await of(engine).ordered(first(of(engine), [b"after"]))
        with pytest.raises(Malformed, match="log is older than the trace"):
            read_trace(directory / "trace")

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_where_a_retry_counts_is_found_though_it_was_long_ago() -> None:
    """Two partitioned sites accepted the same number of a session."""

    async def scenario(directory: Path) -> None:
        async with sites(*configs(directory, "abc")) as engines:
            a, _, c = engines
            a._block(frozenset({2}), frozenset({2}))
            engines[1]._block(frozenset({2}), frozenset({2}))
            await until(lambda: of(c).status()["primary"] == 0)
            await durable(of(a), of(a).append(Append(0, [b"other", b"once"], b"session", 6)).parts[0].first)
            again = of(c).append(Append(0, [b"once"], b"session", 7)).parts[0].first
            changed = of(c).append(Append(0, [b"not the same"], b"session", 6)).parts[0].first
            await durable(of(c), changed)
            await until(lambda: of(a).green == 2)
            for engine in engines[:2]:
                engine._block(frozenset(), frozenset())
            async with asyncio.timeout(20):
                void = await of(c).ordered(again)
            assert void == 2
            assert of(c)._reader.counted(void, 1) == [1]
            of(c)._replica.sessions.forget_positions()
            assert of(c)._reader.counted(void, 1) == [None]
            assert await of(c)._reader.origin(void) == 1
            assert await of(c).find(Order(0, "c", again, 1, 0, retried=True)) == [(1, 1)]
            with pytest.raises(Rejected, match="does not count: another one with other data, at 0"):
                await of(c).find(Order(0, "c", changed, 1, 0, retried=True))

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_site_that_takes_no_part() -> None:
    async def scenario(directory: Path) -> None:
        a, b, c = configs(directory, "abc")
        outside = replace(c, log=LogSettings(enabled=False))
        async with AsyncExitStack() as stack:
            engines = [await stack.enter_async_context(running(config)) for config in (a, b, outside)]
            await until(lambda: len(engines[0]._site.members) == 3)
            assert engines[2].log is None
            assert engines[2].status()["log"] is None
            await until(in_primary(engines[0], 2))
            assert await of(engines[0]).ordered(first(of(engines[0]), [b"x"])) == 0
            assert engines[2].health() == "primary"

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_disk_that_refuses(monkeypatch: pytest.MonkeyPatch, log_lines: LogLines) -> None:
    refusing: set[str] = set()
    write = LmdbStore.write

    def refuses(store: LmdbStore, ops: Sequence[Op]) -> None:
        if store.path.parent.name in refusing:
            raise OSError(28, "No space left on device")
        write(store, ops)

    monkeypatch.setattr(LmdbStore, "write", refuses)

    async def scenario(directory: Path) -> None:
        async with sites(*configs(directory, "abc")) as (a, b, c):
            refusing.add("a")
            counter = first(of(a), [b"x"])
            stored, ordered = durable(of(a), counter), of(a).ordered(counter)
            await until(lambda: a.storage() != "ok")
            with pytest.raises(Unavailable, match=r"site a: storage refuses: .*No space left on device"):
                of(a).append(Append(0, [b"y"]))
            entered: list[int] = []
            of(a).when_room(1, lambda: entered.append(1))
            assert entered == [1]  # an append that is refused does not wait
            await until(in_primary(b, 2))
            assert await of(b).ordered(first(of(b), [b"the others go on"])) == 0
            assert not stored.done()
            assert not ordered.done()
            refusing.clear()
            await stored
            assert await ordered == 1
            await until(lambda: of(c).green == 2)
            assert a.storage() == "ok"
            assert of(a).room.free() > 0

    with short_dir() as directory:
        asyncio.run(scenario(directory))
    assert len([line for line in log_lines.lines if line.startswith("storage refuses")]) == 1
    assert len(log_lines.of("storage works again")) == 1


def damage(config: Config, key: bytes) -> None:
    with lmdb.open(str(config.dir / "store"), map_size=1 << 30) as env, env.begin(write=True) as transaction:
        stored = transaction.get(key)
        assert stored is not None
        transaction.put(key, stored[:-1] + bytes((stored[-1] ^ 1,)))


@pytest.fixture
def damaged(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Sites that can't read the first batch of a's any more."""
    names: set[str] = set()
    get = LmdbStore.get

    def gets(store: LmdbStore, key: bytes | str) -> bytes | None:
        if store.path.parent.name in names and key == body_key(BatchId(0, 1)):
            raise Malformed(f"the value of {body_key(BatchId(0, 1)).hex()} is corrupt: its checksum does not match")
        return get(store, key)

    monkeypatch.setattr(LmdbStore, "get", gets)
    return names


def test_a_value_that_is_damaged_on_disk(damaged: set[str], log_lines: LogLines) -> None:
    async def scenario(directory: Path) -> None:
        told = configs(directory, "abc", batch_bytes=512)
        async with sites(*told) as engines:
            counter = first(of(engines[0]), [b"%0100d" % number for number in range(50)])
            await of(engines[0]).ordered(counter + 49)
            await until(lambda: all(of(engine).green == 50 for engine in engines))
        async with sites(*told) as (a, b, _):
            damaged.add("b")
            with pytest.raises(Unavailable, match=r"the value of 02\w+ is corrupt: its checksum does not match"):
                of(b).read(0, 100, 1 << 20)
            assert "is corrupt" in b.storage()
            assert "is corrupt" in str(of(b).status()["storage"])
            with pytest.raises(Unavailable, match="is corrupt"):
                of(b).append(Append(0, [b"x"]))
            with pytest.raises(Unavailable, match="is corrupt"):
                of(b).read(0, 100, 1 << 20)
            # It continues with what it has: messages that others append are ordered, and can be read here.
            assert await of(a).ordered(first(of(a), [b"next"])) == 50
            await until(lambda: of(b).green == 51)
            assert of(b).read(50, 1, 1)[0].messages == [b"next"]
            assert len(of(a).read(0, 100, 1 << 20)) > 1

    with short_dir() as directory:
        asyncio.run(scenario(directory))
    assert len(log_lines.of("storage is damaged; nothing is accepted")) == 1


def test_a_replica_that_can_not_read_what_others_need_leaves_them_alone(
    damaged: set[str], log_lines: LogLines
) -> None:
    async def scenario(directory: Path) -> None:
        told = configs(directory, "abc")
        async with running(told[0]) as a:
            await durable(of(a), first(of(a), [b"red"]))
            await until(lambda: of(a).status()["red"] == 1)
        async with running(told[0]) as a:
            await until(lambda: of(a).status()["phase"] == "open")
            damaged.add("a")
            async with running(told[1]) as b, running(told[2]):
                await until(in_primary(b, 2))
                await of(b).ordered(first(of(b), [b"x"]))
                await until(lambda: "is corrupt" in a.storage())
                with pytest.raises(Unavailable, match="is corrupt"):
                    of(a).append(Append(0, [b"y"]))
        damaged.clear()
        async with sites(*told) as engines:
            await until(lambda: all(of(engine).green == 2 for engine in engines))

    with short_dir() as directory:
        asyncio.run(scenario(directory))
    assert len(log_lines.of("storage is damaged; nothing is accepted")) == 1


def test_damage_that_is_found_at_the_start_is_told_in_one_line() -> None:
    async def scenario(directory: Path) -> None:
        one, _ = configs(directory, "ab")
        async with running(one) as a:
            await durable(of(a), first(of(a), [b"x"]))
        damage(one, body_key(BatchId(0, 1)))
        with pytest.raises(Malformed, match=r"the log can't be read: .* is corrupt") as told:
            async with running(one):
                pass
        assert "\n" not in str(told.value)

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_who_waits_when_the_site_stops() -> None:
    async def scenario(directory: Path) -> None:
        one, _ = configs(directory, "ab")
        async with running(one) as a:
            log = of(a)
            counter = first(log, [b"x"])
            ordered, barrier = log.ordered(counter), log.barrier()
        with pytest.raises(OutcomeUnknown, match="site a has stopped"):
            await ordered
        with pytest.raises(Unavailable, match="site a has stopped"):
            await barrier
        with pytest.raises(Unavailable, match="site a is stopping"):
            log.append(Append(0, [b"y"]))
        async with running(one) as a:
            assert [batch.messages for _, batch in of(a).pending(10)] == [[b"x"]]

    with short_dir() as directory:
        asyncio.run(scenario(directory))


def test_a_follower_knows_who_waits_at_it() -> None:
    tables = MemoryTables()
    tables.write(first_follower_ops(tables, b"follower", 1, 1))
    follower = Follower("f", 1, tables)
    pulling = Pulling(follower, "x/f", ["a"], 0)
    turns: list[None] = []
    service = LogService(follower, 1, str, lambda: turns.append(None), pytest.fail, "x", pulling)
    assert service.answer_follower(Pull(0, 1, wait=False)) is not None
    assert (pulling._expected, len(turns)) == (-1, 0)
    assert service.answer_follower(Pull(0, 1, wait=True)) is None
    assert (pulling._expected, len(turns)) == (0, 1)
    service.expect(7)
    assert (pulling._expected, len(turns)) == (7, 2)
