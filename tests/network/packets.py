"""Packets in a network of namespaces: counted by the kernel, recorded, and sent with any source address."""

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import NamedTuple, TypeVar

from reconvene.lab.namespaces import Namespaces

__all__ = ["Recorder", "Thrower", "Wired", "inside", "kernel_counts"]

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_ETH_P_IP = 0x0800
_SO_RCVBUFFORCE = 33
_ip_header = Struct(">BBHHHBBH4s4s")
_udp_header = Struct(">HHHH")


class Wired(NamedTuple):
    """A UDP datagram as it was on the wire."""

    source: tuple[str, int]
    destination: tuple[str, int]
    data: bytes


def inside(network: Namespaces, place: int, work: Callable[[], T]) -> T:
    """Calls `work` inside a namespace and returns its result. A thread enters the namespace, and ends afterwards."""
    given: list[T] = []

    def go() -> None:
        handle = os.open(f"/run/netns/{network.names[place]}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None).setns(handle, _CLONE_NEWNET) == 0:
                given.append(work())
        finally:
            os.close(handle)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert given, f"no way into the namespace of site {place}"
    return given[0]


def kernel_counts(network: Namespaces, place: int) -> dict[str, int]:
    """The kernel's counters of a namespace since it was made, such as Udp:OutDatagrams."""
    tables = inside(
        network, place, lambda: [Path(f"/proc/thread-self/net/{table}").read_text() for table in ("netstat", "snmp")]
    )
    lines = [line.split() for line in "".join(tables).splitlines()]
    found: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        found.update({names[0] + name: int(value) for name, value in zip(names[1:], values[1:], strict=True)})
    return found


class Recorder:
    """Records all UDP datagrams that arrive at one site, as an attacker on its network could."""

    def __init__(self, network: Namespaces, place: int) -> None:
        self._socket = inside(
            network, place, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP))
        )
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 16 << 20)
        self._socket.setblocking(False)

    def take(self) -> list[Wired]:
        """The datagrams since the last call."""
        taken: list[Wired] = []
        while True:
            try:
                packet = self._socket.recv(1 << 16)
            except BlockingIOError:
                return taken
            first, _, _, _, fragment, _, protocol, _, source, destination = _ip_header.unpack_from(packet)
            at = 4 * (first & 0x0F)
            if protocol != socket.IPPROTO_UDP or fragment & 0x3FFF:
                continue
            source_port, port, length, _ = _udp_header.unpack_from(packet, at)
            data = packet[at + _udp_header.size : at + length]
            taken.append(Wired((socket.inet_ntoa(source), source_port), (socket.inet_ntoa(destination), port), data))

    def close(self) -> None:
        self._socket.close()


class Thrower:
    """Sends UDP from one place of the network with any source address."""

    def __init__(self, network: Namespaces, place: int) -> None:
        self._socket = inside(
            network, place, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        )

    def throw(self, packet: Wired) -> None:
        """Sends the datagram unchanged, its source address included."""
        source, destination, data = packet
        udp = _udp_header.pack(source[1], destination[1], _udp_header.size + len(data), 0)
        # The kernel fills in the length and the checksum.
        ip = _ip_header.pack(
            0x45, 0, 0, 0, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(source[0]), socket.inet_aton(destination[0])
        )
        self._socket.sendto(ip + udp + data, (destination[0], 0))

    def close(self) -> None:
        self._socket.close()
