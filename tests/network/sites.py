"""Real sites for tests: `reconvene node` processes on the loopback or in network namespaces, watched from outside.

A site's Unix socket is a file, so the test reaches the site in any network namespace. When the context of a cluster
ends, all its processes end.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from tests.ports import free_port

from reconvene.lab.namespaces import Namespaces
from reconvene.local import traces
from reconvene.local.control import Lines
from reconvene.local.together import apart, together
from reconvene.local.toml import to_toml
from reconvene.runtime.access.key_files import write_cluster_key
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

__all__ = ["NODE", "RealSites", "free_addresses", "until"]

NODE = ("-m", "reconvene")
"""The program. A test may run another program that calls this one in the end."""
PATIENCE_S = 90.0
"""Longest wait. On a quiet machine no test needs it; five sites that start on a busy one may."""
_PORT = 7000


def free_addresses(names: Iterable[str]) -> dict[str, str]:
    """A port on the loopback for each name, free for UDP and TCP."""
    return {name: f"127.0.0.1:{free_port()}" for name in names}


def until(holds: Callable[[], object], what: Callable[[], str] | str, patience_s: float = PATIENCE_S) -> None:
    """Polls until the condition holds."""
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() >= end:
            raise AssertionError(f"in vain for {patience_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.01)


class RealSites:
    """One cluster: its files in a directory, its processes, its trace."""

    def __init__(
        self,
        directory: Path,
        names: Sequence[str],
        settings: Mapping[str, object] | None = None,
        network: Namespaces | None = None,
    ) -> None:
        """`settings` go into every site's file. In a network of namespaces, each site gets one of its places, in
        order."""
        self.directory = directory
        self.names = tuple(names)
        self.network = network
        self.trace = directory / "trace"
        self.key = directory / "key"
        write_cluster_key(self.key)
        if network is None:
            self.addresses = free_addresses(names)
        else:
            self.addresses = {name: f"{host}:{_PORT}" for name, host in zip(names, network.addresses, strict=False)}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.changed_at = 0.0
        for name in names:
            self.write(name, settings or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    # -- files

    def file(self, name: str) -> Path:
        return self.directory / f"{name}.toml"

    def write(self, name: str, settings: Mapping[str, object], *, instead: bool = False) -> None:
        """Writes the site's file. `instead` replaces, table by table, what all sites have."""
        document: dict[str, Any] = {
            "cluster": "shop",
            "name": name,
            "dir": name,
            "sites": self.addresses,
            "seal": {"keys": [str(self.key)]},
            "clients": {"unix": str(self.socket(name))},
            "trace": {"dir": str(self.trace)},
        }
        for key, value in settings.items():
            if isinstance(value, Mapping) and not instead:
                document[key] = {**document.get(key, {}), **value}
            else:
                document[key] = value
        self.file(name).write_text(to_toml(document))

    def socket(self, name: str) -> Path:
        return self.directory / f"{name}.sock"

    @property
    def sockets(self) -> dict[str, Path]:
        return {name: self.socket(name) for name in self.names}

    # -- processes

    def start(self, *names: str, program: Sequence[str] = NODE) -> None:
        """Starts the sites and returns when they answer."""
        for name in names or self.names:
            argv = [sys.executable, *program, "node", "--config", str(self.file(name))]
            with self.log_file(name).open("ab") as log:
                if self.network is None:
                    self.processes[name] = subprocess.Popen(
                        argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory
                    )
                else:
                    place = list(self.addresses).index(name)
                    self.processes[name] = self.network.run(place, argv, stdout=log, stderr=log, cwd=self.directory)
        self.changed()
        self._until(lambda: set(self.statuses(*names)) >= set(names or self.names), "an answer", names)

    def signal(self, number: signal.Signals, *names: str) -> None:
        for name in names:
            self.processes[name].send_signal(number)
        self.changed()

    def leave(self, name: str) -> None:
        """Sends SIGTERM and waits until the process has ended."""
        self.signal(signal.SIGTERM, name)
        assert self.processes[name].wait(PATIENCE_S) == 0, self.log(name)
        self.changed()

    def crash(self, *names: str) -> None:
        """Sends SIGKILL to all of them at one moment."""
        self.signal(signal.SIGSTOP, *names)
        self.signal(signal.SIGKILL, *names)
        for name in names:
            self.processes[name].wait(PATIENCE_S)
        self.changed()

    def end(self) -> None:
        self.crash(*(name for name, process in self.processes.items() if process.poll() is None))

    def changed(self) -> None:
        """Notes a fault: from now on the cluster has to come to rest again."""
        self.changed_at = time.time()

    # -- what the sites report

    def log_file(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def log(self, name: str) -> str:
        return self.log_file(name).read_text()

    def lines(self, name: str, *words: str) -> list[str]:
        """The lines of the site's log that contain all these words."""
        return [line for line in self.log(name).splitlines() if all(word in line for word in words)]

    def statuses(self, *names: str) -> dict[str, dict[str, Any]]:
        with Lines(self.sockets) as lines:
            return lines.statuses(names or self.names)

    def status(self, name: str) -> dict[str, Any]:
        return self.statuses(name)[name]

    def counter(self, name: str, counter: str) -> int:
        count: int = self.status(name)["counters"][counter]
        return count

    def configurations(self) -> dict[str, int]:
        """How many regular configurations each site has entered since it started."""
        return {name: status["configurations"] for name, status in self.statuses().items()}

    def wait_for(self, *components: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Waits until the sites of each component share one configuration of exactly these sites; by default all.
        Returns their statuses."""
        wanted = components or (self.names,)
        names = [name for component in wanted for name in component]
        found: dict[str, dict[str, Any]] = {}
        with Lines(self.sockets) as lines:

            def holds() -> bool:
                found.clear()
                found.update(lines.statuses(names))
                return all(together(component, found) for component in wanted)

            self._until(holds, lambda: apart(wanted, found), names)
        return found

    def _until(self, holds: Callable[[], bool], what: Callable[[], str] | str, names: Sequence[str]) -> None:
        def told() -> str:
            logs = "\n".join(f"-- {name}\n{self.log(name)[-3000:]}" for name in names or self.names)
            return f"{what if isinstance(what, str) else what()}\n{logs}"

        until(holds, told)

    # -- the verdict

    def settle(self, *components: Sequence[str], quiet_s: float = 1.2) -> None:
        """Waits until these sites, or all, share a configuration and nothing has happened for a while."""
        self.wait_for(*components)
        until(lambda: traces.is_quiet(self.trace, self.names, self.changed_at, quiet_s), "quiet")
        self.wait_for(*components)

    def judge(self, *components: Sequence[str]) -> Report:
        """Waits until the cluster is at rest, kills all sites at one moment, and verifies that their trace has no
        violation, of liveness either."""
        self.settle(*components)
        up = [name for name, process in self.processes.items() if process.poll() is None]
        self.crash(*up)
        traces.write_run(
            self.trace,
            run="test",
            nodes=self.names,
            order="atop",
            settled=True,
            components=components or (self.names,),
            down=[name for name in self.names if name not in up],
        )
        report = verify([History.load(self.trace)])
        assert report.ok, msgspec.json.format(msgspec.json.encode(report)).decode()
        live = {check.id: check.cases for check in report.checks if check.id.startswith("live.")}
        assert live["live.membership"] == len(up)
        return report
