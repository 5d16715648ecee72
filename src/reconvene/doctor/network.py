"""The network as sites use it: buffers, large datagrams on loopback, how much a packet carries, multicast."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from reconvene.doctor.finding import Finding, advise, fine, wrong
from reconvene.errors import ReconveneError
from reconvene.runtime.config.settings import Config, TransportSettings
from reconvene.runtime.net.path import FRAME_BYTES, bind, family_of, join_group, resolve
from reconvene.runtime.node.explain import buffers, explain
from reconvene.units import show_size

__all__ = ["look_at_buffers", "look_at_interfaces", "look_at_loopback", "look_at_multicast", "look_at_paths"]

_PATIENCE_S = 2.0
_WORDS = {"net.core.rmem_max": "receive buffer", "net.core.wmem_max": "send buffer"}


def look_at_buffers(transport: TransportSettings) -> Iterator[Finding]:
    for sysctl, (asked, granted) in buffers(transport).items():
        if granted < asked:
            seen = f"the system grants {show_size(granted)} of {show_size(asked)}: less can be in flight"
            yield advise(_WORDS[sysctl], seen, f"sudo sysctl -w {sysctl}={asked}")
        else:
            yield fine(_WORDS[sysctl], show_size(asked))


def look_at_loopback() -> Finding:
    """Sites on one machine send each other frames of this size."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.settimeout(_PATIENCE_S)
            sock.bind(("127.0.0.1", 0))
            sock.sendto(bytes(FRAME_BYTES), sock.getsockname())
            arrived = len(sock.recv(FRAME_BYTES + 1))
        except OSError as error:
            seen = f"a datagram of {FRAME_BYTES:,} bytes did not arrive: {error.strerror or error}"
            return wrong("loopback", seen, "sudo ip link set lo up")
    return fine("loopback", f"carries datagrams of {arrived:,} bytes")


def look_at_interfaces() -> Iterator[Finding]:
    """Without a configuration it is unknown which of them leads to another site."""
    found = []
    for interface in sorted(Path("/sys/class/net").glob("*")):
        try:
            up, mtu = (interface / "operstate").read_text().strip() != "down", (interface / "mtu").read_text().strip()
        except OSError:
            continue  # gone in between, or not a device
        if up and interface.name != "lo":
            found.append(f"{interface.name} {mtu}")
    if found:
        yield fine("mtu", f"{', '.join(found)}; with a configuration the path to each site is checked")


def look_at_paths(config: Config) -> Iterator[Finding]:
    """The names of the others, the ways to them, and whether a frame fits one packet there."""
    try:
        family = family_of(config)
        for name in config.names:
            resolve(name, config.sites[name], family)
    except ReconveneError as error:
        yield wrong("sites", str(error), "write an address, or add the name to /etc/hosts or the DNS")
        return
    yield fine("sites", f"{len(config.sites)}, each with an address")
    found, fits = explain(config), _fitting(config)
    no_way = [name for name, mtu in found.mtus.items() if mtu is None]
    if no_way:
        yield wrong("mtu", f"this machine has no route to {', '.join(no_way)}", "see ip route")
    elif found.frame_bytes > fits:
        seen = f"frames of {found.frame_bytes:,} bytes; a packet carries {fits:,}: a lost fragment loses the frame"
        yield advise("mtu", seen, "leave transport.frame_bytes out, or let the interfaces have jumbo frames")
    else:
        ways = ", ".join(f"{mtu} to {name}" for name, mtu in found.mtus.items())
        yield fine("mtu", f"frames of {found.frame_bytes:,} bytes fit one packet" + (f": {ways}" if ways else ""))


def _fitting(config: Config) -> int:
    """The frame that would be chosen."""
    return explain(replace(config, transport=replace(config.transport, frame_bytes=0))).frame_bytes


def look_at_multicast(config: Config) -> Iterator[Finding]:
    """Joins the group, and listens to itself: it goes no further than this machine."""
    group = config.transport.group
    if config.transport.kind != "multicast" or group is None:
        return
    word = os.urandom(16)
    try:
        family = family_of(config)
        own = resolve(config.name, config.sites[config.name], family)
        with bind(config.name, (own[0], 0), family) as sender, join_group(group, 0, own, sender) as receiver:
            receiver.settimeout(_PATIENCE_S)
            sender.sendto(word, group)
            while receiver.recv(len(word)) != word:
                pass  # what others send to the group
    except (ReconveneError, OSError) as error:
        change = 'set kind = "unicast" under [transport] at every site, or let the network carry multicast'
        yield wrong("multicast", f"the group {group[0]}:{group[1]} can't be used: {error}", change)
    else:
        yield fine("multicast", f"the group {group[0]}:{group[1]} can be joined, and sent to")
