"""What an application does with a group: the same inside the program and over a socket."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.client.fake_engine import FakeEngine
from tests.client.places import cluster, serving, short_dir

import reconvene
from reconvene import Batch, Message, Process, Rejected, Service, Site, Unavailable, View
from reconvene.client.inbox import Inboxes
from reconvene.client.local import LocalLink
from reconvene.runtime.config.settings import Limits

Scenario = Callable[[Site, Site], Awaitable[None]]


@asynccontextmanager
async def two_processes(kind: str) -> AsyncIterator[tuple[Site, Site]]:
    """Of one real site."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(short_dir())
        (config,) = cluster(directory)
        inside = await stack.enter_async_context(reconvene.open(config))
        other = await stack.enter_async_context(reconvene.connect(directory / "a/site.sock"))
        yield (inside, other) if kind == "open" else (other, inside)


def play(kind: str, scenario: Scenario) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), two_processes(kind) as (site, other):
            await scenario(site, other)

    asyncio.run(run())


both = pytest.mark.parametrize("kind", ["open", "connect"])


async def next_message(group: reconvene.Group) -> Message:
    while True:
        event = await group.next()
        if isinstance(event, Message):
            return event


@both
def test_joining_sending_leaving(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        assert (site.name, site.cluster, site.sites) == ("a", "test", ("a",))
        group = await site.join("x")
        assert group.name == "x"
        assert group.view.members == (group.me,)
        assert group.view.primary
        assert await group.next() == group.view
        theirs = await other.join("x")
        view = await group.next()
        assert isinstance(view, View)
        assert (view.kind, view.joined, view.left) == ("regular", (theirs.me,), ())
        assert view.members == (group.me, theirs.me)
        assert theirs.view.id == view.id == group.view.id
        await group.send(b"hello", service="safe")
        for reader in (group, theirs):
            message = await next_message(reader)
            assert (message.data, message.sender, message.service) == (b"hello", group.me, Service.SAFE)
            assert message.view == view.id
            assert message.id.startswith("a:1:")
        await theirs.leave()
        assert [event async for event in theirs] == []
        gone = await group.next()
        assert isinstance(gone, View)
        assert gone.left == (theirs.me,)
        with pytest.raises(Unavailable, match="not in it any more"):
            await theirs.send(b"too late")
        await theirs.leave()

    play(kind, scenario)


@both
def test_the_four_services_and_some_members_only(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        group, theirs = await site.join("x"), await other.join("x")
        for service in ("fifo", "causal", "agreed", "safe", *Service):
            await group.send(str(service).encode(), service)
            expected = Service[service.upper()] if isinstance(service, str) else service
            assert (await next_message(theirs)).service == expected
        await group.send(b"to you", to=[theirs.me])
        await group.send(b"to me", to=[str(group.me)])
        await group.send_many([b"to both"], to=[group.me, str(theirs.me)])
        assert [(await next_message(theirs)).data for _ in range(2)] == [b"to you", b"to both"]
        mine = []
        while b"to both" not in mine:
            mine.append((await next_message(group)).data)
        assert mine[-2:] == [b"to me", b"to both"]

    play(kind, scenario)


@both
def test_what_is_refused(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        group = await site.join("x")
        with pytest.raises(ValueError, match="service 'certain': one of fifo, causal, agreed, safe expected"):
            await group.send(b"", service="certain")
        with pytest.raises(ValueError, match="SITE:INCARNATION:NUMBER expected"):
            await group.send(b"", to=["nobody"])
        with pytest.raises(ValueError, match="process z:1:1: no such site in this cluster: a expected"):
            await group.send(b"", to=["z:1:1"])
        with pytest.raises(TypeError, match="a list of processes expected"):
            await group.send(b"", to=str(group.me))
        with pytest.raises(Rejected, match="nobody"):
            await group.send(b"", to=[])
        for bad in ("text", 5, None):
            with pytest.raises(TypeError, match="a message is bytes"):
                await group.send(bad)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="a message is bytes"):
                await group.send_many([b"", bad])  # type: ignore[list-item]
        with pytest.raises(Rejected, match="bytes"):
            await group.send(bytes(17 << 20))
        with pytest.raises(Rejected, match="already"):
            await site.join("x")
        with pytest.raises(ValueError, match="name"):
            await site.join("")
        await group.send(bytearray(b"fine"))
        assert (await next_message(group)).data == b"fine"

    play(kind, scenario)


@both
def test_many_messages_keep_their_order(kind: str) -> None:
    count = 30_000

    async def scenario(site: Site, other: Site) -> None:
        group, theirs = await site.join("x"), await other.join("x")

        async def read() -> list[bytes]:
            found: list[bytes] = []
            async for batch in theirs.batches():
                if isinstance(batch, Batch):
                    assert batch.sender == group.me
                    assert batch.first_id == next(batch.messages()).id
                    found += batch.payloads
                    if len(found) == count:
                        return found
            return found

        def payloads() -> Iterator[bytes]:
            for number in range(count):
                yield b"%d" % number

        reading = asyncio.create_task(read())
        drain = asyncio.create_task(_read_away(group))
        assert await group.send_many(payloads()) == count
        assert await reading == [b"%d" % number for number in range(count)]
        drain.cancel()

    play(kind, scenario)


async def _read_away(group: reconvene.Group) -> None:
    async for _ in group.batches():
        pass


@both
def test_message_by_message_and_batches_take_turns(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        group = await site.join("x")
        await group.send_many([b"%d" % number for number in range(10)])
        first = [(await next_message(group)).data for _ in range(3)]
        rest: list[bytes] = []
        async for batch in group.batches():
            if isinstance(batch, Batch):
                rest += batch.payloads
            if len(rest) == 7:
                break
        assert first + rest == [b"%d" % number for number in range(10)]

    play(kind, scenario)


@both
def test_one_that_only_sends_need_not_read(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        reader = await other.join("x")
        group = await site.join("x", receive=False)
        await group.send(b"1")
        assert (await next_message(reader)).data == b"1"
        with pytest.raises(RuntimeError, match="receive=False"):
            await group.next()
        await reader.leave()
        async with asyncio.timeout(10):
            while len(group.view.members) > 1:
                await asyncio.sleep(0.01)

    play(kind, scenario)


@both
def test_who_disagrees_on_the_filter_is_refused(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        await other.join("x", primary=True)
        with pytest.raises(Rejected, match="refused: group 'x' has the primary-component filter"):
            await site.join("x")
        await other.join("y")
        with pytest.raises(Rejected, match="refused: group 'y' has no filter"):
            await site.join("y", primary=True)
        await site.join("x", primary=True)

    play(kind, scenario)


@both
def test_waiting_can_be_given_up(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        group = await site.join("x")
        await group.next()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await group.next()
        await group.send(b"after")
        assert (await next_message(group)).data == b"after"
        reading = asyncio.create_task(group.next())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="one reader a group"):
            await group.next()
        await group.leave()
        with pytest.raises(Unavailable, match="left it"):
            await reading

    play(kind, scenario)


@both
def test_many_groups(kind: str) -> None:
    async def scenario(site: Site, other: Site) -> None:
        groups = await asyncio.gather(*(site.join(f"group {number}") for number in range(200)))
        await asyncio.gather(*(group.send(group.name.encode()) for group in groups))
        for group in groups:
            assert (await next_message(group)).data == group.name.encode()
        status = await site.status()
        assert status.group_count == 200

    play(kind, scenario)


def test_a_site_inside_the_program_can_not_be_stopped_from_inside() -> None:
    async def scenario(site: Site, other: Site) -> None:
        with pytest.raises(Rejected, match="it ends with the block that opened it"):
            await site.stop()
        with pytest.raises(Rejected, match="does not allow faults"):
            await site.block(["a"], [])

    play("open", scenario)


def test_groups_end_with_their_site() -> None:
    async def scenario() -> None:
        async with two_processes("open") as (site, _):
            group = await site.join("x")
            reading = asyncio.create_task(_all(group))
            await asyncio.sleep(0.01)
        assert len(await reading) == 1

    asyncio.run(scenario())


async def _all(group: reconvene.Group) -> list[reconvene.Event]:
    return [event async for event in group]


# -- backpressure and limits, before a made-up engine


def local(engine: FakeEngine, limits: Limits | None = None) -> Site:
    with short_dir() as directory:
        return Site(LocalLink(engine, cluster(directory, limits=limits)[0]))


def test_senders_wait_for_room() -> None:
    async def scenario() -> None:
        engine = FakeEngine(room=3)
        group = await local(engine).join("x")
        sending = asyncio.create_task(group.send_many([b"%d" % number for number in range(10)]))
        await asyncio.sleep(0.01)
        assert len(engine.sent) == 3
        assert not sending.done()
        single = asyncio.create_task(group.send(b"later"))
        engine.make_room(4)
        await asyncio.sleep(0.01)
        engine.make_room(100)
        assert await sending == 10
        await single
        assert [data for _, _, data, _ in engine.sent if data != b"later"] == [b"%d" % number for number in range(10)]

    asyncio.run(scenario())


def test_a_lone_send_does_not_wait() -> None:
    async def scenario() -> None:
        group = await local(FakeEngine()).join("x")
        sending = group.send(b"x")
        with pytest.raises(StopIteration):
            sending.send(None)

    asyncio.run(scenario())


def test_a_failure_tells_how_many_were_taken() -> None:
    async def scenario() -> None:
        engine = FakeEngine(room=3)
        group = await local(engine).join("x")
        sending = asyncio.create_task(group.send_many([b""] * 10))
        await asyncio.sleep(0.01)
        engine.make_room(-1)
        with pytest.raises(Unavailable) as failure:
            await sending
        assert failure.value.taken == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("limits", [Limits(inbox_messages=1_000), Limits(inbox_bytes=50_000)])
def test_a_reader_that_stands_still_is_cut_off_alone(limits: Limits) -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        site = local(engine, limits)
        idle, busy = await site.join("idle"), await site.join("busy")
        other = await local(engine).join("idle")
        received = 0
        for _ in range(50):
            await other.send_many([bytes(50)] * 40)
            await busy.send_many([bytes(50)] * 10)
            await asyncio.sleep(0)
            for batch in await busy.wait_and_drain():
                received += len(batch) if isinstance(batch, Batch) else 0
        assert received == 500
        await idle.next()
        with pytest.raises(Unavailable, match=r"group 'idle': .* waited unread, beyond the limit of .*: this"):
            await idle.next()
        assert [str(member) for member in engine_members(engine, "idle")] == [str(other.me)]
        with pytest.raises(Unavailable):
            await idle.send(b"")

    asyncio.run(scenario())


def engine_members(engine: FakeEngine, group: str) -> list[Process]:
    return [Process("a", access.process.incarnation, access.process.number) for _, access in engine.members[group]]


def test_the_limit_holds_for_a_client_too() -> None:
    async def scenario() -> None:
        async with (
            serving() as serves,
            reconvene.connect(serves.unix, inbox_messages=100) as site,
            reconvene.connect(serves.unix) as other,
        ):
            idle, group = await site.join("x"), await other.join("x")
            await group.send_many([b""] * 1_000)
            with pytest.raises(Unavailable, match="this process was cut off"):
                await _read_slowly(idle)
            async with asyncio.timeout(10):
                async for event in group:
                    if isinstance(event, View) and event.left:
                        return

    asyncio.run(scenario())


async def _read_slowly(group: reconvene.Group) -> None:
    async for _ in group:
        await asyncio.sleep(0.001)


def test_nothing_is_left_counted_when_all_is_read() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        with short_dir() as directory:
            link = LocalLink(engine, cluster(directory)[0])
        group = await Site(link).join("x")
        gone = await Site(link).join("y")
        await group.send_many([bytes(100)] * 5_000)
        await gone.send_many([bytes(100)] * 5_000)
        await asyncio.sleep(0)
        inboxes: Inboxes = link.inboxes
        assert inboxes.messages >= 10_000
        await group.wait_and_drain()
        await gone.leave()
        await asyncio.sleep(0.01)
        assert (inboxes.bytes, inboxes.messages) == (0, 0)
        assert sum(len(batch) for batch in await gone.wait_and_drain() if isinstance(batch, Batch)) == 5_000

    asyncio.run(scenario())


def test_processes_are_written_as_people_write_them() -> None:
    process = Process.parse("a:1:7")
    assert process == Process("a", 1, 7)
    assert str(process) == "a:1:7"
    for bad in ("", "a", "a:1", "a:1:", ":1:7", "a:x:7", "a:1:" + "9" * 30):
        with pytest.raises(ValueError, match="SITE:INCARNATION:NUMBER"):
            Process.parse(bad)
