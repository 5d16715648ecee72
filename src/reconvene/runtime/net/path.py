"""What lies between this site and the others: addresses, sockets, their buffers, and how much a packet carries."""

import errno
import logging
import socket
import sys
from collections.abc import Iterable

from reconvene.errors import Rejected, Unavailable
from reconvene.ids import MAX_SITES
from reconvene.runtime.config.settings import Address, Config
from reconvene.runtime.diagnostics.structured_logging import INFO, WARNING, event
from reconvene.runtime.net.refusals import Source, written
from reconvene.wire.codec import encode
from reconvene.wire.messages import Frame, Rebroadcast
from reconvene.wire.seal import HEADER_BYTES, SEAL_BYTES

__all__ = [
    "FRAME_BYTES",
    "bind",
    "choose_frame_bytes",
    "family_of",
    "frame_header_bytes",
    "join_group",
    "path_mtu",
    "resolve",
    "set_buffers",
]

FRAME_BYTES = 60_000
"""The largest frame: with its header and its seal it is still a datagram."""
_LEAST_FRAME_BYTES = 512
_USUAL_MTU = 1_500
_LOOPBACK_MTU = 65_536

# Linux; Python does not name these.
_IP_MTU_DISCOVER, _IP_MTU = 10, 14
_IPV6_MTU_DISCOVER, _IPV6_MTU = 23, 24
_PMTUDISC_DONT = 0


def family_of(config: Config) -> socket.AddressFamily:
    """Of this site's address; the others' must have one of the same."""
    name, (host, port) = config.name, config.sites[config.name]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        raise Rejected(f"sites.{name}: {host}: no such host") from None
    families = {entry[0] for entry in found}
    return socket.AF_INET if socket.AF_INET in families else socket.AF_INET6


def resolve(name: str, address: Address, family: socket.AddressFamily) -> Source:
    host, port = address
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        kind = "IPv6" if family == socket.AF_INET6 else "IPv4"
        raise Unavailable(f"sites.{name}: {host}: no {kind} address is known for it") from None
    return found[0][4]  # type: ignore[return-value]


def bind(name: str, address: Source, family: socket.AddressFamily) -> socket.socket:
    """A socket that does not block, bound to this site's address and no one else's."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.bind(address)
    except OSError as error:
        sock.close()
        where = f"sites.{name}: {written(address)}"
        if error.errno == errno.EADDRINUSE:
            raise Unavailable(f"{where}: in use by another process; is this site running already?") from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise Rejected(f"{where}: not an address of this machine") from None
        if error.errno == errno.EACCES:
            raise Rejected(f"{where}: this user may not receive on that port") from None
        raise Rejected(f"{where}: {error.strerror}") from None
    _let_fragment(sock, family)
    return sock


def join_group(group: Address, ttl: int, own: Source, sender: socket.socket) -> socket.socket:
    """A second socket, which receives what is sent to the group on the network of this site's address."""
    host = group[0]
    where = f"transport.group: {written(group)}"
    if sender.family != socket.AF_INET:
        raise Rejected(f"{where}: multicast works over IPv4 only")
    try:
        packed = socket.inet_aton(host)
    except OSError:
        raise Rejected(f"{where}: expected an IPv4 address from 224.0.0.0 to 239.255.255.255") from None
    if not 224 <= packed[0] <= 239:
        raise Rejected(f"{where}: expected an IPv4 address from 224.0.0.0 to 239.255.255.255")
    interface = socket.inet_aton(own[0])
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        # Other sites may be on this machine; this site's own come back too, and are known by their salt.
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(group)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, packed + interface)
    except OSError as error:
        sock.close()
        raise Rejected(f"{where}: can't be joined: {error.strerror}") from None
    return sock


def set_buffers(sock: socket.socket, receive: int, send: int, log: logging.Logger) -> int:
    """Gives what the receive buffer holds as the kernel counts: twice what was granted, for its own costs."""
    for option, asked, key, sysctl in (
        (socket.SO_RCVBUF, receive, "transport.receive_buffer_bytes", "net.core.rmem_max"),
        (socket.SO_SNDBUF, send, "transport.send_buffer_bytes", "net.core.wmem_max"),
    ):
        try:
            sock.setsockopt(socket.SOL_SOCKET, option, asked)
        except (OSError, OverflowError):
            raise Rejected(f"{key}: {asked}: not a size that the system takes") from None
        granted = sock.getsockopt(socket.SOL_SOCKET, option) // 2
        if granted < asked:
            why = f"the system grants {granted} of {asked} bytes: sysctl -w {sysctl}={asked} raises its limit"
            event(log, WARNING, "buffer_capped", key=key, why=why)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def path_mtu(address: Source, family: socket.AddressFamily) -> int | None:
    """What one packet to there carries, headers included, as far as this machine knows; None: there is no way."""
    if sys.platform != "linux":
        return _USUAL_MTU
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)  # sends nothing
            if family == socket.AF_INET6:
                return probe.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU)
            return probe.getsockopt(socket.IPPROTO_IP, _IP_MTU)
        except OSError:
            return None


def frame_header_bytes(sites: int) -> int:
    """What a frame has besides its messages, at most, also where another site sends it on.

    Frames are counted up to 2³² here, and weights are left out: the few frames that bring a new distribution, or
    come after so many, may be cut in two by the kernel."""
    many = 2**62
    frame = Frame(
        conf=many,
        sender=MAX_SITES - 1,
        seq=2**32 - 1,
        clock=many,
        acks=[MAX_SITES - 1, 2**32 - 1] * (sites - 1),
        service=3,
        part=2,
        first=many,
        messages=[b""] * 2**16,
        dist=many,
        slot=many,
        passes=many,
        after=[many, many],
        own=many,
        ask=True,
    )
    return len(encode(Rebroadcast(many, frame))) - 2 * len(frame.messages)


def choose_frame_bytes(
    config: Config, others: Iterable[Source], family: socket.AddressFamily, log: logging.Logger
) -> int:
    """As configured, or what fits one packet on the narrowest way to another site; alone, nothing is narrow."""
    paths = [path_mtu(address, family) for address in others]
    mtu = min((path for path in paths if path is not None), default=_USUAL_MTU if paths else _LOOPBACK_MTU)
    headers = (40 if family == socket.AF_INET6 else 20) + 8
    seal = HEADER_BYTES if config.seal.insecure else SEAL_BYTES
    fits = mtu - headers - seal - frame_header_bytes(len(config.sites))
    fits = max(_LEAST_FRAME_BYTES, min(FRAME_BYTES, fits))
    asked = config.transport.frame_bytes
    if not asked:
        return fits
    if not _LEAST_FRAME_BYTES <= asked <= FRAME_BYTES:
        raise Rejected(f"transport.frame_bytes: {asked}: expected {_LEAST_FRAME_BYTES} to {FRAME_BYTES}, or 0")
    if asked > fits:
        why = f"a packet carries {fits} bytes of a frame (MTU {mtu}): longer ones are cut, and a lost part loses all"
        event(log, INFO, "frames_beyond_path", frame_bytes=asked, why=why)
    return asked


def _let_fragment(sock: socket.socket, family: socket.AddressFamily) -> None:
    """States of large clusters, and frames where so configured, are larger than a packet: they are cut on the way
    rather than refused by a router that this machine has not heard of."""
    if sys.platform == "linux":
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DONT)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DONT)
