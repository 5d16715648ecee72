"""Followers as real processes, killed without warning; and those that must not start."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.client.places import short_dir
from tests.ports import free_ports

import reconvene
from reconvene.local import LocalCluster
from reconvene.objects import ReplicatedMap
from reconvene.verify.engine import verify
from reconvene.verify.history import History

PATIENCE_S = 60.0


def _messages(count: int, word: str) -> list[bytes]:
    return [f"{word}-{number}".encode() for number in range(count)]


async def _append(address: str, messages: list[bytes]) -> int:
    """Returns the position of the last."""
    async with reconvene.connect(address, wait=PATIENCE_S) as site:
        receipts = [await site.log.append(message) for message in messages]
        return await receipts[-1].ordered(timeout=PATIENCE_S)


async def _read(address: str, at_least: int) -> list[bytes]:
    async with reconvene.connect(address, wait=PATIENCE_S) as site:
        return [entry.data for entry in await site.log.read(at_least=at_least, timeout=PATIENCE_S)]


async def _read_too_soon(address: str) -> None:
    async with reconvene.connect(address, wait=PATIENCE_S) as site:
        with pytest.raises(TimeoutError, match="can't be read here"):
            await site.log.read(at_least=1_000_000, timeout=0.2)
        with pytest.raises(reconvene.Rejected, match="takes no appends"):
            await site.log.append(b"no")
        status = await site.log.status()
        assert status.follow is not None
        assert status.follow.behind == 0


@pytest.mark.long("a real cluster, and kills in it")
def test_followers_that_are_killed_have_the_log_again() -> None:
    with short_dir() as place, LocalCluster.create(place / "c", 3, followers=2) as cluster:
        cluster.start()
        addresses = cluster.addresses
        wanted = _messages(200, "one")
        last = asyncio.run(_append(addresses["a"], wanted))
        assert asyncio.run(_read(addresses["f2"], last)) == wanted, "it reads what was appended elsewhere"
        cluster.crash("f1")
        more = _messages(200, "two")
        last = asyncio.run(_append(addresses["b"], more))
        assert asyncio.run(_read(addresses["f2"], last)) == wanted + more, "it pulls from another source"
        cluster.crash("f2", "a")
        cluster.restart("f1", "f2", "a")
        most = _messages(100, "three")
        last = asyncio.run(_append(addresses["c"], most))
        for name in ("f1", "f2"):
            assert asyncio.run(_read(addresses[name], last)) == wanted + more + most
            asyncio.run(_read_too_soon(addresses[name]))
        report = verify([History.load(cluster.finish_trace())])
    assert report.ok, report.violated()
    (follow,) = [check for check in report.checks if check.id == "corel.follow"]
    assert follow.cases >= 1_000


@pytest.mark.long("a real cluster, and kills in it")
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_follower_without_a_source_ends_by_sigterm(fault: signal.Signals) -> None:
    """One that had a source, one that follows it, and one that is started when there is none any more."""
    with short_dir() as place, LocalCluster.create(place / "c", 3, trace=False, followers=3) as cluster:
        cluster.start()
        last = asyncio.run(_append(cluster.addresses["a"], _messages(100, "one")))
        for name in cluster.followers:
            asyncio.run(_read(cluster.addresses[name], last))
        cluster.crash("f3")
        for name in cluster.names:
            os.kill(cluster.pids[name], fault)
        cluster.restart("f3")
        for name in ("f1", "f2", "f3"):
            pid = cluster.pids[name]
            os.kill(pid, signal.SIGTERM)
            give_up_at = time.monotonic() + 10
            while name in cluster.pids and time.monotonic() < give_up_at:
                time.sleep(0.05)
            assert name not in cluster.pids, f"{name} has not ended"


def _site_file(place: Path, name: str, port: int, follow: list[Path]) -> Path:
    (place / name).mkdir()
    addresses = ", ".join(f'"unix:{socket}"' for socket in follow)
    file = place / f"{name}.toml"
    file.write_text(
        f'cluster = "{name}"\nname = "{name}"\ndir = "{place / name}"\n'
        f'[sites]\n{name} = "127.0.0.1:{port}"\n[seal]\ninsecure = true\n'
        f"[log]\nbegin = true\n{f'follow = [{addresses}]' if follow else ''}\n"
    )
    return file


def _node(file: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "reconvene", "node", "--config", str(file)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def _wait(condition: Path) -> None:
    async def look() -> None:
        async with reconvene.connect(condition, wait=PATIENCE_S):
            pass

    asyncio.run(look())


def _refused(file: Path) -> str:
    process = _node(file)
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 2, said
    return said.strip().splitlines()[-1]


@pytest.mark.long("processes that start and end")
def test_a_circle_and_another_log_are_refused() -> None:
    running = []
    with short_dir() as place:
        try:
            ports = free_ports(5)
            sockets = {name: place / name / "site.sock" for name in ("one", "two", "f", "g")}
            running.append(_node(_site_file(place, "one", ports[0], [])))
            running.append(_node(_site_file(place, "two", ports[1], [])))
            _wait(sockets["one"])
            _wait(sockets["two"])
            asyncio.run(_append(str(sockets["one"]), [b"1"]))
            asyncio.run(_append(str(sockets["two"]), [b"2"]))
            # f follows g, and g the log and f.
            running.append(_node(_site_file(place, "f", ports[2], [sockets["g"], sockets["one"]])))
            _wait(sockets["f"])
            assert asyncio.run(_read(str(sockets["f"]), 0)) == [b"1"]
            circle = _refused(_site_file(place, "g", ports[3], [sockets["f"]]))
            assert "in a circle" in circle
            # The same directory, and another log.
            running[-1].terminate()
            running[-1].communicate(timeout=PATIENCE_S)
            file = place / "f.toml"
            file.write_text(file.read_text().replace(str(sockets["g"]), str(sockets["two"])))
            assert "this follower holds that of one" in _refused(file)
            itself = place / "itself.toml"
            itself.write_text(file.read_text().replace(str(sockets["two"]), str(sockets["f"])))
            assert "nobody follows itself" in _refused(itself)
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                process.communicate(timeout=PATIENCE_S)


@pytest.mark.long("processes that start and end")
def test_a_circle_that_arises_while_they_run_is_refused() -> None:
    """f knows h under a name that leads nowhere while the others start: nobody can see the circle before."""
    running = []
    with short_dir() as place:
        try:
            ports = free_ports(4)
            sockets = {name: place / name / "site.sock" for name in ("one", "f", "g", "h")}
            running.append(_node(_site_file(place, "one", ports[0], [])))
            _wait(sockets["one"])
            running.append(_node(_site_file(place, "f", ports[1], [place / "alias.sock", sockets["one"]])))
            _wait(sockets["f"])
            running.append(_node(_site_file(place, "g", ports[2], [sockets["f"]])))
            _wait(sockets["g"])
            running.append(_node(_site_file(place, "h", ports[3], [sockets["g"]])))
            _wait(sockets["h"])
            last = asyncio.run(_append(str(sockets["one"]), _messages(20, "round")))
            assert asyncio.run(_read(str(sockets["h"]), last)) == _messages(20, "round")
            (place / "alias.sock").symlink_to(sockets["h"])
            asyncio.run(_until_refused(str(sockets["f"])))
            last = asyncio.run(_append(str(sockets["one"]), [b"more"]))
            assert asyncio.run(_read(str(sockets["h"]), last))[-1] == b"more", "all go on"
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                process.communicate(timeout=PATIENCE_S)


async def _until_refused(address: str) -> None:
    async with asyncio.timeout(PATIENCE_S), reconvene.connect(address) as site:
        while True:
            follow = (await site.log.status()).follow
            assert follow is not None
            if any("in a circle" in why for why in follow.refused.values()):
                return
            await asyncio.sleep(0.1)


class Count(reconvene.StateMachine):
    """How many entries there were, and the bytes in them."""

    def __init__(self) -> None:
        self.entries = self.bytes = 0

    def apply(self, entry: reconvene.Entry) -> None:
        self.entries += 1
        self.bytes += len(entry.data)

    def snapshot(self) -> bytes:
        return b"%d %d" % (self.entries, self.bytes)

    def restore(self, data: bytes) -> None:
        self.entries, self.bytes = map(int, data.split())


async def _counted(address: str, position: int, every: int = 0) -> tuple[int, int]:
    count = Count()
    async with (
        reconvene.connect(address, wait=PATIENCE_S, timeout=PATIENCE_S) as site,
        site.log.run(count, snapshot_every=every) as runner,
    ):
        async with asyncio.timeout(PATIENCE_S):
            await runner.applied(position)
    return count.entries, count.bytes


async def _base(address: str) -> int:
    async with reconvene.connect(address, wait=PATIENCE_S) as site:
        return (await site.log.status()).base


async def _tail(address: str, at_least: int, start: int) -> list[tuple[int, str, bytes]]:
    async with reconvene.connect(address, wait=PATIENCE_S, timeout=PATIENCE_S) as site:
        found = await site.log.read(start, at_least=at_least, timeout=PATIENCE_S)
        return [(entry.position, entry.id, entry.data) for entry in found]


@pytest.mark.long("a real cluster whose log is truncated")
def test_a_follower_far_behind_takes_over_what_was_truncated() -> None:
    """It serves the same positions, a map and a machine that start there begin with their snapshots, and so does the
    follower that follows it."""
    settings = {"log": {"retain_bytes": 20_000}}
    with short_dir() as place, LocalCluster.create(place / "c", 3, followers=2, settings=settings) as cluster:
        cluster.start()
        addresses = cluster.addresses
        cluster.crash("f1", "f2")
        for turn in range(10):
            last = asyncio.run(_append(addresses["a"], [f"{turn}-{at}".encode() * 50 for at in range(50)]))
            counted = asyncio.run(_counted(addresses["a"], last, every=20))
        asyncio.run(_until_truncated(addresses["a"]))
        cluster.restart("f1", "f2")
        last = asyncio.run(_append(addresses["b"], [b"after"]))
        counted = counted[0] + 1, counted[1] + 5
        begin = max(asyncio.run(_base(address)) for name, address in addresses.items() if name != "b")
        assert begin > 100
        wanted = asyncio.run(_tail(addresses["a"], last, begin))
        for name in ("f1", "f2"):
            assert asyncio.run(_tail(addresses[name], last, begin)) == wanted
            with pytest.raises(reconvene.Truncated):
                asyncio.run(_tail(addresses[name], last, 0))
            assert asyncio.run(_counted(addresses[name], last)) == counted
        report = verify([History.load(cluster.finish_trace())])
    assert report.ok, report.violated()


async def _until_truncated(address: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await _base(address) < 100:
            await asyncio.sleep(0.1)


@pytest.mark.long("a real cluster")
def test_a_map_at_a_follower_reads_what_was_set_at_a_site() -> None:
    with short_dir() as place, LocalCluster.create(place / "c", 3, followers=2) as cluster:
        cluster.start()

        async def go() -> None:
            async with (
                reconvene.connect(cluster.addresses["a"], timeout=PATIENCE_S) as site,
                reconvene.connect(cluster.addresses["f2"], timeout=PATIENCE_S) as away,
                ReplicatedMap(site.log, "prices") as prices,
                ReplicatedMap(away.log, "prices") as read,
            ):
                await prices.set("coffee", 300)
                await prices.set("tea", 200)
                async with asyncio.timeout(PATIENCE_S):
                    while await read.get("tea") != 200:
                        await asyncio.sleep(0.05)
                assert await read.get("coffee") == 300
                with pytest.raises(reconvene.Rejected, match="takes no appends"):
                    await read.set("coffee", 1)
                followed = [entry.position async for entry in away.log.follow(0, stop=2)]
                assert followed == [0, 1]

        asyncio.run(go())
