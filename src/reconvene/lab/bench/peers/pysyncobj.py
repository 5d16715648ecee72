"""PySyncObj: a replicated object in three Python processes on loopback, each with its journal in a file.

The journal is written through a mapping of the file, and the library never syncs it: an acknowledged command has been
handed to the operating system at a majority. As a second way, each replica syncs its journal in every turn of its
loop that wrote to it, though after it answered: what syncing costs, without the promise.
"""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from reconvene.errors import Unavailable
from reconvene.lab.bench.durable_system import REPLICAS, Way
from reconvene.lab.bench.peers.replicas import START_TIMEOUT_S, Cluster
from reconvene.lab.load.process import LoadProcess
from reconvene.local.ports import LOOPBACK, choose

__all__ = ["PySyncObj", "available"]

ASK_TIMEOUT_S = 60.0
"""A replica answers between two turns of its loop, and its turns are long when it is behind."""
ELECT_TIMEOUT_S = 20.0
SYNCED = "journal synced each turn"


def available() -> str | None:
    """Why it can't be run here; None if it can."""
    return None if find_spec("pysyncobj") is not None else "no module pysyncobj"


class PySyncObj:
    """`durable_system.Durable`."""

    name = "pysyncobj"
    synced = "no sync call per message"
    ways: Sequence[Way] = (
        Way(4000),
        Way(1000),
        Way(16_000),
        Way(4000, name=SYNCED, synced="fdatasync each turn, after the answer"),
    )

    def running(self, folder: Path, quick: bool) -> AbstractContextManager[Cluster]:
        return _Replicas(folder)


class _Replicas(Cluster):
    """Its processes are load generators and replicas in one."""

    name = PySyncObj.name

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._addresses = [f"{LOOPBACK}:{port}" for port in choose(REPLICAS)]
        self._syncs = False

    def _start(self, index: int) -> None:
        pass

    def _wait_until_ready(self) -> None:
        pass

    def _load_commands(self) -> Sequence[Sequence[str]]:
        module = "reconvene.lab.bench.peers.pysyncobj_server"
        return [
            [
                *(sys.executable, "-m", module, str(self.folder / str(index) / "journal"), own),
                *(other for other in self._addresses if other != own),
            ]
            for index, own in enumerate(self._addresses)
        ]

    def _writers(self, way: Way | None = None) -> Sequence[LoadProcess]:
        self._sync(way is not None and way.name == SYNCED)
        deadline = monotonic() + min(START_TIMEOUT_S, ELECT_TIMEOUT_S)
        while (leader := self._leader()) < 0:
            if monotonic() > deadline:
                raise Unavailable(f"{self.name}: no leader within {ELECT_TIMEOUT_S:g} s")
        return [self.loads[leader]]

    def _sync(self, on: bool) -> None:
        if on != self._syncs:
            for index in self.alive:
                self.loads[index].say(f"sync {on:d}")
                self.loads[index].hear("sync", monotonic() + ASK_TIMEOUT_S)
            self._syncs = on

    def _leader(self) -> int:
        for index in self.alive:
            self.loads[index].say("leader")
        leads = [
            index for index in self.alive if self.loads[index].hear("leader", monotonic() + ASK_TIMEOUT_S)["leader"]
        ]
        return leads[0] if leads else -1

    def _kill(self, index: int) -> None:
        self.loads[index].process.kill()
        self.loads[index].process.wait()
