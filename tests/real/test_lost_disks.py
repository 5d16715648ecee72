"""Lost disks, and old copies of directories put back: real sites, kill -9, and files that are moved meanwhile."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.client.places import short_dir

from reconvene import blocking
from reconvene.errors import Rejected, Unavailable
from reconvene.local import LocalCluster


def wipe(cluster: LocalCluster, name: str) -> None:
    shutil.rmtree(cluster.layout.data(name) / "store")


def log_of(cluster: LocalCluster, name: str) -> dict[str, object]:
    status = cluster.wait_for()[name]["log"]
    assert isinstance(status, dict)
    return status


def until(holds: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < give_up_at, "in vain"
        time.sleep(0.05)


def append(cluster: LocalCluster, name: str, data: bytes) -> None:
    with blocking.connect(cluster.addresses[name]) as site:
        site.log.append(data).ordered(timeout=20)


@pytest.mark.long("a real cluster for seconds")
def test_two_wiped_of_three_begin_no_second_log() -> None:
    with short_dir() as directory, LocalCluster.create(Path(directory) / "c", 3, trace=False) as cluster:
        cluster.start()
        append(cluster, "a", b"one")
        cluster.crash("a", "b", "c")
        wipe(cluster, "b")
        wipe(cluster, "c")
        cluster.restart("b", "c")
        status = log_of(cluster, "b")
        assert status["primary"] == 0
        assert status["waits"] == ("the log here is empty: it begins when all of its replicas are here; absent: a")
        with blocking.connect(cluster.addresses["b"]) as site, pytest.raises(Unavailable, match="log here is empty"):
            site.log.append(b"a second log")
        cluster.restart("a")
        status = log_of(cluster, "a")
        assert status["strangers"] == ["b", "c"]
        assert (status["primary"], int(str(status["green"])) + int(str(status["yellow"]))) == (0, 1)


def replace(cluster: LocalCluster, name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "reconvene", "replace", "--config", cluster.layout.config(name)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def data(cluster: LocalCluster, name: str) -> list[bytes]:
    with blocking.connect(cluster.addresses[name]) as site:
        return [entry.data for entry in site.log.read(0)]


@pytest.mark.long("starts three sites; tests/corel/replicas/test_put_back.py has the rule")
def test_a_directory_that_was_put_back_is_refused_and_replaced() -> None:
    with short_dir() as directory, LocalCluster.create(Path(directory) / "c", 3, trace=False) as cluster:
        cluster.start()
        append(cluster, "c", b"one")
        cluster.crash("c")
        shutil.copytree(cluster.layout.data("c"), directory / "copy")
        cluster.restart("c")
        cluster.wait_for()
        append(cluster, "c", b"two")
        cluster.crash("c")
        shutil.rmtree(cluster.layout.data("c"))
        shutil.copytree(directory / "copy", cluster.layout.data("c"))
        cluster.partition([["a", "b"], ["c"]])
        cluster.restart("c")
        with blocking.connect(cluster.addresses["c"]) as site:
            assert site.log.append(b"another two").id == "c:2:2", "an id that was given before: nobody can tell it"
        cluster.heal()
        until(lambda: "older than what others know of this site" in str(cluster.statuses()["c"]["storage"]))
        with blocking.connect(cluster.addresses["c"]) as site, pytest.raises(Rejected, match=r"[12] messages that"):
            site.log.append(b"too late")
        for name in "abc":
            until(lambda name=name: " refused=c " in cluster.layout.log(name).read_text())  # type: ignore[misc]
        cluster.crash("c")
        said = replace(cluster, "c")
        moved = said.splitlines()[0].removeprefix("moved aside: ")
        rescue = [sys.executable, "-m", "reconvene", "log", "rescue", moved, "--as", "raw"]
        rescued = subprocess.run(rescue, capture_output=True, check=True)
        assert rescued.stdout.endswith(b"another two\n"), "perhaps after one that others have ordered"
        cluster.restart("c")
        cluster.wait_for([["a", "b", "c"]])
        until(lambda: log_of(cluster, "c")["replica"] is True)
        append(cluster, "c", b"three")
        assert data(cluster, "c") == data(cluster, "a") == [b"one", b"two", b"three"]


@pytest.mark.long("a real cluster for seconds")
def test_a_lost_disk_takes_one_command_and_one_start() -> None:
    with short_dir() as directory, LocalCluster.create(Path(directory) / "c", 3, trace=False) as cluster:
        cluster.start()
        for _ in range(3):
            cluster.crash("c")
            cluster.restart("c")
        cluster.wait_for()
        append(cluster, "c", b"one")
        cluster.crash("c")
        wipe(cluster, "c")
        assert "its next incarnation is 5" in replace(cluster, "c")
        cluster.restart("c")
        cluster.wait_for([["a", "b", "c"]])
        until(lambda: log_of(cluster, "c")["replica"] is True)
        append(cluster, "c", b"two")
        assert data(cluster, "c") == data(cluster, "a") == [b"one", b"two"]
