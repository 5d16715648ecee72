"""State machines over the log: order, snapshots, failures, the optimistic view."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.client.test_log import ServedLog, connected, place, until

import reconvene
from reconvene import Entry, Log, Rejected, StateMachine, Truncated, Unavailable
from reconvene.client.state_machine import unwrap, wrap
from reconvene.errors import Malformed
from reconvene.ids import UNNAMED
from reconvene.runtime.clients import connection
from reconvene.wire.client_log import Append
from reconvene.wire.clients import NAMES_MINOR


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
async def log_of(*words: str) -> AsyncIterator[tuple[Log, ServedLog]]:
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
            with pytest.raises(ValueError, match="snapshot_every"):
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
                await until(lambda: "Words" in here.fake.shared.snapshots)
            here.fake.truncate(2)
            await log.append(b"three")
            async with log.run(Words()) as restored:
                await restored.applied(2)
                assert isinstance(restored.machine, Words)
                assert restored.machine.words == ["one", "two", "three"]
            async with log.run(Other()) as stranger:
                with pytest.raises(Unavailable, match="no snapshot 'Other' covers"):
                    await stranger.applied(2)
                assert stranger.failed is not None
                assert isinstance(stranger.failed.error, Truncated)
            here.fake.shared.snapshots.clear()
            async with log.run(Words()) as lost:
                with pytest.raises(Unavailable, match="no snapshot 'Words' covers"):
                    await lost.applied(2)

    asyncio.run(scenario())


def test_one_that_falls_behind_a_truncation_goes_on_from_a_snapshot() -> None:
    async def scenario() -> None:
        async with log_of("one") as (log, here), log.run(Words()) as runner:
            await runner.applied(0)
            machine = Words()
            machine.words = ["one", "two", "three"]
            here.fake.append(Append(0, [b"two", b"three"]))
            here.fake.shared.snapshots["Words"] = (3, wrap(machine))
            here.fake.truncate(3)
            await runner.applied(2)
            assert isinstance(runner.machine, Words)
            assert runner.machine.words == ["one", "two", "three"]

    asyncio.run(scenario())


def test_snapshots_that_fail_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with log_of("one", "two") as (log, here):

            def refuse(position: int, data: bytes, name: str) -> None:
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
    with pytest.raises(Rejected, match="format 3"):
        unwrap(machine, b"\x93\x03\xa5Words\xc4\x03one")
    assert unwrap(machine, b"\x93\x01\xa5Words\xc4\x03one") == b"one", "of a program before versions"
    for bad in (b"", b"one", b"\x90", b"\x91\x01", b"\x93\x02\xa5Words\xc4\x03one", b"\x92\xa1x\x01"):
        with pytest.raises(Malformed):
            unwrap(machine, bad)


@pytest.mark.parametrize("state", ["text", None, ["list"]])
def test_a_snapshot_that_is_not_bytes_is_not_saved(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log would be truncated below it, and no machine could begin with it."""
    monkeypatch.setattr(Words, "snapshot", lambda _: state)

    async def scenario() -> None:
        async with log_of("one", "two") as (log, _), log.run(Words(), snapshot_every=1) as runner:
            await runner.applied(1)
            assert runner.snapshot_trouble is not None
            assert "Words.snapshot: expected bytes" in runner.snapshot_trouble
            found = await log.snapshots()
            assert all(info is None for info in found.values()), found

    asyncio.run(scenario())


def test_a_snapshot_that_cant_be_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with log_of("one") as (log, here):
            here.fake.shared.snapshots["Words"] = (1, wrap(Words()))
            monkeypatch.setattr(Words, "restore", lambda _, data: 1 / 0)
            with pytest.raises(Unavailable, match="can't be restored"):
                async with log.run(Words()):
                    pass

    asyncio.run(scenario())


# -- names and versions


class Later(Words):
    """The next version of Words: it saves its words one to a line."""

    version = 2

    @property
    def kind(self) -> str:
        return "Words"

    def snapshot(self) -> bytes:
        return "\n".join(self.words).encode()

    def restore(self, data: bytes) -> None:
        self.words = data.decode().split("\n")

    def upgrade(self, version: int, data: bytes) -> bytes:
        assert version == 1
        return data.replace(b" ", b"\n")


class Unready(Words):
    version = 2

    @property
    def kind(self) -> str:
        return "Words"


def test_two_machines_at_one_site_keep_their_own() -> None:
    async def scenario() -> None:
        async with log_of() as (log, here):
            large = b"x" * 900_000
            async with log.run(Words(), snapshot_every=2) as words, log.run(Other(), snapshot_every=2) as other:
                assert here.fake.shared.uses == {"Words": 0, "Other": 0}
                await log.append_many([large, b"two"])
                for runner in (words, other):
                    await runner.applied(1)
                await until(lambda: set(here.fake.shared.snapshots) == {"Words", "Other"})
                assert (words.snapshot_trouble, other.snapshot_trouble) == (None, None)
            here.fake.truncate(2)
            for machine in (Words(), Other()):
                async with log.run(machine) as again:
                    await log.append(b"more")
                    await again.caught_up(10)
                    assert machine.words[:3] == [large.decode(), "two", "more"]

    asyncio.run(scenario())


def test_one_name_of_two_kinds_is_refused() -> None:
    async def scenario() -> None:
        async with log_of("one") as (log, here):
            here.fake.shared.snapshots["Other"] = (1, wrap(Words()))
            with pytest.raises(Rejected, match=r"of a Words, not of a Other: give each .* a name of its own"):
                async with log.run(Other()):
                    pass
            machine = Other()
            machine.name = "words of mine"
            async with log.run(machine, snapshot_every=1) as runner:
                await runner.applied(0)
                await until(lambda: "words of mine" in here.fake.shared.snapshots)
            for name, version in (("x" * 200, 1), ("a\nb", 1), ("words", 0), ("words", "two"), ("words", 1 << 70)):
                bad = Words()
                bad.name, bad.version = name, version  # type: ignore[assignment]
                with pytest.raises(ValueError, match="expected"):
                    log.run(bad)

    asyncio.run(scenario())


def test_one_that_was_saved_before_snapshots_had_names_is_found() -> None:
    async def scenario() -> None:
        async with log_of("one", "two") as (log, here):
            here.fake.shared.snapshots[UNNAMED] = (2, b"\x93\x01\xa5Words\xc4\x07one two")
            here.fake.truncate(2)
            machine = Words()
            async with log.run(machine) as runner:
                assert (runner.position, machine.words) == (2, ["one", "two"])
            async with log.run(Other()) as other:
                with pytest.raises(Unavailable, match="no snapshot 'Other' covers"):
                    await other.applied(2)

    asyncio.run(scenario())


def test_a_newer_version_upgrades_and_an_older_one_is_told() -> None:
    async def scenario() -> None:
        async with log_of("one", "two") as (log, here):
            async with log.run(Words(), snapshot_every=2) as runner:
                await runner.applied(1)
                await until(lambda: "Words" in here.fake.shared.snapshots)
            here.fake.truncate(2)
            with pytest.raises(Rejected, match=r"by version 1 of Words, .* version 2: give the class .* upgrade"):
                async with log.run(_named(Unready())):
                    pass
            later = _named(Later())
            async with log.run(later, snapshot_every=1) as upgraded:
                assert later.words == ["one", "two"]
                await log.append(b"three")
                await upgraded.applied(2)
                await until(lambda: here.fake.shared.snapshots["Words"][0] == 3)
            with pytest.raises(Rejected, match=r"by version 2 of Words, .* has version 1: run the newer program"):
                async with log.run(Words()):
                    pass

    asyncio.run(scenario())


def test_an_upgrade_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    old = wrap(Words())
    monkeypatch.setattr(Later, "upgrade", lambda _, version, data: 1 / 0)
    with pytest.raises(Rejected, match=r"version 1 of Words can't be upgraded to version 2: ZeroDivisionError"):
        unwrap(Later(), old)
    monkeypatch.setattr(Later, "upgrade", lambda _, version, data: "text")
    with pytest.raises(Rejected, match=r"Words.upgrade: expected bytes, not str"):
        unwrap(Later(), old)


def test_a_site_before_names_is_asked_for_its_one_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with place() as here:
            monkeypatch.setattr(connection, "MINOR", NAMES_MINOR - 1)
            async with asyncio.timeout(10), reconvene.connect(here.serves.unix) as site:
                await site.log.append_many([b"one", b"two"])
                here.fake.shared.snapshots[UNNAMED] = (2, wrap(Words()))
                async with site.log.run(Words(), snapshot_every=1) as runner:
                    assert runner.position == 2
                    assert "names of snapshots need 1.4" in str(runner.snapshot_trouble)
                    await site.log.append(b"three")
                    await runner.applied(2)
                await site.log.save_snapshot(3, b"by hand")
                assert await site.log.read_snapshot() == (3, b"by hand")

    asyncio.run(scenario())


def _named(machine: Words) -> Words:
    machine.name = "Words"
    return machine
