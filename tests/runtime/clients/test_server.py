"""Connections of clients: each refusal is one line at the client and one in the site's log."""

import asyncio
import os
import socket
import ssl
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop
from tests.client.fake_engine import FakeEngine
from tests.client.places import authority, certificate, cluster, serving, short_dir
from tests.client.raw import Raw, hello

import reconvene
from reconvene.errors import Malformed, OutcomeUnknown, Rejected, Unavailable
from reconvene.runtime.access.auth import tcp_endpoint
from reconvene.runtime.access.key_files import ClientKey, add_client_key
from reconvene.runtime.clients.group_requests import WINDOW_BYTES, WINDOW_REQUESTS
from reconvene.runtime.clients.server import ClientServer
from reconvene.runtime.config.settings import Clients, Limits, Tls
from reconvene.wire.clients import (
    HANDSHAKE_BYTES,
    MAJOR,
    MINOR,
    Arrived,
    Block,
    Challenge,
    Done,
    Failed,
    Goodbye,
    Health,
    Join,
    Joined,
    Leave,
    Ping,
    Proof,
    Proven,
    Refused,
    Send,
    Status,
    Told,
    Viewed,
    Welcome,
    encode,
)
from reconvene.wire.handshake import client_proof, session_seals, transcript
from reconvene.wire.records import frame

LOOPBACK = ("127.0.0.1", 0)
Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def keys_file(directory: Path) -> Path:
    path = directory / "clients.toml"
    for role in ("read", "append", "admin"):
        add_client_key(path, f"the-{role}", role)
    return path


# -- keys


@pytest.mark.parametrize("role", ["read", "append", "admin"])
def test_what_each_role_may_do(tmp_path: Path, role: str) -> None:
    async def scenario() -> None:
        path = keys_file(tmp_path)
        async with (
            serving(Clients(tcp=LOOPBACK, keys=path)) as serves,
            reconvene.connect(serves.tcp, key=path, key_name=f"the-{role}") as site,
        ):
            assert await site.health() == "primary"
            assert (await site.status()).name == "a"
            group = await site.join("x")
            if role == "read":
                with pytest.raises(Rejected, match="role append is needed to send, this client has read"):
                    await group.send(b"no")
                assert not serves.engine.sent
                assert "needed=append" in await serves.until("request refused")
            else:
                await group.send(b"yes")
            if role == "admin":
                await site.block(["b"], [])
                assert serves.engine.blocked == (frozenset({1}), frozenset())
                await site.stop()
                assert serves.stops == 1
                assert serves.log.of("faults injected")[0].startswith("faults injected: by=the-admin@127.0.0.1:")
                assert "incoming=['b'] outgoing=[]" in serves.log.of("faults injected")[0]
                assert serves.log.of("site stopped")[0].startswith("site stopped: by=the-admin@127.0.0.1:")
            else:
                with pytest.raises(Rejected, match="role admin is needed to inject faults"):
                    await site.block(["b"], [])
                with pytest.raises(Rejected, match="role admin is needed to stop the site"):
                    await site.stop()
                assert serves.engine.blocked is None
                assert not serves.stops
                assert not serves.log.of("faults injected")
                assert not serves.log.of("site stopped")
                assert serves.server.counters()["requests_refused"] == (3 if role == "read" else 2)

    asyncio.run(scenario())


def test_loopback_without_keys_is_append_and_the_unix_socket_is_admin() -> None:
    async def scenario() -> None:
        async with serving(Clients(tcp=LOOPBACK)) as serves:
            async with reconvene.connect(serves.tcp) as site:
                await (await site.join("x")).send(b"yes")
                with pytest.raises(Rejected, match="role admin"):
                    await site.stop()
            async with reconvene.connect(serves.unix) as site:
                await site.stop()
                assert serves.stops == 1
                who = f"unix:uid:{os.getuid()}:pid:{os.getpid()}"
                assert serves.log.of("site stopped") == [f"site stopped: by={who}"]

    asyncio.run(scenario())


def refused_key(tmp_path: Path, key: ClientKey | None) -> tuple[str, str]:
    """(the client's error, what the site logs)"""

    async def scenario() -> tuple[str, str]:
        async with serving(Clients(tcp=LOOPBACK, keys=keys_file(tmp_path))) as serves:
            with pytest.raises(Rejected) as refusal:
                async with reconvene.connect(serves.tcp, key=key):
                    pass
            assert not serves.engine.accesses
            return str(refusal.value), await serves.until("client refused")

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (None, "site a requires a client key, and the client has none"),
        (ClientKey("nobody", bytes(32), "admin"), "client key 'nobody' is unknown to site a, or differs there"),
        (ClientKey("the-admin", bytes(32), "admin"), "client key 'the-admin' is unknown to site a, or differs there"),
    ],
)
def test_who_has_no_key_stays_out(tmp_path: Path, key: ClientKey | None, why: str) -> None:
    told, logged = refused_key(tmp_path, key)
    assert told.endswith(why)
    assert "\n" not in told
    assert f"why={why}" in logged


def test_a_key_where_none_is_asked_for() -> None:
    """The key's owner expects a site that proves that it holds the key."""

    async def scenario() -> None:
        async with serving(Clients(tcp=LOOPBACK)) as serves:
            with pytest.raises(Rejected, match="site a has no client keys: connect without one"):
                async with reconvene.connect(serves.tcp, key=ClientKey("x", bytes(32), "read")):
                    pass
            assert "no client keys" in await serves.until("client refused")

    asyncio.run(scenario())


def test_a_site_that_does_not_hold_the_key_is_refused() -> None:
    """By the client: the site that answers at the address has to prove that it holds the key, too."""

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = Raw(reader, writer)
        raw.write(b"".join(frame(encode([Challenge(MAJOR, MINOR, "test", "a", bytes(32))]))))
        await reader.read(100)
        raw.write(b"".join(frame(encode([Proven(bytes(32))]))))
        await reader.read()
        writer.close()

    async def lax(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        welcome = Welcome(MAJOR, MINOR, "test", "a", ["a"], (0, 1, 1), "admin", 1 << 20, 10, 1 << 20)
        writer.write(b"".join(frame(encode([welcome]))))
        await reader.read()
        writer.close()

    async def scenario() -> None:
        key = ClientKey("x", bytes(32), "admin")
        for answers, why in ((impostor, "does not prove that it holds"), (lax, "lets everyone in")):
            server = await asyncio.start_server(answers, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(Rejected, match=why):
                async with reconvene.connect(f"127.0.0.1:{port}", key=key):
                    pass
            server.close()
            await asyncio.sleep(0.01)

    asyncio.run(scenario())


async def sealed(address: str, key: ClientKey) -> tuple[Raw, bytes]:
    """A client past its handshake; also returns its last record before the Welcome."""
    raw = await Raw.connect(address)
    said_hello = hello(key.name)
    raw.send(said_hello)
    challenge = await raw.expect(Challenge)
    said = transcript(said_hello, challenge, tls=False)
    proof = Proof(client_proof(key.key, said))
    raw.send(proof)
    await raw.expect(Proven)
    raw.seal, raw.opener = session_seals(key.key, said)
    await raw.expect(Welcome)
    return raw, encode([proof])


def test_nothing_travels_readable_under_a_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        key = add_client_key(tmp_path / "keys", "x", "append")
        async with serving(Clients(tcp=LOOPBACK, keys=tmp_path / "keys")) as serves:
            seen = bytearray()

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                assert serves.server.tcp is not None
                there = await asyncio.open_connection(*serves.server.tcp)

                async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                    while data := await source.read(1 << 16):
                        seen.extend(data)
                        sink.write(data)
                    sink.close()

                await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))

            server = await asyncio.start_server(relay, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            async with reconvene.connect(f"127.0.0.1:{port}", key=key) as site:
                group = await site.join("a-secret-group")
                await group.send(b"a secret message")
                while not isinstance(await group.next(), reconvene.Message):
                    pass
            server.close()
            await asyncio.sleep(0.01)
            assert len(seen) > 400
            assert b"secret" not in seen
            assert key.key not in seen

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["changed", "repeated", "left out"])
def test_a_record_that_was_tampered_with_ends_the_connection(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        key = add_client_key(tmp_path / "keys", "x", "append")
        async with serving(Clients(tcp=LOOPBACK, keys=tmp_path / "keys")) as serves:
            raw, _ = await sealed(serves.tcp, key)
            assert raw.seal is not None
            record = raw.seal.seal(encode([Health(1)]))
            if how == "changed":
                raw.write(b"".join(frame(bytes([record[0] ^ 1]) + record[1:])))
            elif how == "repeated":
                raw.write(b"".join(frame(record)))
                assert (await raw.expect(Told)).document == "primary"
                raw.write(b"".join(frame(record)))
            else:
                raw.write(b"".join(frame(raw.seal.seal(encode([Health(2)])))))
            assert await raw.ended()
            assert "seal does not hold" in await serves.until("client refused")
            raw.close()

    asyncio.run(scenario())


def test_an_old_proof_opens_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        key = add_client_key(tmp_path / "keys", "x", "append")
        async with serving(Clients(tcp=LOOPBACK, keys=tmp_path / "keys")) as serves:
            first, proof = await sealed(serves.tcp, key)
            again = await Raw.connect(serves.tcp)
            again.send(hello(key.name))
            await again.expect(Challenge)
            again.write(b"".join(frame(proof)))
            assert "differs there" in (await again.expect(Refused)).reason
            first.close()
            again.close()

    asyncio.run(scenario())


def test_keys_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "keys"
        old = add_client_key(path, "x", "append")
        async with (
            serving(Clients(tcp=LOOPBACK, keys=path)) as serves,
            reconvene.connect(serves.tcp, key=old) as site,
        ):
            new = add_client_key(path, "x", "append", force=True)
            serves.server.reload_keys()
            assert await site.health() == "primary", "a connected client stays connected"
            async with reconvene.connect(serves.tcp, key=new):
                pass
            with pytest.raises(Rejected, match="differs there"):
                async with reconvene.connect(serves.tcp, key=old):
                    pass
            path.write_text("nonsense")
            with pytest.raises(Malformed):
                serves.server.reload_keys()
            async with reconvene.connect(serves.tcp, key=new):
                pass

    asyncio.run(scenario())


# -- versions


def test_another_major_version_is_refused_and_another_minor_is_not() -> None:
    async def scenario() -> None:
        async with serving() as serves:
            raw = await Raw.connect(serves.unix)
            raw.send(hello(major=MAJOR + 1))
            refused = await raw.expect(Refused)
            assert f"version {MAJOR + 1}.{MINOR} of the client protocol, site a {MAJOR}.{MINOR}" in refused.reason
            assert refused.kind == "rejected"
            assert "the first number must be the same" in await serves.until("client refused")
            assert serves.server.counters()["clients_refused_version"] == 1
            later = await Raw.connect(serves.unix)
            later.send(hello(minor=MINOR + 1))
            await later.expect(Welcome)
            raw.close()
            later.close()

    asyncio.run(scenario())


def test_a_client_of_a_site_of_another_major_version() -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        welcome = Welcome(MAJOR + 1, 0, "test", "a", ["a"], (0, 1, 1), "admin", 1 << 20, 10, 1 << 20)
        writer.write(b"".join(frame(encode([welcome]))))
        await reader.read()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(stranger, "127.0.0.1", 0)
        with pytest.raises(Rejected, match=rf"site a speaks version {MAJOR + 1}\.0"):
            async with reconvene.connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}"):
                pass
        server.close()
        await asyncio.sleep(0.01)

    asyncio.run(scenario())


# -- strangers


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request came to a port for clients"),
        (b"LONG", "record of 1280265799 bytes"),
        (b"\0\0\0\0", "record of 0 bytes"),
        ((HANDSHAKE_BYTES + 1).to_bytes(4, "big"), f"1 to {HANDSHAKE_BYTES} expected"),
        (b"\0\0\0\3\xff\xff\xff", "Expected"),
        (b"\0\0\0\1\xc1", "MessagePack data is malformed"),
        (b"".join(frame(encode([Status(1)]))), "a request before the handshake"),
        (b"".join(frame(encode([Proof(bytes(32))]))), "a proof that was not asked for"),
        (b"".join(frame(encode([hello(), hello()]))), "a second handshake"),
    ],
)
def test_nonsense_is_refused(said: bytes, why: str) -> None:
    async def scenario() -> None:
        async with serving() as serves:
            raw = await Raw.connect(serves.unix)
            raw.write(said)
            assert why in (await raw.expect(Refused)).reason
            assert await raw.ended()
            assert why in await serves.until("client refused")
            assert serves.server.counters()["clients_refused_protocol"] == 1
            assert serves.server.connections == 0
            async with reconvene.connect(serves.unix) as site:
                assert await site.health() == "primary"
            raw.close()

    asyncio.run(scenario())


def test_a_silent_stranger_is_cut_off() -> None:
    async def scenario() -> None:
        async with serving(Clients(handshake_ns=50_000_000)) as serves:
            raw = await Raw.connect(serves.unix)
            assert (await raw.expect(Refused)).reason == "the handshake took too long"
            assert "took too long" in await serves.until("client refused")
            assert serves.server.counters()["clients_refused_late"] == 1
            raw.close()

    asyncio.run(scenario())


def test_no_more_connections_than_configured() -> None:
    async def scenario() -> None:
        async with serving(Clients(connections=1)) as serves, reconvene.connect(serves.unix):
            with pytest.raises(Unavailable, match="site a has 1 clients, its limit"):
                async with reconvene.connect(serves.unix):
                    pass
            assert "its limit" in await serves.until("client refused")
            assert serves.server.counters()["clients_refused_limit"] == 1

    asyncio.run(scenario())


def test_a_client_can_not_speak_for_another() -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            raw = await Raw.welcome(serves.unix)
            raw.send(Send(1, 1, 2, [b"forged"]), Leave(2, 1))
            failures = [await raw.expect(Failed), await raw.expect(Failed)]
            assert {failure.reason for failure in failures} == {"this client has no membership 1"}
            await group.send(b"still here")
            assert [data for _, _, data, _ in serves.engine.sent] == [b"still here"]
            raw.close()

    asyncio.run(scenario())


# -- requests


def test_answers_and_pushes() -> None:
    async def scenario() -> None:
        async with serving() as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, True))
            membership = (await raw.expect(Joined)).membership
            assert (await raw.expect(Viewed)).members == [(0, 1, 1)]
            raw.send(Send(2, membership, 3, [b"1", b"2"]), Ping(3), Send(4, membership, 0, [b"3"], [(0, 1, 1)]))
            answered = {number for _ in range(1) for number in (await raw.expect(Done)).requests}
            assert answered == {2, 3, 4}
            raw.send(Send(5, membership, 2, [b"4"]))
            assert (await raw.expect(Arrived)).payloads == [b"4"]
            raw.send(Leave(6, membership), Send(7, membership, 2, [b"5"]))
            failed = await raw.expect(Failed)
            assert (failed.request, failed.kind) == (7, "rejected")
            raw.send(Join(8, "", False, True))
            assert (await raw.expect(Failed)).reason == "a group has a name"
            raw.send(Block(9, ["z"], []))
            assert "no site 'z' in this cluster: a, b expected" in (await raw.expect(Failed)).reason
            raw.close()

    asyncio.run(scenario())


def test_a_process_that_only_sends_is_not_told_of_messages() -> None:
    async def scenario() -> None:
        async with serving() as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, False))
            membership = (await raw.expect(Joined)).membership
            raw.send(Send(2, membership, 2, [b"1"]))
            seen = [await raw.next(), await raw.next()]
            raw.send(Health(3))
            seen.append(await raw.next())
            assert not [struct for struct in seen if isinstance(struct, Arrived)]
            raw.close()

    asyncio.run(scenario())


def test_a_full_site_answers_sends_when_it_has_room_and_everything_else_at_once() -> None:
    async def scenario() -> None:
        engine = FakeEngine(room=3)
        async with serving(engine=engine) as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, False))
            membership = (await raw.expect(Joined)).membership
            raw.send(Send(2, membership, 2, [b"1", b"2", b"3", b"4", b"5"]), Send(3, membership, 2, [b"6"]))
            raw.send(Leave(4, membership), Health(5))
            assert (await raw.expect(Told)).request == 5
            assert len(engine.sent) == 3
            engine.make_room(100)
            numbers: list[int] = []
            while 4 not in numbers:
                numbers += (await raw.expect(Done)).requests
            assert numbers == [2, 3, 4]
            assert [data for _, _, data, _ in engine.sent] == [b"1", b"2", b"3", b"4", b"5", b"6"]
            raw.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("size", "count"), [(1, WINDOW_REQUESTS + 2), (1 << 20, WINDOW_BYTES // (1 << 20) + 2)])
def test_more_than_the_window_is_refused(size: int, count: int) -> None:
    async def scenario() -> None:
        async with serving(engine=FakeEngine(room=0)) as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, False))
            membership = (await raw.expect(Joined)).membership
            for number in range(2, 2 + count):
                raw.send(Send(number, membership, 2, [bytes(size)]))
            assert "were sent unanswered" in (await raw.expect(Refused)).reason
            assert "were sent unanswered" in await serves.until("client refused")
            assert serves.engine.accesses[0].closed
            raw.close()

    asyncio.run(scenario())


def test_sends_that_wait_when_the_site_stops_fail() -> None:
    async def scenario() -> None:
        engine = FakeEngine(room=1)
        async with serving(engine=engine) as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, False))
            membership = (await raw.expect(Joined)).membership
            raw.send(Send(2, membership, 2, [b"1", b"2"]))
            await asyncio.sleep(0.01)
            engine.make_room(-1)
            failed = await raw.expect(Failed)
            assert (failed.request, failed.kind, failed.taken) == (2, "unavailable", 1)
            raw.close()

    asyncio.run(scenario())


# -- a client that does not read


@LOOPS
def test_a_client_that_never_reads_is_cut_off_and_others_go_on(loop: Loop) -> None:
    async def scenario() -> None:
        async with serving(limits=Limits(inbox_bytes=1 << 20)) as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, True))
            await raw.expect(Viewed)
            transport = raw.writer.transport
            cast(asyncio.ReadTransport, transport).pause_reading()
            async with reconvene.connect(serves.unix) as site:
                group = await site.join("x")
                received = 0
                for _ in range(200):
                    await group.send(bytes(20_000))
                    while not isinstance(await group.next(), reconvene.Message):
                        pass
                    received += 1
                assert received == 200
                assert "does not read" in await serves.until("client cut off")
                assert serves.engine.accesses[0].closed
                assert serves.server.counters()["clients_cut_off"] == 1
                assert group.view.members[-1] == group.me
            raw.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


@LOOPS
def test_a_client_that_dies_leaves_its_groups(loop: Loop) -> None:
    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix) as site:
            group = await site.join("x")
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, True))
            await raw.expect(Viewed)
            raw.writer.transport.abort()
            async for event in group:
                if isinstance(event, reconvene.View) and event.left:
                    assert [str(process) for process in event.left] == ["a:1:2"]
                    return

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


@LOOPS
def test_a_stopping_site_says_goodbye(loop: Loop) -> None:
    async def scenario() -> None:
        async with serving() as serves:
            raw = await Raw.welcome(serves.unix)
            await serves.server.close()
            assert (await raw.expect(Goodbye)).reason == "site a is stopping"
            assert await raw.ended()
            raw.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


# -- the Unix socket


def test_the_socket_has_the_configured_mode_and_goes_with_the_site() -> None:
    async def scenario() -> None:
        async with serving(Clients(unix_mode=0o640)) as serves:
            path = serves.config.dir / "site.sock"
            assert stat.S_IMODE(path.stat().st_mode) == 0o640
            await serves.server.close()
            assert not path.exists()

    asyncio.run(scenario())


def test_a_socket_that_a_killed_site_left_is_replaced_and_a_live_one_is_not() -> None:
    async def scenario() -> None:
        async with serving() as serves:
            second = ClientServer(FakeEngine(), serves.config, lambda: None)
            with pytest.raises(Unavailable, match="another site answers there"):
                await second.start()
            async with reconvene.connect(serves.unix) as site:
                assert await site.health() == "primary"
        with short_dir() as directory:
            (config,) = cluster(directory)
            config.dir.mkdir(exist_ok=True)
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(os.fspath(config.dir / "site.sock"))
            server = ClientServer(FakeEngine(), config, lambda: None)
            await server.start()
            async with reconvene.connect(config.dir / "site.sock") as site:
                assert await site.health() == "primary"
            await server.close()

    asyncio.run(scenario())


def test_a_path_too_long_for_a_socket_is_one_line(tmp_path: Path) -> None:
    (config,) = cluster(tmp_path / ("x" * 100))
    with pytest.raises(Unavailable, match=r"at most 107 bytes: set clients\.unix"):
        asyncio.run(ClientServer(FakeEngine(), config, lambda: None).start())


# -- TCP


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org"])
def test_tcp_beyond_loopback_needs_keys(tmp_path: Path, host: str) -> None:
    with pytest.raises(Rejected, match=r"is not loopback: set clients\.keys"):
        tcp_endpoint(Clients(tcp=(host, 7000)))
    assert tcp_endpoint(Clients(tcp=(host, 7000), keys=keys_file(tmp_path))).keys


def test_a_port_in_use_is_one_line() -> None:
    async def scenario() -> None:
        async with serving(Clients(tcp=LOOPBACK)) as serves:
            assert serves.server.tcp is not None
            with pytest.raises(Unavailable, match=r"clients\.tcp: 127\.0\.0\.1:\d+: in use"):
                async with serving(Clients(tcp=serves.server.tcp)):
                    pass

    asyncio.run(scenario())


# -- TLS


@LOOPS
def test_tls(tmp_path: Path, loop: Loop) -> None:
    ours, theirs = authority(tmp_path, "ours"), authority(tmp_path, "theirs")
    cert, key = certificate(tmp_path, ours, "site")

    async def scenario() -> None:
        keys = keys_file(tmp_path)
        tls = Tls(certificate=cert, key=key)
        async with serving(Clients(tcp=LOOPBACK, tls=tls, keys=keys)) as serves:
            async with reconvene.connect(serves.tcp, tls=ours.file, key=keys, key_name="the-append") as site:
                group = await site.join("x")
                await group.send(bytes(300_000))
                while not isinstance(await group.next(), reconvene.Message):
                    pass
            with pytest.raises(Rejected, match="the site's certificate does not hold"):
                async with reconvene.connect(serves.tcp, tls=theirs.file, key=keys, key_name="the-append"):
                    pass
            assert "tls: " in await serves.until("client refused")
            serves.log.lines.clear()
            with pytest.raises(Rejected, match="the client has none"):
                async with reconvene.connect(serves.tcp, tls=ours.file):
                    pass
            serves.log.lines.clear()
            with pytest.raises((Rejected, Unavailable)):
                async with reconvene.connect(serves.tcp, key=keys, key_name="the-append", timeout=2):
                    pass
            assert "tls: " in await serves.until("client refused")
            counts = serves.server.counters()
            assert (counts["clients_refused_tls"], counts["clients_refused_key"]) == (2, 1)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


@LOOPS
def test_certificates_read_again(tmp_path: Path, loop: Loop) -> None:
    old, new = authority(tmp_path, "old"), authority(tmp_path, "new")
    cert, key = certificate(tmp_path, old, "site", hours=1)

    async def scenario() -> None:
        tls = Tls(certificate=cert, key=key)
        async with (
            serving(Clients(tcp=LOOPBACK, tls=tls)) as serves,
            reconvene.connect(serves.tcp, tls=old.file) as site,
        ):
            assert serves.server.ends["clients.tls.certificate"] == pytest.approx(time.time() + 3600, abs=60)
            for old_file, file in zip((cert, key), certificate(tmp_path, new, "next", hours=48), strict=True):
                old_file.write_bytes(file.read_bytes())
            assert serves.server.reload_tls()
            assert serves.server.ends["clients.tls.certificate"] == pytest.approx(time.time() + 48 * 3600, abs=60)
            assert await site.health() == "primary", "a connected client stays connected"
            with pytest.raises(Rejected, match="certificate does not hold"):
                async with reconvene.connect(serves.tcp, tls=old.file):
                    pass
            async with reconvene.connect(serves.tcp, tls=new.file):
                pass
            cert.write_text("nonsense")
            with pytest.raises(Rejected):
                serves.server.reload_tls()
            async with reconvene.connect(serves.tcp, tls=new.file):
                pass

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


@LOOPS
def test_tls_with_certificates_of_clients(tmp_path: Path, loop: Loop) -> None:
    ours, theirs = authority(tmp_path, "ours"), authority(tmp_path, "theirs")
    cert, key = certificate(tmp_path, ours, "site")

    def context(shown: tuple[Path, Path] | None) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=ours.file)
        if shown is not None:
            made.load_cert_chain(*shown)
        return made

    async def scenario() -> None:
        tls = Tls(certificate=cert, key=key, client_ca=ours.file)
        async with serving(Clients(tcp=LOOPBACK, tls=tls)) as serves:
            async with reconvene.connect(serves.tcp, tls=context(certificate(tmp_path, ours, "client"))) as site:
                await (await site.join("x")).send(b"yes")
                with pytest.raises(Rejected, match="role admin"):
                    await site.stop()
            serves.log.lines.clear()
            for shown in (None, certificate(tmp_path, theirs, "stranger")):
                with pytest.raises((Rejected, Unavailable)) as refusal:
                    async with reconvene.connect(serves.tcp, tls=context(shown)):
                        pass
                assert "\n" not in str(refusal.value)
                assert "tls: " in await serves.until("client refused")
                serves.log.lines.clear()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


def test_a_certificate_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no certificate")
    with pytest.raises(Rejected, match="tls: "):
        tcp_endpoint(Clients(tcp=LOOPBACK, tls=Tls(certificate=tmp_path / "x", key=tmp_path / "y")))


def test_what_was_asked_when_the_connection_broke_is_unknown() -> None:
    """A stop or a fault may have been carried out; a status that was not answered has changed nothing."""

    async def scenario() -> None:
        async with serving() as serves, reconvene.connect(serves.unix, timeout=5) as site:
            connection = next(iter(serves.server._state.connections))
            serves.engine.block = lambda incoming, outgoing: connection.abort()  # type: ignore[method-assign]
            with pytest.raises(OutcomeUnknown):
                await site.block(["b"], ["b"])

    asyncio.run(scenario())
