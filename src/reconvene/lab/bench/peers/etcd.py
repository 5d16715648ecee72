"""etcd: three members on loopback, with its defaults but for a quota that the measurements do not reach.

Driven by its own Go client, which does about twice what a client in Python does on the same cores.
"""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic

from reconvene.lab.bench.durable_system import REPLICAS, Way
from reconvene.lab.bench.peers.replicas import GOCODE, Cluster, go_build
from reconvene.local.ports import LOOPBACK, choose

__all__ = ["Etcd", "EtcdLocks", "available"]

CONNECTIONS = 8
QUOTA_BYTES = 8 << 30
ASK_TIMEOUT_S = 5.0
SHORTEST_LEASE_S = 1
"""The shortest that can be asked for. The server grants at least one and a half times its election timeout: 2 s with
its defaults."""


def available() -> str | None:
    """Why it can't be run here; None if it can."""
    for tool, package in {"etcd": "etcd-server", "go": "golang-go"}.items():
        if shutil.which(tool) is None:
            return f"no {tool} (package {package})"
    if not (GOCODE / "src/go.etcd.io/etcd/clientv3").is_dir():
        return "no go.etcd.io/etcd/clientv3 (package golang-etcd-server-dev)"
    return None


class Etcd:
    """`durable_system.Durable`."""

    name = "etcd"
    synced = "fdatasync for each batch of raft entries, at a majority"
    ways: Sequence[Way] = (Way(1000), Way(30, batch=100, name="100 puts a transaction"))

    def running(self, folder: Path, quick: bool) -> AbstractContextManager[Cluster]:
        return _Members(folder)


class _Members(Cluster):
    name = Etcd.name
    _sources: Sequence[str] = ("etcd_load.go", "store_load.go")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = go_build(folder, *self._sources)
        ports = choose(2 * REPLICAS)
        self._peers = [f"http://{LOOPBACK}:{port}" for port in ports[:REPLICAS]]
        self._client_ports = ports[REPLICAS:]
        self._clients = [f"http://{LOOPBACK}:{port}" for port in self._client_ports]

    def _start(self, index: int) -> None:
        every = ",".join(f"m{place}={url}" for place, url in enumerate(self._peers))
        options = {
            "name": f"m{index}",
            "data-dir": str(self.folder / str(index) / "data"),
            "listen-peer-urls": self._peers[index],
            "initial-advertise-peer-urls": self._peers[index],
            "listen-client-urls": self._clients[index],
            "advertise-client-urls": self._clients[index],
            "initial-cluster": every,
            "initial-cluster-state": "new",
            "initial-cluster-token": self.folder.name,
            "quota-backend-bytes": str(QUOTA_BYTES),
            "logger": "zap",
            "log-level": "error",
        }
        self._daemon(index, ["etcd", *(f"--{key}={value}" for key, value in options.items())])

    def _wait_until_ready(self) -> None:
        self._wait_for_ports(self._client_ports)

    def _load_commands(self) -> Sequence[Sequence[str]]:
        return [[str(self._program), str(CONNECTIONS), *self._clients]]

    def _leader(self) -> int:
        self.loads[0].say("leader")
        leader: int = self.loads[0].hear("leader", monotonic() + ASK_TIMEOUT_S)["leader"]
        return leader


class EtcdLocks(_Members):
    """`loads`: a client of each member, for locks, with the shortest lease: see etcd_locks.go."""

    _sources = ("etcd_locks.go", "store_load.go")

    def _load_commands(self) -> Sequence[Sequence[str]]:
        return [[str(self._program), str(SHORTEST_LEASE_S), address] for address in self._clients]

    def _until_written(self, seconds: float) -> None:
        """A client that is ready has its session, which is written."""
