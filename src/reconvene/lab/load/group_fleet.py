"""Processes of clients that write to the groups of a local cluster and read them, and the audit of what they saw."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from reconvene.lab.ledger.group import disagreements
from reconvene.lab.load.fleet import ClientFleet, share_out, wait_until
from reconvene.lab.load.group_clients import GroupChoice, GroupJob, GroupReport
from reconvene.local.cluster import LocalCluster

__all__ = ["GROUPS", "GroupAudit", "GroupFleet", "GroupTotals", "wait_joined"]

GROUPS = (GroupChoice("plain"), GroupChoice("prime", primary=True))
_DRAIN_S = 30.0


class GroupTotals(Struct, kw_only=True):
    """All clients together."""

    accepted: int
    """Messages that sites accepted."""
    delivered: int
    """Messages that clients read."""
    refused: int
    """Outside of a primary component, or while a site was stopping."""
    unknown: int
    """Messages of unknown outcome."""
    shared: int
    """Pairs of consecutive views that several clients had, and between which their messages were compared."""


class GroupAudit:
    """What all clients saw, and whether it is consistent."""

    def __init__(self, reports: Sequence[GroupReport]) -> None:
        self.written = [written for report in reports for written in report.written]
        self.readings = [reading for report in reports for reading in report.readings]
        self.ended = [why for report in reports for why in report.ended]
        shared, differing = disagreements(self.readings)
        self.totals = GroupTotals(
            accepted=sum(written.accepted for written in self.written),
            delivered=sum(reading.messages for reading in self.readings),
            refused=sum(written.refused for written in self.written),
            unknown=sum(written.unknown for written in self.written),
            shared=shared,
        )
        self.faults = [
            *(fault for reading in self.readings for fault in reading.faults),
            *(lost for written in self.written for lost in written.lost()),
            *differing,
        ]


class GroupFleet(ClientFleet[GroupReport]):
    """Running clients of groups."""

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
        jobs = [
            GroupJob(clients=clients, groups=list(groups), seed=seed, large=large)
            for clients in share_out(addresses, rate, processes)
        ]
        return cls("reconvene.lab.load.group_clients", jobs, log, GroupReport, _DRAIN_S)

    def finish(self) -> GroupAudit:
        """Ends them, and returns what they saw."""
        return GroupAudit(self.reports())


def wait_joined(cluster: LocalCluster, timeout_s: float, count: int | None = None) -> None:
    """Until every site knows of so many members of each group; by default of a client for each site."""
    wanted = [len(cluster.names) if count is None else count] * len(GROUPS)

    def joined() -> bool:
        statuses = cluster.statuses().values()
        return bool(statuses) and all(
            [group["members"] for group in status["groups"]] == wanted for status in statuses
        )

    wait_until(joined, timeout_s, lambda: f"the clients have not joined within {timeout_s:g} s")
