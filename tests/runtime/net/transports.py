"""Transports of one cluster in one process, on real sockets of the loopback."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from tests.ports import free_ports

from reconvene.runtime.access.key_files import write_cluster_key
from reconvene.runtime.config.settings import Config, Seal, TransportSettings
from reconvene.runtime.net.refusals import Refusals
from reconvene.runtime.net.seal_sessions import SealSessions
from reconvene.runtime.net.udp import Udp
from reconvene.wire.seal import ClusterKey

__all__ = ["LOOPS", "Lines", "Net", "Node", "drops", "run", "until"]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def run(work: Coroutine[Any, Any, None], loop: str = "asyncio") -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(asyncio.wait_for(work, 60))


async def until(holds: Callable[[], bool], what: str = "", patience_s: float = 10) -> None:
    """Waits until the condition holds, not longer."""
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end, f"waited in vain {what}"
        await asyncio.sleep(0.001)


class Lines(logging.Handler):
    """What a site has logged: (event, fields)."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), getattr(record, "fields", {})))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]


class Node:
    """A transport, what it has received, and what it has logged."""

    def __init__(self, config: Config) -> None:
        self.lines = Lines()
        log = logging.Logger(config.name, logging.DEBUG)
        log.addHandler(self.lines)
        self.config = config
        self.udp = Udp(config, log)
        self.turns: list[list[bytes]] = []

    def start(self) -> None:
        self.udp.start(self.turns.append)

    @property
    def got(self) -> list[bytes]:
        return [data for turn in self.turns for data in turn]

    @property
    def address(self) -> tuple[str, int]:
        return self.config.sites[self.config.name]

    @property
    def sessions(self) -> SealSessions:
        return self.udp._sessions

    @property
    def refusals(self) -> Refusals:
        return self.udp._refusals

    def count(self, name: str) -> int:
        return self.udp.counters()[name]

    def knows(self, *others: int) -> bool:
        return set(others) <= set(self.sessions._sessions)


def drops(node: Node) -> dict[str, int]:
    """The counters of dropped datagrams that are not zero."""
    return {name: count for name, count in node.udp.counters().items() if name.startswith("dropped_") and count}


class Net:
    """A cluster of sites a, b, c …, each made by `node`; all are closed in the end."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        self.folder = folder
        self.key_file = folder / "key"
        self.key: ClusterKey = write_cluster_key(self.key_file)
        self.sites = {chr(ord("a") + i): ("127.0.0.1", port) for i, port in enumerate(free_ports(count))}
        self.nodes: list[Node] = []
        self.wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        """A stranger's socket."""
        self.wire.bind(("127.0.0.1", 0))

    def config(self, name: str, **changes: Any) -> Config:
        config = Config(
            cluster="shop", name=name, sites=self.sites, dir=self.folder, seal=Seal(keys=(self.key_file,)),
            transport=TransportSettings(),
        )  # fmt: skip
        return msgspec.structs.replace(config, **changes)

    def node(self, name: str, **changes: Any) -> Node:
        node = Node(self.config(name, **changes))
        self.nodes.append(node)
        return node

    async def up(self, **changes: Any) -> list[Node]:
        """All sites, started; each has accepted the sessions of the others."""
        nodes = [self.node(name, **changes) for name in self.sites]
        for node in nodes:
            node.start()
        if not nodes[0].config.seal.insecure:
            everyone = set(range(len(nodes)))
            await until(lambda: all(node.knows(*(everyone - {i})) for i, node in enumerate(nodes)), "to be known")
        return nodes

    def throw(self, packet: bytes, at: Node) -> None:
        self.wire.sendto(packet, at.address)

    @classmethod
    @contextmanager
    def of(cls, folder: Path, count: int = 2) -> Iterator["Net"]:
        net = cls(folder, count)
        try:
            yield net
        finally:
            net.wire.close()
            for node in net.nodes:
                node.udp.close()
