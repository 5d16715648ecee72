"""Load generators seen from the program that starts them: a process, orders to its stdin, JSON lines from its stdout.

Our own programs (`group_site`, `log_site`, `group_clients`, `log_clients`, `flood`) and those for other systems
(`bench/peers/cpg_load.c`) all work like this. `program` is the other end.
"""

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

__all__ = ["LoadProcess", "end", "reach", "start"]

RECONFIGURATION_TIMEOUT_S = 40.0
"""Well beyond the 8 s that a crash takes with Corosync's defaults."""
END_TIMEOUT_S = 5.0
_LOOK_EVERY_S = 0.25
"""How often a wait for one load generator looks whether those beside it still run."""
_LINE_BYTES = 1 << 28
"""A line longer than this means that something is wrong."""


class LoadProcess:
    """One load generator. `errors` is the file to which its stderr goes."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], errors: Path) -> None:
        self._name = name
        self.process = process
        self._errors = errors
        self._read = bytearray()
        self.beside: Sequence[LoadProcess] = ()
        """Those without which this one has nothing to report: if one of them ends, a wait for this one ends too."""

    def say(self, line: str) -> None:
        """Sends an order."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def close_orders(self) -> None:
        """Ends its stdin: it finishes, and ends by itself."""
        if self.process.stdin is not None:
            with suppress(OSError):  # it may have ended before it read what was buffered
                self.process.stdin.close()

    def hear(self, key: str, deadline: float) -> dict[str, Any]:
        """The next line that has the key; lines before it are dropped."""
        while True:
            line: dict[str, Any] = msgspec.json.decode(self._line(deadline))
            if key in line:
                return line

    def _line(self, deadline: float) -> bytes:
        assert self.process.stdout is not None
        seen = 0
        while (end := self._read.find(b"\n", seen)) < 0:
            seen = len(self._read)
            left = deadline - monotonic()
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, min(left, _LOOK_EVERY_S)))
            if not ready:
                for other in self.beside:
                    if other.process.poll() is not None:
                        raise other._ended()
                if left > 0:
                    continue
                raise Unavailable(f"{self._name}: the load generator did not answer in time")
            got = self.process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
            if not got or seen > _LINE_BYTES:
                raise self._ended()
            self._read += got
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line

    def _ended(self) -> Unavailable:
        said = self._errors.read_text(errors="replace").strip().splitlines()
        return Unavailable(f"{self._name}: {said[-1] if said else 'the load generator ended early'}")


def start(
    name: str, module: str, arguments: Sequence[str], errors: Path, network: Namespaces | None = None, at: int = 0
) -> LoadProcess:
    """Starts a program of ours by its module: on loopback, or at site `at` of a network. Appends to `errors`."""
    argv = [sys.executable, "-m", module, *arguments]
    with errors.open("ab") as stderr:
        if network is None:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        else:
            process = network.run(at, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    return LoadProcess(name, process, errors)


def end(loads: Sequence[LoadProcess], timeout_s: float = END_TIMEOUT_S) -> None:
    """They end by themselves when their stdin does; one that does not is killed."""
    for load in loads:
        load.close_orders()
    for load in loads:
        try:
            load.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            load.process.kill()
            load.process.wait()
        if load.process.stdout is not None:
            load.process.stdout.close()


def reach(
    loads: Sequence[LoadProcess], members: int, since_ns: int, timeout_s: float = RECONFIGURATION_TIMEOUT_S
) -> float:
    """Milliseconds from `since_ns` until each reported a configuration of so many members."""
    deadline = monotonic() + timeout_s
    last_ns = since_ns
    for load in loads:
        while (line := load.hear("members", deadline))["members"] != members:
            pass
        last_ns = max(last_ns, line["at"])
    return (last_ns - since_ns) / 1e6
