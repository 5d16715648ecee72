"""NATS JetStream: three servers on loopback, and one stream with three replicas in files.

Its file store leaves the writes to the operating system, and syncs every two minutes: an acknowledged message has
been handed to the operating system at a majority. Driven by its own Go client.
"""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic

from reconvene.lab.bench.durable_system import REPLICAS, Way
from reconvene.lab.bench.peers.replicas import GOCODE, Cluster, go_build
from reconvene.local.ports import LOOPBACK, choose

__all__ = ["Nats", "available", "configuration"]

CONNECTIONS = 3
ASK_TIMEOUT_S = 5.0
MOST_BYTES = 32 << 30


def available() -> str | None:
    """Why it can't be run here; None if it can."""
    for tool, package in {"nats-server": "nats-server", "go": "golang-go"}.items():
        if shutil.which(tool) is None:
            return f"no {tool} (package {package})"
    if not (GOCODE / "src/github.com/nats-io/nats.go").is_dir():
        return "no github.com/nats-io/nats.go (package golang-github-nats-io-go-nats-dev)"
    return None


class Nats:
    """`durable_system.Durable`."""

    name = "nats"
    synced = "no sync call per message"
    ways: Sequence[Way] = (Way(1000), Way(4000), Way(16_000))

    def running(self, folder: Path, quick: bool) -> AbstractContextManager[Cluster]:
        return _Servers(folder)


def configuration(index: int, client_port: int, route_ports: Sequence[int], folder: Path) -> str:
    """The file nats.conf of one server."""
    routes = ", ".join(f'"nats://{LOOPBACK}:{port}"' for port in route_ports)
    return "\n".join(
        (
            f"server_name: server-{index}",
            f'listen: "{LOOPBACK}:{client_port}"',
            f'jetstream {{ store_dir: "{folder}", max_file_store: {MOST_BYTES} }}',
            f'cluster {{ name: bench, listen: "{LOOPBACK}:{route_ports[index]}", routes: [{routes}] }}',
            "",
        )
    )


class _Servers(Cluster):
    name = Nats.name

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = go_build(folder, "nats_load.go", "store_load.go")
        ports = choose(2 * REPLICAS)
        self._routes, self._clients = ports[:REPLICAS], ports[REPLICAS:]

    def _start(self, index: int) -> None:
        folder = self.folder / str(index)
        file = folder / "nats.conf"
        file.write_text(configuration(index, self._clients[index], self._routes, folder / "data"))
        self._daemon(index, ["nats-server", "--config", str(file)])

    def _wait_until_ready(self) -> None:
        self._wait_for_ports(self._clients)

    def _load_commands(self) -> Sequence[Sequence[str]]:
        addresses = [f"nats://{LOOPBACK}:{port}" for port in self._clients]
        return [[str(self._program), "appends", str(CONNECTIONS), *addresses]]

    def _leader(self) -> int:
        self.loads[0].say("leader")
        leader: int = self.loads[0].hear("leader", monotonic() + ASK_TIMEOUT_S)["leader"]
        return leader
