"""Frame sizes that fit the path, buffers that the system caps, and multicast."""

import logging
import socket
import sys
from pathlib import Path

import msgspec
import pytest
from tests.ports import free_ports
from tests.runtime.net.transports import LOOPS, Lines, Net, drops, run, until

from reconvene.errors import Rejected
from reconvene.runtime.config.settings import TransportSettings
from reconvene.runtime.net import path
from reconvene.runtime.net.memory import keep_freed_memory
from reconvene.runtime.net.path import FRAME_BYTES, choose_frame_bytes, frame_header_bytes, path_mtu, set_buffers
from reconvene.wire.codec import DATAGRAM_BYTES, encode
from reconvene.wire.messages import Frame, Rebroadcast, Relay
from reconvene.wire.seal import SEAL_BYTES

linux = pytest.mark.skipif(sys.platform != "linux", reason="paths are asked of Linux")


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def log(lines: Lines) -> logging.Logger:
    made = logging.Logger("path", logging.DEBUG)
    made.addHandler(lines)
    return made


@linux
def test_the_loopback_carries_much() -> None:
    mtu = path_mtu(("127.0.0.1", 9), socket.AF_INET)
    assert mtu is not None
    assert mtu > 65_000


@pytest.mark.parametrize("sites", [2, 3, 8, 64])
def test_a_frame_with_its_header_and_seal_fits_the_packet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: logging.Logger, sites: int
) -> None:
    monkeypatch.setattr(path, "path_mtu", lambda address, family: 1_500)
    with Net.of(tmp_path, 2) as net:
        every = {f"s{number:02}": ("127.0.0.1", 7000 + number) for number in range(sites)}
        config = net.config("s00", sites=every)
        room = choose_frame_bytes(config, [("127.0.0.1", 9)], socket.AF_INET, log)
    acks = [entry for rank in range(1, sites) for entry in (rank, 2**32 - 1)]
    frame = Frame(
        2**62,
        63,
        2**32 - 1,
        2**62,
        acks,
        3,
        0,
        2**62,
        [bytes(room - 5)],
        2**62,
        2**62,
        2**62,
        [],
        [2**62] * 2,
        2**62,
        True,
    )
    for datagram in (frame, Relay(frame), Rebroadcast(2**62, frame)):
        assert len(encode(datagram)) + SEAL_BYTES + 28 <= 1_500
    assert room > (1_200 if sites <= 8 else 700)


def test_the_largest_frame_is_a_datagram() -> None:
    assert FRAME_BYTES + frame_header_bytes(64) + SEAL_BYTES <= DATAGRAM_BYTES


@pytest.mark.parametrize(("mtus", "least"), [([9_000, 1_500], 1_200), ([9_000], 8_700), ([None, 9_000], 8_700)])
def test_the_narrowest_path_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: logging.Logger, mtus: list[int | None], least: int
) -> None:
    given = iter(mtus)
    monkeypatch.setattr(path, "path_mtu", lambda address, family: next(given))
    with Net.of(tmp_path) as net:
        room = choose_frame_bytes(net.config("a"), [("127.0.0.1", 9)] * len(mtus), socket.AF_INET, log)
    assert least < room < least + 200


def test_no_path_yet_is_taken_for_a_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: logging.Logger
) -> None:
    monkeypatch.setattr(path, "path_mtu", lambda address, family: None)
    with Net.of(tmp_path) as net:
        assert 1_200 < choose_frame_bytes(net.config("a"), [("127.0.0.1", 9)], socket.AF_INET, log) < 1_400


def test_a_configured_size_beyond_the_path_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: logging.Logger, lines: Lines
) -> None:
    monkeypatch.setattr(path, "path_mtu", lambda address, family: 1_500)
    with Net.of(tmp_path) as net:

        def chosen(size: int) -> int:
            config = net.config("a", transport=TransportSettings(frame_bytes=size))
            return choose_frame_bytes(config, [("127.0.0.1", 9)], socket.AF_INET, log)

        assert chosen(1_000) == 1_000
        assert lines.lines == []
        assert chosen(60_000) == 60_000
        assert "(MTU 1500)" in lines.of("frames_beyond_path")[0]["why"]
        with pytest.raises(Rejected, match=r"transport\.frame_bytes"):
            chosen(65_000)


def test_buffers_are_checked_and_the_cap_is_told(log: logging.Logger, lines: Lines) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        held = set_buffers(sock, 8_192, 8_192, log)
        assert held == sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert lines.lines == []
        held = set_buffers(sock, 1 << 30, 8_192, log)
        assert held == sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        if held < 2 << 30:
            (line,) = lines.of("buffer_capped")
            assert line["key"] == "transport.receive_buffer_bytes"
            assert "net.core.rmem_max=1073741824" in line["why"]


def test_what_the_socket_holds_is_what_the_window_is_told(tmp_path: Path) -> None:
    with Net.of(tmp_path) as net:
        node = net.node("a", transport=TransportSettings(receive_buffer_bytes=65_536))
        assert node.udp.buffer_bytes == node.udp._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


@linux
def test_packets_may_be_cut_on_the_way(tmp_path: Path) -> None:
    with Net.of(tmp_path) as net:
        assert net.node("a").udp._socket.getsockopt(socket.IPPROTO_IP, path._IP_MTU_DISCOVER) == path._PMTUDISC_DONT


@linux
def test_freed_memory_stays() -> None:
    assert keep_freed_memory() is keep_freed_memory()


@pytest.mark.parametrize("loop", LOOPS)
def test_multicast(tmp_path: Path, loop: str) -> None:
    if not can_multicast():
        pytest.skip("this machine passes no multicast over its loopback")
    (port,) = free_ports(1)
    transport = TransportSettings(kind="multicast", group=("239.255.77.5", port))

    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            a, b, c = await net.up(transport=transport)
            before = a.count("sent_datagrams")
            a.udp.send([((1, 2), b"both %d" % number) for number in range(10)])
            await until(lambda: len(b.got) == len(c.got) == 10)
            assert a.count("sent_datagrams") == before + 10, "once each"
            await until(lambda: drops(a) == {"dropped_own": 10})
            assert a.lines.of("dropped_own") == []
            a.udp.send([((2,), b"one")])
            await until(lambda: len(c.got) == 11)
            a.udp.block(frozenset(), frozenset({1}))
            a.udp.send([((1, 2), b"not to b")])
            await until(lambda: len(c.got) == 12)
            assert len(b.got) == 10
            assert drops(b) == drops(c) == {}

    run(work(), loop)


@pytest.mark.parametrize("group", [("127.0.0.1", 7000), ("host", 7000), ("ff02::1", 7000)])
def test_what_is_no_group(tmp_path: Path, group: tuple[str, int]) -> None:
    with Net.of(tmp_path) as net:
        with pytest.raises(Rejected, match=r"^transport\.group: .*224\.0\.0\.0"):
            net.node("a", transport=TransportSettings(kind="multicast", group=group))
        with pytest.raises(Rejected, match=r"^transport\.group"):
            net.node("a", transport=msgspec.structs.replace(TransportSettings(), kind="multicast"))


def can_multicast() -> bool:
    """Whether a datagram to a multicast group on the loopback comes back."""
    own = socket.inet_aton("127.0.0.1")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        try:
            receiver.bind(("239.255.77.6", 0))
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.255.77.6") + own)
            receiver.settimeout(1)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
            sender.sendto(b"x", receiver.getsockname())
            return receiver.recv(10) == b"x"
        except OSError:
            return False
