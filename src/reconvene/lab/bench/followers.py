"""What followers cost the replicas, and how fast a follower is read: real processes on loopback.

Followers belong on other machines than the replicas. Here they share one, so a throughput beside 20 of them mostly
shows that they need processor time too. It is measured twice: with everyone on all cores (`shared`), and with the
replicas and the program that appends on one half of the cores, followers on the other half (`own`). In both, the
throughput without followers is measured in the same places, with the followers stopped, and that with the first one
alone, which is the only one that the replicas serve: in rounds of six turns, none, one, all, all, one, none, so that
a machine that becomes slower or faster does so for all. In `own`, the first
follower of the tree, which is the one that the replicas serve, comes before the others on their half: it has to keep
up, or the replicas would be spared. How far it was behind at the end is printed. The followers' data is in memory, if
there is such a file system: their disk is another machine's too. The half that handles the disk's interrupts is the
replicas': they wait for their syncs.

What looks like two cores is often one core with two threads, and each is up to twice as fast while the other has
nothing to do. So in every turn a program keeps each core busy that would have nothing to do: else the turns without
followers would measure a faster processor.

Beside each throughput stands what the replicas needed for it: how many messages they ordered in a second of their own
processor time, all three together. Where all share the cores that is no measure of their cost alone: replicas that
get the processor less often order fewer messages in each round, and need more time for each.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import reconvene
from reconvene.lab.bench.durable_disk import folder
from reconvene.lab.bench.foreign import spent_s
from reconvene.lab.bench.results import Bar, Results
from reconvene.lab.bench.rounds import spread
from reconvene.lab.bench.sheet import Settings, Sheet, number
from reconvene.local import LocalCluster

__all__ = ["run"]

FOLLOWERS = 20
SIZE = 100
_BATCH, _OUTSTANDING = 100, 2
"""Messages of one append, and appends under way at each replica."""
_READ = 1_000
"""Messages of one read."""
_LATE_EVERY_S = 0.15
"""Between two messages whose way to a follower is timed: longer than a follower rests."""
_PATIENCE_S = 120.0
_LOST = Bar(0.9, at_least=True)
_MEMORY = Path("/dev/shm")


def run(settings: Settings) -> Sheet:
    rounds, seconds = (1, 1.5) if settings.quick else (3, 2.5)
    results = Results("followers", settings, 5)
    results.begin(f"{FOLLOWERS} followers start")
    with folder() as place, _cluster(place) as tree:
        work = f"append {SIZE} B in batches of {_BATCH} until ordered, {FOLLOWERS} followers in a tree"
        results.begin("replicas and followers on cores of their own")
        with tree.apart():
            _add(results, f"{work}, own cores", tree.appends(rounds, seconds), _LOST)
            results.sheet.notes.append(
                f"own cores: replicas and load on {_shown(tree.ours)}, followers on {_shown(tree.theirs)}; at the end"
                f" of a turn the follower that the replicas serve was {number(tree.behind)} messages behind (median)"
            )
            results.begin("how late followers are")
            for load in ("alone", "under load"):
                for which, late in tree.late(12 * rounds, loaded=load == "under load").items():
                    results.add(f"ordered until read at a follower, {load}, p50", which, late * 1e3, "ms")
        results.begin("everyone on all cores")
        _add(results, f"{work}, shared cores", tree.appends(rounds, seconds), None)
        results.begin("reads")
        replica, follower = tree.reads(1 + rounds, seconds)
        work = f"read {_READ} messages of {SIZE} B"
        results.add(work, "a replica", replica, "reads/s")
        results.add(work, "a follower", follower, "reads/s", ("a replica", replica), _LOST)
    return results.finish("followers beside none")


class _Load(NamedTuple):
    """How fast messages were ordered, and what that cost."""

    rate: float
    """A second."""
    by_work: float
    """A second of the replicas' processor time."""


def _add(results: Results, work: str, loads: dict[int, list[_Load]], bar: Bar | None) -> None:
    for at, unit in enumerate(("appends/s", "appends/s of replicas' processor time")):
        by_round = {
            running: [(first[at] + second[at]) / 2 for first, second in zip(found[::2], found[1::2], strict=True)]
            for running, found in loads.items()
        }
        none = by_round.pop(0)
        results.add(work, "no followers", median(none), unit)
        for running, some in by_round.items():
            system = "the first follower" if running == 1 else f"{running} followers"
            judged = bar if running == FOLLOWERS else None
            results.add(work, system, median(some), unit, ("no followers", median(none)), judged)
            ratios = [with_them / without for without, with_them in zip(none, some, strict=True)]
            ratio = spread(ratios, "{:.2f}".format)
            results.sheet.notes.append(f"{work}, {unit}, {system}: ratios of the rounds {ratio}")


class _Tree:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._pids = cluster.pids
        self._followers = [self._pids[name] for name in cluster.followers]
        self.ours, self.theirs = _halves(sorted(os.sched_getaffinity(0)), _interrupts())
        self.behind = 0.0

    def wait_formed(self) -> None:
        """Until the replicas serve the first follower alone: while they start, others ask the replicas too."""
        sites = {f"unix:{address}" for address in self._sites().values()}
        give_up_at = time.monotonic() + _PATIENCE_S
        while True:
            statuses = self._cluster.statuses()
            sources = [
                statuses[name]["log"]["follow"]["source"] for name in self._cluster.followers if name in statuses
            ]
            if len(sources) == FOLLOWERS and sum(source in sites for source in sources) == 1 and all(sources):
                return
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"the followers are no tree after {_PATIENCE_S:g} s: {sources}")
            time.sleep(0.2)

    # -- where they run

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Followers on one half of the cores, all others on the other; the first follower before the others."""
        everyone = [os.getpid(), *self._pids.values()]
        others = self._followers[1:]
        try:
            for pid in everyone:
                _place(pid, self.theirs if pid in self._followers else self.ours)
            for pid in others:
                _schedule(pid, os.SCHED_IDLE)
            yield
        finally:
            for pid in everyone:
                _place(pid, {*self.ours, *self.theirs})
            for pid in others:
                _schedule(pid, os.SCHED_OTHER)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """No core has nothing to do. Whoever else wants it comes first."""
        fillers = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in (*self.ours, *self.theirs)]
        try:
            for filler, core in zip(fillers, [*self.ours, *self.theirs], strict=True):
                _place(filler.pid, [core])
                _schedule(filler.pid, os.SCHED_IDLE)
            yield
        finally:
            for filler in fillers:
                filler.kill()
                filler.wait()

    def _run(self, followers: int) -> None:
        """The first ones run, and have all that there is; the others are stopped."""
        for at, pid in enumerate(self._followers):
            os.kill(pid, signal.SIGCONT if at < followers else signal.SIGSTOP)
        if followers == FOLLOWERS:
            self.wait_formed()  # those that were stopped for long may look for another source at first
        self._catch_up(*self._cluster.followers[:followers])

    # -- appends

    def appends(self, rounds: int, seconds: float) -> dict[int, list[_Load]]:
        """By how many followers run: none, the first one, all. Two turns each in a round."""
        found: dict[int, list[_Load]] = {0: [], 1: [], FOLLOWERS: []}
        behind = []
        with self._busy():
            self._load(seconds)  # warms up
            for running in (*found, *reversed(found)) * rounds:
                self._run(running)
                found[running].append(self._load(seconds))
                if running == FOLLOWERS:
                    behind.append(self._green(self._cluster.names[0]) - self._green(self._cluster.followers[0]))
            self._run(FOLLOWERS)
        self.behind = median(behind)
        return found

    def late(self, times: int, loaded: bool) -> dict[str, float]:
        """From when a program knows a message's place until it has read it at the first follower and at the last,
        s."""
        names = self._cluster.followers
        self._catch_up(*names)
        sites = list(self._sites().values())
        ends = {"the first one": names[0], "the last one, deepest in the tree": names[-1]}
        with self._busy():
            return {
                which: median(asyncio.run(_late(sites, self._cluster.addresses[name], times, loaded)))
                for which, name in ends.items()
            }

    def _load(self, seconds: float) -> _Load:
        before = self._work()
        ordered, took = asyncio.run(_append(list(self._sites().values()), seconds))
        return _Load(ordered / took, ordered / (self._work() - before))

    def _work(self) -> float:
        """The replicas' processor time, s."""
        return sum(spent_s(self._pids[name]) for name in self._cluster.names)

    def _sites(self) -> dict[str, str]:
        return {name: self._cluster.addresses[name] for name in self._cluster.names}

    def _green(self, name: str) -> int:
        return asyncio.run(_green(self._cluster.addresses[name]))

    def _catch_up(self, *names: str) -> None:
        give_up_at = time.monotonic() + _PATIENCE_S
        wanted = self._green(self._cluster.names[0])
        for name in names:
            while self._green(name) < wanted:
                if time.monotonic() > give_up_at:
                    raise TimeoutError(f"{name} has not caught up within {_PATIENCE_S:g} s")
                time.sleep(0.05)

    # -- reads

    def reads(self, rounds: int, seconds: float) -> tuple[float, float]:
        """Reads a second at a replica and at the first follower, in turns; the other followers are stopped."""
        self._run(1)
        found: dict[str, list[float]] = {self._cluster.names[0]: [], self._cluster.followers[0]: []}
        for turn in range(rounds + 1):
            for name, rates in found.items():
                rate = asyncio.run(_read(self._cluster.addresses[name], seconds / 2))
                if turn:  # the first one warms both up
                    rates.append(rate)
        replica, follower = (median(rates) for rates in found.values())
        return replica, follower


@contextmanager
def _cluster(place: Path) -> Iterator[_Tree]:
    with LocalCluster.create(place / "c", nodes=3, trace=False, followers=FOLLOWERS) as cluster:
        memory = tempfile.mkdtemp(prefix="rcv-", dir=_MEMORY) if os.access(_MEMORY, os.W_OK) else None
        try:
            if memory is not None:
                for name in cluster.followers:
                    data = cluster.layout.data(name)
                    data.rmdir()
                    (Path(memory) / name).mkdir()
                    data.symlink_to(Path(memory) / name)
            cluster.start(timeout_s=_PATIENCE_S)
            tree = _Tree(cluster)
            tree.wait_formed()
            yield tree
        finally:
            cluster.kill()
            if memory is not None:
                shutil.rmtree(memory, ignore_errors=True)


async def _append(addresses: Sequence[str], seconds: float) -> tuple[int, float]:
    """Messages that were ordered, and in how many s."""
    ordered = 0
    until = time.perf_counter() + seconds

    async def writer(site: reconvene.Site) -> None:
        nonlocal ordered
        while time.perf_counter() < until:
            receipts = await site.log.append_many([bytes(SIZE)] * _BATCH)
            await receipts.ordered(timeout=_PATIENCE_S)
            ordered += _BATCH

    async def at(address: str) -> None:
        async with reconvene.connect(address, wait=_PATIENCE_S, timeout=_PATIENCE_S) as site:
            await asyncio.gather(*(writer(site) for _ in range(_OUTSTANDING)))

    began = time.perf_counter()
    await asyncio.gather(*(at(address) for address in addresses))
    return ordered, time.perf_counter() - began


async def _late(sites: Sequence[str], follower: str, times: int, loaded: bool) -> list[float]:
    found = []
    load = asyncio.ensure_future(_append(sites, times * _LATE_EVERY_S + 1)) if loaded else None
    async with (
        reconvene.connect(sites[0], wait=_PATIENCE_S, timeout=_PATIENCE_S) as site,
        reconvene.connect(follower, wait=_PATIENCE_S, timeout=_PATIENCE_S) as reader,
    ):
        for _ in range(times):
            await asyncio.sleep(_LATE_EVERY_S)
            place = await (await site.log.append(bytes(SIZE))).ordered(timeout=_PATIENCE_S)
            began = time.perf_counter()
            await reader.log.read(place, place + 1, at_least=place, timeout=_PATIENCE_S)
            found.append(time.perf_counter() - began)
    if load is not None:
        await load
    return found


async def _green(address: str) -> int:
    async with reconvene.connect(address, wait=_PATIENCE_S, timeout=_PATIENCE_S) as site:
        return (await site.log.status()).green


async def _read(address: str, seconds: float) -> float:
    """Reads a second, one after the other, from the log's beginning on."""
    reads = position = 0
    async with reconvene.connect(address, wait=_PATIENCE_S, timeout=_PATIENCE_S) as site:
        end = (await site.log.status()).green - _READ
        began = time.perf_counter()
        while time.perf_counter() < began + seconds:
            await site.log.read(position, position + _READ)
            position = 0 if position >= end else position + _READ
            reads += 1
        return reads / (time.perf_counter() - began)


def _halves(cores: list[int], interrupts: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """The replicas' cores and the followers'. The replicas wait for their disk, so they have the half that handles
    its interrupts; on the other one these would wait for followers."""
    half = max(1, len(cores) // 2)
    halves = cores[:half], cores[half:] or cores
    one, other = (sum(interrupts.get(core, 0) for core in cores) for cores in halves)
    return halves if one >= other else (halves[1], halves[0])


def _interrupts() -> dict[int, int]:
    """By core: how many interrupts of devices it has handled. Empty if the system does not tell."""
    try:
        head, *lines = Path("/proc/interrupts").read_text().splitlines()
    except OSError:
        return {}
    cores = [int(name.removeprefix("CPU")) for name in head.split()]
    found = dict.fromkeys(cores, 0)
    for line in lines:
        name, _, counts = line.partition(":")
        if name.strip().isdigit():  # the others are timers and what cores tell each other
            for core, count in zip(cores, counts.split(), strict=False):
                found[core] += int(count)
    return found


def _threads(pid: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


def _place(pid: int, cores: Iterable[int]) -> None:
    for thread in _threads(pid):
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(thread, cores)


def _schedule(pid: int, policy: int) -> None:
    for thread in _threads(pid):
        with suppress(ProcessLookupError):
            os.sched_setscheduler(thread, policy, os.sched_param(0))


def _shown(cores: Iterable[int]) -> str:
    listed = [str(core) for core in cores]
    return f"core{'s' if len(listed) > 1 else ''} {', '.join(listed)}"
