"""Processes of clients that load the log of a local cluster; and its sites' logs, read through the API."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from reconvene.client.connecting import connect
from reconvene.errors import Unavailable
from reconvene.lab.ledger.digest import Digest, LogDigest, differences
from reconvene.lab.ledger.linearizable import unfit
from reconvene.lab.ledger.log import Index, Judgement, judge
from reconvene.lab.load.fleet import ClientFleet
from reconvene.lab.load.log_clients import LogClient, LogJob, LogReport
from reconvene.local.cluster import LocalCluster

__all__ = ["LogLoad", "LogOutcome", "read_logs", "wait_appended", "wait_ordered"]

_DRAIN_S = 90.0
_POLL_S = 0.05


class LogLoad(ClientFleet[LogReport]):
    """Running clients of the log. `quiet` returns when no receipt and no position is waited for."""

    @classmethod
    def on(
        cls, addresses: Sequence[Sequence[str]], *, rate: float, seed: int, log: Path, processes: int | None = None
    ) -> Self:
        """A client for each list of addresses, in so many processes; `rate` is that of all of them together."""
        count = len(addresses) if processes is None else processes
        clients = [LogClient(n, list(places), rate / len(addresses)) for n, places in enumerate(addresses)]
        jobs = [LogJob(clients=clients[which::count], seed=seed) for which in range(count)]
        return cls("reconvene.lab.load.log_clients", jobs, log, LogReport, _DRAIN_S)


class LogOutcome:
    """What the clients were told beside what the sites have."""

    def __init__(self, reports: Sequence[LogReport], logs: dict[str, Digest], index: Index) -> None:
        self.entries = index.length
        self.judgement: Judgement = judge([append for report in reports for append in report.appends], index)
        self.errors = [error for report in reports for error in report.errors]
        calls = [call for report in reports for call in report.calls]
        self.calls = len(calls)
        """On the map."""
        followed = {client: digest for report in reports for client, digest in report.followed.items()}
        self.faults = [
            *differences(logs | followed),
            *self.judgement.findings,
            *unfit(calls),
            *(fault for report in reports for fault in report.faults),
        ]


def wait_appended(cluster: LocalCluster, timeout_s: float) -> None:
    """Until a client of each site has appended something, and something is ordered everywhere."""
    deadline = time.monotonic() + timeout_s
    while True:
        counters = [status["counters"] for status in cluster.statuses().values()]
        if len(counters) == len(cluster.names) and all(
            each["log_accepted_messages"] and each["log_ordered_messages"] for each in counters
        ):
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"the clients have not appended everywhere within {timeout_s:g} s")
        time.sleep(_POLL_S)


def wait_ordered(cluster: LocalCluster, timeout_s: float) -> int:
    """Until all sites have everything ordered, up to one line: gives it. Nobody appends any more."""
    deadline = time.monotonic() + timeout_s
    while True:
        logs = {name: status["log"] for name, status in cluster.statuses().items()}
        greens = {log["green"] for log in logs.values()}
        if len(logs) == len(cluster.names) and len(greens) == 1 and all(map(_at_rest, logs.values())):
            return int(greens.pop())
        if time.monotonic() > deadline:
            raise Unavailable(f"not all is ordered everywhere after {timeout_s:g} s: {_told(logs)}")
        time.sleep(_POLL_S)


def _at_rest(log: dict[str, Any]) -> bool:
    return not (log["yellow"] or log["red"] or log["unlogged"] or log["own"]["messages"])


def _told(logs: dict[str, dict[str, Any]]) -> str:
    shown = ("phase", "green", "yellow", "red", "unlogged", "own", "storage")
    return "; ".join(f"{name}: " + ", ".join(f"{key} {log[key]}" for key in shown) for name, log in logs.items())


def read_logs(cluster: LocalCluster) -> tuple[dict[str, Digest], Index]:
    """Every site's whole log, and what is where in the first one's."""
    return asyncio.run(_read_logs(cluster.addresses))


async def _read_logs(addresses: dict[str, str]) -> tuple[dict[str, Digest], Index]:
    index = Index()
    found: dict[str, Digest] = {}
    for name, address in addresses.items():
        digest = LogDigest()
        async with connect(address) as site:
            green = int(str((await site.log.status())["green"]))
            async for batch in site.log.follow(0, stop=green, control=True).batches():
                digest.add(batch)
                if not found:
                    index.add(batch)
            if pending := await site.log.pending():
                raise Unavailable(f"site {name} has {len(pending)} entries that are not ordered")
        found[f"site {name}"] = digest.digest()
    return found, index
