"""Programs of peers: how they are compiled, and how their daemons are ended."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from reconvene.errors import Unavailable

__all__ = ["build", "end_daemons", "environment"]

BUILD_TIMEOUT_S = 300.0
"""The first time, Go compiles all of a client's libraries."""


def environment(more: Mapping[str, str] | None) -> dict[str, str] | None:
    """Ours, and `more`."""
    return None if more is None else {**os.environ, **more}


def build(argv: Sequence[str], program: Path, env: Mapping[str, str] | None = None) -> Path:
    """Runs a compiler that writes `program`."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False, env=environment(env)
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{argv[0]}: {error}") from None
    if done.returncode:
        raise Unavailable(f"{argv[0]}: {' '.join(done.stderr.split())}")
    return program


def end_daemons(daemons: list[subprocess.Popen[bytes]], timeout_s: float) -> None:
    """SIGTERM, and SIGKILL to those that have not ended in time. Empties the list."""
    for daemon in daemons:
        if daemon.poll() is None:
            daemon.send_signal(signal.SIGTERM)
    deadline = monotonic() + timeout_s
    for daemon in daemons:
        try:
            daemon.wait(max(0.0, deadline - monotonic()))
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    daemons.clear()
