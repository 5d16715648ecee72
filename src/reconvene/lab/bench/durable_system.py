"""The interface that `reconvene bench durable` needs of a replicated log, ours or a peer's.

A `Durable` is a system that can be run: its name, what it does about the disk, how it is put under load. `running`
starts three replicas of it on loopback, with their data under one folder of the benchmark, and returns `Replicas`,
which write and lose replicas on request. Everything is ended with the context, and every wait is bounded. A request
that fails raises Unavailable: that turn then has no figure.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["REPLICAS", "Durable", "Minority", "Replicas", "Way"]

REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Way:
    """How a system is put under load."""

    outstanding: int
    """Outstanding requests at any time, of all writers together."""
    batch: int = 1
    """Writes in one request; each counts."""
    name: str = ""
    """Follows the system's name, to list the figures of this way separately. Of the ways with the same name, the best
    figure counts; with `--quick` only the first one is tried."""
    synced: str | None = None
    """If it differs from the system's."""


@dataclass(frozen=True, slots=True)
class Minority:
    """The result of writes at a replica without the two others."""

    accepted_per_second: float
    """Writes a second that are durable there, to be ordered later."""
    answer: str
    """The answer to refused writes, or what accepted writes mean, in a few words."""


class Replicas(Protocol):
    """Three running replicas. The methods are called in this order."""

    def pids(self) -> Sequence[int]:
        """The pids of all its processes, writers included, to tell their processor time from that of others."""
        ...

    def throughput(self, size: int, seconds: float, way: Way) -> float:
        """Writes of `size` bytes a second. A write counts when it is durable, as the system defines it, and ordered.

        Counts for `seconds` after a warm-up, under full load; returns when nothing is outstanding.
        """
        ...

    def latency(self, size: int, count: int) -> list[float]:
        """The milliseconds of each of `count` writes, one at a time, after a warm-up."""
        ...

    def lose_one(self) -> None:
        """Cuts off or kills one replica, and returns when the others accept writes again; `throughput` works then."""
        ...

    def minority(self, size: int, seconds: float) -> Minority:
        """Leaves one replica without both others, and writes to it for `seconds`. The last call."""
        ...


class Durable(Protocol):
    @property
    def name(self) -> str:
        """Its name in rows."""
        ...

    @property
    def synced(self) -> str:
        """What it does about the disk before a write counts, in a few words."""
        ...

    @property
    def ways(self) -> Sequence[Way]:
        """At least one; the first one is measured after `lose_one`."""
        ...

    def running(self, folder: Path, quick: bool) -> AbstractContextManager[Replicas]:
        """`folder` is empty, on a disk, and removed afterwards. With `quick` the system has to be ready within
        seconds, even if a longer warm-up would make it faster."""
        ...
