"""A replicated log under test: what `reconvene bench durable` asks of each system, ours and the peers' alike.

A `Durable` is a system that can be run: its name, what it does about the disk, how it is put under load. `running`
starts three replicas of it on loopback, all with their data under one folder that the benchmark gives, and hands over
`Replicas`, which write and lose replicas as they are asked to. Everything is ended with the context, and every wait
in it is bounded. What can't be done or does not come through raises Unavailable: that turn then has no figure.
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
    """Requests that wait for their answer at any moment, over all writers."""
    batch: int = 1
    """Writes in one request; each counts."""
    name: str = ""
    """Where figures of this way stand apart from others: it follows the system's name. Of the ways that share a name,
    the best figure counts, and with `--quick` the first alone is tried."""
    synced: str | None = None
    """Where it differs from the system's."""


@dataclass(frozen=True, slots=True)
class Minority:
    """What became of writes at a replica that is without the two others."""

    accepted_per_second: float
    """Taken and durable there, to be ordered later."""
    told: str
    """To those whose writes were not accepted, in a few words; what accepted ones were told otherwise."""


class Replicas(Protocol):
    """Three of them, running; what is asked of them comes in the order in which the methods stand here."""

    def pids(self) -> Sequence[int]:
        """Of every process that works for it, writers included: what others use meanwhile is told apart by this."""
        ...

    def throughput(self, size: int, seconds: float, way: Way) -> float:
        """Writes of so many bytes a second, each counted when it is done: durable as the system has it, and ordered.

        Counted over so many seconds after a warm-up, under full load; returns when nothing is outstanding any more.
        """
        ...

    def latency(self, size: int, count: int) -> list[float]:
        """Milliseconds that each of so many writes took, one at a time, after a warm-up."""
        ...

    def lose_one(self) -> None:
        """Cuts off or kills one replica, and returns when the others do writes again; `throughput` then goes on."""
        ...

    def minority(self, size: int, seconds: float) -> Minority:
        """Leaves one replica without both others, and writes to that one for so long. The last thing asked."""
        ...


class Durable(Protocol):
    @property
    def name(self) -> str:
        """As rows name it."""
        ...

    @property
    def synced(self) -> str:
        """What it does about the disk before a write counts, in a few words."""
        ...

    @property
    def ways(self) -> Sequence[Way]:
        """At least one; the first is the one that `lose_one` is followed by."""
        ...

    def running(self, folder: Path, quick: bool) -> AbstractContextManager[Replicas]:
        """`folder` is empty, on a disk, and removed afterwards. With `quick` it is to be ready within seconds, also
        where a longer warm-up would make it faster."""
        ...
