"""A client whose connection breaks: what it is told, and how it goes on."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.client.fake_engine import FakeAccess, FakeEngine
from tests.client.places import Serving, serving
from tests.client.raw import Raw
from tests.ports import free_ports

import reconvene
from reconvene import Message, OutcomeUnknown, Rejoined, Service, Unavailable, View
from reconvene.client import channel as channels
from reconvene.client.addresses import Address, parse_addresses
from reconvene.runtime.clients import server as servers
from reconvene.runtime.config.settings import Clients
from reconvene.runtime.site.interface import Receiver


def abort_all(serves: object) -> None:
    for connection in list(serves.server._state.connections):  # type: ignore[attr-defined]
        connection.abort()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0.005)


def test_addresses() -> None:
    unix: list[str | Path] = ["unix:/run/x", "/run/x", "x.sock", Path("x")]
    given = [*unix, "tcp://h:1", "h:2", "tcp://[::1]:3", "[fd00::1]:4"]
    assert parse_addresses(given) == (
        *(Address("/run/x"), Address("/run/x"), Address("x.sock"), Address("x")),
        *(Address("", "h", 1), Address("", "h", 2), Address("", "::1", 3), Address("", "fd00::1", 4)),
    )
    assert [str(address) for address in parse_addresses(given[::6])] == ["unix:/run/x", "tcp://[::1]:3"]
    assert parse_addresses("h:1") == parse_addresses(["h:1"])
    for bad in ("", "unix:", "h", "h:", ":1", "h:99999", "tcp://", "a:b:1", "ftp:x", "http://h:1"):
        with pytest.raises(ValueError, match="HOST:PORT expected"):
            parse_addresses(bad)
    with pytest.raises(ValueError, match="at least one site"):
        parse_addresses([])


def test_a_refused_connection_is_called_so() -> None:
    async def main() -> None:
        async with reconvene.connect(f"127.0.0.1:{free_ports(1)[0]}"):
            pass

    with pytest.raises(Unavailable, match=r"tcp://127\.0\.0\.1:\d+: Connection refused"):
        asyncio.run(main())


def test_dead_addresses_are_passed_over() -> None:
    async def scenario() -> None:
        async with (
            serving() as serves,
            reconvene.connect(["unix:/nowhere/x.sock", "127.0.0.1:1", serves.unix]) as site,
        ):
            assert await site.health() == "primary"

    asyncio.run(scenario())


def test_where_nobody_answers_it_says_so_for_each_address_at_once() -> None:
    async def scenario() -> None:
        with pytest.raises(Unavailable) as failure:
            async with reconvene.connect(["unix:/nowhere/x.sock", "127.0.0.1:1"]):
                pass
        assert str(failure.value).startswith("unix:/nowhere/x.sock: No such file or directory; tcp://127.0.0.1:1: ")
        assert "\n" not in str(failure.value)

    asyncio.run(scenario())


def test_it_can_wait_for_a_site_that_starts(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            serves = await stack.enter_async_context(serving())
            await serves.server.close()

            async def connect() -> str:
                async with reconvene.connect(serves.unix, wait=30) as site:
                    return await site.health()

            connecting = asyncio.create_task(connect())
            await asyncio.sleep(0.05)
            await serves.server.start()
            assert await connecting == "primary"

    asyncio.run(scenario())


def test_a_mute_site_is_given_up() -> None:
    async def scenario() -> None:
        callers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda reader, writer: callers.append(writer), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match=r"no answer in 0\.05 s"):
            async with reconvene.connect(f"127.0.0.1:{port}", timeout=0.05):
                pass
        server.close()
        for caller in callers:
            caller.close()
        await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_a_lost_connection_is_made_again_and_groups_are_joined_again() -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            await group.send(b"before")
            before = group.me
            while not isinstance(await group.next(), Message):
                pass
            abort_all(serves)
            again = await group.next()
            assert isinstance(again, Rejoined)
            assert (again.was, again.me, again.site) == (before, group.me, "a")
            assert again.me != before
            view = await group.next()
            assert isinstance(view, View)
            assert group.me in view.joined
            assert before in view.left
            await group.send(b"after")
            message = await group.next()
            assert isinstance(message, Message)
            assert (message.data, message.sender) == (b"after", group.me)

    asyncio.run(scenario())


async def fails_over(site: reconvene.Site, first: Serving, second: Serving) -> None:
    group = await site.join("x")
    await first.server.close()
    while not isinstance(await group.next(), Rejoined):
        pass
    await group.send(b"there")
    assert [data for _, _, data, _ in second.engine.sent] == [b"there"]


def test_it_fails_over_to_the_next_site_of_the_same_cluster() -> None:
    async def scenario() -> None:
        async with (
            serving() as first,
            serving() as second,
            serving(engine=Elsewhere()) as foreign,
            reconvene.connect([first.unix, foreign.unix, second.unix]) as site,
        ):
            await fails_over(site, first, second)
            assert not foreign.engine.members

    asyncio.run(scenario())


def test_it_fails_over_to_a_site_that_knows_of_more_sites() -> None:
    async def scenario() -> None:
        async with (
            serving() as first,
            serving(engine=Later()) as second,
            reconvene.connect([first.unix, second.unix]) as site,
        ):
            await fails_over(site, first, second)

    asyncio.run(scenario())


class Elsewhere(FakeEngine):
    """Of a cluster with other sites."""

    names = ("a", "z")


class Later(FakeEngine):
    """Of the same cluster, whose list of sites has become longer."""

    names = ("a", "b", "c")


def test_what_was_sent_and_not_answered_is_unknown() -> None:
    async def scenario() -> None:
        engine = FakeEngine(room=2)
        async with serving(engine=engine) as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            many = asyncio.create_task(group.send_many([b"1", b"2", b"3"]))
            await until(lambda: len(engine.sent) == 2)
            one = asyncio.create_task(group.send(b"4"))
            await asyncio.sleep(0.02)
            abort_all(serves)
            for sending in (many, one):
                with pytest.raises(OutcomeUnknown, match="may or may not have been done"):
                    await sending
            engine.make_room(10)
            await group.send(b"5")
            assert [data for _, _, data, _ in engine.sent] == [b"1", b"2", b"5"]

    asyncio.run(scenario())


def test_what_is_sent_without_a_connection_waits_for_one_and_is_rejected_in_time() -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix, timeout=0.3) as site:
            group = await site.join("x")
            await serves.server.close()
            await asyncio.sleep(0.05)
            with pytest.raises(Unavailable, match=r"no connection in 0\.3 s: unix:"):
                await group.send(b"lost")
            with pytest.raises(Unavailable, match=r"no connection in 0\.3 s"):
                await site.status()
            await serves.server.start()
            await asyncio.sleep(0.1)
            async with asyncio.timeout(10):
                while True:
                    try:
                        await group.send(b"found")
                        break
                    except Unavailable:
                        continue
            assert [data for _, _, data, _ in serves.engine.sent] == [b"found"]

    asyncio.run(scenario())


def test_a_group_left_while_disconnected_stays_left() -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            await serves.server.close()
            await asyncio.sleep(0.02)
            await group.leave()
            assert len([event async for event in group]) == 1
            await serves.server.start()
            assert await site.health() == "primary"
            assert not serves.engine.members["x"]

    asyncio.run(scenario())


def test_a_group_that_can_not_be_joined_again_ends() -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            refuse_joins(serves.engine)
            abort_all(serves)
            with pytest.raises(Unavailable, match="group 'x': no more groups"):
                async for _ in group:
                    pass

    asyncio.run(scenario())


def refuse_joins(engine: FakeEngine) -> None:
    """Of processes that come from now on."""
    opening = engine.open

    def join(group: str, primary: bool, wide: bool = False) -> int:
        raise Unavailable("no more groups")

    def open_refusing(receiver: Receiver) -> FakeAccess:
        access = opening(receiver)
        access.join = join  # type: ignore[method-assign]
        return access

    engine.open = open_refusing  # type: ignore[method-assign]


def test_a_join_given_up_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        engine = FakeEngine()
        engine.view = lambda group: None  # type: ignore[method-assign]
        async with serving(engine=engine) as serves, reconvene.connect(serves.unix) as site:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await site.join("x")
            await until(lambda: not engine.members["x"])
            assert await site.health() == "primary"

    asyncio.run(scenario())


def test_sends_are_pipelined_within_the_window() -> None:
    """A full site holds back its senders, and nothing else."""

    async def scenario() -> None:
        engine = FakeEngine(room=0)
        async with serving(engine=engine) as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x", receive=False)
            taken = 0

            def endless() -> object:
                nonlocal taken
                while taken < 200_000:
                    taken += 1
                    yield bytes(1_000)

            sending = asyncio.create_task(group.send_many(endless()))  # type: ignore[arg-type]
            await asyncio.sleep(0.2)
            assert 4_000 < taken < 10_000
            assert await site.health() == "primary"
            engine.make_room(1_000_000)
            assert await sending == 200_000
            assert engine.counter == 200_000

    asyncio.run(scenario())


def test_a_site_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "HEARTBEAT_S", 0.05)

    async def scenario() -> None:
        async with serving(Clients(tcp=("127.0.0.1", 0))) as serves:
            assert serves.server.tcp is not None
            stuck = asyncio.Event()

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                assert serves.server.tcp is not None
                there = await asyncio.open_connection(*serves.server.tcp)

                async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                    while data := await source.read(1 << 16):
                        if stuck.is_set():
                            await asyncio.sleep(60)
                        sink.write(data)
                    sink.close()

                try:
                    await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))
                except asyncio.CancelledError:
                    writer.close()
                    there[1].close()

            server = await asyncio.start_server(relay, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            async with reconvene.connect([f"127.0.0.1:{port}", serves.tcp]) as site:
                group = await site.join("x")
                await asyncio.sleep(0.5)
                assert serves.engine.accesses[0].closed is False, "an idle connection is kept"
                stuck.set()
                while not isinstance(await group.next(), Rejoined):
                    pass
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0.05)

    asyncio.run(scenario())


def test_one_that_only_listens_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told things all the time, and has nothing to say."""
    monkeypatch.setattr(channels, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(servers, "SILENCE_S", 0.2)

    async def scenario() -> None:
        async with serving(Clients(tcp=("127.0.0.1", 0))) as serves, reconvene.connect(serves.tcp) as site:
            group = await site.join("x")
            for _ in range(60):
                serves.engine.deliver("x", serves.engine.accesses[0].process, Service.AGREED, [b"news"])
                await asyncio.sleep(0.01)
                await group.next()
            assert not serves.log.of("client cut off")

    asyncio.run(scenario())


def test_one_that_says_nothing_at_all_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "SILENCE_S", 0.1)

    async def scenario() -> None:
        async with serving(Clients(tcp=("127.0.0.1", 0))) as serves:
            raw = await Raw.welcome(serves.tcp)
            assert await raw.ended()
            assert "silent for" in await serves.until("client cut off")
            assert serves.engine.accesses[0].closed
            raw.close()

    asyncio.run(scenario())


def test_keys_from_a_file(tmp_path: Path) -> None:
    from reconvene.client.connecting import find_key
    from reconvene.runtime.access.key_files import add_client_key

    path = tmp_path / "keys"
    first = add_client_key(path, "one", "read")
    assert find_key(path, None) == find_key(str(path), "one") == find_key(first, None) == first
    assert find_key(None, None) is None
    add_client_key(path, "two", "read")
    with pytest.raises(ValueError, match="holds 2 keys: key_name expected, one of one, two"):
        find_key(path, None)
    with pytest.raises(ValueError, match="no key 'three' in it"):
        find_key(path, "three")
