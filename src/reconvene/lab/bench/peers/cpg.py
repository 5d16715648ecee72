"""Measures Corosync's process groups: throughput, latency, and the time to a new configuration.

Each measurement starts daemons and one `cpg_load` for each, and ends them. All waits are bounded; it raises
`Unavailable` if Corosync can't be run or does not finish.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, monotonic_ns

from reconvene.lab.bench.figures import Latency, Reconfiguration
from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.peers.corosync import Corosync, Options
from reconvene.lab.bench.peers.processes import build
from reconvene.lab.load.process import LoadProcess, reach

__all__ = ["Latency", "Reconfiguration", "Throughput", "latency", "reconfiguration", "throughput"]

SOURCE = Path(__file__).parent / "cpg_load.c"
JOIN_TIMEOUT_S = 30.0
LATENCY_TIMEOUT_S = 120.0
WARM_UP_S = 0.5
WARM_UP_MESSAGES = 200
PHASES_S = 0.8
"""Heals are spread over so much: a ring without traffic looks for others by a timer."""
LATENCY_BYTES = 100
TRAFFIC_BYTES = 100

_GRACE_S = 20.0
"""More than a measurement should take."""


@dataclass(frozen=True, slots=True)
class Throughput:
    per_second: float
    """Messages delivered at every site."""
    real_time: bool
    """Whether the daemons had real-time scheduling."""
    foreign_cores: float
    """Cores that other programs used meanwhile."""


def throughput(size: int, seconds: float, options: Options) -> Throughput:
    """All sites send messages of `size` bytes as fast as they are accepted.

    The order is the same everywhere, so what the slowest site has delivered by then was delivered everywhere.
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
    """One site sends one message at a time: the next one after it has delivered the last one, and after a pause."""
    total = count + WARM_UP_MESSAGES

    def arguments(index: int) -> list[str]:
        return ["latency", *map(str, (options.sites, size, total, pause_us)), "send" if index == 0 else "listen"]

    with _loads(options, arguments) as (corosync, loads):
        deadline = monotonic() + LATENCY_TIMEOUT_S + total * pause_us / 1e6
        with Foreign(lambda: _pids(corosync, loads)) as foreign:
            for load in reversed(loads):  # the sender last
                load.say("go")
            took = [load.hear("took", deadline)["took"][WARM_UP_MESSAGES:] for load in loads]
        return Latency.of(took, foreign.cores)


def reconfiguration(options: Options, heals: int = 4, per_second: int = 500) -> Reconfiguration:
    """The last site is cut off and healed `heals` times, then its daemon killed, while each site sends at a fixed
    rate.

    A merge starts with a message from the other side, so the rate decides how long a heal takes: state it with the
    figure. Without messages it waits for a timer, which grows with the token's timeout.
    """
    last = options.sites - 1
    arguments = ["watch", *map(str, (options.sites, TRAFFIC_BYTES, per_second))]
    with _loads(options, lambda index: arguments) as (corosync, loads):
        return Reconfiguration.measure(
            loads,
            corosync.network,
            lambda: _pids(corosync, loads),
            lambda: corosync.crash(last),
            "go",
            heals,
            PHASES_S,
        )


@contextmanager
def _loads(
    options: Options, arguments: Callable[[int], Sequence[str]]
) -> Iterator[tuple[Corosync, list[LoadProcess]]]:
    """Runs a load at each site, all in one group; `arguments` returns those of a site's load."""
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
    return build(["cc", "-O2", "-o", str(program), str(SOURCE), "-lcpg"], program)


def _pids(corosync: Corosync, loads: Sequence[LoadProcess]) -> list[int]:
    return [process.pid for process in (*corosync.daemons, *(load.process for load in loads))]
