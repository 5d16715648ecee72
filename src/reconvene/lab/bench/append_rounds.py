"""How many communication rounds lie between an append and its green, in a stable primary component.

    python -m reconvene.lab.bench.append_rounds

A round is one message of the log to all sites: the batch is one round, its acknowledgements by all sites the other.
Only the network takes time here: 10 ms between any two sites, an almost instant disk, one append at a time. Messages
of the order engine are counted separately: what it needs before it delivers is not the log's.
"""

from collections import Counter
from dataclasses import dataclass

from reconvene.core.options import Options
from reconvene.sim.cluster import Cluster
from reconvene.sim.conditions import Conditions
from reconvene.sim.log_site import RealLogCore
from reconvene.trace.events import Row

__all__ = ["Rounds", "count_rounds"]

MS = 1_000_000
LATENCY_NS = 10 * MS
_SYNC_NS = 1_000
_APART_NS = 500 * MS


@dataclass(frozen=True, slots=True)
class Rounds:
    """For one append, the worst over all appends and sites; times in one-way latencies."""

    order: str
    sites: int
    appends: int
    batches: int
    """Batches sent for one append."""
    acknowledgements: int
    """Acknowledgements by one site for one append."""
    delivered: float
    """From accepted to delivered in the agreed order, and logged."""
    acknowledged: float
    """From logged at the last site to green everywhere."""
    green: float
    """From accepted to green everywhere."""


def count_rounds(order: str, sites: int = 5, appends: int = 10) -> Rounds:
    names = [f"n{place}" for place in range(sites)]
    cluster = Cluster(
        names,
        core=RealLogCore(),
        options=Options(order=order),
        conditions=Conditions(latency_ns=LATENCY_NS, jitter_ns=0),
    )
    for node in cluster.nodes:
        node.disk.sync_ns = (_SYNC_NS, _SYNC_NS)
    cluster.start()
    cluster.run_until(3_000 * MS)
    assert all(node.step == "log: primary" for node in cluster.nodes), "they have come together"
    batches = acknowledgements = delivered = acknowledged = green = 0
    for place in range(appends):
        start = cluster.now
        cluster.append(names[place % sites], [b"message"])
        cluster.run_for(_APART_NS)
        rows = [row for name in names for row in cluster.rows[name] if row.t >= start]
        accepted = _times(rows, "accept")[0]
        logged, ordered = max(_times(rows, "log")), _times(rows, "green")
        assert len(ordered) == sites, "every site has it green"
        delivered = max(delivered, logged - accepted)
        acknowledged = max(acknowledged, max(ordered) - logged)
        green = max(green, max(ordered) - accepted)
        sent = [row for row in rows if row.kind == "send"]
        batches = max(batches, sum(row.service == "agreed" for row in sent))
        by_site = Counter(row.node for row in sent if row.service == "fifo")
        acknowledgements = max(acknowledgements, *by_site.values())
    return Rounds(
        order=order,
        sites=sites,
        appends=appends,
        batches=batches,
        acknowledgements=acknowledgements,
        delivered=delivered / LATENCY_NS,
        acknowledged=acknowledged / LATENCY_NS,
        green=green / LATENCY_NS,
    )


def _times(rows: list[Row], kind: str) -> list[int]:
    return [row.t for row in rows if row.kind == kind]


def main() -> None:
    print("times in one-way latencies")
    print("order     sites  batches  acks by a site  accepted to delivered  to green    in all")
    for order in ("atop", "all-ack"):
        for sites in (3, 5, 9):
            found = count_rounds(order, sites)
            print(
                f"{order:<10}{sites:>5}{found.batches:>9}{found.acknowledgements:>16}{found.delivered:>23.2f}"
                f"{found.acknowledged:>10.2f}{found.green:>10.2f}"
            )


if __name__ == "__main__":
    main()
