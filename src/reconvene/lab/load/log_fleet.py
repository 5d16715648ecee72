"""Processes of clients that append to the log of a local cluster and follow it, and the audit of what they saw."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from reconvene.client.connecting import connect
from reconvene.errors import Unavailable
from reconvene.lab.ledger.digest import Digest, LogDigest, differences
from reconvene.lab.ledger.linearizable import not_linearizable
from reconvene.lab.ledger.log import Index, Judgement, judge
from reconvene.lab.load.fleet import ClientFleet, share_out, wait_until
from reconvene.lab.load.log_clients import LogJob, LogReport
from reconvene.local.cluster import LocalCluster

__all__ = ["LogAudit", "LogFleet", "LogTotals", "read_logs", "wait_appended", "wait_ordered"]

_DRAIN_S = 90.0


class LogFleet(ClientFleet[LogReport]):
    """Running clients of the log. `quiet` returns when no receipt and no position is waited for."""

    @classmethod
    def on(
        cls,
        addresses: Sequence[Sequence[str]],
        *,
        rate: float,
        seed: int,
        log: Path,
        processes: int | None = None,
        places: Sequence[str] = (),
    ) -> Self:
        """A client for each list of addresses, in so many processes; `rate` is that of all of them together.
        `places`: as for `share_out`."""
        jobs = [LogJob(clients=clients, seed=seed) for clients in share_out(addresses, rate, processes, places)]
        return cls("reconvene.lab.load.log_clients", jobs, log, LogReport, _DRAIN_S)


class LogTotals(Struct, kw_only=True):
    """All clients together."""

    entries: int
    """In the log at the end."""
    judgement: Judgement
    calls: int
    """Calls on the map."""
    errors: list[str]
    """Errors that clients got and retried, where they asked for positions or followed; the first ones."""


class LogAudit:
    """The answers that all clients got, compared with the sites' logs."""

    def __init__(self, reports: Sequence[LogReport], logs: dict[str, Digest], index: Index) -> None:
        calls = [call for report in reports for call in report.calls]
        self.totals = LogTotals(
            entries=index.length,
            judgement=judge([append for report in reports for append in report.appends], index),
            calls=len(calls),
            errors=[error for report in reports for error in report.errors],
        )
        followed = {client: digest for report in reports for client, digest in report.followed.items()}
        self.faults = [
            *differences(logs | followed),
            *self.totals.judgement.findings,
            *not_linearizable(calls),
            *(fault for report in reports for fault in report.faults),
        ]


def wait_appended(cluster: LocalCluster, timeout_s: float) -> None:
    """Until a client of each site has appended something, and something is ordered everywhere."""

    def appended() -> bool:
        statuses = cluster.statuses()
        writing = [*cluster.names, *cluster.outposts]
        counters = [statuses[name]["counters"] for name in writing if name in statuses]
        return len(counters) == len(writing) and all(
            each["log_accepted_messages"] and each["log_ordered_messages"] for each in counters
        )

    wait_until(appended, timeout_s, lambda: f"the clients have not appended everywhere within {timeout_s:g} s")


def wait_ordered(cluster: LocalCluster, timeout_s: float) -> int:
    """Until all sites have ordered everything, and they and the followers have the same green line: returns it. Then
    no outpost has anything to confirm. No client may append meanwhile."""
    logs: dict[str, Any] = {}

    def ordered() -> bool:
        logs.clear()
        logs.update({name: status["log"] for name, status in cluster.statuses().items()})
        greens = {log["green"] for log in logs.values() if "green" in log}
        return len(logs) == len(cluster.states()) and len(greens) == 1 and all(map(_at_rest, logs.values()))

    wait_until(ordered, timeout_s, lambda: f"not all is ordered everywhere after {timeout_s:g} s: {_shown(logs)}")
    return int(logs[cluster.names[0]]["green"])


def _at_rest(log: dict[str, Any]) -> bool:
    if log.get("outpost"):
        return not log["waiting"]["messages"]
    return not (log["yellow"] or log["red"] or log["unlogged"] or log["own"]["messages"])


def _shown(logs: dict[str, dict[str, Any]]) -> str:
    shown = ("phase", "green", "yellow", "red", "unlogged", "own", "storage")
    return "; ".join(
        f"{name}: " + ", ".join(f"{key} {log[key]}" for key in (*shown, "waiting") if key in log)
        for name, log in logs.items()
    )


def read_logs(cluster: LocalCluster) -> tuple[dict[str, Digest], Index]:
    """Digests of the whole log at every site and every follower, and an index of the first site's."""
    readable = (*cluster.names, *cluster.followers)
    return asyncio.run(_read_logs({name: cluster.addresses[name] for name in readable}))


async def _read_logs(addresses: dict[str, str]) -> tuple[dict[str, Digest], Index]:
    index = Index()
    found: dict[str, Digest] = {}
    for name, address in addresses.items():
        digest = LogDigest()
        async with connect(address) as site:
            green = (await site.log.status()).green
            async for batch in site.log.follow(0, stop=green, control=True).batches():
                digest.add(batch)
                if not found:
                    index.add(batch)
            if pending := await site.log.pending():
                raise Unavailable(f"site {name} has {len(pending)} entries that are not ordered")
        found[f"site {name}"] = digest.digest()
    return found, index
