"""Disks that are lost, and directories that are put back: real sites, kill -9, and files moved under them."""

import shutil
from pathlib import Path

import pytest
from tests.client.places import short_dir

from reconvene import blocking
from reconvene.errors import Unavailable
from reconvene.local import LocalCluster


def wipe(cluster: LocalCluster, name: str) -> None:
    shutil.rmtree(cluster.layout.data(name) / "store")


def log_of(cluster: LocalCluster, name: str) -> dict[str, object]:
    status = cluster.wait_for()[name]["log"]
    assert isinstance(status, dict)
    return status


def append(cluster: LocalCluster, name: str, data: bytes) -> None:
    with blocking.connect(cluster.addresses[name]) as site:
        site.log.append(data).ordered(timeout=20)


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
