"""What Corosync's process groups do: throughput, latency, and the time to a new configuration, by a program of ours.

Each measurement starts daemons, puts one `cpg_load` at each, and ends both; each is bounded by a time-out, and raises
`Unavailable` where Corosync can't be run or does not get through.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic, monotonic_ns, sleep

from reconvene.errors import Unavailable
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.outcome import percentile
from reconvene.lab.bench.peers.corosync import Corosync, Options
from reconvene.lab.load.process import LoadProcess, reach

__all__ = ["Latency", "Reconfiguration", "Throughput", "latency", "reconfiguration", "throughput"]

SOURCE = Path(__file__).parent / "cpg_load.c"
COMPILE_TIMEOUT_S = 60.0
JOIN_TIMEOUT_S = 30.0
LATENCY_TIMEOUT_S = 120.0
WARM_UP_S = 0.5
WARM_UP_MESSAGES = 200
SETTLE_S = 1.0
"""Between one fault and the next: what a configuration brings with it is over."""
PHASES_S = 0.8
"""Heals are spread over so much: a ring without traffic looks for others by a timer, and a heal at one phase of it is
always quick or always slow."""
LATENCY_BYTES = 100
TRAFFIC_BYTES = 100

_GRACE_S = 20.0
"""Beyond what a measurement should take."""


@dataclass(frozen=True, slots=True)
class Throughput:
    per_second: float
    """Messages delivered at every site."""
    real_time: bool
    """Whether the daemons had real-time scheduling."""
    foreign_cores: float
    """Used by others meanwhile."""


@dataclass(frozen=True, slots=True)
class Latency:
    """In microseconds: to the sender's own delivery, and to that of the slowest site."""

    self_p50: float
    self_p99: float
    slowest_p50: float
    slowest_p99: float
    real_time: bool
    foreign_cores: float


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Milliseconds until the slowest of the sites concerned told its processes of the new configuration."""

    cuts_ms: tuple[float, ...]
    """After each cut that left one site alone."""
    heals_ms: tuple[float, ...]
    """After the end of each."""
    crash_ms: float
    """After kill -9 of a daemon."""
    real_time: bool
    foreign_cores: float

    @property
    def cut_ms(self) -> float:
        return median(self.cuts_ms)

    @property
    def heal_ms(self) -> float:
        return median(self.heals_ms)


def throughput(size: int, seconds: float, options: Options) -> Throughput:
    """All sites send messages of so many bytes as fast as they are taken.

    The order is the same everywhere, so what the last site has delivered at a moment was delivered everywhere.
    """
    with _loads(options, lambda index: ["throughput", str(options.sites), str(size)]) as (corosync, loads):
        deadline = monotonic() + WARM_UP_S + seconds + _GRACE_S
        start = monotonic_ns() + int(WARM_UP_S * 1e9)
        with Foreign(lambda: _pids(corosync, loads)) as foreign:
            for load in loads:
                load.say(f"{start} {start + int(seconds * 1e9)}")
            counts = [load.hear("from", deadline) for load in loads]
        everywhere = min(count["to"] for count in counts) - min(count["from"] for count in counts)
        return Throughput(everywhere / seconds, corosync.real_time(), foreign.cores)


def latency(count: int, options: Options, pause_us: int = 0, size: int = LATENCY_BYTES) -> Latency:
    """One site sends one message at a time: the next when it has delivered the last, and a pause has passed."""
    total = count + WARM_UP_MESSAGES

    def arguments(index: int) -> list[str]:
        return ["latency", *map(str, (options.sites, size, total, pause_us)), "send" if index == 0 else "listen"]

    with _loads(options, arguments) as (corosync, loads):
        deadline = monotonic() + LATENCY_TIMEOUT_S + total * pause_us / 1e6
        with Foreign(lambda: _pids(corosync, loads)) as foreign:
            for load in reversed(loads):  # the sender last
                load.say("go")
            took = [load.hear("took", deadline)["took"][WARM_UP_MESSAGES:] for load in loads]
        own = [nanoseconds / 1e3 for nanoseconds in took[0]]
        slowest = [max(by_site) / 1e3 for by_site in zip(*took, strict=True)]
        return Latency(
            percentile(own, 50), percentile(own, 99), percentile(slowest, 50), percentile(slowest, 99),
            corosync.real_time(), foreign.cores,
        )  # fmt: skip


def reconfiguration(options: Options, heals: int = 4, per_second: int = 500) -> Reconfiguration:
    """The last site is cut off and healed so many times, then its daemon killed, while each site sends at a pace.

    A merge starts with a message from the other side, so the pace decides how long a heal takes: give it with the
    figure. Without any messages it waits for a timer, which the token's time-out lengthens.
    """
    sites, last = options.sites, options.sites - 1
    arguments = ["watch", *map(str, (sites, TRAFFIC_BYTES, per_second))]
    cuts_ms, heals_ms = [], []
    with _loads(options, lambda index: arguments) as (corosync, loads):
        real_time = corosync.real_time()
        with Foreign(lambda: _pids(corosync, loads)) as foreign:
            for load in loads:
                load.say("go")
            for place in range(heals):
                sleep(SETTLE_S)
                # From the order, not from its return: while a ring forms, we may not get to run.
                cut = monotonic_ns()
                corosync.network.cut([range(last), [last]])
                cuts_ms.append(reach(loads[:last], last, cut))
                reach(loads[last:], 1, cut)
                sleep(SETTLE_S + (place + 0.5) / heals * PHASES_S)
                healed = monotonic_ns()
                corosync.network.heal()
                heals_ms.append(reach(loads, sites, healed))
            sleep(SETTLE_S)
            killed = monotonic_ns()
            corosync.crash(last)
            crash_ms = reach(loads[:last], last, killed)
        return Reconfiguration(tuple(cuts_ms), tuple(heals_ms), crash_ms, real_time, foreign.cores)


@contextmanager
def _loads(
    options: Options, arguments: Callable[[int], Sequence[str]]
) -> Iterator[tuple[Corosync, list[LoadProcess]]]:
    """A load at each site, all in one group; `arguments` are those of a site's load."""
    with Corosync(options) as corosync:
        program = _compile(corosync.folder)
        loads = []
        for index in range(options.sites):
            errors = corosync.folder / f"load-{index}"
            with errors.open("wb") as file:
                process = corosync.run(
                    index, [str(program), *arguments(index)], subprocess.PIPE, subprocess.PIPE, file
                )
            loads.append(LoadProcess("corosync", process, errors))
        reach(loads, options.sites, monotonic_ns(), JOIN_TIMEOUT_S)
        yield corosync, loads


def _compile(folder: Path) -> Path:
    program = folder / "cpg_load"
    try:
        done = subprocess.run(
            ["cc", "-O2", "-o", str(program), str(SOURCE), "-lcpg"],
            capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"cc: {error}") from None
    if done.returncode:
        raise Unavailable(f"cc: {' '.join(done.stderr.split())}")
    return program


def _pids(corosync: Corosync, loads: Sequence[LoadProcess]) -> list[int]:
    return [process.pid for process in (*corosync.daemons, *(load.process for load in loads))]
