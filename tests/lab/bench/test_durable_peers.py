"""The peers of bench durable: each runs, loses replicas, and leaves no process and no file."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconvene.cli import main
from reconvene.errors import Unavailable
from reconvene.lab.bench import PEERS, durable, missing
from reconvene.lab.bench.durable_system import Durable, Way
from reconvene.lab.bench.peers import etcd, nats, pysyncobj, zookeeper
from reconvene.lab.bench.peers.processes import build


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def peer(name: str, why: str | None) -> object:
    return pytest.param(durable.SYSTEMS[name], id=name, marks=pytest.mark.skipif(why is not None, reason=why or ""))


@pytest.mark.long("starts other systems")
@pytest.mark.parametrize(
    "make",
    [
        peer("etcd", etcd.available()),
        peer("nats", nats.available()),
        peer("pysyncobj", pysyncobj.available()),
        peer("zookeeper", zookeeper.available()),
    ],
)
def test_a_peer_from_start_to_end(
    make: Callable[[], Durable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "QUICK_COMPILED_S", 0.2)
    system = make()
    with system.running(tmp_path, quick=True) as replicas:
        pids = list(replicas.pids())
        assert len(pids) >= 3
        for way in {way.name: way for way in system.ways}.values():
            few = Way(min(way.outstanding, 20), way.batch, way.name)
            assert replicas.throughput(100, 0.2, few) > 0
        took = replicas.latency(1024, 10)
        assert len(took) == 10
        assert min(took) > 0
        replicas.lose_one()
        assert sum(map(is_gone, pids)) == 1
        assert replicas.throughput(100, 0.2, Way(20)) > 0
        alone = replicas.minority(100, 1)
        assert alone.accepted_per_second == 0, "no peer takes writes without a majority"
        assert alone.answer
    assert all(map(is_gone, pids))


@pytest.mark.parametrize("name", PEERS["durable"])
def test_one_that_is_not_installed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None)
    monkeypatch.setattr(pysyncobj, "find_spec", lambda module: None)
    why = missing(name)
    assert why is not None
    with pytest.raises(SystemExit) as exit_:
        main(["bench", "durable", "--json", "--peer", name])
    assert exit_.value.code == 2
    assert json.loads(capsys.readouterr().out) == {"error": f"--peer {name}: {why}"}


def test_what_is_needed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda tool: None)
    monkeypatch.setattr(pysyncobj, "find_spec", lambda module: None)
    assert missing("etcd") == (
        "no etcd (package etcd-server); it needs the Debian packages etcd-server, golang-go, golang-etcd-server-dev"
    )
    assert missing("pysyncobj") == ("no module pysyncobj; it needs the extra peers: pip install 'reconvene[peers]'")


def test_configurations() -> None:
    text = nats.configuration(1, 4222, [10, 11, 12], Path("/x"))
    assert "server_name: server-1" in text
    assert 'listen: "127.0.0.1:11", routes: ["nats://127.0.0.1:10", ' in text
    assert 'store_dir: "/x"' in text
    lines = zookeeper.configuration(2181, [(1, 2), (3, 4), (5, 6)], Path("/x")).splitlines()
    assert {"dataDir=/x", "clientPort=2181", "server.2=127.0.0.1:5:6"} <= set(lines)
    assert not any("forceSync" in line for line in lines), "it syncs unless it is told not to"


def test_a_compiler_that_fails_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="sh: no such client"):
        build(["sh", "-c", "echo no such client >&2; exit 1"], tmp_path / "x")
    with pytest.raises(Unavailable, match="no-such-compiler"):
        build(["no-such-compiler"], tmp_path / "x")
