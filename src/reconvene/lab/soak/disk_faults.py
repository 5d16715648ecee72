"""Disk errors for one running site: strace makes a system call of the process fail.

Given: strace, and permission to trace the process. Promised: from when `DiskFault` is created until `mend` returns,
the n-th call of the chosen system call, or every call from it on, fails with the chosen error and does nothing.
"""

import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from reconvene.errors import Unavailable

__all__ = ["DiskFault", "DiskPlan", "can_trace", "draw_plan"]

CALLS, ERRORS = ("fdatasync", "pwrite64"), ("EIO", "ENOSPC")
_ATTACH_S = 10.0
_POLL_S = 0.01


class DiskPlan(Struct, frozen=True):
    call: str
    error: str
    number: int
    """The first call that fails, counted from 1."""
    lasting: bool
    """Whether all calls after it fail too."""

    def __str__(self) -> str:
        return f"{self.error} at {self.call} {self.number}{' and after' if self.lasting else ''}"


def draw_plan(chance: random.Random) -> DiskPlan:
    return DiskPlan(chance.choice(CALLS), chance.choice(ERRORS), chance.randint(1, 20), chance.random() < 0.5)


class DiskFault:
    def __init__(self, pid: int, plan: DiskPlan) -> None:
        """Returns once it takes effect. Raises Unavailable if the process can't be traced."""
        inject = f"{plan.call}:error={plan.error}:when={plan.number}{'+' if plan.lasting else ''}"
        self._strace = subprocess.Popen(
            [
                "strace", "--follow-forks", "--trace", plan.call, "--inject", inject,
                "--output", "/dev/null", "--attach", str(pid),
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + _ATTACH_S
        while not _is_traced(pid, self._strace.pid):
            if self._strace.poll() is not None or time.monotonic() > deadline:
                self.mend()
                raise Unavailable(f"process {pid} can't be traced by strace")
            time.sleep(_POLL_S)

    def mend(self) -> None:
        """Ends the fault; the process continues, if it still runs."""
        with suppress(ProcessLookupError):
            self._strace.send_signal(signal.SIGTERM)
        try:
            self._strace.communicate(timeout=_ATTACH_S)
        except subprocess.TimeoutExpired:
            self._strace.kill()
            self._strace.communicate()


def _is_traced(pid: int, by: int) -> bool:
    """Whether all threads of the process are traced."""
    try:
        return all(
            f"TracerPid:\t{by}\n" in (task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()
        )
    except OSError:
        return False  # it has just ended, or a thread of it has


@cache
def can_trace() -> bool:
    """Whether strace is installed, and may trace a process that is not its child."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            DiskFault(sleeper.pid, DiskPlan("fdatasync", "EIO", 1, lasting=False)).mend()
        except Unavailable:
            return False
        finally:
            sleeper.kill()
    return True
