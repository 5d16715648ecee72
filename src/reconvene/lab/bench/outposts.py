"""An outpost of the log beside a replica: an append until it is durable, and from a heal to all green.

Both are real processes on loopback, and programs connect to both in the same way. The outpost is cut off by taking
the sites' addresses away before it starts, and healed by putting them there.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import reconvene
from reconvene.lab.bench.durable_disk import folder
from reconvene.lab.bench.results import Bar, Results
from reconvene.lab.bench.sheet import Settings, Sheet
from reconvene.local import LocalCluster
from reconvene.local.processes import kill_all, spawn
from reconvene.local.toml import to_toml

__all__ = ["run"]

SIZE = 100
_ROUNDS = 5
_HEALS = 3
_PATIENCE_S = 600.0
_DURABLE = Bar(1.1)
_HEAL = Bar(2.0)


def run(settings: Settings) -> Sheet:
    appends = 200 if settings.quick else 1_000
    count = 20_000 if settings.quick else 100_000
    results = Results("outposts", settings, 3)
    with folder() as place, LocalCluster.create(place / "c", nodes=3, trace=False) as cluster:
        cluster.start(timeout_s=_PATIENCE_S)
        with _outpost(cluster, place / "shop") as shop:
            results.begin("append until durable")
            shop.heal()
            here, there = asyncio.run(_latencies(shop.socket, cluster.addresses["b"], appends))
            work = f"append of {SIZE} B until durable, p50"
            results.add(work, "replica", there, "ms")
            results.add(work, "outpost", here, "ms", ("replica", there), _DURABLE)
        results.begin("a cut-off replica, a cut-off outpost")
        replicas, outposts = [], []
        for turn in range(_HEALS):  # one is a matter of luck: of when the next beacon or the next try is due
            replicas.append(_heal_replica(cluster, count))
            with _outpost(cluster, place / f"away{turn}") as shop:
                outposts.append(_heal_outpost(cluster, shop, count))
        replica, outpost = median(replicas), median(outposts)
        work = f"heal to all green, {count:,} messages of {SIZE} B"
        results.add(work, "replica", replica, "ms")
        results.add(work, "outpost", outpost, "ms", ("replica", replica), _HEAL)
    return results.finish("an outpost beside a replica")


class _Shop:
    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self.socket = str(directory / "o.sock")
        self._sites = dict(cluster.addresses)
        self._directory = directory
        directory.mkdir()
        document: dict[str, object] = {
            "cluster": cluster.choices.cluster,
            "name": directory.name,
            "dir": str(directory / "data"),
            "clients": {"unix": self.socket},
            "logging": {"level": "error"},
            "log": {"outpost": True, "follow": [f"unix:{self._link(name)}" for name in self._sites]},
        }
        (directory / "site.toml").write_text(to_toml(document))
        self.process = spawn(["node", "--config", str(directory / "site.toml")], directory / "log")

    def _link(self, name: str) -> Path:
        return self._directory / f"{name}.sock"

    def heal(self) -> None:
        for name, address in self._sites.items():
            self._link(name).symlink_to(address)


@contextmanager
def _outpost(cluster: LocalCluster, directory: Path) -> Iterator[_Shop]:
    shop = _Shop(cluster, directory)
    try:
        yield shop
    finally:
        kill_all([shop.process])


async def _latencies(outpost: str, replica: str, count: int) -> tuple[float, float]:
    """ms, in turns: both meet the same disk and the same load."""
    took: dict[str, list[float]] = {outpost: [], replica: []}
    async with (
        reconvene.connect(outpost, wait=_PATIENCE_S) as one,
        reconvene.connect(replica, wait=_PATIENCE_S) as two,
    ):
        for turn in range(_ROUNDS + 1):
            for address, site in ((outpost, one), (replica, two)):
                for _ in range(count // _ROUNDS):
                    begin = time.perf_counter()
                    await site.log.append(bytes(SIZE))
                    if turn:  # the first one warms both up
                        took[address].append((time.perf_counter() - begin) * 1e3)
                await asyncio.sleep(0.2)  # what was appended is ordered meanwhile
    return median(took[outpost]), median(took[replica])


def _heal_replica(cluster: LocalCluster, count: int) -> float:
    first, *others = cluster.names
    before = _green(cluster)
    cluster.partition([[first], others])
    cluster.wait_for(timeout_s=_PATIENCE_S)
    asyncio.run(_fill(cluster.addresses[first], count))
    begin = time.perf_counter()
    cluster.heal()
    return _until_green(cluster, before + count, begin)


def _heal_outpost(cluster: LocalCluster, shop: _Shop, count: int) -> float:
    before = _green(cluster)
    asyncio.run(_fill(shop.socket, count))
    begin = time.perf_counter()
    shop.heal()
    return _until_green(cluster, before + count, begin)


async def _fill(address: str, count: int) -> None:
    async with reconvene.connect(address, wait=_PATIENCE_S, timeout=_PATIENCE_S) as site:
        await site.log.append_many(bytes(SIZE) for _ in range(count))


def _green(cluster: LocalCluster) -> int:
    """The lowest of all sites. On a busy machine some may not answer at once: then they are asked again."""
    while len(statuses := cluster.statuses()) < len(cluster.names):
        time.sleep(0.02)
    return min(int(status["log"]["green"]) for status in statuses.values())


def _until_green(cluster: LocalCluster, green: int, begin: float) -> float:
    """ms until all sites have so many messages in order."""
    while _green(cluster) < green:
        if time.perf_counter() - begin > _PATIENCE_S:
            raise TimeoutError(f"not ordered within {_PATIENCE_S:g} s")
        time.sleep(0.02)
    return (time.perf_counter() - begin) * 1e3
