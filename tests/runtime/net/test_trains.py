"""Trains on real sockets: the loopback passes for a path with an MTU of 1,500."""

import asyncio
import errno
import random
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.net.transports import Net, Node, drops, run, until

from reconvene.runtime.config.settings import Seal, TransportSettings
from reconvene.runtime.net import path, trains
from reconvene.runtime.net.train_length import LEAST_SENT
from reconvene.wire import seal
from reconvene.wire.trains import AGE_S, PARTIAL_TRAINS, SEGMENT_HEADER_BYTES, SEGMENT_MARK, cut

DATA = [random.Random(n).randbytes(length) for n, length in enumerate((100, 1_400, 1_460, 2_000, 9_000, 60_000))]
LONG = sum(len(data) > 1_450 for data in DATA)


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path, "path_mtu", lambda address, family: 1_500)


async def exchange(a: Node, *others: Node) -> None:
    """a sends, in the order of the nodes; all of it arrives, whole and in order."""
    before = [len(other.got) for other in others]
    a.udp.send([(tuple(range(1, 1 + len(others))), data) for data in DATA])
    for other, count in zip(others, before, strict=True):
        await until(lambda: len(other.got) - count == len(DATA), "for trains")  # noqa: B023
        assert other.got[count:] == DATA


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("runs", ["joined by the kernel", "one by one"])
@pytest.mark.parametrize("sealed", [True, False])
def test_trains_arrive_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: str, runs: str, sealed: bool
) -> None:
    if runs == "one by one":
        refuse(monkeypatch, trains._UDP_GRO)

    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            a, b, c = await net.up(**({} if sealed else {"seal": Seal(insecure=True)}))
            if not sealed:
                for node, others in ((b, (0, 2)), (c, (0, 1))):
                    node.udp.send([(others, b"hello")])
                await until(lambda: len(a.got) == 2)
            await exchange(a, b, c)
            assert a.count("sent_trains") == 2 * LONG
            assert b.count("received_trains") == c.count("received_trains") == LONG
            assert a.count("sent_segments") == 2 * b.count("received_segments") > 2 * 40
            assert [drops(node) for node in (a, b, c)] == [{}, {}, {}]
            assert b.udp._joiner.held == 0

    run(work(), loop)


def refuse(monkeypatch: pytest.MonkeyPatch, option: int) -> None:
    """A kernel without this option."""
    can = trains._can
    monkeypatch.setattr(trains, "_can", lambda sock, asked, value: asked != option and can(sock, asked, value))


def test_a_kernel_without_segmentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sends fits a packet, or goes in fragments. It joins the trains of others."""

    async def work() -> None:
        with Net.of(tmp_path) as net:
            with monkeypatch.context() as patch:
                refuse(patch, trains._UDP_SEGMENT)
                a = net.node("a")
            b = net.node("b")
            for node in (a, b):
                node.start()
            await until(lambda: a.knows(1) and b.knows(0))
            assert a.udp.frame_bytes == a.udp.packet_bytes < 1_400
            assert b.udp.frame_bytes == 60_000
            (line,) = a.lines.of("no_trains")
            assert "UDP_SEGMENT" in line["why"]
            await exchange(a, b)
            b.udp.send([((0,), data) for data in DATA])
            await until(lambda: a.got == DATA)
            assert (a.count("sent_trains"), a.count("received_trains")) == (0, LONG)

    run(work())


@pytest.mark.parametrize("error", [errno.EIO, errno.EINVAL, errno.EMSGSIZE])
def test_a_path_that_takes_no_trains(tmp_path: Path, error: int) -> None:
    """IPsec is one. The segments leave one by one, and frames fit a packet from then on."""

    class Refusing:
        def __init__(self, sock: socket.socket) -> None:
            self.sendto = sock.sendto

        def sendmsg(self, *arguments: Any) -> int:
            raise OSError(error, "refused")

    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            assert a.udp._trains is not None
            grow(a)
            assert a.udp.adapt((1,), 0) > a.udp.packet_bytes
            a.udp._trains._socket = Refusing(a.udp._socket)  # type: ignore[assignment]
            await exchange(a, b)
            assert len(a.lines.of("no_trains")) == 1
            grow(a)
            assert a.udp.adapt((1,), 0) == a.udp.packet_bytes
            assert drops(a) == drops(b) == {}

    run(work())


def grow(node: Node) -> None:
    """As if much had been sent, and nothing again."""
    node.udp._sent_large += LEAST_SENT
    node.udp.adapt((1,), 0)


def test_a_full_send_buffer_drops_a_train_and_counts_it(tmp_path: Path) -> None:
    class Full:
        def sendmsg(self, *arguments: Any) -> int:
            raise BlockingIOError(errno.EAGAIN, "full")

    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, _ = await net.up()
            assert a.udp._trains is not None
            a.udp._trains._socket = Full()  # type: ignore[assignment]
            a.udp.send([((1,), bytes(9_000))] * 3)
            assert drops(a) == {"dropped_send": 3}
            assert not a.lines.of("no_trains")

    run(work())


def test_a_site_of_an_older_version_gets_no_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            with monkeypatch.context() as patch:
                patch.setattr(seal, "MINOR", 1)
                c = net.node("c")
            a, b = net.node("a"), net.node("b")
            for node in (a, b, c):
                node.start()
            await until(lambda: a.knows(1, 2) and b.knows(0, 2) and c.knows(0, 1))
            for _ in range(8):
                grow(a)
            assert a.udp.adapt((1,), 0) == 60_000
            assert a.udp.adapt((1, 2), 0) == a.udp.packet_bytes, "a member can't join trains"
            await exchange(a, b, c)
            assert a.count("sent_trains") == 0
            a.udp.send([((1,), DATA[-1])])
            await until(lambda: b.got[-1] == DATA[-1] and len(b.got) == len(DATA) + 1)
            assert a.count("sent_trains") == 1

    run(work())


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up(transport=TransportSettings(trains=False))
            assert a.udp.frame_bytes == a.udp.packet_bytes
            await exchange(a, b)
            assert a.count("sent_trains") == 0

    run(work())


def test_a_size_that_is_set_stays(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up(transport=TransportSettings(frame_bytes=8_900))
            assert a.udp.frame_bytes == a.udp.packet_bytes == a.udp.adapt((1,), 0) == 8_900
            await exchange(a, b)
            assert a.count("sent_trains") == 0

    run(work())


def test_a_small_receive_buffer_means_short_trains(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a = net.node("a", transport=TransportSettings(receive_buffer_bytes=32_768))
            assert a.udp.packet_bytes < a.udp.frame_bytes < 65_536 * 9 // 10 // 4
            tiny = net.node("b", transport=TransportSettings(receive_buffer_bytes=4_096))
            assert tiny.udp.frame_bytes == tiny.udp.packet_bytes

    run(work())


def test_with_multicast_a_train_is_sent_once(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            group = ("239.255.77.77", net.sites["a"][1] ^ 1)
            a, b, c = await net.up(transport=TransportSettings(kind="multicast", group=group))
            await exchange(a, b, c)
            assert a.count("sent_trains") == LONG
            assert b.count("received_trains") == c.count("received_trains") == LONG

    run(work())


def test_strangers_segments_hold_a_bounded_amount_and_crash_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            chance = random.Random(7)
            for number in range(400):
                count = chance.choice((0, 1, 2, 41, 64, 200))
                head = bytes([SEGMENT_MARK, chance.choice((1, 1, 1, 2)), chance.randrange(70), count])
                net.throw(head + number.to_bytes(4) + bytes(chance.randrange(1_400)), b)
                if number % 20 == 0:
                    before = len(b.got)
                    a.udp.send([((1,), DATA[-1])])
                    await until(lambda: len(b.got) == before + 1)  # noqa: B023
                    assert b.got[-1] == DATA[-1]
            assert b.udp._joiner.held <= PARTIAL_TRAINS
            dropped = drops(b)
            assert set(dropped) == {"dropped_malformed", "dropped_version", "dropped_incomplete"}
            await until(lambda: b.udp._joiner.held == 0, "for what is old to be dropped", 3 * AGE_S)
            assert drops(b)["dropped_incomplete"] > dropped["dropped_incomplete"]

    run(work())


def test_a_forged_train_is_refused_by_its_seal(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            room = 1_400
            forged = bytearray(a.udp._sealer.seal(bytes(5_000)))
            forged[3_000] ^= 1
            train = cut(bytes(forged), 1, room)
            assert train is not None
            for at in range(0, len(train), room + SEGMENT_HEADER_BYTES):
                net.throw(train[at : at + room + SEGMENT_HEADER_BYTES], b)
            await until(lambda: drops(b) == {"dropped_bad_seal": 1})
            assert b.got == []

    run(work())


def test_plain_datagrams_that_the_kernel_has_joined(tmp_path: Path) -> None:
    """A sender may have the kernel cut what are datagrams of their own."""

    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            packets = [a.udp._sealer.seal(b"%d" % number * 50) for number in range(10)]
            size = len(packets[0])
            ancillary = [(trains._SOL_UDP, trains._UDP_SEGMENT, trains._size.pack(size))]
            a.udp._socket.sendmsg([b"".join(packets)], ancillary, 0, b.address)
            await until(lambda: len(b.got) == 10)
            assert b.got == [b"%d" % number * 50 for number in range(10)]
            await asyncio.sleep(0)

    run(work())
