"""Checks a configuration, from a file or from objects made in a program.

Promised: a configuration that passes has the types and ranges of the schema, distinct sites, files that exist, and no
open access for strangers unless `insecure` allows it.
"""

import os
import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Malformed, Rejected
from reconvene.ids import MAX_SITES
from reconvene.isis.limits import least_message
from reconvene.runtime.config.check_domain import check_domain
from reconvene.runtime.config.schema import Key, Kind, keys
from reconvene.runtime.config.settings import Address, Clients, Config, Http, Timing, Tls
from reconvene.units import exact_size, show_address, show_duration

__all__ = ["check", "expected", "is_loopback", "show"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
NAME_WORDS = "a name of up to 64 letters, digits, '.', '_' and '-', a letter or digit first"
LONGEST_SOCKET_PATH = 107
"""In bytes: the size of a Unix socket's address."""
LEAST_FRAME = 512
LEAST_MESSAGE = 256 << 10
BEACONS_BEFORE_SUSPICION = 3

_TYPES: dict[Kind, type] = {
    Kind.TEXT: str,
    Kind.CHOICE: str,
    Kind.FLAG: bool,
    Kind.WHOLE: int,
    Kind.SIZE: int,
    Kind.DURATION: int,
    Kind.PATH: Path,
}


def check(config: Config, source: str = "Config") -> None:
    """Raises Malformed, in one line: the source, the key and what was expected."""
    checker = _Check(source)
    checker.types(config, "")
    checker.sites(config)
    checker.seal(config)
    checker.transport(config)
    checker.timing(config)
    checker.limits(config)
    checker.log(config)
    checker.clients(config)
    checker.exposed("http", config.http, config.http.address)
    checker.dashboard(config)
    checker.faults(config)
    checker.domain(config)


class _Check:
    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, place: str, problem: str) -> NoReturn:
        raise Malformed(" ".join(f"{self.source}: {place}: {problem}".split()))

    # -- types and ranges

    def types(self, struct: Struct, place: str) -> None:
        for key in keys(type(struct)):
            value = getattr(struct, key.field)
            if value is not None or not key.optional:
                self._value(key, value, f"{place}.{key.name}" if place else key.name)

    def _value(self, key: Key, value: Any, place: str) -> None:
        if not _fits(key, value):
            self.fail(place, f"expected {expected(key)}, not {_shown(key, value)}")
        if isinstance(value, Struct):
            self.types(value, place)

    # -- sites

    def sites(self, config: Config) -> None:
        for place, name in (("cluster", config.cluster), ("name", config.name)):
            if not NAME.fullmatch(name):
                self.fail(place, f"expected {NAME_WORDS}, not {show(name)}")
        if config.log.outpost:
            self._outpost(config)
            return
        if not 1 <= len(config.sites) <= MAX_SITES:
            self.fail("sites", f"expected 1 to {MAX_SITES} sites, not {len(config.sites)}")
        at: dict[Address, str] = {}
        folded: dict[str, str] = {}
        for name, address in config.sites.items():
            if not NAME.fullmatch(name):
                # A site's name is also the name of its trace file.
                self.fail("sites", f"expected {NAME_WORDS}, not {show(name)}")
            place = f"sites.{name}"
            self._reachable(place, address)
            if address in at:
                self.fail(
                    place, f"{show_address(address)} belongs to {at[address]} already; expected another address"
                )
            if name.lower() in folded:
                self.fail(place, f"differs from {folded[name.lower()]} only in case; expected another name")
            at[address] = folded[name.lower()] = name
        for index, name in enumerate(config.numbers):
            if not NAME.fullmatch(name):
                self.fail(f"numbers[{index}]", f"expected {NAME_WORDS}, not {show(name)}")
            if name in config.numbers[:index]:
                self.fail(f"numbers[{index}]", f"{name} is named twice; expected every name once")
        if len(config.numbers) > MAX_SITES:
            self.fail("numbers", f"expected at most {MAX_SITES} names, not {len(config.numbers)}")
        if config.name not in config.sites:
            self.fail("name", f"expected one of [sites], not {show(config.name)}: {', '.join(config.names)}")

    def _outpost(self, config: Config) -> None:
        if config.sites:
            self.fail("sites", "expected none where log.outpost is true: an outpost is no site of the cluster")
        if not config.log.follow:
            self.fail("log.follow", 'missing; expected addresses of sites, such as ["10.0.0.1:7700"], for an outpost')
        if not config.log.enabled:
            self.fail("log.enabled", "expected true where log.outpost is true")

    def _reachable(self, place: str, address: Address) -> None:
        host, port = address
        if port == 0:
            self.fail(place, "expected a port from 1 to 65535, since the other sites have to know it, not 0")
        ip = _ip(host)
        if ip is not None and (ip.is_unspecified or ip.is_multicast):
            self.fail(place, f"expected an address that other sites can send to, not {host}")

    # -- between sites

    def seal(self, config: Config) -> None:
        seal = config.seal
        if config.log.outpost:
            return  # it exchanges no datagrams
        if seal.insecure and seal.keys:
            self.fail("seal", "expected keys or insecure = true, not both")
        if not seal.insecure and not seal.keys:
            self.fail(
                "seal.keys",
                "missing; expected key files (reconvene keygen makes one), or insecure = true under [seal]",
            )
        for index, path in enumerate(seal.keys):
            self._file(f"seal.keys[{index}]", "a key file", path)

    def transport(self, config: Config) -> None:
        transport = config.transport
        if 0 < transport.frame_bytes < LEAST_FRAME:
            self.fail("transport.frame_bytes", f"expected 0 or {LEAST_FRAME} to 60000, not {transport.frame_bytes}")
        if transport.group is None:
            if transport.kind == "multicast":
                self.fail("transport.group", 'missing; expected a multicast group such as "239.1.2.3:7000"')
            return
        if transport.kind != "multicast":
            self.fail("transport.group", "expected none, since kind is unicast")
        host, port = transport.group
        ip = _ip(host)
        if ip is None or ip.version != 4 or not ip.is_multicast or port == 0:
            self.fail(
                "transport.group",
                f'expected a multicast group such as "239.1.2.3:7000", not {show(show_address(transport.group))}',
            )
        for name, (site, _) in config.sites.items():
            other = _ip(site)
            if other is not None and other.version != 4:
                self.fail(f"sites.{name}", f"expected an IPv4 address, as the multicast group has one, not {site}")

    def timing(self, config: Config) -> None:
        self._timing("timing", config.timing)
        if config.domain is not None:
            self._timing("domain.upper.timing", config.domain.upper.timing)

    def _timing(self, place: str, timing: Timing) -> None:
        least = BEACONS_BEFORE_SUSPICION * timing.beacon_every_ns
        if timing.suspect_base_ns < least:
            self.fail(
                f"{place}.suspect_base",
                f"expected at least {BEACONS_BEFORE_SUSPICION} times beacon_every ({show_duration(least)}), "
                f"not {show_duration(timing.suspect_base_ns)}: otherwise one lost beacon would raise a suspicion",
            )

    def limits(self, config: Config) -> None:
        limits = config.limits
        if limits.inbox_bytes < 2 * limits.message_bytes:
            self.fail(
                "limits.inbox_bytes",
                f"expected at least twice message_bytes ({exact_size(2 * limits.message_bytes)}), "
                f"not {exact_size(limits.inbox_bytes)}: otherwise one message would cut off a process",
            )
        least = least_message(len(config.sites))
        if config.isis.enabled and limits.message_bytes < least:
            self.fail(
                "limits.message_bytes",
                f"expected at least {exact_size(least)} where ISIS is enabled at {len(config.sites)} sites, "
                f"not {exact_size(limits.message_bytes)}: what they tell each other of groups has to fit",
            )

    # -- the log

    def log(self, config: Config) -> None:
        log = config.log
        for index, name in enumerate(log.replicas):
            if name not in config.sites:
                self.fail("log.replicas", f"expected sites of [sites], not {show(name)}")
            if name in log.replicas[:index]:
                self.fail("log.replicas", f"{name} is named twice")
        if log.outpost:
            self._addresses(config)
            return
        try:
            ReplicaSet.first(config.replicas, log.quorum)
        except Rejected as error:
            self.fail("log.quorum", str(error).removeprefix("quorum: "))
        self._follow(config)
        largest = config.limits.message_bytes
        if log.enabled and largest < LEAST_MESSAGE:
            self.fail(
                "limits.message_bytes",
                f"expected at least {exact_size(LEAST_MESSAGE)} where the log is enabled, not {exact_size(largest)}: "
                "the messages between replicas have to fit",
            )
        if 0 < log.batch_bytes < LEAST_FRAME:
            self.fail("log.batch_bytes", f"expected 0 or {LEAST_FRAME} to {largest}, not {log.batch_bytes}")
        if log.batch_bytes > largest:
            self.fail(
                "log.batch_bytes",
                f"expected at most limits.message_bytes ({exact_size(largest)}), not {exact_size(log.batch_bytes)}",
            )
        if log.red_bytes < largest:
            self.fail(
                "log.red_bytes",
                f"expected at least limits.message_bytes ({exact_size(largest)}), not {exact_size(log.red_bytes)}: "
                "otherwise a large message would never be accepted",
            )
        least = log.red_bytes + log.snapshot_bytes
        if log.max_bytes < least:
            self.fail(
                "log.max_bytes",
                f"expected at least red_bytes and snapshot_bytes together ({exact_size(least)}), "
                f"not {exact_size(log.max_bytes)}",
            )
        if log.retain_bytes > log.max_bytes:
            self.fail(
                "log.retain_bytes",
                f"expected at most max_bytes ({exact_size(log.max_bytes)}), not {exact_size(log.retain_bytes)}",
            )

    # -- endpoints

    def _follow(self, config: Config) -> None:
        log = config.log
        self._addresses(config)
        if not log.follow:
            if log.follow_key is not None:
                self.fail("log.follow_key", "expected log.follow with it")
            return
        if not log.enabled:
            self.fail("log.follow", "expected log.enabled with it")
        if config.name in log.replicas or (not log.replicas and len(config.sites) > 1):
            self.fail("log.replicas", f"expected replicas without {config.name}, which follows the log")

    def _addresses(self, config: Config) -> None:
        log = config.log
        own = {f"unix:{config.unix_socket}", str(config.unix_socket)}
        if config.clients.tcp is not None:
            own |= {show_address(config.clients.tcp), f"tcp://{show_address(config.clients.tcp)}"}
        for index, address in enumerate(log.follow):
            if not address:
                self.fail("log.follow", "expected addresses such as unix:PATH or host:port, not an empty one")
            if address in own:
                self.fail("log.follow", f"{address} is this site itself; expected another one: nobody follows itself")
            if address in log.follow[:index]:
                self.fail("log.follow", f"{address} is named twice")

    def clients(self, config: Config) -> None:
        length = len(os.fsencode(config.unix_socket))
        if length > LONGEST_SOCKET_PATH:
            self.fail(
                "clients.unix",
                f"expected a path of at most {LONGEST_SOCKET_PATH} bytes, not {length}: {config.unix_socket}",
            )
        self.exposed("clients", config.clients, config.clients.tcp)

    def exposed(self, table: str, endpoint: Clients | Http, address: Address | None) -> None:
        if endpoint.keys is not None:
            self._file(f"{table}.keys", "a file of client keys", endpoint.keys)
        if endpoint.tls is not None:
            self._tls(f"{table}.tls", endpoint.tls)
        if address is None or is_loopback(address):
            return
        if endpoint.keys is None and (endpoint.tls is None or endpoint.tls.client_ca is None):
            name = "tcp" if isinstance(endpoint, Clients) else "address"
            self.fail(
                f"{table}.{name}",
                f"{show_address(address)} is not loopback; expected {table}.keys or {table}.tls.client_ca with it",
            )

    def _tls(self, place: str, tls: Tls) -> None:
        self._file(f"{place}.certificate", "a certificate", tls.certificate)
        self._file(f"{place}.key", "a private key", tls.key)
        if tls.client_ca is not None:
            self._file(f"{place}.client_ca", "a certificate", tls.client_ca)

    def _file(self, place: str, what: str, path: Path) -> None:
        try:
            with path.open("rb"):
                return
        except OSError as error:
            self.fail(place, f"expected {what}: {path}: {error.strerror or error}")

    def dashboard(self, config: Config) -> None:
        dashboard = config.dashboard
        for name, address in dashboard.peers.items():
            if name not in config.sites or name == config.name:
                self.fail("dashboard.peers", f"expected other sites of [sites], not {show(name)}")
            self._reachable(f"dashboard.peers.{name}", address)
        for name, address in dashboard.beside.items():
            if name in config.sites:
                self.fail("dashboard.beside", f"expected followers and outposts, not site {show(name)}")
            self._reachable(f"dashboard.beside.{name}", address)
        for place, what, path in (
            ("key", "a file with a client key", dashboard.key),
            ("ca", "a PEM file", dashboard.ca),
        ):
            if path is not None:
                self._file(f"dashboard.{place}", what, path)

    def domain(self, config: Config) -> None:
        check_domain(config, self.fail)
        if config.domain is None:
            return
        at: dict[Address, str] = {}
        for name, address in config.domain.upper.sites.items():
            place = f"domain.upper.sites.{name}"
            if not NAME.fullmatch(name):
                self.fail("domain.upper.sites", f"expected {NAME_WORDS}, not {show(name)}")
            self._reachable(place, address)
            if address in at:
                self.fail(
                    place, f"{show_address(address)} belongs to {at[address]} already; expected another address"
                )
            at[address] = name
        if not NAME.fullmatch(config.domain.upper.cluster):
            self.fail("domain.upper.cluster", f"expected {NAME_WORDS}, not {show(config.domain.upper.cluster)}")
        for index, path in enumerate(config.domain.upper.keys):
            self._file(f"domain.upper.keys[{index}]", "a key file", path)

    def faults(self, config: Config) -> None:
        above = () if config.domain is None else config.domain.upper.sites
        for name in config.faults.blocked:
            if name in above and name != f"{config.cluster}.{config.name}":
                continue
            if name not in config.sites or name == config.name:
                self.fail("faults.blocked", f"expected other sites of [sites], not {show(name)}")


def is_loopback(address: Address) -> bool:
    """A host name other than localhost does not count as loopback, whatever it resolves to today."""
    ip = _ip(address[0])
    return address[0] == "localhost" if ip is None else ip.is_loopback


def expected(key: Key) -> str:
    """What is expected under this key, in words."""
    if key.choices:
        return f"one of {', '.join(key.choices)}"
    if key.least is None or key.most is None:
        return key.kind.value
    bounds = f"from {_bound(key, key.least)} to {_bound(key, key.most)}"
    return f"{key.kind.value} {bounds}"


def show(value: Any) -> str:
    """A value for an error message: short, and on one line."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 128 bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fits(key: Key, value: Any) -> bool:
    match key.kind:
        case Kind.TABLE:
            return key.struct is not None and isinstance(value, key.struct)
        case Kind.ADDRESS:
            return _is_address(value)
        case Kind.ADDRESSES:
            return isinstance(value, dict) and all(isinstance(n, str) and _is_address(a) for n, a in value.items())
        case Kind.QUORUM:
            return isinstance(value, dict) and all(isinstance(name, str) for name in value)
        case Kind.PATHS:
            return isinstance(value, tuple) and all(isinstance(item, Path) for item in value)
        case Kind.TEXTS:
            return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
        case _:
            wanted = _TYPES[key.kind]
            if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
                return False
            if key.choices:
                return value in key.choices
            return not isinstance(value, int) or key.least is None or key.least <= value <= (key.most or 0)


def _is_address(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    host, port = value
    return isinstance(host, str) and bool(host) and type(port) is int and 0 <= port <= 65_535


def _shown(key: Key, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and key.kind in (Kind.DURATION, Kind.SIZE):
        return _bound(key, value) if 0 <= value < 1 << 80 else show(value)
    return show(value)


def _bound(key: Key, value: int) -> str:
    match key.kind:
        case Kind.DURATION:
            return show_duration(value, days=True)
        case Kind.SIZE:
            return exact_size(value)
        case _:
            return oct(value) if key.name.endswith("_mode") else str(value)


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
