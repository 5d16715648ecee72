"""What the peers share: three replicas, each a process on loopback, and the load generators that write to them.

The load generators of all peers take the same orders on stdin, and answer each with a JSON line (store_load.go has
them). Daemons and loads are ended with the context, by their pids; if this process is killed, the kernel ends them.
"""

import shutil
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from reconvene.errors import Unavailable
from reconvene.lab.bench.durable_system import REPLICAS, Minority, Way
from reconvene.lab.bench.peers.processes import build, end_daemons, environment
from reconvene.lab.load.process import LoadProcess, end
from reconvene.local.ports import LOOPBACK

__all__ = ["Cluster", "go_build"]

START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 3.0
CONNECT_TIMEOUT_S = 1.0
RECOVER_S = 30
"""Until two of three replicas accept writes again."""
WARM_UP_S = 0.5
"""Of full load; or half of the measured time, if that is less."""
WARM_UP_WRITES = 50
FIRST_WRITES = 5
_LATENCY_TIMEOUT_S = 120.0
_GRACE_S = 40.0
"""More than a measurement should take: it waits for more than one request."""
_WORDS = 90
"""The first characters of a refusal are shown."""

GOCODE = Path("/usr/share/gocode")
"""Where Debian puts the sources of Go libraries: nothing is fetched."""
HERE = Path(__file__).parent


class Cluster(ABC):
    """Replicas and loads, for the time of the context. It implements `durable_system.Replicas`."""

    name: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.loads: list[LoadProcess] = []
        self.alive = list(range(REPLICAS))
        """The indexes of running replicas."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._end)
            for index in range(REPLICAS):
                (self.folder / str(index)).mkdir()
            for index in range(REPLICAS):
                self._start(index)
            self._wait_until_ready()
            for argv in self._load_commands():
                self.loads.append(self._load(argv))
            self._until_written(START_TIMEOUT_S)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @abstractmethod
    def _start(self, index: int) -> None:
        """Starts one replica with `_daemon`, with its data in `folder` / its index."""

    @abstractmethod
    def _load_commands(self) -> Sequence[Sequence[str]]:
        """The command of each load; called when the replicas are ready."""

    @abstractmethod
    def _leader(self) -> int:
        """The index of the leader; -1 if there is none."""

    @abstractmethod
    def _wait_until_ready(self) -> None:
        """Waits with `_wait` until loads can be started."""

    def _writers(self, way: Way | None = None) -> Sequence[LoadProcess]:
        """The loads that write; only the first one for single writes."""
        return self.loads

    def pids(self) -> Sequence[int]:
        return [process.pid for process in (*self.daemons, *(load.process for load in self.loads))]

    def throughput(self, size: int, seconds: float, way: Way) -> float:
        writers = self._writers(way)
        each = max(1, way.outstanding // len(writers))
        warm_s = min(WARM_UP_S, seconds / 2)
        deadline = monotonic() + warm_s + seconds + _GRACE_S
        for load in writers:
            load.say(f"throughput {size} {each} {way.batch} {round(warm_s * 1000)} {round(seconds * 1000)}")
        answers = [load.hear("writes", deadline) for load in writers]
        rate: float = sum(each["writes"] / each["seconds"] for each in answers)
        if not rate:
            raise Unavailable(f"{self.name}: no write was done: {_first_error(answers) or 'none came back'}")
        return rate

    def latency(self, size: int, count: int) -> list[float]:
        load = self._writers()[0]
        load.say(f"latency {size} {count + WARM_UP_WRITES}")
        took = load.hear("took", monotonic() + _LATENCY_TIMEOUT_S)["took"]
        return [nanoseconds / 1e6 for nanoseconds in took[WARM_UP_WRITES:]]

    def lose_one(self) -> None:
        """Kills a follower, so that no election is measured."""
        self._kill_follower()
        self._until_written(RECOVER_S)

    def minority(self, size: int, seconds: float) -> Minority:
        """Leaves the leader alone."""
        while len(self.alive) > 1:
            self._kill_follower()
        return self._attempt(size, 10**6, seconds)

    def _kill_follower(self) -> None:
        leader = self._leader()
        victim = next(index for index in reversed(self.alive) if index != leader)
        self.alive.remove(victim)
        self._kill(victim)

    def _kill(self, index: int) -> None:
        self.daemons[index].kill()
        self.daemons[index].wait()

    def _until_written(self, seconds: float) -> None:
        deadline = monotonic() + seconds
        for load in self._writers():
            left = max(1, round(deadline - monotonic()))
            load.say(f"attempt 100 {FIRST_WRITES} {left}")
            answers = load.hear("accepted", deadline + _GRACE_S)
            if answers["accepted"] < FIRST_WRITES:
                said = answers["error"] or self._last_words()
                raise Unavailable(f"{self.name}: it accepted no writes within {seconds:g} s: {said}")

    def _attempt(self, size: int, count: int, seconds: float) -> Minority:
        load = self._writers()[0]
        whole = max(1, round(seconds))
        load.say(f"attempt {size} {count} {whole}")
        answers = load.hear("accepted", monotonic() + whole + _GRACE_S)
        if answers["refused"]:
            said = " ".join(answers["error"].split())[:_WORDS]
            return Minority(answers["accepted"] / whole, f"refused after {answers['after']:.1f} s: {said}")
        return Minority(answers["accepted"] / whole, f"no answer within {whole} s")

    def _daemon(self, index: int, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        folder = self.folder / str(index)
        with (folder / "log").open("wb") as log:
            self.daemons.append(
                subprocess.Popen(
                    _tied(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment(env)
                )
            )

    def _load(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> LoadProcess:
        errors = self.folder / f"load-{len(self.loads)}"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                _tied(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment(env)
            )
        load = LoadProcess(self.name, process, errors)
        try:
            load.hear("ready", monotonic() + START_TIMEOUT_S)
        except BaseException:
            end([load])
            raise
        return load

    def _check_alive(self) -> None:
        for daemon in self.daemons:
            if daemon.poll() is not None:
                raise Unavailable(f"{self.name} ended with {daemon.returncode}: {self._last_words()}")

    def _wait(self, what: str, deadline: float) -> None:
        """One step of waiting for the replicas."""
        self._check_alive()
        if monotonic() > deadline:
            raise Unavailable(f"{self.name}: {what} within {START_TIMEOUT_S:g} s: {self._last_words()}")
        sleep(0.05)

    def _wait_for_ports(self, ports: Sequence[int]) -> None:
        """Waits until all ports accept connections."""
        deadline = monotonic() + START_TIMEOUT_S
        for port in ports:
            while not _answers(port):
                self._wait(f"port {port} took no connection", deadline)

    def _last_words(self) -> str:
        said = []
        for log in sorted(self.folder.glob("*/log")):
            said += log.read_text(errors="replace").strip().splitlines()[-1:]
        return said[0] if said else "it said nothing"

    def _end(self) -> None:
        end(self.loads)
        self.loads.clear()
        end_daemons(self.daemons, END_TIMEOUT_S)


def _tied(argv: Sequence[str]) -> list[str]:
    """A command that the kernel kills when this process ends; its pid is that of the command itself."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv] if shutil.which("setpriv") else list(argv)


def _answers(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def _first_error(answers: Sequence[Mapping[str, Any]]) -> str:
    return next((str(each["error"]) for each in answers if each["error"]), "")


def go_build(folder: Path, *sources: str) -> Path:
    """Compiles Go files of this folder with the libraries of Debian's packages."""
    program = folder / sources[0].removesuffix(".go")
    where = {"GOPATH": str(GOCODE), "GO111MODULE": "off", "GOFLAGS": ""}
    return build(["go", "build", "-o", str(program), *(str(HERE / source) for source in sources)], program, where)
