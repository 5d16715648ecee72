"""Joined clusters of real sites in network namespaces: a bridge for each cluster, and a router between them."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self, cast

from tests.network.sites import PATIENCE_S, until

from reconvene.lab.namespaces import JoinedNamespaces
from reconvene.local import LocalDomains, traces
from reconvene.local.control import Lines
from reconvene.local.domain_layout import ABOVE, DomainChoices
from reconvene.local.domain_traces import files_of, note_run
from reconvene.local.toml import to_toml
from reconvene.runtime.access.key_files import write_cluster_key

__all__ = ["JoinedSites"]

_LOCAL, _UPPER = 7000, 7100
_SITES = ("a", "b", "c")
_GATEWAYS = ("a", "b")


class JoinedSites:
    """Three sites in each cluster; a and b are its gateways."""

    def __init__(self, directory: Path, clusters: tuple[str, ...], network: JoinedNamespaces) -> None:
        self.directory = directory
        self.network = network
        self.names = clusters
        self.nodes = tuple(f"{cluster}/{site}" for cluster in clusters for site in _SITES)
        self.trace_dir = directory / "trace"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._hosts = dict(zip(self.nodes, network.addresses, strict=True))
        self.components: tuple[tuple[str, ...], ...] = ()
        self._changed_at = time.time()
        for level in (*clusters, ABOVE):
            write_cluster_key(directory / f"{level}.key")
        for node in self.nodes:
            self._write(node)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def addresses(self) -> dict[str, str]:
        return {node: str(self._socket(node)) for node in self.nodes}

    def _socket(self, node: str) -> Path:
        return self.directory / f"{node.replace('/', '-')}.sock"

    def _write(self, node: str) -> None:
        cluster, _, name = node.partition("/")
        document: dict[str, Any] = {
            "cluster": cluster,
            "name": name,
            "dir": node.replace("/", "-"),
            "sites": {site: f"{self._hosts[f'{cluster}/{site}']}:{_LOCAL}" for site in _SITES},
            "seal": {"keys": [str(self.directory / f"{cluster}.key")]},
            "clients": {"unix": str(self._socket(node))},
            "log": {"enabled": False},
            "trace": {"dir": str(self.trace_dir)},
            "domain": {
                "gateways": list(_GATEWAYS),
                "pass": {"out": ["*"], "in": ["*"]},
                "upper": {
                    "cluster": ABOVE,
                    "keys": [str(self.directory / f"{ABOVE}.key")],
                    "sites": {
                        f"{other}.{site}": f"{self._hosts[f'{other}/{site}']}:{_UPPER}"
                        for other in self.names
                        for site in _GATEWAYS
                    },
                },
            },
        }
        (self.directory / f"{node.replace('/', '-')}.toml").write_text(to_toml(document))

    def start(self) -> None:
        for index, node in enumerate(self.nodes):
            file = self.directory / f"{node.replace('/', '-')}.toml"
            with file.with_suffix(".log").open("ab") as log:
                argv = [sys.executable, "-m", "reconvene", "node", "--config", str(file)]
                self.processes[node] = self.network.run(index, argv, stdout=log, stderr=log, cwd=self.directory)
        self.wait_for({frozenset(self.nodes): self.names})

    def kill(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(10)

    def statuses(self) -> dict[str, dict[str, Any]]:
        with Lines({node: self._socket(node) for node in self.nodes}) as lines:
            return lines.statuses(self.nodes)

    def wait_for(self, wanted: dict[frozenset[str], tuple[str, ...]]) -> None:
        """Waits until the sites of each set are in one open wide configuration of these clusters."""

        def there() -> bool:
            statuses = self.statuses()
            for nodes, domains in wanted.items():
                seen = [statuses.get(node, {}).get("domain") for node in nodes]
                if (
                    any(one is None or one["phase"] != "open" or one["domains"] != sorted(domains) for one in seen)
                    or len({one["configuration"] for one in seen if one is not None}) > 1
                ):
                    return False
            return True

        until(there, self._whereabouts, PATIENCE_S)

    def _whereabouts(self) -> str:
        return "; ".join(
            f"{node} in {status['domain']['configuration']} of {','.join(status['domain']['domains'])}"
            f" ({status['domain']['phase']}, {status['configuration']} of {','.join(status['members'])})"
            for node, status in sorted(self.statuses().items())
        )

    def changed(self) -> None:
        """The network was changed now."""
        self._changed_at = time.time()

    def finish_trace(self) -> Path:
        """Waits until all is quiet, and kills all sites."""
        files = files_of(cast(LocalDomains, self))
        until(lambda: traces.is_quiet(self.trace_dir, files, self._changed_at), "quiet", PATIENCE_S)
        self.kill()
        assert traces.is_quiet(self.trace_dir, files, self._changed_at), "something happened at the end"
        note_run(cast(LocalDomains, self), settled=True, down=[])
        return self.trace_dir

    # -- what the notes of a local run need

    @property
    def choices(self) -> DomainChoices:
        return DomainChoices(clusters={name: list(_GATEWAYS) for name in self.names})

    @property
    def layout(self) -> SimpleNamespace:
        return SimpleNamespace(directory=self.directory)

    @property
    def clusters(self) -> dict[str, SimpleNamespace]:
        settings = {"log": {"enabled": False}, "domain": {"pass": {"out": ["*"], "in": ["*"]}}}
        cluster = SimpleNamespace(names=_SITES, components=(), choices=SimpleNamespace(settings=settings))
        return dict.fromkeys(self.names, cluster)
