"""Client processes that load a local cluster, from code that waits."""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from reconvene.errors import Unavailable
from reconvene.local.cluster import LocalCluster
from reconvene.local.load import DRAINED, Client, GroupChoice, Job, Report
from reconvene.local.load_ledger import disagreements

__all__ = ["GROUPS", "Load", "Outcome", "places", "wait_joined"]

GROUPS = (GroupChoice("plain"), GroupChoice("prime", primary=True))
_DRAIN_S = 30.0
_END_S = 15.0
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


class Load:
    """Running clients. `quiet` ends their writing, `finish` ends them; leaving the `with` block kills them."""

    def __init__(self, jobs: Sequence[Job], log: Path) -> None:
        """One process for each job; what they say to stderr is appended to `log`."""
        self._processes: list[subprocess.Popen[bytes]] = []
        self.log = log
        with log.open("ab") as said:
            for job in jobs:
                process = subprocess.Popen(
                    [sys.executable, "-m", "reconvene.local.load"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    start_new_session=True,
                )
                self._processes.append(process)
                self._say(process, msgspec.json.encode(job) + b"\n")

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def check(self) -> None:
        """Raises Unavailable where one has ended by itself."""
        for process in self._processes:
            if process.poll() is not None:
                raise Unavailable(f"a client process ended with {process.returncode}: see {self.log}")

    def quiet(self) -> None:
        """Writing ends. Returns when all that was accepted has come back, or has had time enough to."""
        for process in self._processes:
            self._say(process, b"quiet\n")
        deadline = time.monotonic() + _DRAIN_S
        for process in self._processes:
            answer = _read(process, len(DRAINED), deadline)
            if answer != DRAINED:
                raise Unavailable(f"a client process did not come to an end of its writing: see {self.log}")

    def finish(self) -> Outcome:
        """Ends them, and gives what they saw."""
        reports = []
        for process in self._processes:
            try:
                told, _ = process.communicate(timeout=_END_S)
                reports.append(msgspec.json.decode(told, type=Report))
            except (subprocess.TimeoutExpired, msgspec.MsgspecError):
                raise Unavailable(f"a client process did not tell what it saw: see {self.log}") from None
        return Outcome(reports)

    def _say(self, process: "subprocess.Popen[bytes]", line: bytes) -> None:
        assert process.stdin is not None, "it was made with a pipe"
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except OSError:
            raise Unavailable(f"a client process has ended: see {self.log}") from None


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


def _read(process: "subprocess.Popen[bytes]", count: int, deadline: float) -> bytes:
    """So many bytes, unless it ends or the time does."""
    assert process.stdout is not None, "it was made with a pipe"
    read = b""
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while len(read) < count and ready.select(max(0.0, deadline - time.monotonic())):
            data = os.read(process.stdout.fileno(), count - len(read))
            if not data:
                break
            read += data
    return read
