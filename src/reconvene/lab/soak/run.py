"""One run of a soak: a cluster under load, broken again and again, mended, brought to rest, and judged."""

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct, field

from reconvene.lab.ledger.compare import FINDINGS_KEPT
from reconvene.lab.load.fleet import ClientFleet
from reconvene.lab.soak.faults import (
    BLACKOUT,
    BREAKS,
    DISK,
    HARD,
    ISOLATE,
    PLACE_BREAKS,
    PROCESS_BREAKS,
    RandomFaults,
)
from reconvene.lab.soak.judge import Counts, count, judge
from reconvene.lab.soak.vitals import Life, Vitals
from reconvene.local.cluster import LocalCluster

__all__ = ["TOGETHER_S", "Notify", "Soak", "SoakRun", "break_until"]

Notify = Callable[[str], None]

_GAP_S = (0.3, 1.5)
"""Between two steps."""
_BREAK_S = 2.0
"""After so long without a new fault, the next step is one."""
_HURRY_S = 3.0
"""After so long without a new fault, the next step comes at once: starting a site takes a while."""
_LOOK_S = 3.0
TOGETHER_S = 60.0
"""For sites to start and to form one configuration, on a busy machine."""

T = TypeVar("T", bound=Struct)


class SoakRun(Struct, Generic[T], kw_only=True):
    """The outcome of one run; `clients` is what its clients saw."""

    number: int
    seed: int
    sites: int
    load_s: float
    """How long the clients wrote."""
    rest_s: float
    """From when everything was mended until the cluster was at rest."""
    clients: T
    counts: Counts
    faults: dict[str, int]
    longest_gap_s: float
    """The longest time without a new fault."""
    longest_hard_gap_s: float
    """The longest time without a kill or a partition."""
    dropped: dict[str, int]
    """What sites did not take in, by counter."""
    spared: str
    """The site that was not ended alone: its life is long enough to compare its memory."""
    lives: list[Life]
    peaks: dict[str, int] = field(default_factory=dict)
    """The most that was seen in each queue of the ISIS layer, at any site."""
    cases: dict[str, int]
    violations: int
    judged_s: float
    findings: list[str] = field(default_factory=list)
    """Violations, and what the audit of the clients found; the first ones."""

    @property
    def ok(self) -> bool:
        return not self.violations and not self.findings

    @property
    def hard(self) -> int:
        return sum(self.faults.get(kind, 0) for kind in HARD)

    @property
    def breaks(self) -> int:
        return sum(
            self.faults.get(kind, 0) for kind in (*BREAKS, *PROCESS_BREAKS, *PLACE_BREAKS, DISK, ISOLATE, BLACKOUT)
        )


class Soak(ABC, Generic[T]):
    """A kind of soak: what its clients do, how its sites are broken, and what its reports say."""

    profile: ClassVar[str]
    """The name under which its outcomes are kept."""
    rate: ClassVar[float]
    """Messages a second that the clients try to write, by default."""
    least: ClassVar[float] = 1000.0
    """Messages a second below which the soak fails, by default."""
    unit: ClassVar[str]
    """What `written` counts."""
    spare_bytes: ClassVar[int] = 0
    """Memory that a site may fill besides."""
    kinds: ClassVar[Sequence[str]]
    """Faults, in the order in which a report lists them."""

    @property
    @abstractmethod
    def run_type(self) -> type[SoakRun[T]]:
        """The type of an outcome."""

    @abstractmethod
    def open(self, directory: Path, sites: int) -> LocalCluster:
        """The cluster of the next run."""

    @abstractmethod
    def load(self, cluster: LocalCluster, rate: float, seed: int, log: Path) -> ClientFleet[Any]:
        """Starts the clients."""

    @abstractmethod
    def wait_loaded(self, cluster: LocalCluster) -> None:
        """Until the clients are at work."""

    @abstractmethod
    def faults(
        self, cluster: LocalCluster, load: ClientFleet[Any], seed: int, spared: str, notify: Notify
    ) -> RandomFaults: ...

    @abstractmethod
    def breaking(
        self, faults: RandomFaults, load: ClientFleet[Any], vitals: Vitals, chance: random.Random, seconds: float
    ) -> None:
        """Breaks and mends for `seconds`."""

    @abstractmethod
    def wait_at_rest(self, cluster: LocalCluster) -> None:
        """Waits until the cluster is at rest. Everything is mended, and the clients have stopped writing."""

    @abstractmethod
    def audit(self, cluster: LocalCluster, load: ClientFleet[Any], end: Callable[[], object]) -> tuple[T, list[str]]:
        """What the clients saw, and what is wrong with it. Calls `end` once, which ends the sites."""

    def bounds(self, run: SoakRun[T]) -> dict[str, int]:
        """The most that each of the queues in `run.peaks` may hold."""
        return {}

    @abstractmethod
    def written(self, run: SoakRun[T]) -> int: ...

    @abstractmethod
    def detail(self, run: SoakRun[T]) -> str:
        """A part of the line that is printed when a run has ended."""

    @abstractmethod
    def lines(self, runs: Sequence[SoakRun[T]], seconds: float) -> Iterator[str]:
        """What the clients of all runs add up to."""

    def run(
        self, cluster: LocalCluster, number: int, seed: int, seconds: float, rate: float, log: Path, notify: Notify
    ) -> SoakRun[T]:
        """The trace stays in the cluster's directory."""
        spared = cluster.names[number % len(cluster.names)]
        vitals = Vitals()
        with cluster:
            cluster.start(TOGETHER_S)
            with self.load(cluster, rate, seed, log) as load:
                self.wait_loaded(cluster)
                began = time.monotonic()
                faults = self.faults(cluster, load, seed, spared, notify)
                self.breaking(faults, load, vitals, random.Random(f"soak/{seed}"), seconds)
                faults.mend()
                mended = time.monotonic()
                notify("everything is mended")
                cluster.wait_for(timeout_s=TOGETHER_S)
                load.quiet()
                self.wait_at_rest(cluster)
                rest_s = time.monotonic() - mended
                vitals.look(cluster)
                notify("waiting for a quiet trace")
                clients, found = self.audit(cluster, load, lambda: cluster.finish_trace(TOGETHER_S))
        notify("verifying the trace")
        judging = time.monotonic()
        verdict = judge(cluster.trace_dir)
        judged_s = time.monotonic() - judging
        return SoakRun(
            number=number,
            seed=seed,
            sites=len(cluster.names),
            load_s=mended - began,
            rest_s=rest_s,
            clients=clients,
            counts=count(cluster.trace_dir),
            faults=dict(faults.faults),
            longest_gap_s=faults.longest_gap_s,
            longest_hard_gap_s=faults.longest_hard_gap_s,
            dropped=vitals.refused(),
            spared=spared,
            lives=vitals.longest(),
            peaks=vitals.peaks,
            cases={check.id: check.cases for check in verdict.checks},
            violations=verdict.violations,
            judged_s=judged_s,
            findings=[*verdict.witnesses(), *found][:FINDINGS_KEPT],
        )


def break_until(
    faults: RandomFaults,
    load: ClientFleet[Any],
    vitals: Vitals,
    chance: random.Random,
    until: float,
    hard_s: float = math.inf,
) -> None:
    """Makes one fault after the other; what is broken in the end stays broken. Checks clients and sites now and then.

    `hard_s`: after so long without a kill or a partition the next fault is one of these.
    """
    look_at = 0.0
    while time.monotonic() < until:
        load.check()
        faults.check()
        if disk := faults.disk_due():
            faults.do(disk)
        elif faults.hard_idle_s > hard_s:
            faults.strike()
        else:
            faults.step(breaking=faults.idle_s > _BREAK_S)
        if time.monotonic() >= look_at:
            vitals.look(faults.cluster)
            look_at = time.monotonic() + _LOOK_S
        if faults.idle_s < _HURRY_S:
            time.sleep(chance.uniform(*_GAP_S))
