"""Measures our sites, each in a process of its own: throughput, latency, and the time to a new configuration.

`running` starts sites, each inside a program that uses the public interface, and ends them. All waits are bounded.
Sites run on loopback, or in network namespaces with the peer's MTU: see `Setup`.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import Any

from reconvene.errors import Unavailable
from reconvene.lab.bench.figures import Latency, Reconfiguration
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.rounds import OwnSitesFailed
from reconvene.lab.load.process import LoadProcess, end, reach, start
from reconvene.lab.namespaces import Namespaces
from reconvene.local.ports import choose
from reconvene.runtime.access.key_files import write_cluster_key

__all__ = [
    "CLUSTER",
    "Latency",
    "Reconfiguration",
    "Running",
    "Setup",
    "Throughput",
    "reconfiguration",
    "running",
    "running_isis",
]

CLUSTER = "bench"
WARM_UP_S = 0.7
WARM_UP_MESSAGES = 200
JOIN_TIMEOUT_S = 60.0
LATENCY_TIMEOUT_S = 60.0
_GRACE_S = 30.0
_BEACONS_S = 0.1
"""Between two beacons, by which sites find each other."""
_PORT = 7400
_QUEUE_BYTES = 4 << 20
_QUEUE_MESSAGES = 20_000
"""Limits of a site's send queue: enough for a hundred turns, and soon sent when a measurement is over."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Where sites run, and how."""

    sites: int = 3
    mtu: int | None = None
    """MTU of the links between namespaces; None: loopback."""
    sealed: bool = True
    frame_bytes: int = 0
    """0: from the path."""
    trains: bool = True
    order: str = "atop"
    isis: bool = False
    """The sites take part in ISIS."""
    suspect_ms: int | None = None
    """A silent member is suspected after so long, for any number of sites; at least three beacons. None: the
    default."""

    @property
    def path(self) -> str:
        return "loopback" if self.mtu is None else f"MTU {self.mtu}"

    @property
    def system(self) -> str:
        """Its name in rows."""
        parts = ["reconvene", "" if self.sealed else " not sealed", f", {self.path}"]
        if not self.trains:
            parts.append(", no trains")
        if self.frame_bytes:
            parts.append(f", frames of {self.frame_bytes:,} B")
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Throughput:
    per_second: float
    """Messages delivered at every site."""
    user: tuple[float, ...]
    """Cores that each site used, in the program and in the kernel."""
    system: tuple[float, ...]
    counted: tuple[dict[str, int], ...]
    """The increase of each site's counters."""
    foreign_cores: float
    profile: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """If requested: samples by file, function and line, of all sites."""

    @property
    def cpu(self) -> tuple[float, ...]:
        return tuple(user + system for user, system in zip(self.user, self.system, strict=True))

    def total(self, counter: str) -> int:
        return sum(counted.get(counter, 0) for counted in self.counted)


@dataclass(frozen=True, slots=True)
class Running:
    """Sites, each with a load, all in one group."""

    setup: Setup
    network: Namespaces | None
    addresses: tuple[tuple[str, int], ...]
    """The address of each site."""
    key: Path
    """The cluster's key, even if it is not used."""
    loads: tuple[LoadProcess, ...]
    sink: tuple[str, int]
    """The first site's process reads and drops datagrams to this address."""
    sockets: Sequence[Path] = ()
    """For clients, by site."""
    processes: list[str] = field(default_factory=list)
    """The ISIS process inside each site, if there is one."""

    @property
    def pids(self) -> list[int]:
        return [load.process.pid for load in self.loads]

    def throughput(
        self, size: int, seconds: float, profile: bool = False, beside: Sequence[tuple[LoadProcess, str]] = ()
    ) -> Throughput:
        """All sites send messages of `size` bytes as fast as they are accepted.

        The order is the same everywhere, so what the slowest site has delivered by then was delivered everywhere.
        Each load in `beside` gets the same moments, followed by its text, and does not count as another program.
        """
        deadline = monotonic() + WARM_UP_S + seconds + _GRACE_S
        begin = monotonic_ns() + int(WARM_UP_S * 1e9)
        moments = f"{begin} {begin + int(seconds * 1e9)}"
        with Foreign(lambda: [*self.pids, *(load.process.pid for load, _ in beside)]) as foreign:
            for load, more in beside:
                load.say(f"{moments} {more}")
            for load in self.loads:
                load.say(f"{moments} {size}{' profile' if profile else ''}")
            answers = [load.hear("to", deadline) for load in self.loads]
        everywhere = min(line["to"] for line in answers) - min(line["from"] for line in answers)
        return Throughput(
            everywhere / seconds,
            tuple(line["user"] / seconds for line in answers),
            tuple(line["system"] / seconds for line in answers),
            tuple(line["counted"] for line in answers),
            foreign.cores,
            _profile(answers),
        )

    def latency(self, count: int, service: str, pause_us: int, size: int = 100) -> Latency:
        """One site sends one message at a time: the next one after it has delivered the last one, and after a
        pause."""
        total = count + WARM_UP_MESSAGES
        deadline = monotonic() + LATENCY_TIMEOUT_S + total * pause_us / 1e6
        with Foreign(lambda: self.pids) as foreign:
            for load in reversed(self.loads):  # the sender last
                role = "send" if load is self.loads[0] else "listen"
                load.say(f"{total} {size} {pause_us} {service} {role}")
            took = [load.hear("took", deadline)["took"][WARM_UP_MESSAGES:] for load in self.loads]
        return Latency.of(took, foreign.cores)


def _profile(answers: Sequence[dict[str, Any]]) -> Counter[tuple[str, str, int]]:
    seen: Counter[tuple[str, str, int]] = Counter()
    for line in answers:
        for file, function, number, count in line.get("profile", ()):
            seen[file, function, number] += count
    return seen


def reconfiguration(setup: Setup, heals: int = 4, per_second: int = 500, size: int = 100) -> Reconfiguration:
    """The last site is cut off and healed `heals` times, then killed with -9, while each site sends at a fixed
    rate."""
    with running(setup, "watch") as run:
        assert run.network is not None, "cuts need namespaces"
        return Reconfiguration.measure(
            run.loads,
            run.network,
            lambda: run.pids,
            run.loads[-1].process.kill,
            f"{size} {per_second}",
            heals,
            _BEACONS_S,
        )


@contextmanager
def running(setup: Setup, mode: str) -> Iterator[Running]:
    """Runs sites with loads in a mode of `group_site`, all in one group."""
    with started(setup, "reconvene.lab.load.group_site", mode) as run:
        reach(run.loads, setup.sites, monotonic_ns(), JOIN_TIMEOUT_S)
        yield run


@contextmanager
def running_isis(setup: Setup) -> Iterator[Running]:
    """Runs sites with loads of `isis_site`."""
    with started(setup, "reconvene.lab.load.isis_site") as run:
        deadline = monotonic() + JOIN_TIMEOUT_S
        for load in run.loads:
            run.processes.append(load.hear("ready", deadline)["ready"])
        yield run


@contextmanager
def started(setup: Setup, module: str, *mode: str) -> Iterator[Running]:
    """Sites inside programs of this module, which get their file, the number of sites, and `mode`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rcv-", dir="/var/tmp")))
        network = (
            None if setup.mtu is None else stack.enter_context(Namespaces(setup.sites, setup.mtu, true_packets=True))
        )
        if network is None:
            *addresses, sink = [("127.0.0.1", port) for port in choose(setup.sites + 1)]
        else:
            addresses = [(address, _PORT) for address in network.addresses]
            sink = network.addresses[0], _PORT + 1
        key = folder / "cluster.key"
        write_cluster_key(key)
        loads: list[LoadProcess] = []
        stack.enter_context(_failing())
        stack.callback(end, loads)
        for index, file in enumerate(_configure(setup, addresses, key, folder)):
            where = [f"{sink[0]}:{sink[1]}"] if mode and not index else []
            arguments = [str(file), str(setup.sites), *mode, *where]
            loads.append(start("reconvene", module, arguments, folder / f"load-{index}", network, index))
        for load in loads:
            load.beside = loads
        sockets = [folder / f"site-{index}" / "site.sock" for index in range(setup.sites)]
        yield Running(setup, network, tuple(addresses), key, tuple(loads), sink, sockets)


@contextmanager
def _failing() -> Iterator[None]:
    """What is unavailable from here on are our own sites."""
    try:
        yield
    except Unavailable as error:
        raise OwnSitesFailed(str(error)) from error


def _configure(setup: Setup, addresses: Sequence[tuple[str, int]], key: Path, folder: Path) -> list[Path]:
    """A configuration file for each site."""
    names = [f"site-{index}" for index in range(setup.sites)]
    seal = f'keys = ["{key}"]' if setup.sealed else "insecure = true"
    timing = (
        ""
        if setup.suspect_ms is None
        else f'[timing]\nsuspect_base = "{setup.suspect_ms}ms"\nsuspect_per_site = "0ms"\n'
        f'beacon_every = "{min(100, setup.suspect_ms // 3)}ms"\n'
    )
    sites = "".join(f'{name} = "{host}:{port}"\n' for name, (host, port) in zip(names, addresses, strict=True))
    files = []
    for name in names:
        file = folder / f"{name}.toml"
        file.write_text(
            f'cluster = "{CLUSTER}"\nname = "{name}"\ndir = "{folder / name}"\n[sites]\n{sites}[seal]\n{seal}\n'
            f"[transport]\nframe_bytes = {setup.frame_bytes}\ntrains = {str(setup.trains).lower()}\n"
            f'[order]\nengine = "{setup.order}"\n{timing}'
            f"[limits]\nqueue_bytes = {_QUEUE_BYTES}\nqueue_messages = {_QUEUE_MESSAGES}\n"
            f'[logging]\nlevel = "error"\n[isis]\nenabled = {str(setup.isis).lower()}\n'
        )
        files.append(file)
    return files
