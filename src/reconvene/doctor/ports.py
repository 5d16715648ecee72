"""Whether a site could listen at its configured addresses, and which process occupies them if not."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from reconvene.doctor.finding import Finding, advise, fine, wrong
from reconvene.errors import ReconveneError
from reconvene.runtime.access.listener import listen_at
from reconvene.runtime.config.settings import Address, Config
from reconvene.runtime.disk.directory import runs_in
from reconvene.runtime.net.path import bind, family_of, resolve
from reconvene.units import show_address

__all__ = ["look_at_ports"]

_LISTENS = "0A"
"""The state of a TCP socket that waits for connections, as /proc writes it."""
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_RESERVED = Path("/proc/sys/net/ipv4/ip_local_reserved_ports")


def look_at_ports(config: Config) -> Iterator[Finding]:
    running = runs_in(config.dir)
    if running is not None:
        yield _running(config, running)
        return
    yield _datagrams(config)
    doors = {"clients.tcp": config.clients.tcp, "http.address": config.http.address}
    for key, address in doors.items():
        if address is not None:
            yield _connections(key, address)
    yield _unix(config.unix_socket)
    own = (config.sites[config.name], config.clients.tcp, config.http.address)
    yield from _by_chance(sorted({address[1] for address in own if address is not None and address[1]}))


def _running(config: Config, running: str) -> Finding:
    cluster, site, pid = (*running.split(), "", "", "")[:3]
    if (cluster, site) == (config.cluster, config.name):
        return fine("ports", f"this site runs, as process {pid}, and holds its ports")
    seen = f"{config.dir} is held by site {site} of cluster {cluster}, process {pid}"
    return wrong("ports", seen, f"give {config.name} a directory of its own: dir")


def _datagrams(config: Config) -> Finding:
    key, address = f"sites.{config.name}", config.sites[config.name]
    try:
        family = family_of(config)
        bind(config.name, resolve(config.name, address, family), family).close()
    except ReconveneError as error:
        return _refused(key, str(error).removeprefix(f"{key}: "), _holder("udp", address[1]))
    return fine(key, f"{show_address(address)} is free for datagrams")


def _connections(key: str, address: Address) -> Finding:
    if not address[1]:
        return fine(key, f"{show_address(address)}: any free port")
    try:
        for listener in listen_at(address):
            listener.close()
    except OSError as error:
        holder = _holder("tcp", address[1]) if error.errno == errno.EADDRINUSE else None
        return _refused(key, f"{show_address(address)}: {_words(error)}", holder)
    return fine(key, f"{show_address(address)} is free for connections")


def _words(error: OSError) -> str:
    # What Python adds to it names the address once more.
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)


def _refused(key: str, seen: str, holder: tuple[int, str] | None) -> Finding:
    if holder is None:
        return wrong(key, seen, f"give {key} another address")
    pid, name = holder
    return wrong(key, f"{seen} ({name}, process {pid})", f"kill {pid}, or give {key} another port")


def _unix(path: Path) -> Finding:
    if not os.path.exists(path):
        return fine("clients.unix", f"{path}, will be created")
    if not path.is_socket():
        return wrong(
            "clients.unix", f"{path} exists and is not a socket", f"mv {path} elsewhere, or set clients.unix"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return fine("clients.unix", f"{path} is left over, and will be replaced")
    return wrong("clients.unix", f"{path}: another process answers there", "end that process, or set clients.unix")


def _by_chance(ports: list[int]) -> Iterator[Finding]:
    """Ports that the system may give to any connection while the site is down."""
    try:
        lowest, highest = map(int, _RANGE.read_text().split())
        reserved = _RESERVED.read_text().strip()
    except (OSError, ValueError):
        return
    spans = [span.partition("-") for span in reserved.split(",") if span]
    kept = [range(int(first), int(last or first) + 1) for first, _, last in spans]
    at_risk = [port for port in ports if lowest <= port <= highest and not any(port in span for span in kept)]
    if at_risk:
        listed = ",".join(map(str, at_risk))
        all_of_them = f"{reserved},{listed}" if reserved else listed
        seen = f"{listed}: in {lowest} to {highest}, which the system gives to any connection while the site is down"
        yield advise("port range", seen, f"sudo sysctl -w net.ipv4.ip_local_reserved_ports={all_of_them}")


def _holder(protocol: str, port: int) -> tuple[int, str] | None:
    """(process, its name) of whoever has the port, where this user may see that."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(protocol, port)}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(file.readlink()) in wanted for file in (process / "fd").iterdir()):
                return int(process.name), (process / "comm").read_text().strip()
        except OSError:
            continue  # it has ended, or is another user's
    return None


def _inodes(protocol: str, port: int) -> Iterator[str]:
    for table in (protocol, f"{protocol}6"):
        try:
            _, *rows = Path("/proc/net", table).read_text().splitlines()
        except (OSError, ValueError):
            continue
        for row in rows:
            (
                _,
                local,
                _,
                state,
                *_,
            ) = fields = row.split()
            if int(local.rpartition(":")[2], 16) == port and (protocol == "udp" or state == _LISTENS):
                yield fields[9]
