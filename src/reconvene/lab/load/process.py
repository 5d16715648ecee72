"""Programs that put load on a site, or look at it, each at one: what we say to them and what they tell.

Ours (`group_site`) and those of peers (`peers/cpg_load.c`) speak alike: JSON lines on stdout, orders on stdin.
"""

import math
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from reconvene.errors import Unavailable
from reconvene.lab.namespaces import Namespaces

__all__ = ["Load", "end", "percentile", "reach", "start"]

RECONFIGURATION_TIMEOUT_S = 40.0
"""Well beyond the 8 s that a crash takes with Corosync's defaults."""
END_TIMEOUT_S = 5.0
_LINE_BYTES = 1 << 28
"""Longer lines than any count of messages gives mean that something is wrong."""


class Load:
    """One of them and its lines. `errors` is where its stderr goes."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._name = name
        self.process = process
        self._errors = errors
        self._read = bytearray()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def hear(self, key: str, deadline: float) -> dict[str, Any]:
        """The next line that has the key; those before it are dropped."""
        while True:
            line: dict[str, Any] = msgspec.json.decode(self._line(deadline))
            if key in line:
                return line

    def _line(self, deadline: float) -> bytes:
        assert self.process.stdout is not None
        seen = 0
        while (end := self._read.find(b"\n", seen)) < 0:
            seen = len(self._read)
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - monotonic()))
            if not ready:
                raise Unavailable(f"{self._name}: the load said nothing in time")
            got = self.process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
            if not got or seen > _LINE_BYTES:
                raise self._ended()
            self._read += got
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line

    def _ended(self) -> Unavailable:
        said = self._errors.read_text(errors="replace").strip().splitlines()
        return Unavailable(f"{self._name}: {said[-1] if said else 'the load ended early'}")


def start(
    name: str, module: str, arguments: Sequence[str], errors: Path, network: Namespaces | None, at: int
) -> Load:
    """A program of ours, by its module, on loopback or at a site of a network."""
    argv = [sys.executable, "-m", module, *arguments]
    with errors.open("wb") as stderr:
        if network is None:
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        else:
            process = network.run(at, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    return Load(name, process, errors)


def end(loads: Sequence[Load]) -> None:
    """They end by themselves when their stdin does; one that does not is killed."""
    for load in loads:
        if load.process.stdin is not None:
            with suppress(OSError):  # it may be gone, with what was not flushed
                load.process.stdin.close()
    for load in loads:
        try:
            load.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            load.process.kill()
            load.process.wait()
        if load.process.stdout is not None:
            load.process.stdout.close()


def reach(loads: Sequence[Load], members: int, since_ns: int, timeout_s: float = RECONFIGURATION_TIMEOUT_S) -> float:
    """Milliseconds from a moment until each has had a configuration of so many."""
    deadline = monotonic() + timeout_s
    last_ns = since_ns
    for load in loads:
        while (told := load.hear("members", deadline))["members"] != members:
            pass
        last_ns = max(last_ns, told["at"])
    return (last_ns - since_ns) / 1e6


def percentile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]
