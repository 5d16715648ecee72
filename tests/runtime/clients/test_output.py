"""What waits for a client that does not read: it comes in order once the client reads, and is one piece meanwhile."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
import uvloop
from tests.client.places import serving
from tests.client.raw import Raw

import reconvene
from reconvene.runtime.clients.output import ClientOutput
from reconvene.runtime.config.settings import Limits
from reconvene.wire.clients import Arrived, Done, Goodbye, Join, Ping, ToClient, Viewed, decode_from_site
from reconvene.wire.records import RecordReader

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
MANY = 3_000


class Transport:
    """Keeps what is written to it, as one of a client that does not read does."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: bytes | bytearray) -> None:
        self.writes.append(bytes(data))

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.writes))

    def is_closing(self) -> bool:
        return self.closing

    def read(self) -> list[ToClient]:
        """All of it, once more."""
        return [
            struct
            for record in RecordReader(1 << 20).feed(b"".join(self.writes))
            for struct in decode_from_site(record)
        ]


def goodbyes(numbers: range) -> list[ToClient]:
    return [Goodbye(str(number)) for number in numbers]


def with_output(
    scenario: Callable[[Transport, ClientOutput], None], limit_bytes: int = 1 << 20
) -> tuple[Transport, list[str]]:
    """Runs it; returns the transport, and what was said of an overflow."""
    transport, overflows = Transport(), list[str]()

    async def main() -> None:
        scenario(transport, ClientOutput(cast(asyncio.Transport, transport), limit_bytes, overflows.append))

    asyncio.run(main())
    return transport, overflows


def push(output: ClientOutput, numbers: range) -> None:
    for goodbye in goodbyes(numbers):
        output.push(goodbye)
        output.flush()


def test_what_waits_is_one_piece() -> None:
    def scenario(transport: Transport, output: ClientOutput) -> None:
        push(output, range(5))
        assert len(transport.writes) == 5
        output.pause()
        push(output, range(5, 100))
        assert len(transport.writes) == 5
        output.resume()
        assert len(transport.writes) == 6
        push(output, range(100, 102))
        assert len(transport.writes) == 8

    transport, overflows = with_output(scenario)
    assert transport.read() == goodbyes(range(102))
    assert not overflows


def test_what_waits_here_counts() -> None:
    def scenario(transport: Transport, output: ClientOutput) -> None:
        output.pause()
        push(output, range(100))
        assert transport.get_write_buffer_size() == 0

    _, overflows = with_output(scenario, limit_bytes=500)
    assert "bytes wait for it" in overflows[0]


def test_what_waits_is_handed_over_at_the_end() -> None:
    def scenario(transport: Transport, output: ClientOutput) -> None:
        output.pause()
        push(output, range(10))
        output.close()
        push(output, range(10, 20))

    transport, _ = with_output(scenario)
    assert transport.read() == goodbyes(range(10))


@pytest.mark.parametrize("closing", [True, False])
def test_what_waits_for_a_connection_that_is_cut_is_dropped(closing: bool) -> None:
    def scenario(transport: Transport, output: ClientOutput) -> None:
        output.pause()
        push(output, range(10))
        transport.closing = closing
        (output.close if closing else output.abort)()
        output.resume()

    transport, _ = with_output(scenario)
    assert not transport.writes


@LOOPS
def test_a_client_that_reads_again_gets_everything(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        async with serving(limits=Limits(inbox_bytes=8 << 20)) as serves:
            raw = await Raw.welcome(serves.unix)
            raw.send(Join(1, "x", False, True))
            await raw.expect(Viewed)
            (connection,) = serves.server._state.connections
            reading = cast(asyncio.ReadTransport, raw.writer.transport)
            reading.pause_reading()
            async with reconvene.connect(serves.unix) as site:
                group = await site.join("x", receive=False)
                for number in range(MANY):
                    await group.send(b"%d" % number + bytes(500))
                kept = connection._transport.get_write_buffer_size()  # type: ignore[attr-defined]
                assert 0 < kept < 200_000, "the rest is one piece"
                reading.resume_reading()
                arrived: list[bytes] = []
                while len(arrived) < MANY:
                    arrived += (await raw.expect(Arrived)).payloads
            assert [int(data[:-500]) for data in arrived] == list(range(MANY))
            raw.send(Ping(2))
            assert (await raw.expect(Done)).requests == [2]
            raw.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())
