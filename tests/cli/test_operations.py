"""up, down, status, watch, partition, heal, crash, restart, pause, resume, send, listen: on real processes."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconvene.cli import main
from reconvene.local import LocalCluster


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


class Shell:
    """Runs commands on one directory, in this process."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys

    def run(self, *arguments: object) -> str:
        return self.elsewhere(*arguments, "--dir", self.directory)

    def elsewhere(self, *arguments: object) -> str:
        """Runs a command without the directory."""
        code = call(*arguments)
        captured = self._capsys.readouterr()
        assert code == 0, captured
        return captured.out

    def said(self) -> str:
        """The output on stderr so far."""
        return self._capsys.readouterr().err

    def json(self, *arguments: object) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def refused(self, *arguments: object) -> str:
        """One line on stderr, and nothing else."""
        assert call(*arguments, "--dir", self.directory) == 2
        captured = self._capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1, captured.err
        return captured.err


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    made = Shell(tmp_path / "cluster", capsys)
    yield made
    if (made.directory / "cluster.toml").exists():
        LocalCluster(made.directory).kill()


def test_a_cluster_from_up_to_down(shell: Shell) -> None:
    up = shell.json("up")
    assert [site["name"] for site in up["sites"]] == ["a", "b", "c"]
    assert {site["health"] for site in up["sites"]} == {"primary"}
    assert len({site["configuration"] for site in up["sites"]}) == 1
    assert "holds a running cluster" in shell.refused("up")
    assert "--nodes is 3 in the existing cluster, not 5" in shell.refused("up", "--nodes", 5)

    _talk(shell)
    _break_and_mend(shell)

    assert json.loads(shell.run("down", "--json"))["ended"] == ["a", "b", "c"]
    assert [site["state"] for site in shell.json("status")["sites"]] == ["down"] * 3
    assert "down" in shell.run("status")
    assert "every check that had cases holds" in shell.elsewhere("verify", shell.directory / "trace")
    assert "nothing was running" in shell.run("down")
    assert "no site is up" in shell.refused("send", "lobby", "hello")
    assert "no site is up" in shell.refused("heal")


def _break_and_mend(shell: Shell) -> None:
    parted = shell.json("partition", "a", "b,c")
    assert parted["components"] == [["a"], ["b", "c"]]
    assert [(found["members"], found["health"]) for found in parted["configurations"]] == [
        (["a"], "minority"),
        (["b", "c"], "primary"),
    ]
    shell.json("crash", "a")
    sites = {site["name"]: site for site in shell.json("status")["sites"]}
    assert (sites["a"]["state"], sites["a"]["pid"]) == ("down", None)
    assert sites["b"]["members"] == ["b", "c"]
    again = shell.run("restart", "a")
    assert "connected  a ┃ b c" in again
    assert "[a] minority" in again
    assert "[b,c] primary" in again
    assert shell.json("pause", "c")["paused"] == ["c"]
    assert shell.json("resume", "c")["paused"] == []
    healed = shell.json("heal")
    assert [found["members"] for found in healed["configurations"]] == [["a", "b", "c"]]


def _talk(shell: Shell) -> None:
    """listen in one process, send in another; by directory and by address."""
    listener = subprocess.Popen(
        [
            *(sys.executable, "-m", "reconvene", "listen", "lobby", "--dir", str(shell.directory)),
            *("--site", "b", "--count", "3", "--for", "30s", "--json-lines"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert listener.stdout is not None
        first = json.loads(listener.stdout.readline())
        assert (first["event"], first["kind"], first["primary"]) == ("view", "regular", True)
        assert "1 message through site a" in shell.run("send", "lobby", "hello", "there")
        assert [group["name"] for group in shell.json("status")["sites"][2]["groups"]] == ["lobby"]
        sent = shell.json("send", "lobby", "--size", 10, "--count", 2, "--rate", 100, "--service", "safe")
        assert (sent["sent"], sent["delivered"], sent["members"], sent["trouble"]) == (2, 2, 2, None)
        out, _ = listener.communicate(timeout=30)
    finally:
        listener.kill()
        listener.wait()
    assert listener.returncode == 0
    events = [json.loads(line) for line in out.splitlines()]
    messages = [event for event in events if event["event"] == "message"]
    assert [(message["text"], message["service"]) for message in messages] == [
        ("hello there", "agreed"),
        ("0 ........", "safe"),
        ("1 ........", "safe"),
    ]
    address = LocalCluster(shell.directory).addresses["b"]
    assert "through site b" in shell.elsewhere("send", "lobby", "hello", "--node", address)
    assert "a,b,c" in shell.elsewhere("status", "--node", address)
    assert " b up primary " in shell.elsewhere("watch", "--node", address, "--once")
    shell.run("listen", "lobby", "--for", "10ms")
    lines = shell.run("watch", "--once").splitlines()
    assert len(lines) == 3
    assert " a up primary " in lines[0]
    assert "every check that had cases holds" in shell.elsewhere("verify", shell.directory / "trace")


@pytest.mark.long("starts a cluster")
def test_a_cluster_that_keeps_its_state(shell: Shell) -> None:
    """In a directory with a path that is too long for Unix sockets."""
    shell.directory = shell.directory / ("long-" * 20)
    shell.run("up", "--nodes", 1, "--insecure", "--order", "all-ack", "--no-trace", "--no-isis")
    for command in (("groups",), ("cast", "g", "x"), ("listen", "g")):
        said = shell.refused("isis", *command)
        assert said == "reconvene: site a takes no part in ISIS: see isis.enabled\n"
    assert not (shell.directory / "cluster.key").exists()
    assert shell.json("down")["trace"] is None
    assert "--isis is false in the existing cluster, not true" in shell.refused("up", "--isis")
    text = shell.run("up")
    assert f"reconvene watch --dir {shell.directory}" in text
    (site,) = shell.json("status")["sites"]
    assert (site["incarnation"], site["seal"], site["trace"]) == (2, "insecure", None)
    assert len(LocalCluster(shell.directory).addresses["a"]) < 60
    assert "another command is at work" in _while_locked(shell)
    sockets = Path(LocalCluster(shell.directory).choices.sockets)
    assert sockets.is_dir()
    shell.run("down")
    assert not sockets.exists()


def test_a_cluster_whose_trace_stopped_ends_all_the_same(shell: Shell) -> None:
    shell.run("up", "--nodes", 1, "--insecure")
    (shell.directory / "trace/a.stopped").write_text("its limit\n")
    # For a running cluster a copy of the trace is judged; the answer names the trace that the caller knows.
    assert call("verify", shell.directory / "trace") == 2
    assert f"{shell.directory}/trace/a.jsonl: the trace of a is not whole" in shell.said()
    assert "a: ended" in shell.run("down")
    assert shell.json("down")["settled"] is False


def _while_locked(shell: Shell) -> str:
    with LocalCluster(shell.directory).layout.locked():
        return shell.refused("crash", "a")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["down"], "holds no cluster"),
        (["status"], "holds no cluster"),
        (["watch", "--once"], "holds no cluster"),
        (["heal"], "holds no cluster"),
        (["partition", "a", "b"], "holds no cluster"),
        (["crash", "a"], "holds no cluster"),
        (["send", "g", "text"], "holds no cluster"),
        (["listen", "g"], "holds no cluster"),
        (["up", "--nodes", "0"], "0 sites: expected 1 to 64"),
        (["up", "--nodes", "65"], "65 sites: expected 1 to 64"),
        (["up", "--nodes", "some"], "--nodes"),
        (["up", "--order", "random"], "expected atop or all-ack"),
        (["status", "--node", "127.0.0.1:1"], "expected either --dir DIR or --node ADDR"),
        (["send", "g", "text", "--size", "5"], "expected TEXT or --size, not both"),
        (["send", "g", "--count", "5"], "--count: expected TEXT or --size"),
        (["send", "g", "text", "--service", "best"], "expected fifo, causal, agreed, safe"),
        (["listen", "g", "--for", "long"], "expected a duration"),
        (["listen", "g", "--json-lines", "--for", "0 s later"], "expected a duration"),
        (["watch", "--every", "1ms"], "expected 50ms to 60min"),
    ],
)
def test_what_is_refused(shell: Shell, arguments: list[str], problem: str) -> None:
    shell.directory.mkdir()
    assert problem in shell.refused(*arguments)


def test_what_a_stopped_cluster_refuses(shell: Shell) -> None:
    LocalCluster.create(shell.directory)
    assert "there is no site 'x'; expected some of a, b, c" in shell.refused("partition", "a", "x")
    assert "site a is named twice" in shell.refused("partition", "a,b", "a")
    assert "expected sites with commas between" in shell.refused("partition", "a,,b")
    assert "there is no site 'x'" in shell.refused("restart", "x")
    assert "site a is not up" in shell.refused("crash", "a")
    assert "site b is not paused" in shell.refused("resume", "b")
    assert "no site is up" in shell.refused("listen", "g")


def test_a_directory_of_something_else(shell: Shell) -> None:
    shell.directory.mkdir()
    (shell.directory / "letter").write_text("dear")
    assert "is not empty and holds no cluster" in shell.refused("up")
    assert [path.name for path in shell.directory.iterdir()] == ["letter"]


def test_nobody_at_an_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    assert call("status", "--node", tmp_path / "none.sock") == 2
    assert call("send", "g", "text", "--node", tmp_path / "none.sock") == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert time.monotonic() - started < 10
