"""Sends datagrams that are longer than a packet as trains (`wire.trains`), where the kernel can.

Linux cuts what one `sendmsg` was given into datagrams of equal size (UDP_SEGMENT), and joins received ones of one
sender (UDP_GRO). Both need no privileges. Without the first, frames fit a packet, as without trains. Without the
second, segments are read one by one.
"""

import errno
import logging
import os
import socket
import sys
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from reconvene.core.multicast.window import weight
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import INFO, WARNING, event
from reconvene.runtime.net.path import FRAME_BYTES, frame_header_bytes, headers_bytes, narrowest
from reconvene.runtime.net.refusals import Source
from reconvene.runtime.net.train_length import TrainLength
from reconvene.wire.seal import HEADER_BYTES, SEAL_BYTES
from reconvene.wire.trains import MOST_SEGMENTS, SEGMENT_HEADER_BYTES, cut

__all__ = ["ANCILLARY_BYTES", "Trains", "Unsent", "choose_trains", "join_runs", "run_size"]

# Linux; Python has no names for these.
_SOL_UDP = 17
_UDP_SEGMENT, _UDP_GRO = 103, 104
_size = Struct("=H")
_run_size = Struct("=i")
ANCILLARY_BYTES = socket.CMSG_SPACE(_run_size.size)
"""Room for the size of received segments."""

_CANNOT = {errno.EINVAL, errno.EIO, errno.EMSGSIZE, errno.ENOPROTOOPT, errno.EOPNOTSUPP}
"""The kernel can't send trains on this path: IPsec, a path that became narrower, an old driver."""
_WINDOW = 9, 10
_TRAINS_OF_A_SITE = 2
"""So many of the longest trains of every site fit into the window together."""

Unsent = list[tuple[Source, int, OSError]]
"""Address, bytes and error of what the kernel did not take."""


def run_size(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    """The size of each datagram, where the kernel has joined several; 0: it has not."""
    for level, kind, data in ancillary:
        if level == _SOL_UDP and kind == _UDP_GRO and len(data) == _run_size.size:
            return int(_run_size.unpack(data)[0])
    return 0


def join_runs(sock: socket.socket) -> bool:
    """Has the kernel join received datagrams of one size and sender. Returns whether it can."""
    return _can(sock, _UDP_GRO, 1)


def _can(sock: socket.socket, option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(_SOL_UDP, option, value)
    except OSError:
        return False
    return True


class _Sizes(NamedTuple):
    room: int
    """Bytes of a datagram that a segment holds."""
    packets: int
    """Of the longest train."""
    overhead: int
    """What a sealed frame has besides its messages."""


def _sizes(config: Config, mtu: int, family: socket.AddressFamily, buffer_bytes: int) -> _Sizes:
    room = mtu - headers_bytes(family) - SEGMENT_HEADER_BYTES
    fitting = buffer_bytes * _WINDOW[0] // _WINDOW[1] // (_TRAINS_OF_A_SITE * len(config.sites))
    overhead = frame_header_bytes(len(config.sites)) + (HEADER_BYTES if config.seal.insecure else SEAL_BYTES)
    return _Sizes(room, min(MOST_SEGMENTS, fitting // weight(room)), overhead)


def choose_trains(
    config: Config,
    others: Sequence[Source],
    sock: socket.socket,
    packet_bytes: int,
    buffer_bytes: int,
    log: logging.Logger,
) -> "Trains | None":
    """None: the configuration or the kernel wants none, or a frame of the largest size fits one packet.
    `packet_bytes`: the messages of a frame that fits one. `buffer_bytes`: the receive buffer."""
    if not config.transport.trains or config.transport.frame_bytes:
        return None
    if not _can(sock, _UDP_SEGMENT, 0):
        event(log, INFO, "no_trains", why="this kernel has no UDP_SEGMENT: frames fit a packet")
        return None
    sizes = _sizes(config, narrowest(others, sock.family), sock.family, buffer_bytes)
    frame_bytes = min(FRAME_BYTES, sizes.packets * sizes.room - sizes.overhead)
    if frame_bytes < 2 * packet_bytes:
        return None
    return Trains(sock, sizes, packet_bytes, frame_bytes, log)


class Trains:
    def __init__(
        self, sock: socket.socket, sizes: _Sizes, packet_bytes: int, frame_bytes: int, log: logging.Logger
    ) -> None:
        self._socket = sock
        self._room, most, self._overhead = sizes
        self._packet_bytes = packet_bytes
        self.frame_bytes = frame_bytes
        """Messages of the largest frame."""
        self._log = log
        self._number = int.from_bytes(os.urandom(4))
        self._length = TrainLength(most)
        self._ancillary = [(_SOL_UDP, _UDP_SEGMENT, _size.pack(self._room + SEGMENT_HEADER_BYTES))]
        self._cannot = False
        self.longer_than = self._room + SEGMENT_HEADER_BYTES
        """Sealed datagrams that are longer don't fit a packet."""
        self.counted_from = self.longer_than // 2
        """Sealed datagrams from this length on count for `adapt`."""
        self.sent = 0
        """Trains, for each destination."""
        self.segments = 0

    def adapt(self, sent: int, resent: int) -> int:
        """The messages of a frame, from now on: see `train_length`."""
        if self._cannot:
            return self._packet_bytes
        self._length.observe(sent, resent)
        packets = self._length.packets
        return self._packet_bytes if packets == 1 else min(self.frame_bytes, packets * self._room - self._overhead)

    def send(self, packet: bytes, addresses: Sequence[Source]) -> Unsent | None:
        """Returns what was not sent. None: it is too long for a train."""
        train = cut(packet, self._number, self._room)
        if train is None:
            return None
        self._number = (self._number + 1) & 0xFFFFFFFF
        unsent: Unsent = []
        for address in addresses:
            for _ in range(self._length.copies):
                self._send(train, address, unsent)
            self.sent += 1
        return unsent

    def _send(self, train: bytes, address: Source, unsent: Unsent) -> None:
        size = self.longer_than
        self.segments += -(-len(train) // size)
        try:
            if not self._cannot:
                self._socket.sendmsg((train,), self._ancillary, 0, address)
                return
        except OSError as error:
            if error.errno not in _CANNOT:
                unsent.append((address, len(train), error))
                return
            self._cannot = True
            why = f"the system refuses trains ({error.strerror}): frames fit a packet from now on"
            event(self._log, WARNING, "no_trains", why=why)
        # Segments are datagrams: what is on the way as a train already still arrives.
        for at in range(0, len(train), size):
            try:
                self._socket.sendto(train[at : at + size], address)
            except OSError as error:
                unsent.append((address, len(train) - at, error))
                return
