"""A cluster that sends without pause while its network breaks and heals, and its history in the terms of the
paper."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from msgspec import UNSET
from tests.sim.core_cluster import SimCluster
from tests.sim.core_service import Configuration, Message

from reconvene.trace.events import Row

__all__ = ["Story", "regular", "stormy"]

SERVICES = ("fifo", "causal", "agreed", "safe")
Item = Message | Configuration


@dataclass(frozen=True)
class Happened:
    """A row of the trace. Fields that its kind does not have are empty."""

    kind: str
    t: int
    n: int
    conf: str
    conf_kind: str
    msg: str
    service: str
    ts: tuple[int, ...]

    @staticmethod
    def of(row: Row) -> "Happened":
        conf, kind, msg, service = (
            "" if value is UNSET else str(value) for value in (row.conf, row.conf_kind, row.msg, row.service)
        )
        stamp = tuple(row.ts) if isinstance(row.ts, list) else ()
        return Happened(row.kind, row.t, row.n, conf, kind, msg, service, stamp)


class Story:
    """The history of the cluster, by node and life."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.rows = {node: [Happened.of(row) for row in rows] for node, rows in cluster.sim.rows.items()}
        self.sends = {
            row.msg: (node, row.conf, row.service)
            for node, rows in self.rows.items()
            for row in rows
            if row.kind == "send"
        }
        """Sender, configuration and service of each message."""

    def lives(self, node: str) -> list[list[Item]]:
        """The events of a node, split at its failures. Each life begins with a configuration of the node alone."""
        lives: list[list[Item]] = []
        starts = [
            place
            for place, item in enumerate(self.cluster.history(node))
            if isinstance(item, Configuration) and item.id in self._firsts(node)
        ]
        history = self.cluster.history(node)
        for begin, end in pairwise([*starts, len(history)]):
            lives.append([item for item in history[begin:end] if not _hidden(item)])
        return lives

    def _firsts(self, node: str) -> set[str]:
        """The first configuration after each start."""
        firsts: set[str] = set()
        fresh = True
        for row in self.rows[node]:
            if row.kind == "fail":
                fresh = True
            elif row.kind == "conf" and fresh:
                firsts.add(row.conf)
                fresh = False
        return firsts

    def sections(self, node: str) -> list[list[tuple[Configuration, list[str]]]]:
        """By life: each configuration with the ids of the messages delivered in it."""
        out: list[list[tuple[Configuration, list[str]]]] = []
        for life in self.lives(node):
            found: list[tuple[Configuration, list[str]]] = []
            for item in life:
                if isinstance(item, Configuration):
                    found.append((item, []))
                else:
                    assert item.configuration == found[-1][0].id
                    found[-1][1].append(item.id)
            out.append(found)
        return out


def _hidden(item: Item) -> bool:
    return isinstance(item, Configuration) and item.kind == "hidden"


def regular(conf: str) -> str:
    """reg(c): a transitional configuration is named after the regular one that it follows."""
    return conf.split("+")[0]


@cache
def stormy(order: str, seed: int) -> Story:
    cluster = SimCluster(4, seed=seed, order=order, loss=0.02)
    cluster.wait_together()

    def talk(rounds: int) -> None:
        for turn in range(rounds):
            for place, node in enumerate(cluster.nodes):
                if cluster.sim.node(node).up:
                    cluster.send(node, b"x", SERVICES[(turn + place) % 4])
            cluster.run_for("7ms")

    talk(8)
    cluster.partition("ab", "cd")
    talk(20)
    cluster.run_for("800ms")
    talk(8)
    cluster.partition("ac", "bd")
    cluster.crash("d")
    talk(8)
    cluster.run_for("1s")
    cluster.restart("d")
    talk(5)
    cluster.heal()
    talk(30)
    cluster.run_for("400ms")
    cluster.crash("a")
    talk(3)
    cluster.restart("a")
    talk(8)
    cluster.settle("4s")
    return Story(cluster)
