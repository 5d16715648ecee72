"""What follows from a configuration on this machine: `reconvene node --check` prints it.

Times and the window are computed by the core itself, sizes come from sockets. Nothing is bound, and nothing is sent.
"""

import logging
import os
import socket
from dataclasses import dataclass, field
from typing import Any

from reconvene.core.options import Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.errors import ReconveneError
from reconvene.quorum import Dynamic, make_quorum
from reconvene.runtime.access.key_files import load_client_keys, load_cluster_keys
from reconvene.runtime.config.check import check, is_loopback
from reconvene.runtime.config.check_domain import domains_above
from reconvene.runtime.config.settings import Address, Clients, Config, Http, TransportSettings
from reconvene.runtime.net.path import choose_frame_bytes, family_of, path_mtu, resolve
from reconvene.runtime.node.preflight import load_secrets, secret_warnings
from reconvene.runtime.node.real_time import check_real_time
from reconvene.site_list import read_list
from reconvene.units import show_address, show_duration, show_size

__all__ = ["Explanation", "NewLog", "buffers", "explain", "lines"]


@dataclass(slots=True)
class NewLog:
    """Settings of a new log; an existing log has its own."""

    replicas: list[str]
    quorum: dict[str, Any]
    max_bytes: int


@dataclass(slots=True)
class Joined:
    """The cluster as one of several."""

    above: str
    domains: list[str]
    gateways: list[str]
    """Of this cluster, best first."""
    upper_site: str | None
    """This site's name and address in the cluster above; None: it is no gateway."""
    upper_keys: list[str] | None
    """Ids of the keys there; None: none are needed."""
    out: list[str]
    into: list[str]


@dataclass(slots=True)
class Explanation:
    """JSON-able. Durations are in ns, sizes in bytes; None: unknown, or not configured."""

    cluster: str
    site: str
    ordinal: int
    sites: dict[str, str]
    sites_version: int
    quorum: int
    """Fewest sites of a primary configuration."""
    order: str
    seal: list[str] | None
    """Ids of the cluster keys, the sealing one first; None: insecure."""
    suspicion_ns: int = 0
    """A member's silence until it is suspected."""
    detection_ns: int = 0
    """Longest time from a crash until all sites suspect it."""
    crash_ns: tuple[int, int] = (0, 0)
    """Time from a crash to the next configuration: usually, and at most if nothing else happens."""
    merge_ns: tuple[int, int] = (0, 0)
    """Time from a heal to the common configuration: usually, and at most if nothing else happens."""
    real_time: int = 0
    """Priority in the real-time class; 0: the ordinary class."""
    mtus: dict[str, int | None] = field(default_factory=dict)
    """The MTU to each other site."""
    frame_bytes: int = 0
    receive_buffer_bytes: tuple[int, int] = (0, 0)
    """Asked, granted."""
    send_buffer_bytes: tuple[int, int] = (0, 0)
    window_bytes: int = 0
    """Bytes of frames in flight in the whole configuration, as receive buffers count them."""
    queue_bytes: int = 0
    inbox_bytes: int = 0
    """Per process."""
    listens: dict[str, str] = field(default_factory=dict)
    client_keys: dict[str, int] = field(default_factory=dict)
    """Number of client keys of each role."""
    log: NewLog | None = None
    """None: the site takes no part in the log, or follows it."""
    follow: list[str] = field(default_factory=list)
    """The addresses of a follower's sources."""
    trace: tuple[str, int] | None = None
    """Directory and size limit."""
    domain: Joined | None = None
    """None: the cluster stands alone."""
    warnings: list[str] = field(default_factory=list)


def explain(config: Config) -> Explanation:
    """Raises Malformed or Rejected if the configuration, or a file that it names, is bad."""
    check(config)
    load_secrets(config)
    check_real_time(config)
    keys = load_cluster_keys(config.seal.keys)
    sites = read_list(None, config.sites_version, config.sites, config.numbers)
    found = Explanation(
        cluster=config.cluster,
        site=config.name,
        ordinal=sites.names.index(config.name),
        sites_version=config.sites_version,
        sites={name: show_address(config.sites[name]) for name in config.names},
        quorum=len(config.sites) // 2 + 1,
        order=config.order.engine,
        real_time=config.scheduling.real_time,
        seal=None if config.seal.insecure else [key.id.hex() for key in keys],
        queue_bytes=config.limits.queue_bytes + config.limits.message_bytes,
        inbox_bytes=config.limits.inbox_bytes,
        log=None if config.log.follow else _log(config),
        follow=list(config.log.follow),
        trace=None if config.trace.dir is None else (str(config.trace.dir), config.trace.max_bytes),
    )
    found.domain = _joined(config)
    _buffers(config, found)
    _paths(config, found)
    options = config.options(found.frame_bytes, 2 * found.receive_buffer_bytes[1])
    site = Site(options, found.ordinal, len(sites.names), boot(None, found.ordinal, sites=sites), 0)
    found.window_bytes = site.current.multicast.window.bytes
    _times(site.changes.hearing.patience_ns(), options, found)
    _doors(config, found)
    _warn(config, found)
    return found


def _times(suspicion: int, options: Options, found: Explanation) -> None:
    timing = options.timing
    found.suspicion_ns = suspicion
    # A silent site is probed from half of that time on, and checked at each probe.
    found.detection_ns = suspicion + timing.probe_every_ns
    # Sites may notice at different times, and a message of a round may be lost.
    settle = timing.gather_patience_ns + timing.round_patience_ns
    found.crash_ns = (suspicion, found.detection_ns + settle)
    found.merge_ns = (timing.beacon_every_ns, timing.beacon_every_ns + settle)


def buffers(transport: TransportSettings) -> dict[str, tuple[int, int]]:
    """Requested and granted sizes, by the name of the system's limit."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for option, asked, sysctl in (
            (socket.SO_RCVBUF, transport.receive_buffer_bytes, "net.core.rmem_max"),
            (socket.SO_SNDBUF, transport.send_buffer_bytes, "net.core.wmem_max"),
        ):
            probe.setsockopt(socket.SOL_SOCKET, option, asked)
            # Linux doubles it for its overhead, and returns the double.
            found[sysctl] = asked, min(probe.getsockopt(socket.SOL_SOCKET, option) // 2, asked)
    return found


def _buffers(config: Config, found: Explanation) -> None:
    granted = buffers(config.transport)
    found.receive_buffer_bytes, found.send_buffer_bytes = granted.values()
    for key, (sysctl, (asked, given)) in zip(
        ("receive_buffer_bytes", "send_buffer_bytes"), granted.items(), strict=True
    ):
        if given < asked:
            found.warnings.append(
                f"transport.{key}: the system grants {show_size(given)} of {show_size(asked)}: "
                f"sysctl -w {sysctl}={asked} raises its limit"
            )


def _paths(config: Config, found: Explanation) -> None:
    others = []
    family = socket.AF_INET
    try:
        family = family_of(config)
    except ReconveneError as error:
        found.warnings.append(str(error))
    for name in config.names:
        if name == config.name:
            continue
        found.mtus[name] = None
        try:
            address = resolve(name, config.sites[name], family)
        except ReconveneError as error:
            found.warnings.append(str(error))
            continue
        others.append(address)
        found.mtus[name] = path_mtu(address, family)
        if found.mtus[name] is None:
            found.warnings.append(f"sites.{name}: {found.sites[name]}: this machine has no route to it")
    silent = logging.getLogger("reconvene.check")
    silent.disabled = True
    found.frame_bytes = choose_frame_bytes(config, others, family, silent)


def _log(config: Config) -> NewLog | None:
    if not config.log.enabled:
        return None
    quorum = make_quorum(config.log.quorum, config.replicas)
    return NewLog(list(config.replicas), quorum.spec(), config.log.max_bytes)


def _doors(config: Config, found: Explanation) -> None:
    found.listens["datagrams"] = found.sites[config.name]
    if config.transport.group is not None:
        found.listens["multicast"] = show_address(config.transport.group)
    found.listens["unix"] = f"{config.unix_socket} (mode {config.clients.unix_mode:o})"
    endpoints: tuple[tuple[str, Address | None, Clients | Http], ...] = (
        ("tcp", config.clients.tcp, config.clients),
        ("http", config.http.address, config.http),
    )
    for name, address, endpoint in endpoints:
        if address is None:
            continue
        guards = [word for word, given in (("tls", endpoint.tls), ("keys", endpoint.keys)) if given is not None]
        found.listens[name] = f"{show_address(address)} ({', '.join(guards) or 'open to this machine'})"
    if config.http.address is not None and config.dashboard.enabled:
        scheme = "http" if config.http.tls is None else "https"
        found.listens["dashboard"] = f"{scheme}://{show_address(config.http.address)}/"
    if config.http.address is not None and config.http.api:
        scheme = "http" if config.http.tls is None else "https"
        found.listens["api"] = f"{scheme}://{show_address(config.http.address)}/v1/"
    for path in sorted({path for path in (config.clients.keys, config.http.keys) if path is not None}):
        for key in load_client_keys(path).values():
            found.client_keys[key.role] = found.client_keys.get(key.role, 0) + 1


def _joined(config: Config) -> Joined | None:
    domain = config.domain
    if domain is None:
        return None
    name = f"{config.cluster}.{config.name}"
    keys = load_cluster_keys(domain.upper.keys)
    return Joined(
        above=domain.upper.cluster,
        domains=list(domains_above(domain)),
        gateways=list(domain.gateways),
        upper_site=f"{name} at {show_address(domain.upper.sites[name])}" if config.is_gateway else None,
        upper_keys=[key.id.hex() for key in keys] if keys else None,
        out=list(domain.pass_.out),
        into=list(domain.pass_.in_),
    )


def _warn(config: Config, found: Explanation) -> None:
    warn = found.warnings.append
    if config.seal.insecure:
        warn("seal.insecure: anyone who can reach the port can act as a site and read everything")
    found.warnings.extend(secret_warnings(config))
    http = config.http
    if http.address is not None and not is_loopback(http.address) and http.tls is None:
        warn("http.address: without http.tls keys are sent in clear text, and anyone who sees one can use it")
    if "api" in found.listens:
        if http.keys is None and (http.tls is None or http.tls.client_ca is None):
            warn("http.api: without http.keys every user of this machine can read the log and append to it")
        if http.followers >= http.connections:
            warn(
                f"http.followers: {http.followers} streams need more connections than http.connections,"
                f" {http.connections}, allows"
            )
    if "dashboard" in found.listens and http.keys is None and (http.tls is None or http.tls.client_ca is None):
        if config.dashboard.payloads:
            warn("dashboard.payloads: without http.keys every user of this machine can read messages of the log")
        if config.faults.allowed:
            warn("faults.allowed: without http.keys every user of this machine can disconnect this site")
    if config.domain is not None:
        if len(config.domain.gateways) == 1:
            warn("domain.gateways: without a second one the cluster is cut off while the first is down")
        if not config.domain.pass_.out and not config.domain.pass_.in_:
            warn("domain.pass: nothing leaves the cluster, and nothing comes in")
        if config.domain.upper.keys and not config.is_gateway:
            warn("domain.upper.keys: this site is no gateway, and needs no key of the cluster above")
    if len(config.sites) == 2:
        warn("sites: neither of two sites is a majority: while one is down there is no primary component")
    elif len(config.sites) > 1 and len(config.sites) % 2 == 0:
        warn(f"sites: {len(config.sites)} sites tolerate no more failures than {len(config.sites) - 1} would")
    if found.log is not None and len(found.log.replicas) > 1:
        replicas = set(found.log.replicas)
        quorum = make_quorum(found.log.quorum, replicas)
        holds = quorum.holds_after_all if isinstance(quorum, Dynamic) else quorum.holds
        needed = [name for name in sorted(replicas) if not holds(replicas - {name})]
        if needed:
            warn(f"log.quorum: nothing is ordered while {' or '.join(needed)} is down")
    loopback = [name for name in config.names if is_loopback(config.sites[name])]
    if loopback and len(loopback) < len(config.sites):
        warn(f"sites: {', '.join(loopback)} on loopback: other machines can't reach that")
    if config.faults.allowed:
        warn("faults.allowed: an admin can disconnect this site")
    memory = _memory_bytes()
    taken = found.queue_bytes + 2 * found.window_bytes + found.inbox_bytes
    if memory is not None and taken > memory:
        warn(f"limits: one process that does not read takes {show_size(taken)}; the machine has {show_size(memory)}")


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def lines(found: Explanation) -> list[str]:
    """For people."""
    if found.seal is None:
        seal = "none: insecure"
    else:
        seal = f"AES-256-GCM; key {found.seal[0]} seals" + "".join(f", {key} opens too" for key in found.seal[1:])
    rows = [
        ("site", f"{found.site} of cluster {found.cluster}, number {found.ordinal + 1} of {len(found.sites)}"),
        ("list", _list(found)),
        ("quorum", f"{found.quorum} of {len(found.sites)} sites are a primary component"),
        ("order", found.order),
        ("seal", seal),
        *((f"listens: {name}", where) for name, where in found.listens.items()),
    ]
    if found.client_keys:
        rows.append(
            ("client keys", ", ".join(f"{count} {role}" for role, count in sorted(found.client_keys.items())))
        )
    rows += [
        ("suspicion", f"after {show_duration(found.suspicion_ns)} of silence"),
        ("detection", f"at most {show_duration(found.detection_ns)} after a crash"),
        ("after a crash", f"new configuration in {_span(found.crash_ns)}"),
        ("after a heal", f"common configuration in {_span(found.merge_ns)}"),
        ("frame", f"{found.frame_bytes} bytes of messages; {_mtus(found)}"),
        ("receive buffer", _asked(found.receive_buffer_bytes)),
        ("send buffer", _asked(found.send_buffer_bytes)),
        ("window", f"{show_size(found.window_bytes)} under way in the whole configuration"),
        ("memory", f"up to {show_size(found.queue_bytes)} to be sent, twice the window, {_inbox(found)}"),
        *([("scheduling", f"real-time class, priority {found.real_time}")] if found.real_time else []),
        ("log", _log_words(found)),
        *([] if found.domain is None else _domain_rows(found.domain)),
        ("trace", "none" if found.trace is None else f"{found.trace[0]}, up to {show_size(found.trace[1])}"),
    ]
    width = max(len(name) for name, _ in rows) + 2
    return [f"{name:{width}}{text}" for name, text in rows] + [f"warning: {text}" for text in found.warnings]


def _domain_rows(domain: Joined) -> list[tuple[str, str]]:
    above = f"cluster {domain.above}, which joins {', '.join(domain.domains)}"
    where = ", ".join(domain.gateways)
    if domain.upper_site is not None:
        keys = "insecure" if domain.upper_keys is None else f"key {', '.join(domain.upper_keys)}"
        where += f"; this site is {domain.upper_site}, {keys}"
    passes = f"out {', '.join(domain.out) or 'nothing'}; in {', '.join(domain.into) or 'nothing'}"
    return [("above", above), ("gateways", where), ("passes", passes)]


def _list(found: Explanation) -> str:
    if found.sites_version == 1:
        return "version 1"
    return f"version {found.sites_version}: until it is finished, a majority of the one before it is needed too"


def _span(span: tuple[int, int]) -> str:
    return f"about {show_duration(span[0])}, at most {show_duration(span[1])} if nothing else happens"


def _asked(sizes: tuple[int, int]) -> str:
    asked, granted = sizes
    return show_size(asked) if granted == asked else f"{show_size(granted)} granted of {show_size(asked)} asked"


def _log_words(found: Explanation) -> str:
    if found.follow:
        return f"follows {', '.join(found.follow)}"
    if found.log is None:
        return "none: not enabled"
    match found.log.quorum:
        case {"kind": "majority"}:
            orders = f"{len(found.log.replicas) // 2 + 1} of them order it"
        case {"kind": "weighted", "weights": weights}:
            shares = ", ".join(f"{name} {weight}" for name, weight in weights.items())
            orders = f"more than half of the weight orders it: {shares}"
        case {"kind": "grid", "rows": rows}:
            orders = f"all of one row, with one of each, order it: {', '.join(' '.join(row) for row in rows)}"
        case spec:
            orders = f"a quorum of the kind {spec['kind']} orders it"
    return f"if new, at {' '.join(found.log.replicas)}; {orders}; up to {show_size(found.log.max_bytes)} on disk"


def _inbox(found: Explanation) -> str:
    return f"{show_size(found.inbox_bytes)} for each process that does not read"


def _mtus(found: Explanation) -> str:
    by_mtu: dict[int | None, list[str]] = {}
    for name, mtu in found.mtus.items():
        by_mtu.setdefault(mtu, []).append(name)
    parts = [f"{'unknown' if mtu is None else mtu} to {' '.join(names)}" for mtu, names in by_mtu.items()]
    return f"MTU {', '.join(parts)}" if parts else "no other site"
