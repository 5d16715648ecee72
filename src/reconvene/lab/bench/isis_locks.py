"""Locks: ours, by `reconvene.objects.Lock`, beside those of etcd, by its concurrency package.

Three programs, one at each of three sites or members. One of them acquires and releases a lock that nobody else
wants, again and again. Ours also takes another lock each time, since a lock that was used is kept for a while. Then
two programs take one lock in turn. Last, one has a lock, another one waits, and the first is killed with -9: how
long until the second has it? etcd's clients have the shortest lease that it grants. Our programs are clients of their
sites; but for the last figure, also with the sites inside them.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep

from reconvene.lab.bench.peers.etcd import EtcdLocks
from reconvene.lab.bench.results import Bar, Results
from reconvene.lab.bench.sheet import Settings, percentile
from reconvene.lab.bench.sites import Setup, started
from reconvene.lab.load.isis_file import Figures
from reconvene.lab.load.process import LoadProcess, end, start
from reconvene.local.cluster import LocalCluster

__all__ = ["add", "measures"]

_MODULE = "reconvene.lab.load.isis_locks"
_WARM_UP = 20
_READY_S = 60.0
_WAIT_S = 30.0
_BEFORE_KILL_S = 0.5
"""For the second program to wait for the lock."""


def measures(settings: Settings) -> dict[str, Callable[[], Figures]]:
    count = 100 if settings.quick else 500
    found: dict[str, Callable[[], Figures]] = {
        "locks of clients": lambda: _clients(count),
        "locks with sites inside": lambda: _inside(count),
    }
    if "etcd" in settings.peers:
        found["locks of etcd"] = lambda: _etcd(count)
    return found


def _clients(count: int) -> Figures:
    settings = {"isis": {"enabled": True}, "log": {"enabled": False}}
    with (
        tempfile.TemporaryDirectory(prefix="rcv-", dir="/var/tmp") as folder,
        LocalCluster.create(Path(folder) / "c", 3, trace=False, settings=settings) as cluster,
    ):
        cluster.start(_READY_S)
        errors = Path(folder) / "errors"
        loads = [start("locks", _MODULE, [address, "3"], errors) for address in cluster.addresses.values()]
        try:
            _ready(loads)
            return {
                "lock of a client": _latency(loads[0], count),
                "lock of a client, others": _latency(loads[0], count, "others"),
                "lock of a client, in turn": _in_turn(loads[:2], count),
                "hand-over": _hand_over(loads[1:]),
            }
        finally:
            end(loads)


def _inside(count: int) -> Figures:
    with started(Setup(isis=True), _MODULE) as run:
        _ready(run.loads)
        return {
            "lock": _latency(run.loads[0], count),
            "lock, others": _latency(run.loads[0], count, "others"),
            "lock, in turn": _in_turn(run.loads[:2], count),
        }


def _etcd(count: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="rcv-", dir="/var/tmp") as folder, EtcdLocks(Path(folder)) as etcd:
        return {
            "lock, etcd": _latency(etcd.loads[0], count),
            "lock, in turn, etcd": _in_turn(etcd.loads[:2], count),
            "hand-over, etcd": _hand_over(etcd.loads[1:]),
        }


def _ready(loads: Sequence[LoadProcess]) -> None:
    deadline = monotonic() + _READY_S
    for load in loads:
        load.hear("ready", deadline)


def _latency(load: LoadProcess, count: int, order: str = "latency") -> float:
    """Acquire and release, p50 in ms."""
    load.say(f"{order} free {count + _WARM_UP}")
    return _median_ms(load.hear("took", monotonic() + _WAIT_S + count)["took"])


def _in_turn(loads: Sequence[LoadProcess], count: int) -> float:
    """The same, by two programs that take the lock one after the other."""
    took: list[int] = []
    for turn in range(count + _WARM_UP):
        load = loads[turn % len(loads)]
        load.say("latency turn 1")
        took += load.hear("took", monotonic() + _WAIT_S)["took"]
    return _median_ms(took)


def _median_ms(took: Sequence[int]) -> float:
    """Without the first ones, which are to get warm."""
    return percentile([nanoseconds / 1e6 for nanoseconds in took[_WARM_UP:]], 50)


def _hand_over(loads: Sequence[LoadProcess]) -> float:
    """Milliseconds from kill -9 of the holder until the next one has the lock."""
    holder, waiting = loads
    holder.say("take kept")
    holder.hear("got", monotonic() + _WAIT_S)
    waiting.say("take kept")
    sleep(_BEFORE_KILL_S)
    killed = monotonic()
    holder.process.kill()
    waiting.hear("got", killed + _WAIT_S)
    return (monotonic() - killed) * 1e3


def add(results: Results, values: Figures) -> None:
    etcd = ("etcd", values["lock, etcd"]) if "lock, etcd" in values else None
    if etcd is not None:
        results.add("lock, acquire and release, p50", "etcd", etcd[1], "ms")
    turns = ("etcd", values["lock, in turn, etcd"]) if etcd is not None else None
    if turns is not None:
        results.add("lock, acquire and release, p50; two programs in turn", "etcd", turns[1], "ms")
    for program, name in (("site inside", "lock"), ("client", "lock of a client")):
        work = f"lock, acquire and release, p50; {program}"
        results.add(f"{work}; the same lock", "reconvene", values[name], "ms", etcd, Bar(0.5))
        results.add(f"{work}; another lock each time", "reconvene", values[f"{name}, others"], "ms", etcd, Bar(0.5))
        results.add(f"{work}; two programs in turn", "reconvene", values[f"{name}, in turn"], "ms", turns)
    leased = ("etcd", values["hand-over, etcd"]) if "hand-over, etcd" in values else None
    if leased is not None:
        results.add("lock, hand-over after kill -9, shortest lease", "etcd", leased[1], "ms")
    results.add("lock, hand-over after kill -9; clients", "reconvene", values["hand-over"], "ms", leased, Bar(0.1))
