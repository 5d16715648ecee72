"""The network path to the other sites: addresses, sockets, their buffers, and the size of a packet."""

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
    "headers_bytes",
    "join_group",
    "narrowest",
    "path_mtu",
    "resolve",
    "set_buffers",
]

FRAME_BYTES = 60_000
"""The largest frame that fits into a datagram with header and seal."""
_LEAST_FRAME_BYTES = 512
_USUAL_MTU = 1_500
_LOOPBACK_MTU = 65_536

# Linux; Python has no names for these.
_IP_MTU_DISCOVER, _IP_MTU = 10, 14
_IPV6_MTU_DISCOVER, _IPV6_MTU = 23, 24
_PMTUDISC_DONT = 0


def family_of(config: Config) -> socket.AddressFamily:
    """The address family of this site; all sites need the same."""
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
        raise Unavailable(f"sites.{name}: {host}: has no {kind} address") from None
    return found[0][4]  # type: ignore[return-value]


def bind(name: str, address: Source, family: socket.AddressFamily) -> socket.socket:
    """A non-blocking socket, bound to this site's address only."""
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
    """A second socket, which receives datagrams to the multicast group on the network of this site's address."""
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
        # Other sites may be on this machine. This site's own datagrams come back too; their salt identifies them.
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
    """Returns the size of the receive buffer as the kernel counts it: twice what was granted, for its overhead."""
    for option, asked, key, sysctl in (
        (socket.SO_RCVBUF, receive, "transport.receive_buffer_bytes", "net.core.rmem_max"),
        (socket.SO_SNDBUF, send, "transport.send_buffer_bytes", "net.core.wmem_max"),
    ):
        try:
            sock.setsockopt(socket.SOL_SOCKET, option, asked)
        except (OSError, OverflowError):
            raise Rejected(f"{key}: {asked}: not a size that the system accepts") from None
        granted = sock.getsockopt(socket.SOL_SOCKET, option) // 2
        if granted < asked:
            why = f"the system grants {granted} of {asked} bytes: sysctl -w {sysctl}={asked} raises its limit"
            event(log, WARNING, "buffer_capped", key=key, why=why)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def path_mtu(address: Source, family: socket.AddressFamily) -> int | None:
    """The size of a packet to this address, headers included, as far as this machine knows; None: there is no
    route."""
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
    """The most bytes that a frame has besides its messages, also when another site forwards it.

    Assumes frame numbers up to 2³² and no weights: the kernel may fragment the few frames that carry a new
    distribution or a larger number."""
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


def headers_bytes(family: socket.AddressFamily) -> int:
    """Of IP and UDP."""
    return (40 if family == socket.AF_INET6 else 20) + 8


def narrowest(others: Iterable[Source], family: socket.AddressFamily) -> int:
    """The MTU of the narrowest path to another site."""
    paths = [path_mtu(address, family) for address in others]
    return min((path for path in paths if path is not None), default=_USUAL_MTU if paths else _LOOPBACK_MTU)


def choose_frame_bytes(
    config: Config, others: Iterable[Source], family: socket.AddressFamily, log: logging.Logger
) -> int:
    """As configured, or what fits into one packet on the narrowest path to another site; for a single site, the
    maximum."""
    mtu = narrowest(others, family)
    seal = HEADER_BYTES if config.seal.insecure else SEAL_BYTES
    fits = mtu - headers_bytes(family) - seal - frame_header_bytes(len(config.sites))
    fits = max(_LEAST_FRAME_BYTES, min(FRAME_BYTES, fits))
    asked = config.transport.frame_bytes
    if not asked:
        return fits
    if not _LEAST_FRAME_BYTES <= asked <= FRAME_BYTES:
        raise Rejected(f"transport.frame_bytes: {asked}: expected {_LEAST_FRAME_BYTES} to {FRAME_BYTES}, or 0")
    if asked > fits:
        why = f"a packet carries {fits} bytes of a frame (MTU {mtu}): larger frames are fragmented"
        event(log, INFO, "frames_beyond_path", frame_bytes=asked, why=why)
    return asked


def _let_fragment(sock: socket.socket, family: socket.AddressFamily) -> None:
    """Allows fragmentation: states of large clusters, and frames if so configured, are larger than a packet.
    Otherwise a router that this machine does not know of could drop them."""
    if sys.platform == "linux":
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DONT)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DONT)
