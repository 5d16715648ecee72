"""What is measured of a group at real sites, ours and Corosync's alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import monotonic_ns, sleep
from typing import Self

from reconvene.lab.bench.foreign import Foreign
from reconvene.lab.bench.sheet import percentile
from reconvene.lab.load.process import LoadProcess, reach
from reconvene.lab.namespaces import Namespaces

__all__ = ["SETTLE_S", "Latency", "Reconfiguration"]

SETTLE_S = 1.0
"""Between one fault and the next: the effects of a new configuration are over."""


@dataclass(frozen=True, slots=True)
class Latency:
    """In microseconds: to the sender's own delivery, and to that of the slowest site."""

    self_p50: float
    self_p99: float
    slowest_p50: float
    slowest_p99: float
    foreign_cores: float

    @classmethod
    def of(cls, took_ns: Sequence[Sequence[int]], foreign_cores: float) -> Self:
        """`took_ns`: by site, the sender first, and by message."""
        own = [nanoseconds / 1e3 for nanoseconds in took_ns[0]]
        slowest = [max(by_site) / 1e3 for by_site in zip(*took_ns, strict=True)]
        return cls(
            percentile(own, 50), percentile(own, 99), percentile(slowest, 50), percentile(slowest, 99), foreign_cores
        )


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Milliseconds until the last of the processes concerned had the new view."""

    cuts_ms: tuple[float, ...]
    """After each cut that left one site alone."""
    heals_ms: tuple[float, ...]
    """After the end of each cut."""
    crash_ms: float
    """After kill -9 of a site."""
    foreign_cores: float

    @property
    def cut_ms(self) -> float:
        return median(self.cuts_ms)

    @property
    def heal_ms(self) -> float:
        return median(self.heals_ms)

    @classmethod
    def measure(
        cls,
        loads: Sequence[LoadProcess],
        network: Namespaces,
        pids: Callable[[], list[int]],
        crash: Callable[[], None],
        order: str,
        heals: int,
        phases_s: float,
    ) -> Self:
        """The last site is cut off and healed `heals` times, then killed by `crash`, while each load obeys `order`.

        Heals are spread over `phases_s`: sites look for others by a timer, and a heal that always comes at the same
        phase of it would always be quick or always slow.
        """
        sites, last = len(loads), len(loads) - 1
        cuts_ms, heals_ms = [], []
        with Foreign(pids) as foreign:
            for load in loads:
                load.say(order)
            for turn in range(heals):
                sleep(SETTLE_S)
                # From the order, not from its return: while a configuration forms, we may not get to run.
                cut = monotonic_ns()
                network.cut([range(last), [last]])
                cuts_ms.append(reach(loads[:last], last, cut))
                reach(loads[last:], 1, cut)
                sleep(SETTLE_S + (turn + 0.5) / heals * phases_s)
                healed = monotonic_ns()
                network.heal()
                heals_ms.append(reach(loads, sites, healed))
            sleep(SETTLE_S)
            for load in loads[:last]:
                load.beside = loads[:last]  # the last one ends on purpose
            killed = monotonic_ns()
            crash()
            crash_ms = reach(loads[:last], last, killed)
        return cls(tuple(cuts_ms), tuple(heals_ms), crash_ms, foreign.cores)
