"""Client processes that load a local cluster, from code that waits."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from reconvene.errors import Unavailable
from reconvene.lab.ledger.group import disagreements
from reconvene.lab.load.fleet import ClientFleet
from reconvene.lab.load.group_clients import Client, GroupChoice, Job, Report
from reconvene.local.cluster import LocalCluster

__all__ = ["GROUPS", "Load", "Outcome", "places", "wait_joined"]

GROUPS = (GroupChoice("plain"), GroupChoice("prime", primary=True))
_DRAIN_S = 30.0
_POLL_S = 0.05


class Outcome:
    """What all clients saw, and whether it fits together."""

    def __init__(self, reports: Sequence[Report]) -> None:
        self.written = [written for report in reports for written in report.written]
        self.readings = [reading for report in reports for reading in report.readings]
        self.ended = [why for report in reports for why in report.ended]
        self.accepted = sum(written.accepted for written in self.written)
        self.unknown = sum(written.unknown for written in self.written)
        self.refused = sum(written.refused for written in self.written)
        self.delivered = sum(reading.messages for reading in self.readings)
        self.shared, differing = disagreements(self.readings)
        """Stretches between two views that several readers had."""
        self.faults = [
            *(fault for reading in self.readings for fault in reading.faults),
            *(lost for written in self.written for lost in written.lost()),
            *differing,
        ]


class Load(ClientFleet[Report]):
    """Running clients of groups."""

    def __init__(self, jobs: Sequence[Job], log: Path) -> None:
        super().__init__("reconvene.lab.load.group_clients", jobs, log, Report, _DRAIN_S)

    @classmethod
    def on(
        cls,
        addresses: Sequence[Sequence[str]],
        *,
        rate: float,
        seed: int,
        log: Path,
        processes: int | None = None,
        groups: Sequence[GroupChoice] = GROUPS,
        large: float = 0.002,
    ) -> Self:
        """A client for each list of addresses, in so many processes; `rate` is that of all of them together."""
        count = len(addresses) if processes is None else processes
        clients = [Client(n, list(places), rate / len(addresses)) for n, places in enumerate(addresses)]
        jobs = [
            Job(clients=clients[which::count], groups=list(groups), seed=seed, large=large) for which in range(count)
        ]
        return cls(jobs, log)

    def finish(self) -> Outcome:
        """Ends them, and gives what they saw."""
        return Outcome(self.reports())


def places(cluster: LocalCluster) -> list[list[str]]:
    """A client of each site: every other one goes elsewhere when its site is lost, the others wait for it."""
    own = list(cluster.addresses.values())
    return [own[at:] + own[:at] if at % 2 else [own[at]] for at in range(len(own))]


def wait_joined(cluster: LocalCluster, timeout_s: float, count: int | None = None) -> None:
    """Until every site knows of so many members of each group; by default of a client for each site."""
    deadline = time.monotonic() + timeout_s
    wanted = [len(cluster.names) if count is None else count] * len(GROUPS)
    while True:
        statuses = cluster.statuses().values()
        if statuses and all([group["members"] for group in status["groups"]] == wanted for status in statuses):
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"the clients have not joined within {timeout_s:g} s")
        time.sleep(_POLL_S)
