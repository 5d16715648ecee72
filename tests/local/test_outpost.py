"""An outpost as a real process: killed, and the sites with it, it loses, doubles and reorders nothing."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import reconvene
from reconvene.local import LocalCluster
from reconvene.local.processes import Proc, kill_all, spawn
from reconvene.local.toml import to_toml

PATIENCE_S = 60.0


class Shop:
    def __init__(self, cluster: LocalCluster, directory: Path, follow: list[str] | None = None) -> None:
        self.directory = directory
        directory.mkdir()
        self.socket = directory / "o.sock"
        self.config = directory / "site.toml"
        self.log = directory / "log"
        document: dict[str, object] = {
            "cluster": cluster.choices.cluster,
            "name": "o",
            "dir": str(directory / "data"),
            "clients": {"unix": str(self.socket)},
            "log": {"outpost": True, "follow": follow or list(cluster.addresses.values())},
        }
        self.config.write_text(to_toml(document))
        self.process: Proc | None = None

    def start(self) -> None:
        self.process = spawn(["node", "--config", str(self.config)], self.log)

    def kill(self) -> None:
        if self.process is not None:
            kill_all([self.process])
            self.process = None


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster.create(tmp_path / "c", nodes=3, trace=False) as cluster:
        cluster.start(timeout_s=PATIENCE_S)
        yield cluster


@pytest.fixture
def shop(cluster: LocalCluster, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(cluster, tmp_path / "o")
    try:
        yield shop
    finally:
        shop.kill()


async def append(shop: Shop, made: list[bytes], count: int) -> None:
    """One after the other, until so many are accepted."""
    async with reconvene.connect(str(shop.socket), wait=PATIENCE_S, timeout=PATIENCE_S) as site:
        assert site.name == "o"
        for _ in range(count):
            message = b"sale %d" % len(made)
            receipt = await site.log.append(message)
            assert receipt.id is not None
            assert receipt.id.startswith("o:")
            made.append(message)


async def read(cluster: LocalCluster, name: str, count: int) -> list[tuple[str, bytes]]:
    """All messages at this site, once it has so many. One that was down may learn of the last ones later."""
    async with reconvene.connect(cluster.addresses[name], timeout=PATIENCE_S) as site:
        return [(entry.id, entry.data) for entry in await site.log.read(at_least=count - 1)]


async def until_ordered(shop: Shop) -> None:
    async with reconvene.connect(str(shop.socket), wait=PATIENCE_S, timeout=PATIENCE_S) as site:
        give_up_at = time.monotonic() + PATIENCE_S
        while (waiting := await site.log.pending()) and time.monotonic() < give_up_at:
            await asyncio.sleep(0.1)
        assert not waiting, await site.status()


@pytest.mark.long("kills real processes")
def test_kill_9_of_the_outpost_and_of_its_site(cluster: LocalCluster, shop: Shop) -> None:
    made: list[bytes] = []
    shop.start()
    asyncio.run(append(shop, made, 50))
    shop.kill()
    shop.start()
    asyncio.run(append(shop, made, 50))
    cluster.crash("a")  # the site that it forwards to
    asyncio.run(append(shop, made, 50))
    cluster.crash("b")  # and with it the majority
    asyncio.run(append(shop, made, 50))
    shop.kill()
    shop.start()
    asyncio.run(append(shop, made, 50))
    cluster.restart("a", "b", timeout_s=PATIENCE_S)
    asyncio.run(until_ordered(shop))
    for name in cluster.names:
        entries = asyncio.run(read(cluster, name, len(made)))
        assert [data for _, data in entries] == made
        ids = [msg.split(":") for msg, _ in entries]
        assert [int(counter) for _, _, counter in ids] == list(range(1, len(made) + 1))
        assert [(outpost, incarnation) for outpost, incarnation, _ in ids[::100]] == [
            ("o", "1"),
            ("o", "2"),
            ("o", "3"),
        ]


@pytest.mark.long("starts a cluster of processes")
def test_a_program_gets_its_place_and_sees_what_waits(cluster: LocalCluster, shop: Shop) -> None:
    shop.start()

    async def sell() -> None:
        async with reconvene.connect(str(shop.socket), wait=PATIENCE_S, timeout=PATIENCE_S) as site:
            receipt = await site.log.append(b"coffee")
            assert await receipt.ordered(timeout=PATIENCE_S) == 0
            receipts = await site.log.append_many([b"tea", b"cake"])
            assert list(await receipts.ordered(timeout=PATIENCE_S)) == [1, 2]
            till = site.log.session(b"till")
            for _ in range(3):  # the log takes it once, whether the outpost still has it or not
                milk = await till.append(b"milk", number=1)
            await milk.ordered(timeout=PATIENCE_S)
            with pytest.raises(reconvene.Rejected, match="keeps no copy of the log"):
                await site.log.read()
            with pytest.raises(reconvene.Rejected, match="groups are at the cluster's sites"):
                await site.join("lobby")
            cluster.crash("a", "b", "c")
            await site.log.append(b"later")
            (entry,) = await site.log.pending()
            assert (entry.data, entry.author, entry.color.value) == (b"later", "o", "red")
            cluster.restart("a", "b", "c", timeout_s=PATIENCE_S)

    asyncio.run(sell())
    asyncio.run(until_ordered(shop))
    assert [data for _, data in asyncio.run(read(cluster, "c", 5))] == [b"coffee", b"tea", b"cake", b"milk", b"later"]
