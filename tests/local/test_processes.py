"""Processes are identified by more than a pid."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconvene import __version__
from reconvene.build import current_build
from reconvene.errors import Unavailable
from reconvene.local.processes import Proc, kill_all, spawn, state_of, wait_ended


@pytest.fixture
def sleeper() -> Iterator[Proc]:
    """A process that would sleep for a minute."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    yield Proc(child.pid, f"{boot}:{fields[19]}")
    child.kill()
    child.wait()


def test_states(sleeper: Proc) -> None:
    assert state_of(sleeper) == "up"
    assert sleeper.signal(signal.SIGSTOP)
    _until(sleeper, "paused")
    assert sleeper.signal(signal.SIGCONT)
    _until(sleeper, "up")
    kill_all([sleeper])
    assert state_of(sleeper) == "down"
    assert not sleeper.signal(signal.SIGTERM)


def _until(process: Proc, state: str) -> None:
    deadline = time.monotonic() + 5
    while state_of(process) != state and time.monotonic() < deadline:
        time.sleep(0.001)
    assert state_of(process) == state


def test_a_reused_pid_is_never_signalled(sleeper: Proc) -> None:
    stranger = Proc(sleeper.pid, sleeper.started + "0")
    assert state_of(stranger) == "down"
    assert not stranger.signal(signal.SIGKILL)
    kill_all([stranger])
    assert state_of(sleeper) == "up"
    myself = Proc(os.getpid(), "another boot:1")
    assert not myself.signal(signal.SIGKILL)


def test_who_has_not_ended(sleeper: Proc) -> None:
    assert wait_ended([sleeper], 0.05) == [sleeper]
    sleeper.signal(signal.SIGTERM)
    assert wait_ended([sleeper], 5) == []


def test_kept_in_a_file(sleeper: Proc, tmp_path: Path) -> None:
    path = tmp_path / "process.json"
    assert Proc.load(path) is None
    sleeper.save(path)
    assert Proc.load(path) == sleeper
    path.write_text('{"pid": "1"}')
    assert Proc.load(path) is None


def test_spawned_apart(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    process = spawn(["--version"], log)
    assert wait_ended([process], 20) == []
    assert log.read_text() == f"before\nreconvene {__version__} ({current_build()})\n"


def test_a_log_that_can_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="can't be started: No such file"):
        spawn(["--version"], tmp_path / "none" / "log")
