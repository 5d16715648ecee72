"""Programs with processes in the ISIS groups of a local cluster, which can be killed and stopped one by one; and the
audit of what they saw."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from reconvene.lab.ledger.isis import differing
from reconvene.lab.load.fleet import ClientFleet, ClientPlan, wait_until
from reconvene.lab.load.isis_clients import IsisJob, IsisReport
from reconvene.lab.load.process import end, start
from reconvene.local.cluster import LocalCluster

__all__ = ["GROUPS", "IsisAudit", "IsisFleet", "IsisTotals", "wait_in_groups"]

GROUPS = ("north", "east", "south", "west")
"""Each process is in two of them, so that all overlap."""
_DRAIN_S = 30.0
_MODULE = "reconvene.lab.load.isis_clients"


class IsisTotals(Struct, kw_only=True):
    """All processes that lived to the end."""

    accepted: int
    """Casts that sites took."""
    refused: int
    unknown: int
    received: int
    calls: int
    answered: int
    ended: int
    """Calls that ended with an error."""
    failures: int
    """Of destinations of calls, in place of their replies."""
    views: int
    states: int
    """Taken by newcomers."""
    killed: int
    """How often a process was told that it was killed."""
    shared: int
    """Views and GBCASTs that several processes had, and up to which their casts were compared."""


class IsisAudit:
    def __init__(self, reports: Sequence[IsisReport]) -> None:
        readings = [reading for report in reports for reading in report.readings]
        tallies = [tally for report in reports for tally in report.tallies]
        shared, other = differing(readings)
        self.ended = [why for report in reports for why in report.ended]
        self.totals = IsisTotals(
            accepted=sum(tally.accepted for tally in tallies),
            refused=sum(tally.refused for tally in tallies),
            unknown=sum(tally.unknown for tally in tallies),
            received=sum(reading.casts + reading.actions for reading in readings),
            calls=sum(tally.calls for tally in tallies),
            answered=sum(tally.answered for tally in tallies),
            ended=sum(tally.ended for tally in tallies),
            failures=sum(tally.failures for tally in tallies),
            views=sum(reading.views for reading in readings),
            states=sum(reading.states for reading in readings),
            killed=sum(reading.killed for reading in readings),
            shared=shared,
        )
        self.faults = [
            *(fault for reading in readings for fault in reading.faults),
            *(f"{what}: neither done nor failed" for tally in tallies for what in tally.open),
            *(what for tally in tallies for what in tally.missing),
            *other,
        ]


class IsisFleet(ClientFleet[IsisReport]):
    """Running programs, each with one process. `kill` and `pause` take one of `alive`."""

    def __init__(self, jobs: Sequence[IsisJob], log: Path) -> None:
        super().__init__(_MODULE, jobs, log, IsisReport, _DRAIN_S)
        self._jobs = dict(zip(self.pids, jobs, strict=True))
        self._down: list[IsisJob] = []
        self._paused: set[int] = set()
        self._next = len(jobs)

    @classmethod
    def on(cls, addresses: Sequence[Sequence[str]], *, rate: float, seed: int, log: Path, each: int = 2) -> Self:
        """`each`: programs for each list of addresses."""
        count = len(addresses) * each
        plans = [
            ClientPlan(number, list(addresses[number % len(addresses)]), rate / count) for number in range(count)
        ]
        return cls([_job(plan, seed) for plan in plans], log)

    @property
    def alive(self) -> list[int]:
        """Pids of those that run and are not paused."""
        return [pid for pid in self.pids if pid not in self._paused]

    @property
    def paused(self) -> list[int]:
        return sorted(self._paused)

    @property
    def down(self) -> int:
        return len(self._down)

    def kill(self, pid: int) -> None:
        """kill -9."""
        (victim,) = [process for process in self._processes if process.process.pid == pid]
        victim.process.kill()
        self._processes.remove(victim)
        end([victim])
        self._down.append(self._jobs.pop(pid))

    def revive(self) -> int:
        """Starts one in the place of one that was killed: under a new number, since its casts are new ones."""
        job = self._down.pop(0)
        (plan,) = job.clients
        job = _job(msgspec.structs.replace(plan, number=self._next), job.seed)
        self._next += 1
        process = start(f"a client process (see {self.log})", _MODULE, [], self.log)
        process.say(msgspec.json.encode(job).decode())
        self._processes.append(process)
        self._jobs[process.process.pid] = job
        return process.process.pid

    def pause(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._paused.add(pid)

    def resume(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self._paused.discard(pid)


def _job(plan: ClientPlan, seed: int) -> IsisJob:
    first = plan.number % len(GROUPS)
    other = (first + 1 + plan.number // len(GROUPS) % (len(GROUPS) - 1)) % len(GROUPS)
    return IsisJob(clients=[plan], groups=list(GROUPS), joins=[[GROUPS[first], GROUPS[other]]], seed=seed)


def wait_in_groups(cluster: LocalCluster, timeout_s: float, members: int) -> None:
    """Until every site knows of so many members in all groups together."""

    def joined() -> bool:
        statuses = cluster.statuses().values()
        return bool(statuses) and all(
            sum(len(group["members"]) for group in (status["isis"] or {}).get("groups", ())) == members
            for status in statuses
        )

    wait_until(joined, timeout_s, lambda: f"the processes are not in their groups after {timeout_s:g} s")
