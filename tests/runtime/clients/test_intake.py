"""A client that sends many requests at once delays neither the site nor other clients."""

import asyncio
import re
import time

import pytest
from tests.client.fake_engine import FakeEngine
from tests.client.places import serving
from tests.client.raw import Raw

import reconvene
from reconvene.errors import ReconveneError
from reconvene.runtime.config.settings import Clients
from reconvene.wire.clients import RECORD_STRUCTS, Done, Ping, Refused, Status, Told, encode
from reconvene.wire.records import frame


class Slow(FakeEngine):
    """A status takes a while, as it does with thousands of groups."""

    def status(self) -> dict[str, object]:
        time.sleep(0.002)
        return super().status()


async def longest_gap(work: "asyncio.Task[None]") -> float:
    """The longest time that the event loop was blocked until the work was done."""
    longest = 0.0
    while not work.done():
        before = time.monotonic()
        await asyncio.sleep(0)
        longest = max(longest, time.monotonic() - before)
    await work
    return longest


def test_however_it_is_asked_others_have_their_turn() -> None:
    async def scenario() -> None:
        async with serving(engine=Slow()) as serves:
            raw = await Raw.welcome(serves.unix)

            async def asks() -> None:
                raw.send(*map(Status, range(1, 301)))
                raw.write(b"".join(b"".join(frame(encode([Status(number)]))) for number in range(301, 601)))
                raw.send(Ping(601))
                assert [(await raw.expect(Told)).request for _ in range(600)] == list(range(1, 601))
                assert (await raw.expect(Done)).requests == [601]

            assert await longest_gap(asyncio.create_task(asks())) < 0.3
            raw.close()

    asyncio.run(scenario())


def test_a_record_of_too_many_small_requests_is_refused() -> None:
    async def scenario() -> None:
        async with serving() as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(*[Ping(1)] * (RECORD_STRUCTS + 1))
            assert f"<= {RECORD_STRUCTS}" in (await raw.expect(Refused)).reason
            assert await raw.ended()
            raw.close()

    asyncio.run(scenario())


def test_what_waits_when_a_client_is_gone_is_not_carried_out() -> None:
    async def scenario() -> None:
        async with serving(engine=Slow()) as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(*map(Status, range(1, 1_001)))
            await raw.expect(Told)
            (connection,) = serves.server._state.connections
            connection.abort()
            assert await raw.ended()
            raw.close()
            before = time.monotonic()
            await asyncio.sleep(0.05)
            assert time.monotonic() - before < 0.5

    asyncio.run(scenario())


def test_one_host_does_not_take_all_places() -> None:
    async def scenario() -> None:
        clients = Clients(tcp=("127.0.0.1", 0), connections=5, connections_by_host=2)
        async with serving(clients) as serves:
            strangers = [await Raw.connect(serves.tcp) for _ in range(2)]
            third = await Raw.connect(serves.tcp)
            assert "has 2 clients of 127.0.0.1, its limit for one host" in (await third.expect(Refused)).reason
            _, port = str(serves.tcp).rsplit(":", 1)
            _, writer = await asyncio.open_connection("127.0.0.1", int(port), local_addr=("127.0.0.2", 0))
            while len(serves.server._state.connections) < 3:
                await asyncio.sleep(0.01)
            for raw in (*strangers, third):
                raw.close()
            writer.close()

    asyncio.run(scenario())


def test_strangers_at_one_door_do_not_shut_the_other() -> None:
    async def scenario() -> None:
        async with serving(Clients(tcp=("127.0.0.1", 0), connections=2)) as serves:
            strangers = [await Raw.connect(serves.tcp) for _ in range(2)]
            third = await Raw.connect(serves.tcp)
            assert "has 2 clients, its limit" in (await third.expect(Refused)).reason
            async with reconvene.connect(serves.unix) as site:
                assert await site.health() == "primary"
            for raw in (*strangers, third):
                raw.close()

    asyncio.run(scenario())


def test_http_at_the_wrong_port_is_told_as_such() -> None:
    async def scenario() -> None:
        async with serving(Clients(tcp=("127.0.0.1", 0))) as serves:
            raw = await Raw.connect(serves.tcp)
            raw.writer.write(b"GET /health HTTP/1.1\r\n\r\n")
            assert "expected it at http.address" in (await raw.expect(Refused)).reason
            raw.close()

    asyncio.run(scenario())


def test_a_client_at_the_port_for_http_is_told_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            told = f"127.0.0.1:{port}: an answer in HTTP: this is a site's http.address; expected its clients.tcp"
            with pytest.raises(ReconveneError, match=re.escape(told)):
                async with reconvene.connect(f"127.0.0.1:{port}"):
                    pass

    asyncio.run(scenario())
