"""State machines over the log: order, snapshots, failures, the optimistic view."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.test_log import Place, connected, until

from reconvene import Entry, Log, Rejected, StateMachine, Truncated, Unavailable
from reconvene.client.state_machine import unwrap, wrap
from reconvene.errors import Malformed


class Words(StateMachine):
    def __init__(self) -> None:
        self.words: list[str] = []

    def apply(self, entry: Entry) -> None:
        if entry.data == b"bad":
            raise ValueError("a bad word")
        self.words.append(entry.data.decode())

    def snapshot(self) -> bytes:
        return " ".join(self.words).encode()

    def restore(self, data: bytes) -> None:
        self.words = data.decode().split()


class Other(Words):
    pass


@asynccontextmanager
async def log_of(*words: str) -> AsyncIterator[tuple[Log, Place]]:
    async with connected() as (log, here):
        if words:
            await log.append_many([word.encode() for word in words])
        yield log, here


def test_entries_are_applied_in_order() -> None:
    async def scenario() -> None:
        async with log_of("one", "two") as (log, here):
            async with log.run(Words()) as runner:
                await runner.applied(1)
                here.fake.change()
                await log.append(b"three")
                await runner.caught_up()
                assert isinstance(runner.machine, Words)
                assert (runner.machine.words, runner.position) == (["one", "two", "three"], 4)
                waiting = asyncio.create_task(runner.applied(9))
                await asyncio.sleep(0.01)
            with pytest.raises(Unavailable, match="not any more"):
                await waiting
            with pytest.raises(Unavailable):
                await runner.applied(9)
            async with log.run(Words(), start=1) as later:
                await later.applied(3)
                assert isinstance(later.machine, Words)
                assert later.machine.words == ["two", "three"]
            with pytest.raises(TypeError):
                log.run("machine")  # type: ignore[arg-type]
            with pytest.raises(Rejected):
                log.run(Words(), snapshot_every=-1)

    asyncio.run(scenario())


def test_an_apply_that_raises_stops_its_machine_and_nothing_else() -> None:
    async def scenario() -> None:
        async with log_of("one", "bad", "two") as (log, _), log.run(Words()) as runner:
            with pytest.raises(Unavailable, match="stopped at position 1: ValueError") as raised:
                await runner.applied(2)
            assert isinstance(raised.value.__cause__, ValueError)
            assert runner.failed is not None
            assert runner.machine.failed == runner.failed
            assert (runner.failed.position, str(runner.failed.error), runner.position) == (1, "a bad word", 1)
            assert [entry.data for entry in await log.read()] == [b"one", b"bad", b"two"]
            await log.append(b"three")

    asyncio.run(scenario())


def test_a_truncated_log_is_begun_from_the_newest_snapshot() -> None:
    async def scenario() -> None:
        async with log_of("one", "two") as (log, here):
            async with log.run(Words(), snapshot_every=2) as runner:
                await runner.applied(1)
                await until(lambda: here.fake.shared.snapshot is not None)
            here.fake.truncate(2)
            await log.append(b"three")
            async with log.run(Words()) as restored:
                await restored.applied(2)
                assert isinstance(restored.machine, Words)
                assert restored.machine.words == ["one", "two", "three"]
            async with log.run(Other()) as stranger:
                with pytest.raises(Unavailable, match="of a Words, not of a Other"):
                    await stranger.applied(2)
                assert stranger.failed is not None
                assert isinstance(stranger.failed.error, Truncated)
            here.fake.shared.snapshot = None
            async with log.run(Words()) as lost:
                with pytest.raises(Unavailable, match="no snapshot covers"):
                    await lost.applied(2)

    asyncio.run(scenario())


def test_one_that_falls_behind_a_truncation_goes_on_from_a_snapshot() -> None:
    async def scenario() -> None:
        async with log_of("one") as (log, here), log.run(Words()) as runner:
            await runner.applied(0)
            machine = Words()
            machine.words = ["one", "two", "three"]
            here.fake.append([b"two", b"three"])
            here.fake.shared.snapshot = (3, wrap(machine))
            here.fake.truncate(3)
            await runner.applied(2)
            assert isinstance(runner.machine, Words)
            assert runner.machine.words == ["one", "two", "three"]

    asyncio.run(scenario())


def test_snapshots_that_fail_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with log_of("one", "two") as (log, here):

            def refuse(position: int, data: bytes) -> None:
                raise Rejected("too large")

            monkeypatch.setattr(here.fake, "save_snapshot", refuse)
            async with log.run(Words(), snapshot_every=1) as runner:
                await until(lambda: runner.snapshot_trouble == "too large")
                await log.append(b"three")
                await runner.applied(2)
            monkeypatch.setattr(Words, "snapshot", lambda _: 1 / 0)
            async with log.run(Words(), snapshot_every=1) as broken:
                await broken.applied(2)
                await until(lambda: broken.snapshot_trouble is not None)
                assert "ZeroDivisionError" in str(broken.snapshot_trouble)

    asyncio.run(scenario())


def test_the_optimistic_view() -> None:
    async def scenario() -> None:
        async with log_of("one") as (log, here), log.run(Words()) as runner:
            here.fake.order = False
            await log.append_many([b"two", b"bad", b"three"])
            view = await runner.optimistic()
            assert isinstance(view, Words)
            assert isinstance(runner.machine, Words)
            assert view.words == ["one", "two", "three"]
            assert runner.machine.words == ["one"]
            assert runner.failed is None

    asyncio.run(scenario())


def test_snapshots_say_what_they_are_of() -> None:
    machine = Words()
    machine.words = ["one"]
    assert unwrap(Words(), wrap(machine)) == b"one"
    with pytest.raises(Rejected, match="of a Words"):
        unwrap(Other(), wrap(machine))
    with pytest.raises(Rejected, match="format 2"):
        unwrap(machine, b"\x93\x02\xa5Words\xc4\x03one")
    for bad in (b"", b"one", b"\x91\x01"):
        with pytest.raises(Malformed):
            unwrap(machine, bad)


def test_a_snapshot_that_cant_be_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with log_of("one") as (log, here):
            here.fake.shared.snapshot = (1, wrap(Words()))
            monkeypatch.setattr(Words, "restore", lambda _, data: 1 / 0)
            with pytest.raises(Unavailable, match="can't be restored"):
                async with log.run(Words()):
                    pass

    asyncio.run(scenario())
