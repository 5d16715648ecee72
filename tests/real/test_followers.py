"""Followers as real processes, killed without warning; and those that must not start."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.client.places import free_ports, short_dir

import reconvene
from reconvene.local import LocalCluster
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
