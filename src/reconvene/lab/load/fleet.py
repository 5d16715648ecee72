"""Processes of clients beside a local cluster: started, stopped, and asked for what they saw."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from reconvene.errors import Unavailable
from reconvene.lab.load.process import end, start
from reconvene.local.cluster import LocalCluster

__all__ = ["ClientFleet", "ClientPlan", "client_addresses", "share_out", "wait_until"]

_END_S = 15.0
_POLL_S = 0.05

R = TypeVar("R", bound=Struct)


class ClientPlan(Struct, frozen=True):
    """One client."""

    number: int
    """Its messages carry it: unique in the run."""
    addresses: list[str]
    """The first one is that of its site; at the others it continues when it loses the connection."""
    rate: float
    """Messages a second."""
    place: str = "site"
    """site | follower: it only reads | outpost: it only writes"""


def share_out(
    addresses: Sequence[Sequence[str]], rate: float, processes: int | None, places: Sequence[str] = ()
) -> list[list[ClientPlan]]:
    """A client for each list of addresses, in so many processes (by default one each), with `rate` in all. `places`:
    what is at the addresses, where it is no site."""
    found = [*places, *["site"] * (len(addresses) - len(places))]
    writers = sum(place != "follower" for place in found)
    plans = [
        ClientPlan(number, list(own), rate / writers, place)
        for number, (own, place) in enumerate(zip(addresses, found, strict=True))
    ]
    count = len(plans) if processes is None else processes
    return [plans[which::count] for which in range(count)]


def client_addresses(cluster: LocalCluster) -> list[list[str]]:
    """For a client of each site. When a site is lost, every other client continues elsewhere; the rest wait."""
    own = [cluster.addresses[name] for name in cluster.names]
    return [own[at:] + own[:at] if at % 2 else [own[at]] for at in range(len(own))]


def wait_until(is_so: Callable[[], bool], timeout_s: float, error: Callable[[], str]) -> None:
    """Polls. Raises Unavailable(`error()`) after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise Unavailable(error())
        time.sleep(_POLL_S)


class ClientFleet(Generic[R]):
    """`quiet` ends their writing, `reports` ends them; leaving the `with` block kills them."""

    def __init__(self, module: str, jobs: Sequence[Struct], log: Path, report: type[R], drain_s: float) -> None:
        """One process for each job; their stderr is appended to `log`. `module` calls `program.run_clients`."""
        self._report = report
        self._drain_s = drain_s
        self.log = log
        self._processes = [start(f"a client process (see {log})", module, [], log) for _ in jobs]
        for process, job in zip(self._processes, jobs, strict=True):
            process.say(msgspec.json.encode(job).decode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.process.kill()
        end(self._processes)

    @property
    def pids(self) -> list[int]:
        return [process.process.pid for process in self._processes]

    def check(self) -> None:
        """Raises Unavailable if one has ended by itself."""
        for process in self._processes:
            if process.process.poll() is not None:
                raise Unavailable(f"a client process ended with {process.process.returncode}: see {self.log}")

    def quiet(self) -> None:
        """Ends the writing. Returns once the clients know the result of everything that they wrote, or gave up."""
        deadline = time.monotonic() + self._drain_s
        for process in self._processes:
            process.say("quiet")
        for process in self._processes:
            process.hear("drained", deadline)

    def reports(self) -> list[R]:
        """Ends them, and returns what each saw."""
        for process in self._processes:
            process.close_orders()
        deadline = time.monotonic() + _END_S
        lines = [process.hear("report", deadline) for process in self._processes]
        for process in self._processes:
            if process.process.wait(_END_S):
                raise Unavailable(f"a client process ended with {process.process.returncode}: see {self.log}")
        return [msgspec.convert(line["report"], type=self._report) for line in lines]
