"""reconvene log, on real processes."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_operations import call

from reconvene import blocking
from reconvene.cli.log_replicas import parse_quorum
from reconvene.errors import Malformed
from reconvene.local import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster.create(tmp_path_factory.mktemp("log") / "c", nodes=3) as made:
        made.start()
        made.wait_for()
        yield made


class Shell:
    def __init__(self, cluster: LocalCluster, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        self.directory = cluster.layout.directory
        self._captured = capfdbinary

    def bytes(self, *arguments: object, code: int = 0) -> bytes:
        found = call("log", *arguments)
        out, err = self._captured.readouterr()
        assert found == code, (out, err)
        return out

    def run(self, *arguments: object, code: int = 0) -> str:
        return self.bytes(*arguments, "--dir", self.directory, code=code).decode()

    def json(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code))

    def refused(self, *arguments: object) -> str:
        assert call("log", *arguments) == 2
        out, err = self._captured.readouterr()
        assert out == b""
        assert err.count(b"\n") == 1, err
        return err.decode()


@pytest.fixture
def shell(cluster: LocalCluster, capfdbinary: pytest.CaptureFixture[bytes]) -> Shell:
    return Shell(cluster, capfdbinary)


def program(*arguments: object, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "reconvene", "log", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)


def test_append_and_read(shell: Shell) -> None:
    (line,) = shell.run("append", "hello", "--ordered", "--site", "b").splitlines()
    identity, position = line.split()
    assert identity.startswith("b:1:")
    start = int(position)
    done = shell.json("append", "one", "two words", "\udcff\udc80", "--ordered", "--site", "a")
    assert (done["site"], done["appended"], done["trouble"]) == ("a", 3, None)
    assert done["positions"] == [start + 1, start + 2, start + 3]
    read = shell.run("read", "--from", start, "--to", start + 3, "--site", "c").splitlines()
    assert [entry.split()[:2] for entry in read] == [
        [str(start), identity],
        [str(start + 1), done["ids"][0]],
        [str(start + 2), done["ids"][1]],
    ]
    assert read[2].endswith("Z two words")
    document = shell.json("read", "--from", start + 2)
    first, second = document["entries"]
    assert (first["data"], first["author"], first["kind"], first["position"]) == ("two words", "a", "data", start + 2)
    assert base64.b64decode(second["data_base64"]) == b"\xff\x80"
    place = ("--from", start + 3, "--to", start + 4, "--dir", shell.directory)
    assert shell.bytes("read", *place, "--as", "raw") == b"\xff\x80\n"
    assert shell.bytes("read", *place, "--as", "raw", "-0") == b"\xff\x80\0"
    assert shell.bytes("read", *place, "--as", "hex") == b"ff80\n"
    assert shell.bytes("read", *place, "--as", "base64") == b"/4A=\n"
    assert b"\\xff\\x80" in shell.bytes("read", *place)


def test_standard_input_and_a_session_of_ones_own(shell: Shell, cluster: LocalCluster) -> None:
    address = cluster.addresses["a"]
    done = program("append", "-", "--node", address, given=b"".join(b"line %d\n" % at for at in range(2_500)))
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2_500), done.stderr
    own = ("append", "x", "y", "--session", "till 7", "--number", 5, "--ordered")
    first = shell.json(*own)
    again = shell.json(*own, "--site", "b")
    assert (first["again"], again["again"]) == (0, 2)
    assert again["positions"] == first["positions"]


def test_follow(shell: Shell) -> None:
    start = shell.json("append", "a", "b", "--ordered")["positions"][0]
    lines = shell.run("follow", "--from", start, "--count", 2, "--json").splitlines()
    assert [json.loads(line)["data"] for line in lines] == ["a", "b"]
    assert shell.bytes("follow", "--from", start, "--count", 2, "--as", "raw", "--dir", shell.directory) == b"a\nb\n"
    assert shell.run("follow", "--from", "end", "--for", "200ms") == ""


def test_a_transaction(shell: Shell, cluster: LocalCluster) -> None:
    with blocking.connect(cluster.addresses["a"]) as site:
        staging = site.log.staging(timeout=20)
        staging.put([b"x", b"y"])
        places = staging.ordered()
        committed = site.log.commit(places.runs, name="orders", version=3, timeout=20)
    start, position = places[0], committed.position
    read = shell.json("read", "--from", start, "--to", position + 1)["entries"]
    assert [(entry["position"], entry["data"], entry["commit"]) for entry in read] == [
        (start, "x", position),
        (start + 1, "y", position),
    ]
    raw = shell.json("read", "--from", start, "--to", position + 1, "--control")["entries"]
    assert [entry["kind"] for entry in raw] == ["staged", "staged", "commit"]
    assert raw[2]["transaction"] == {"name": "orders", "version": 3, "rows": 2, "ranges": 1}
    line = shell.run("read", "--from", position, "--to", position + 1, "--control")
    assert '[commit] {"name":"orders","version":3,' in line
    assert len(shell.run("follow", "--from", start, "--count", 2).splitlines()) == 2


def test_status_and_replicas(shell: Shell) -> None:
    shell.run("append", "x", "--ordered")
    sites = shell.json("status")["sites"]
    assert [site["name"] for site in sites] == ["a", "b", "c"]
    assert all(site["log"]["primary"] for site in sites)
    table = shell.run("status")
    assert "quorum majority" in table
    assert table.splitlines()[0].split()[:3] == ["site", "state", "phase"]
    assert sorted(shell.json("replicas")["replicas"]) == ["a", "b", "c"]
    assert "quorum" in shell.run("replicas")
    weighted = shell.json("replicas", "--quorum", "weighted:a=2,b=1,c=1")
    assert weighted["quorum"] == {"kind": "weighted", "weights": {"a": 2, "b": 1, "c": 1}}
    assert isinstance(weighted["position"], int)
    assert "weighted a=2 b=1 c=1" in shell.run("status")
    assert "majority" in shell.run("replicas", "--quorum", "majority")
    control = shell.json("read", "--control")["entries"]
    changes = [entry["change"]["quorum"]["kind"] for entry in control if entry["kind"] == "change"]
    assert changes == ["weighted", "majority"]
    assert '[change] {"replicas":["a","b","c"],"quorum":{"kind":"majority"}}' in shell.run("read", "--control")


def test_snapshots_have_names(shell: Shell, tmp_path: Path) -> None:
    shell.run("append", "x", "--ordered", "--site", "a")
    state = tmp_path / "state"
    state.write_bytes(b"the state")
    at = ("--site", "a")
    for name in ("stock", "prices"):
        shell.run("snapshot", "--name", name, "--save", state, "--position", 1, *at)
    assert "expected --name, one of: prices, stock" in shell.refused(
        "snapshot", "--out", tmp_path / "x", "--dir", shell.directory, *at
    )
    found = shell.json("snapshot", *at)["snapshots"]
    assert {name: (one["position"], one["bytes"], one["here"]) for name, one in found.items()} == {
        "prices": (1, 9, True),
        "stock": (1, 9, True),
    }
    assert shell.bytes("snapshot", "--name", "stock", "--out", "-", "--dir", shell.directory, *at) == b"the state"
    assert "a: snapshots prices at 1, stock at 1; prices needs the log from 1 on" in shell.run("status")
    assert "prices" not in shell.run("snapshot", "--drop", "prices", *at)
    shell.run("snapshot", "--drop", "stock", *at)
    assert "no snapshot" in shell.run("snapshot", *at)


def test_why_it_orders_and_what_would_stop_it(shell: Shell) -> None:
    assert "a, b, c may order: " in shell.run("status", "--why")
    assert all("may order" in site["log"]["why"] for site in shell.json("status", "--why")["sites"])
    assert "Without c, those connected here (a, b) go on ordering." in shell.run("whatif", "--lose", "c")
    stopped = shell.run("whatif", "--lose", "b,c")
    assert "(a) stop ordering: " in stopped
    assert "All other replicas together can not order: " in stopped
    assert shell.json("whatif", "--lose", "b,c")["orders"] is False
    where = ("--dir", shell.directory)
    assert "x is none of its replicas" in shell.refused("whatif", "--lose", "x", *where)
    assert "expected names of sites" in shell.refused("whatif", "--lose", "a,,b", *where)


def test_bad_input(shell: Shell, tmp_path: Path) -> None:
    where = ("--dir", shell.directory)
    assert "log: expected a command: append, read," in shell.refused()
    assert "expected messages" in shell.refused("append", *where)
    assert "not both" in shell.refused("append", "x", "-", *where)
    assert "expected --session" in shell.refused("append", "x", "--number", 2, *where)
    assert "--site a: expected --dir" in shell.refused("append", "x", "--node", "site.sock", "--site", "a")
    assert "either --dir DIR or --node ADDR" in shell.refused("append", "x")
    assert "--to 1: expected" in shell.refused("read", "--from", 3, "--to", 1, *where)
    assert "the log ends at" in shell.refused("read", "--from", 10**9, *where)
    assert "--from x: expected" in shell.refused("follow", "--from", "x", *where)
    assert "expected majority" in shell.refused("replicas", "--quorum", "most", *where)
    assert "minimum: expected a number of replicas from 1 to 3" in shell.refused(
        "replicas", "--quorum", "dynamic:4", *where
    )
    assert "not both" in shell.refused("replicas", "--add", "x", "--force-lost", "a", *where)
    assert "is not a site of this cluster" in shell.refused("replicas", "--add", "x", *where)
    assert "expected --force-lost" in shell.refused("replicas", "--yes", *where)
    assert "expected names of sites" in shell.refused("replicas", "--force-lost", "b,,c", *where)
    assert "not lost" in shell.refused("replicas", "--force-lost", "b", "--site", "a", *where)
    assert "--save FILE with --position" in shell.refused("snapshot", "--save", "x", *where)
    assert "can't be read" in shell.refused("snapshot", "--save", tmp_path / "x", "--position", 0, *where)
    assert "has no snapshot" in shell.refused("snapshot", "--name", "stock", "--out", tmp_path / "x", *where)
    assert "--drop NAME: expected without" in shell.refused("snapshot", "--drop", "x", "--name", "y", *where)
    assert "no snapshot 'stock' is in use here" in shell.refused("snapshot", "--drop", "stock", *where)
    assert "a snapshot's name: expected" in shell.refused("snapshot", "--name", "a\tb", *where)
    assert "there is no data.mdb" in shell.refused("check", tmp_path)
    assert "its site is running" in shell.refused("check", LocalCluster(shell.directory).layout.data("a"))
    assert "expected a copy" in shell.refused("restore", tmp_path / "none", tmp_path / "to")
    assert "log backup: expected --site with one of a, b, c" in shell.refused("backup", tmp_path / "copy", *where)
    assert "No such file" in shell.refused("append", "x", "--node", tmp_path / "no.sock")


def test_a_copy_of_a_running_site_is_sound(shell: Shell, tmp_path: Path) -> None:
    shell.run("append", *map(str, range(100)), "--ordered")
    # The green line is written with the next write.
    shell.run("append", "one more", "--ordered")
    copy = tmp_path / "copy"
    assert shell.json("backup", copy, "--site", "a")["bytes"] > 0
    assert "already" in shell.refused("backup", copy, "--dir", shell.directory, "--site", "a")
    found = json.loads(shell.bytes("check", copy, "--json"))
    assert (found["ok"], found["problems"], found["base"]) == (True, [], 0)
    assert found["green"] >= 100
    shell.bytes("restore", copy, tmp_path / "site")
    assert b"sound" in shell.bytes("check", tmp_path / "site")
    assert "already" in shell.refused("restore", copy, tmp_path / "site")
    data = tmp_path / "site/store/data.mdb"
    damaged = bytearray(data.read_bytes())
    damaged[9_000:] = bytes(byte ^ 0xFF for byte in damaged[9_000:])
    data.write_bytes(damaged)
    assert json.loads(shell.bytes("check", tmp_path / "site", "--json", code=1))["ok"] is False


def test_quorums_as_people_write_them() -> None:
    assert parse_quorum("majority") == {"kind": "majority"}
    assert parse_quorum("weighted:a=2,b=1") == {"kind": "weighted", "weights": {"a": 2, "b": 1}}
    assert parse_quorum("grid:a,b/c,d") == {"kind": "grid", "rows": [["a", "b"], ["c", "d"]]}
    assert parse_quorum("dynamic") == {"kind": "dynamic"}
    assert parse_quorum("dynamic:2") == {"kind": "dynamic", "minimum": 2}
    assert parse_quorum("dynamic:2:a=2,b=1") == {"kind": "dynamic", "minimum": 2, "weights": {"a": 2, "b": 1}}
    for bad in ("", "majority:2", "weighted:", "weighted:a", "weighted:a=x", "grid:a,/b", "grid:"):
        with pytest.raises(Malformed, match="expected majority"):
            parse_quorum(bad)


def test_follow_with_a_cursor_goes_on_where_it_stopped(shell: Shell) -> None:
    start = int(shell.run("append", "for the cursor", "--ordered").split()[1])
    shell.run("append", "two", "three", "--ordered")
    first = shell.run("follow", "--cursor", "till", "--from", start, "--count", 1, "--as", "raw")
    assert first == "for the cursor\n"
    assert shell.run("follow", "--cursor", "till", "--count", 2, "--as", "raw") == "two\nthree\n"
    assert shell.run("follow", "--cursor", "till", "--for", "1s") == ""
    listed = shell.json("cursors")["cursors"]
    assert [(one["name"], one["holder"], one["position"] > start + 2) for one in listed] == [("till", None, True)]
    assert "till" in shell.run("cursors")
    assert shell.run("cursors", "--drop", "till") == "cursor till is dropped\n"
    assert shell.json("cursors")["cursors"] == []
    where = ("--dir", shell.directory)
    assert "there is no cursor 'till'" in shell.refused("cursors", "--drop", "till", *where)
    assert "expected --cursor or --control" in shell.refused("follow", "--cursor", "x", "--control", *where)
    assert "name: 1 to 128 characters" in shell.refused("follow", "--cursor", "n" * 129, *where)
