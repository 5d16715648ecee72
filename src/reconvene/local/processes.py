"""Site processes: started detached, and found again by an unambiguous identity.

A pid alone does not identify a process, since the system reuses it. A process is identified by its pid *and* its
start time, and signalled through a handle that was checked against both, so that no other process is ever hit.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from reconvene.errors import Unavailable

__all__ = ["Proc", "kill_all", "spawn", "state_of", "wait_ended"]

_LOG_MODE = 0o644


class Proc(Struct, frozen=True):
    """One process, for as long as it lives."""

    pid: int
    started: str
    """The system's start time of that pid, and in which boot of the machine."""

    def save(self, path: Path) -> None:
        scratch = path.with_name(path.name + ".new")
        scratch.write_bytes(msgspec.json.encode(self) + b"\n")
        scratch.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Proc | None":
        """None if there is no file, or an invalid one."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.MsgspecError):
            return None

    def signal(self, number: signal.Signals) -> bool:
        """Returns whether the process existed."""
        if not hasattr(os, "pidfd_open"):
            if state_of(self) == "down":
                return False
            os.kill(self.pid, number)
            return True
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # The handle always refers to the same process: if it is the right one now, it is when the signal is sent.
            if state_of(self) == "down":
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def spawn(arguments: list[str], log: Path) -> Proc:
    """Starts `reconvene ARGUMENTS` in a session of its own, its output appended to `log`."""
    program = [sys.executable, "-m", "reconvene", *arguments]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        pid = os.posix_spawn(
            sys.executable,
            program,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), append, _LOG_MODE),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise Unavailable(f"{' '.join(program[:3])}: can't be started: {error.strerror}") from None
    return Proc(pid, _fields(pid).started or "never")


def state_of(process: Proc) -> str:
    """up | paused | down"""
    _reap(process.pid)
    fields = _fields(process.pid)
    if fields.started != process.started:
        return "down"
    if fields.letter in "ZX":
        # Its first thread has ended. Until the others have, it still holds its files and ports.
        return "down" if fields.threads <= 1 else "up"
    return "paused" if fields.letter in "Tt" else "up"


def wait_ended(processes: Iterable[Proc], timeout_s: float) -> list[Proc]:
    """Waits until all have ended; returns those that have not."""
    deadline = time.monotonic() + timeout_s
    left = [process for process in processes if state_of(process) != "down"]
    while left and time.monotonic() < deadline:
        _wait_for_an_end(left, min(0.1, max(0.0, deadline - time.monotonic())))
        left = [process for process in left if state_of(process) != "down"]
    return left


def kill_all(processes: Iterable[Proc], timeout_s: float = 10.0) -> None:
    """SIGKILL to all. All are stopped first, so that none of them notices the end of another."""
    there = list(processes)
    for process in there:
        process.signal(signal.SIGSTOP)
    for process in there:
        process.signal(signal.SIGKILL)
    left = wait_ended(there, timeout_s)
    if left:
        raise Unavailable(f"process {left[0].pid} did not end within {timeout_s:g} s of SIGKILL")


def _wait_for_an_end(processes: list[Proc], timeout_s: float) -> None:
    """Waits until one of them ends, at most this long."""
    if not hasattr(os, "pidfd_open"):
        time.sleep(timeout_s / 5)
        return
    handles = []
    poll = select.poll()
    try:
        for process in processes:
            try:
                handles.append(os.pidfd_open(process.pid))
            except OSError:
                return
            poll.register(handles[-1], select.POLLIN)
        poll.poll(timeout_s * 1000)
    finally:
        for handle in handles:
            os.close(handle)


def _reap(pid: int) -> None:
    """Reaps the process if it is our child and has ended."""
    with suppress(ChildProcessError):  # somebody else's child: init reaps it
        os.waitpid(pid, os.WNOHANG)


class _Fields(NamedTuple):
    letter: str
    """Of its state."""
    threads: int
    started: str | None


def _fields(pid: int) -> _Fields:
    try:
        # From the third field on: the second, its name, may contain anything.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return _Fields(fields[0], int(fields[17]), f"{_boot()}:{fields[19]}")
    except OSError:
        return _Fields(_ps(pid, "state")[:1] or "X", 1, _ps(pid, "lstart") or None)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _ps(pid: int, field: str) -> str:
    """For systems without /proc."""
    if sys.platform == "linux":
        return ""
    done = subprocess.run(["ps", "-o", f"{field}=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()
