"""ZooKeeper: three servers on loopback, with its defaults, driven by its C client through a program of ours.

The limit on requests that wait in a server is raised, so that it does not slow down clients with many of them.
"""

import shutil
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from time import monotonic
from typing import Self

from reconvene.lab.bench.durable_system import REPLICAS, Way
from reconvene.lab.bench.peers.processes import build
from reconvene.lab.bench.peers.replicas import HERE, START_TIMEOUT_S, Cluster
from reconvene.local.ports import LOOPBACK, choose

__all__ = ["Zookeeper", "available", "configuration"]

JAR = Path("/usr/share/java/zookeeper.jar")
HEADER = Path("/usr/include/zookeeper/zookeeper.h")
SESSIONS = 6
ASK_TIMEOUT_S = 2.0
JAVA = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""A garbage collector without threads of its own: three servers share this machine's cores."""
COMPILED_S = 15.0
"""Of full load, until Java has compiled the code: throughput triples meanwhile. With `quick` only the first tier
compiles, which is done sooner and slower in the end."""
QUICK_COMPILED_S = 0.7


def available() -> str | None:
    """Why it can't be run here; None if it can."""
    for tool, package in {"java": "default-jre-headless", "cc": "gcc"}.items():
        if shutil.which(tool) is None:
            return f"no {tool} (package {package})"
    if not JAR.exists():
        return f"no {JAR.name} (package zookeeper)"
    if not HEADER.exists():
        return "no zookeeper/zookeeper.h (package libzookeeper-mt-dev)"
    return None


class Zookeeper:
    """`durable_system.Durable`."""

    name = "zookeeper"
    synced = "force of its log for each batch of requests, at a majority"
    ways: Sequence[Way] = (Way(2000), Way(500), Way(8000), Way(30, batch=100, name="100 creates a multi"))

    def running(self, folder: Path, quick: bool) -> AbstractContextManager[Cluster]:
        return _Servers(folder, quick)


def configuration(client_port: int, quorum: Sequence[tuple[int, int]], folder: Path) -> str:
    """The file zoo.cfg of one server; `quorum` has each server's ports for its peers and for elections."""
    lines = {
        "dataDir": str(folder),
        "clientPort": str(client_port),
        "clientPortAddress": LOOPBACK,
        "tickTime": "2000",
        "initLimit": "10",
        "syncLimit": "5",
        "maxClientCnxns": "0",
        "globalOutstandingLimit": "100000",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
    }
    for index, (peer, election) in enumerate(quorum):
        lines[f"server.{index}"] = f"{LOOPBACK}:{peer}:{election}"
    return "".join(f"{key}={value}\n" for key, value in lines.items())


class _Servers(Cluster):
    name = Zookeeper.name

    def __init__(self, folder: Path, quick: bool) -> None:
        super().__init__(folder)
        self._quick = quick
        program = folder / "zookeeper_load"
        source = HERE / "zookeeper_load.c"
        self._program = build(["cc", "-O2", "-o", str(program), str(source), "-lzookeeper_mt", "-lpthread"], program)
        ports = choose(3 * REPLICAS)
        self._clients = ports[:REPLICAS]
        self._quorum = list(zip(ports[REPLICAS : 2 * REPLICAS], ports[2 * REPLICAS :], strict=True))

    def _start(self, index: int) -> None:
        folder = self.folder / str(index)
        data = folder / "data"
        data.mkdir()
        (data / "myid").write_text(f"{index}\n")
        file = folder / "zoo.cfg"
        file.write_text(configuration(self._clients[index], self._quorum, data))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        compiler = ["-XX:TieredStopAtLevel=1"] if self._quick else []
        self._daemon(index, ["java", *JAVA, *compiler, "-cp", str(JAR), main, str(file)])

    def _wait_until_ready(self) -> None:
        deadline = monotonic() + START_TIMEOUT_S
        for index in range(REPLICAS):
            while not self._mode(index):
                self._wait("no quorum of servers", deadline)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.throughput(100, QUICK_COMPILED_S if self._quick else COMPILED_S, Zookeeper.ways[0])
        except BaseException:
            self._stack.close()
            raise
        return self

    def _load_commands(self) -> Sequence[Sequence[str]]:
        addresses = ",".join(f"{LOOPBACK}:{port}" for port in self._clients)
        return [[str(self._program), str(SESSIONS), addresses]]

    def _leader(self) -> int:
        return next((index for index in self.alive if self._mode(index) == "leader"), -1)

    def _mode(self, index: int) -> str:
        """leader or follower, by the server's own answer; empty while it is neither."""
        answer = b""
        with suppress(OSError), socket.create_connection((LOOPBACK, self._clients[index]), ASK_TIMEOUT_S) as asked:
            asked.sendall(b"srvr")
            while got := asked.recv(4096):
                answer += got
        said = dict(line.split(": ", 1) for line in answer.decode(errors="replace").splitlines() if ": " in line)
        return said.get("Mode", "")
