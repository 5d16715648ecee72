"""Client processes beside a local cluster, from code that waits: started, told to stop, asked what they saw."""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from reconvene.errors import Unavailable

__all__ = ["DRAINED", "ClientFleet", "first_line"]

DRAINED = b"drained\n"
_END_S = 15.0

R = TypeVar("R", bound=Struct)


class ClientFleet(Generic[R]):
    """`quiet` ends their writing, `reports` ends them; leaving the `with` block kills them.

    A process reads its job, a line of JSON, from standard input. A second line ends its writing: it answers `DRAINED`
    when nothing of what it wrote is open. At the end of its input it writes its report into the file that is its
    argument, and ends.
    """

    def __init__(self, module: str, jobs: Sequence[Struct], log: Path, report: type[R], drain_s: float) -> None:
        """One process for each job; what they say to stderr is appended to `log`."""
        self._processes: list[subprocess.Popen[bytes]] = []
        self._scratch = TemporaryDirectory(prefix="reconvene-")
        self._report = report
        self._drain_s = drain_s
        self.log = log
        with log.open("ab") as said:
            for number, job in enumerate(jobs):
                process = subprocess.Popen(
                    [sys.executable, "-m", module, str(self._file(number))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    start_new_session=True,
                )
                self._processes.append(process)
                self._say(process, msgspec.json.encode(job) + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        self._scratch.cleanup()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def check(self) -> None:
        """Raises Unavailable where one has ended by itself."""
        for process in self._processes:
            if process.poll() is not None:
                raise Unavailable(f"a client process ended with {process.returncode}: see {self.log}")

    def quiet(self) -> None:
        """Writing ends. Returns when nothing is open, or has had time enough."""
        for process in self._processes:
            self._say(process, b"quiet\n")
        deadline = time.monotonic() + self._drain_s
        for process in self._processes:
            answer = _read(process, len(DRAINED), deadline)
            if answer != DRAINED:
                raise Unavailable(f"a client process did not come to an end of its writing: see {self.log}")

    def reports(self) -> list[R]:
        """Ends them, and gives what each saw."""
        for process in self._processes:
            try:
                process.communicate(timeout=_END_S)
            except subprocess.TimeoutExpired:
                raise Unavailable(f"a client process did not end in {_END_S:g} s: see {self.log}") from None
            if process.returncode:
                raise Unavailable(f"a client process ended with {process.returncode}: see {self.log}")
        return [
            msgspec.json.decode(self._file(number).read_bytes(), type=self._report)
            for number in range(len(self._processes))
        ]

    def _file(self, number: int) -> Path:
        return Path(self._scratch.name) / f"report-{number}"

    def _say(self, process: "subprocess.Popen[bytes]", line: bytes) -> None:
        assert process.stdin is not None, "it was made with a pipe"
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except OSError:
            raise Unavailable(f"a client process has ended: see {self.log}") from None


def first_line() -> bytes:
    """Of standard input, byte by byte: what follows it is the loop's to read."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _read(process: "subprocess.Popen[bytes]", count: int, deadline: float) -> bytes:
    """So many bytes, unless it ends or the time does."""
    assert process.stdout is not None, "it was made with a pipe"
    read = b""
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while len(read) < count and ready.select(max(0.0, deadline - time.monotonic())):
            data = os.read(process.stdout.fileno(), count - len(read))
            if not data:
                break
            read += data
    return read
