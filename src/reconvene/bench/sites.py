"""What our sites do: throughput, latency, and the time to a new configuration, by processes of their own.

Each measurement starts sites, each with one process inside it that uses the public interface, and ends them; each is
bounded by a time-out. They run on loopback, or in network namespaces with the peer's MTU: a `Place` says where.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, monotonic_ns, sleep

from reconvene.bench.foreign import Foreign
from reconvene.bench.loads import Load, percentile, reach
from reconvene.bench.namespaces import Namespaces
from reconvene.local.ports import choose
from reconvene.runtime.keys import write_cluster_key

__all__ = ["Latency", "Place", "Reconfiguration", "Throughput", "latency", "reconfiguration", "throughput"]

WARM_UP_S = 1.0
WARM_UP_MESSAGES = 200
SETTLE_S = 1.0
JOIN_TIMEOUT_S = 30.0
LATENCY_TIMEOUT_S = 120.0
_GRACE_S = 20.0
_PORT = 7400


@dataclass(frozen=True, slots=True)
class Place:
    """Where sites run, and how."""

    sites: int = 3
    mtu: int | None = None
    """Of the links between namespaces; None: loopback."""
    sealed: bool = True
    frame_bytes: int = 0
    """0: from the path."""
    order: str = "atop"
    suspect_ms: int | None = None
    """None: the default."""

    @property
    def path(self) -> str:
        return "loopback" if self.mtu is None else f"MTU {self.mtu}"


@dataclass(frozen=True, slots=True)
class Throughput:
    per_second: float
    """Messages delivered at every site."""
    cpu: tuple[float, ...]
    """Cores that each site used."""
    foreign_cores: float


@dataclass(frozen=True, slots=True)
class Latency:
    """In microseconds: to the sender's own delivery, and to that of the slowest site."""

    self_p50: float
    self_p99: float
    slowest_p50: float
    slowest_p99: float
    foreign_cores: float


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Milliseconds until the last of the processes concerned had the new view."""

    cuts_ms: tuple[float, ...]
    heals_ms: tuple[float, ...]
    crash_ms: float
    foreign_cores: float

    @property
    def cut_ms(self) -> float:
        return median(self.cuts_ms)

    @property
    def heal_ms(self) -> float:
        return median(self.heals_ms)


def throughput(size: int, seconds: float, place: Place) -> Throughput:
    """All sites send messages of so many bytes as fast as they are taken.

    The order is the same everywhere, so what the last site has delivered at a moment was delivered everywhere.
    """
    with _loads(place, lambda index: ["throughput", str(place.sites), str(size)]) as (_, loads):
        deadline = monotonic() + WARM_UP_S + seconds + _GRACE_S
        start = monotonic_ns() + int(WARM_UP_S * 1e9)
        with Foreign(lambda: _pids(loads)) as foreign:
            for load in loads:
                load.say(f"{start} {start + int(seconds * 1e9)}")
            counts = [load.hear("to", deadline) for load in loads]
        everywhere = min(count["to"] for count in counts) - min(count["from"] for count in counts)
        cpu = tuple(count["cpu"] / seconds for count in counts)
        return Throughput(everywhere / seconds, cpu, foreign.cores)


def latency(count: int, place: Place, service: str, pause_us: int, size: int = 100) -> Latency:
    """One site sends one message at a time: the next when it has delivered the last, and a pause has passed."""
    total = count + WARM_UP_MESSAGES

    def arguments(index: int) -> list[str]:
        numbers = map(str, (place.sites, size, total, pause_us))
        return ["latency", *numbers, service, "send" if index == 0 else "listen"]

    with _loads(place, arguments) as (_, loads):
        deadline = monotonic() + LATENCY_TIMEOUT_S + total * pause_us / 1e6
        with Foreign(lambda: _pids(loads)) as foreign:
            for load in reversed(loads):  # the sender last
                load.say("go")
            took = [load.hear("took", deadline)["took"][WARM_UP_MESSAGES:] for load in loads]
        own = [nanoseconds / 1e3 for nanoseconds in took[0]]
        slowest = [max(by_site) / 1e3 for by_site in zip(*took, strict=True)]
        return Latency(
            percentile(own, 50), percentile(own, 99), percentile(slowest, 50), percentile(slowest, 99), foreign.cores
        )


def reconfiguration(place: Place, heals: int = 4, per_second: int = 500) -> Reconfiguration:
    """The last site is cut off and healed so many times, then killed with -9, while each site sends at a pace."""
    sites, last = place.sites, place.sites - 1
    arguments = ["watch", *map(str, (sites, 100, per_second))]
    cuts_ms, heals_ms = [], []
    with _loads(place, lambda index: arguments) as (network, loads):
        assert network is not None, "cuts need namespaces"
        with Foreign(lambda: _pids(loads)) as foreign:
            for load in loads:
                load.say("go")
            for turn in range(heals):
                sleep(SETTLE_S)
                cut = monotonic_ns()
                network.cut([range(last), [last]])
                cuts_ms.append(reach(loads[:last], last, cut))
                reach(loads[last:], 1, cut)
                # Spread over the phases of the beacons, by which sites find each other.
                sleep(SETTLE_S + (turn + 0.5) / heals * 0.1)
                healed = monotonic_ns()
                network.heal()
                heals_ms.append(reach(loads, sites, healed))
            sleep(SETTLE_S)
            killed = monotonic_ns()
            loads[last].process.kill()
            crash_ms = reach(loads[:last], last, killed)
        return Reconfiguration(tuple(cuts_ms), tuple(heals_ms), crash_ms, foreign.cores)


@contextmanager
def _loads(place: Place, arguments: Callable[[int], Sequence[str]]) -> Iterator[tuple[Namespaces | None, list[Load]]]:
    """A site with its load at each index, all in one group."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rcv-", dir="/var/tmp")))
        network = None if place.mtu is None else stack.enter_context(Namespaces(place.sites, place.mtu))
        loads: list[Load] = []
        stack.callback(_end, loads)
        for index, file in enumerate(_configure(place, network, folder)):
            argv = [sys.executable, "-m", "reconvene.bench.site_load", str(file), *arguments(index)]
            errors = folder / f"load-{index}"
            with errors.open("wb") as stderr:
                if network is None:
                    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
                else:
                    process = network.run(index, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
            loads.append(Load("reconvene", process, errors))
        reach(loads, place.sites, monotonic_ns(), JOIN_TIMEOUT_S)
        yield network, loads


def _configure(place: Place, network: Namespaces | None, folder: Path) -> list[Path]:
    """A configuration file for each site."""
    names = [f"site-{index}" for index in range(place.sites)]
    if network is None:
        addresses = [f"127.0.0.1:{port}" for port in choose(place.sites)]
    else:
        addresses = [f"{address}:{_PORT}" for address in network.addresses]
    key = folder / "cluster.key"
    write_cluster_key(key)
    seal = f'keys = ["{key}"]' if place.sealed else "insecure = true"
    timing = (
        ""
        if place.suspect_ms is None
        else f'[timing]\nsuspect_base = "{place.suspect_ms}ms"\nsuspect_per_site = "0ms"\n'
    )
    sites = "".join(f'{name} = "{address}"\n' for name, address in zip(names, addresses, strict=True))
    files = []
    for name in names:
        file = folder / f"{name}.toml"
        file.write_text(
            f'cluster = "bench"\nname = "{name}"\ndir = "{folder / name}"\n[sites]\n{sites}[seal]\n{seal}\n'
            f'[transport]\nframe_bytes = {place.frame_bytes}\n[order]\nengine = "{place.order}"\n{timing}'
            f'[log]\nlevel = "error"\n'
        )
        files.append(file)
    return files


def _end(loads: Sequence[Load]) -> None:
    for load in loads:
        if load.process.stdin is not None:
            load.process.stdin.close()
    for load in loads:
        try:
            load.process.wait(5)
        except subprocess.TimeoutExpired:
            load.process.kill()
            load.process.wait()
        if load.process.stdout is not None:
            load.process.stdout.close()


def _pids(loads: Sequence[Load]) -> list[int]:
    return [load.process.pid for load in loads]
