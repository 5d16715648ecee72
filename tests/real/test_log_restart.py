"""Sites append without pause and are killed without warning: their logs, receipts and trace are checked."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.client.places import short_dir
from tests.ports import free_ports
from tests.real.log_process import config_of

from reconvene.corel.batch import messages_of
from reconvene.local.traces import write_run
from reconvene.runtime.log.start import load_replica
from reconvene.storage.lmdb_store import LmdbStore
from reconvene.trace.reader import read_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History

NAMES = "abc"
PATIENCE_S = 60.0


class Process:
    """One site, through its incarnations."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self.durable: list[tuple[int, int]] = []
        self.ordered: list[tuple[int, int, int]] = []
        self.said: dict[str, list[str]] = {}
        self.start()

    def start(self) -> None:
        self.said = {}
        self.process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, args=(self.process,))
        self._reader.start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # it was killed while it printed the line
            match line.split():
                case ["durable", first, count]:
                    self.durable.append((int(first), int(count)))
                case ["ordered", first, count, position]:
                    self.ordered.append((int(first), int(count), int(position)))
                case [word, *more]:
                    self.said[word] = more

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def quiet(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def says(self, word: str) -> bool:
        assert self.process.poll() is None, "it ended by itself"
        return word in self.said


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.01)


@contextmanager
def sites(directory: Path) -> Iterator[dict[str, Process]]:
    ports = free_ports(len(NAMES))
    written = ",".join(map(str, ports))
    (directory / "ports").write_text(written)
    module = [sys.executable, "-m", "tests.real.log_process", str(directory), NAMES]
    processes = {name: Process([*module, name, written]) for name in NAMES}
    try:
        yield processes
    finally:
        for process in processes.values():
            if process.process.poll() is None:
                process.kill()


def logs(directory: Path) -> dict[str, list[tuple[int, int, bytes]]]:
    """By site: (author, counter, message) of each place, read from its storage."""
    ports = [int(port) for port in (directory / "ports").read_text().split(",")]
    found = {}
    for name in NAMES:
        store = LmdbStore(directory / name / "store")
        try:
            replica = load_replica(config_of(directory, NAMES, name, ports), tuple(NAMES), store, 1 << 20, 1400)
            found[name] = [
                (heading.author, heading.first + index, message)
                for _, heading in replica.read(0)
                for index, message in enumerate(messages_of(replica.body(heading)))
            ]
        finally:
            store.close()
    return found


@pytest.mark.long("starts three sites; the soak's test kills sites too")
@pytest.mark.parametrize("seed", [1])
def test_kills_at_random(seed: int) -> None:
    draw = random.Random(seed)
    with short_dir() as directory, sites(directory) as processes:
        for _ in range(5):
            until(lambda: all(process.says("ready") for process in processes.values()), "ready")
            time.sleep(draw.uniform(0.05, 0.5))
            victims = draw.sample(NAMES, draw.choice([1, 1, 1, 2, 3]))
            for name in victims:
                processes[name].kill()
            time.sleep(draw.choice([0.0, 0.3]))
            for name in victims:
                processes[name].start()
        until(lambda: all(process.says("ready") for process in processes.values()), "ready")
        time.sleep(0.5)
        for process in processes.values():
            process.quiet()
        until(lambda: all(process.says("quiet") for process in processes.values()), "quiet")
        until(lambda: _same_line(processes), "one green line")
        time.sleep(0.6)  # nothing more is ordered, and the green line is durable a little later
        assert _same_line(processes)
        for process in processes.values():
            process.kill()

        found = logs(directory)
        assert found["a"] == found["b"] == found["c"]
        places = {(author, counter): position for position, (author, counter, _) in enumerate(found["a"])}
        assert len(places) == len(found["a"]), "nothing is in the log twice"
        for number, process in enumerate(processes.values()):
            assert process.durable
            for first, count in process.durable:
                assert all((number, first + index) in places for index in range(count)), "a receipt is kept"
            for first, count, position in process.ordered:
                assert [places[number, first + index] for index in range(count)][-1] == position + count - 1
        write_run(
            directory / "trace", run="kills", nodes=list(NAMES), order="atop", settled=True,
            components=[list(NAMES)], down=[],
        )  # fmt: skip
        report = verify([History.load(directory / "trace")])
        assert report.ok, msgspec.json.format(msgspec.json.encode(report)).decode()
        cases = {check.id: check.cases for check in report.checks}
        idle = {check for check, count in cases.items() if check.startswith("corel.") and not count}
        assert idle == {"corel.dynamic.subquorum", "corel.dynamic.live", "corel.follow"}, "a majority orders here"
        rows = read_trace(directory / "trace").rows
        positions = [row.pos for row in rows["a"] if row.layer == "corel" and row.kind == "green"]
        assert positions == list(range(len(found["a"])))


def _same_line(processes: dict[str, Process]) -> bool:
    return len({tuple(process.said.get("quiet", ())) for process in processes.values()}) == 1
