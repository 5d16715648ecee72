"""`reconvene doctor` in real situations: each check sees what is made wrong for it."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.places import short_dir
from tests.ports import free_ports

from reconvene.cli import main
from reconvene.doctor import Level
from reconvene.doctor.disk import mount_of
from reconvene.doctor.program import look_at_spark
from reconvene.runtime.disk.directory import held

PATIENCE_S = 60
Checks = dict[str, dict[str, Any]]


class Place:
    """A site's file, and what the doctor says of it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.file = directory, directory / "site.toml"
        self.datagrams, self.other, self.http = free_ports(3)

    def write(self, more: str = "", other: str = "127.0.0.1") -> None:
        self.file.write_text(
            f'cluster = "shop"\nname = "a"\ndir = "state"\n[seal]\ninsecure = true\n'
            f'[sites]\na = "127.0.0.1:{self.datagrams}"\nb = "{other}:{self.other}"\n'
            f'[http]\naddress = "127.0.0.1:{self.http}"\n{more}'
        )

    def examine(self, capsys: pytest.CaptureFixture[str]) -> tuple[object, Checks]:
        """The exit code, and what was found by check."""
        with pytest.raises(SystemExit) as exit_:
            main(["doctor", "--config", str(self.file), "--json"])
        document = json.loads(capsys.readouterr().out)
        assert document["ok"] == (exit_.value.code == 0)
        assert document["config"] == str(self.file)
        return exit_.value.code, {found["check"]: found for found in document["checks"]}


@pytest.fixture
def place() -> Iterator[Place]:
    with short_dir() as directory:
        yield Place(directory)


def run(*arguments: str, limits: str = "", **environment: str) -> tuple[int, Checks]:
    """In a process of its own, under these limits."""
    program = f'{limits} exec "$0" -m reconvene doctor --json "$@"'
    done = subprocess.run(
        ["sh", "-c", program, sys.executable, *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, env={**os.environ, **environment},
    )  # fmt: skip
    return done.returncode, {found["check"]: found for found in json.loads(done.stdout)["checks"]}


def test_a_site_that_can_run(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write()
    code, found = place.examine(capsys)
    assert code == 0
    for check in ("python", "packages", "directory", "sites", "mtu", "loopback", "clients.unix"):
        assert found[check]["level"] == "ok", found[check]
    assert found["build"]["level"] == "advice", "these tests run on the pure build"
    assert found["sites.a"]["seen"] == f"127.0.0.1:{place.datagrams} is free for datagrams"
    assert found["disk sync"]["seen"].endswith(" fdatasyncs of 4KiB")
    assert [path.name for path in place.directory.iterdir()] == ["site.toml"], "nothing is left behind"


def test_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["doctor", "--dir", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert exit_.value.code == 0
    assert all(line.split()[0] in list(Level) for line in lines[:-1])
    assert lines[-1].startswith("a site can run here")
    assert list(tmp_path.iterdir()) == []


def test_ports_that_others_have(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, socket.socket() as other:
        one.bind(("127.0.0.1", place.datagrams))
        other.bind(("127.0.0.1", place.http))
        other.listen()
        code, found = place.examine(capsys)
    assert code == 1
    for key in ("sites.a", "http.address"):
        assert found[key]["level"] == "wrong"
        assert f"process {os.getpid()})" in found[key]["seen"]
        assert found[key]["change"] == f"kill {os.getpid()}, or give {key} another port"


def test_an_address_of_another_machine(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write()
    place.file.write_text(place.file.read_text().replace('a = "127.0.0.1', 'a = "192.0.2.7'))
    code, found = place.examine(capsys)
    assert code == 1
    assert "192.0.2.7" in found["sites.a"]["seen"]
    assert "not an address of this machine" in found["sites.a"]["seen"]


def test_a_site_that_runs_has_its_own_ports(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write()
    with held(place.directory / "state", "shop", "a"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("127.0.0.1", place.datagrams))
        code, found = place.examine(capsys)
    assert code == 0
    assert found["ports"]["seen"] == f"this site runs, as process {os.getpid()}, and holds its ports"


def test_a_directory_that_another_site_holds(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write()
    with held(place.directory / "state", "shop", "b"):
        code, found = place.examine(capsys)
    assert code == 1
    assert "is held by site b of cluster shop" in found["ports"]["seen"]


def test_somebody_at_the_clients_socket(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write()
    path = place.directory / "state" / "site.sock"
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        assert place.examine(capsys)[1]["clients.unix"]["level"] == "wrong"
    assert "is left over" in place.examine(capsys)[1]["clients.unix"]["seen"]
    path.unlink()
    path.touch()
    assert place.examine(capsys)[1]["clients.unix"]["seen"].endswith("is not a socket")


def test_a_port_that_anyone_may_get_by_chance(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.datagrams = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    place.write()
    found = place.examine(capsys)[1]["port range"]
    assert found["level"] == "advice"
    assert found["change"].startswith("sudo sysctl -w net.ipv4.ip_local_reserved_ports=")
    assert str(place.datagrams) in found["change"]


def test_a_name_that_nobody_knows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(other="nowhere.invalid")
    code, found = place.examine(capsys)
    assert code == 1
    assert found["sites"]["seen"] == "sites.b: nowhere.invalid: has no IPv4 address"


def test_frames_that_are_cut_on_their_way(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Or a site to which there is no way at all, on a machine without a network."""
    place.write("[transport]\nframe_bytes = 60000\n", other="198.51.100.7")
    code, found = place.examine(capsys)
    if code == 0:
        assert found["mtu"]["level"] == "advice"
        assert found["mtu"]["seen"].startswith("frames of 60,000 bytes; a packet carries ")
    else:
        assert found["mtu"]["seen"] == "this machine has no route to b"


def test_a_buffer_that_the_system_does_not_grant(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    asked = 1 << 30
    assert int(Path("/proc/sys/net/core/rmem_max").read_text()) < asked
    place.write(f"[transport]\nreceive_buffer_bytes = {asked}\n")
    found = place.examine(capsys)[1]["receive buffer"]
    assert found["level"] == "advice"
    assert found["change"] == f"sudo sysctl -w net.core.rmem_max={asked}"


def test_a_multicast_group(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write(f'[transport]\nkind = "multicast"\ngroup = "239.77.1.2:{free_ports(1)[0]}"\n')
    assert place.examine(capsys)[1]["multicast"]["level"] == "ok"


@pytest.mark.parametrize(
    ("limits", "check", "level", "change"),
    [
        ("ulimit -n 512;", "open files", "advice", "LimitNOFILE=2128"),
        ("ulimit -v 16777216;", "address space", "wrong", "ulimit -v unlimited"),
        ("ulimit -f 1048576;", "file size", "advice", "ulimit -f unlimited"),
    ],
)
def test_limits_of_a_process(limits: str, check: str, level: str, change: str) -> None:
    looking = "from reconvene.doctor.limits import *; print(*look_at_limits(None), sep='\\n')"
    done = subprocess.run(
        ["sh", "-c", f'{limits} exec "$0" -c "$1"', sys.executable, looking],
        capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    found = next(line for line in done.stdout.splitlines() if f"check='{check}'" in line)
    assert f"level=<Level.{level.upper()}: " in found
    assert change in found


def test_too_few_files_for_any_site(tmp_path: Path) -> None:
    code, found = run("--dir", str(tmp_path), limits="ulimit -n 80;")
    assert code == 1
    assert found["open files"]["level"] == "wrong"
    assert "ulimit -n 2128" in found["open files"]["change"]


def test_a_directory_that_can_not_be_written_to(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    directory = "/sys" if os.geteuid() == 0 else str(closed)  # root may write where the mode forbids it
    code, found = run("--dir", directory)
    assert code == 1
    assert found["directory"]["level"] == "wrong"
    assert found["directory"]["seen"].startswith(f"{directory}: can't be written to: ")


def test_file_systems_that_do_not_keep_what_they_are_given() -> None:
    mounts = (
        "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "30 22 0:27 / /mnt/far\\040away rw - nfs4 server:/x rw\n"
        "31 22 0:28 / /mnt rw shared:5 - tmpfs tmpfs rw\n"
    )
    assert mount_of(Path("/mnt/far away/site"), mounts) == ("/mnt/far away", "nfs4")
    assert mount_of(Path("/mnt/near"), mounts) == ("/mnt", "tmpfs")
    assert mount_of(Path("/var/lib"), mounts) == ("/", "ext4")


@pytest.mark.parametrize(
    ("says", "seen"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11; Spark needs 17 or later"),
        ("echo 'openjdk version \"21\"' >&2", "Java 21"),
        ("echo nothing", "does not say which Java it is"),
        (None, "none found, and Spark runs on it"),
    ],
)
def test_java(says: str | None, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if says is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    *_, java = look_at_spark()
    assert seen in java.seen
    assert java.level is (Level.OK if "Java 21" in seen else Level.ADVICE)


def test_a_bad_configuration_is_one_line(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write("[transport]\nframe_bites = 3\n")
    for file, said in ((place.file, "frame_bites"), (place.directory / "none.toml", "expected a configuration file")):
        with pytest.raises(SystemExit) as exit_:
            main(["doctor", "--config", str(file)])
        captured = capsys.readouterr()
        assert exit_.value.code == 2
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert said in captured.err


def test_a_file_says_itself_where_the_state_goes(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write()
    with pytest.raises(SystemExit) as exit_:
        main(["doctor", "--config", str(place.file), "--dir", str(place.directory)])
    assert exit_.value.code == 2
    assert "expected --config FILE or --dir DIR, not both" in capsys.readouterr().err
