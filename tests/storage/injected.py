"""Errors of system calls, injected by strace. Skips a test if strace is missing or may not trace."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

__all__ = ["injecting"]


def injecting(call: str, error: str, when: str, path: Path) -> list[str]:
    """The prefix of a command that makes its calls on this file fail. `when` is strace's: 5 the fifth, 5+ from the
    fifth on."""
    if not _may_trace():
        pytest.skip("no strace here, or it may not trace")
    what = ["-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(path), *what]


@cache
def _may_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0
