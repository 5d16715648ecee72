"""Several clusters of real sites on this machine, joined by their gateways: `reconvene up --clusters`.

Each is a `LocalCluster` in a directory of its own, and can be used as such. Here is what concerns all of them:
starting and ending them together, a partition between clusters, who represents each, and one trace of all levels.
Sites are named CLUSTER/SITE, and @CLUSTER is the site that represents the cluster.
"""

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import msgspec

from reconvene.errors import Rejected, Unavailable
from reconvene.local import ports, traces
from reconvene.local.cluster import LocalCluster, SiteState
from reconvene.local.directory import Ending
from reconvene.local.domain_layout import ABOVE, DomainChoices, DomainLayout, cluster_names
from reconvene.local.domain_traces import copy_levels, files_of, note_run
from reconvene.local.fleet import POLL_S
from reconvene.local.layout import Settings, site_names
from reconvene.local.processes import kill_all, state_of
from reconvene.local.traces import QUIET_S, is_quiet
from reconvene.runtime.access.key_files import write_cluster_key
from reconvene.runtime.net.partition import Partition, check_components

__all__ = ["LocalDomains"]

_STOP_S = 5.0
"""For signals to take effect."""


class LocalDomains(Ending):
    """Synchronous, as `LocalCluster` is, and with the same errors.

    with LocalDomains.create(directory, clusters=3, nodes=3, gateways=2) as domains:
        domains.start()
        domains.partition([["berlin"], ["paris", "oslo"]])
        domains.crash("@paris")
        ...
    """

    def __init__(self, directory: Path | str) -> None:
        self.layout = DomainLayout(Path(directory))
        self.choices = self.layout.load()
        self.clusters = {name: LocalCluster(self.layout.cluster(name)) for name in self.choices.names}

    @classmethod
    def create(
        cls,
        directory: Path | str,
        clusters: int | Sequence[str] = 3,
        nodes: int | Sequence[str] = 3,
        gateways: int = 2,
        *,
        order: str = "atop",
        insecure: bool = False,
        trace: bool = True,
        isis: bool = False,
        settings: Settings | None = None,
    ) -> Self:
        """Makes new clusters in a new or empty directory, without starting them. The first `gateways` sites of each
        are its gateways. Every group passes, unless `settings`, which go into every site.toml, say otherwise."""
        names = cluster_names(clusters) if isinstance(clusters, int) else tuple(clusters)
        sites = site_names(nodes) if isinstance(nodes, int) else tuple(nodes)
        if not 1 <= gateways <= len(sites):
            raise Rejected(f"{gateways} gateways: expected 1 to {len(sites)}, as many as there are sites")
        if len(set(names)) != len(names):
            raise Rejected(f"{', '.join(names)}: a cluster is named twice")
        layout = DomainLayout(Path(directory))
        choices = DomainChoices(
            clusters={name: list(sites[:gateways]) for name in names}, order=order, insecure=insecure, trace=trace
        )
        layout.make(choices.clusters)
        if not insecure:
            write_cluster_key(layout.key)
        for name in choices.names:
            LocalCluster.create(
                layout.cluster(name),
                sites,
                order=order,
                insecure=insecure,
                trace=False,
                isis=isis,
                settings={**dict(settings or {}), "cluster": name},
            )
        layout.save(choices)
        return cls(directory)

    # -- state

    @property
    def names(self) -> tuple[str, ...]:
        return self.choices.names

    @property
    def nodes(self) -> tuple[str, ...]:
        """CLUSTER/SITE of all."""
        return tuple(f"{name}/{site}" for name in self.names for site in self.clusters[name].names)

    @property
    def trace_dir(self) -> Path:
        return self.layout.trace

    @property
    def addresses(self) -> dict[str, str]:
        return {
            f"{name}/{site}": address
            for name, cluster in self.clusters.items()
            for site, address in cluster.addresses.items()
        }

    @property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """The present partition between clusters; empty if there is none."""
        return Partition.load(self.layout.between).components

    def running(self) -> bool:
        return any(cluster.running() for cluster in self.clusters.values())

    def states(self) -> dict[str, str]:
        """By CLUSTER/SITE: up | paused | down"""
        return {
            f"{name}/{site}": state
            for name, cluster in self.clusters.items()
            for site, state in cluster.states().items()
        }

    def sites(self) -> dict[str, list[SiteState]]:
        """By cluster, the state of every site."""
        return self._all(lambda cluster: cluster.sites())

    def statuses(self) -> dict[str, dict[str, Any]]:
        """By CLUSTER/SITE, of the sites that answer."""
        return {
            f"{name}/{view.name}": view.status
            for name, views in self.sites().items()
            for view in views
            if view.status is not None
        }

    def representative(self, name: str) -> str:
        """The site that represents the cluster, as most of its sites see it. Raises Unavailable where there is
        none."""
        self._expect_clusters([name])
        seen = [
            view.status["domain"]["representative"]
            for view in self.clusters[name].sites()
            if view.status is not None and view.status["domain"]["representative"] is not None
        ]
        if not seen:
            raise Unavailable(f"nobody represents {name} now")
        return str(max(sorted(set(seen)), key=seen.count))

    def resolve(self, name: str) -> tuple[str, str]:
        """The cluster and the site of CLUSTER/SITE, or of @CLUSTER. Raises Rejected."""
        if name.startswith("@"):
            return name[1:], self.representative(name[1:])
        cluster, slash, site = name.partition("/")
        if not slash or not site:
            raise Rejected(f"{name!r}: expected CLUSTER/SITE, or @CLUSTER for the site that represents the cluster")
        self._expect_clusters([cluster])
        return cluster, site

    # -- start and end

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts all sites, without faults, and waits until all clusters are in one wide configuration."""
        if self.running():
            raise Rejected(f"{self.layout}: holds running clusters; `reconvene down` ends them")
        deadline = time.monotonic() + timeout_s
        self._choose_ports()
        Partition().save(self.layout.between)
        self._write_settings(Partition())
        if self.choices.trace:
            note_run(self, settled=False, down=[])
        try:
            self._all(lambda cluster: cluster.start(timeout_s))
            self.wait_for(max(deadline - time.monotonic(), 5.0))
        except BaseException:
            self.kill()
            raise

    def stop(self) -> list[str]:
        """Makes every site leave and end; returns those that did not and had to be killed."""
        if not self.running():
            return []
        at_rest = self._is_at_rest()
        killed = self._all(lambda cluster: cluster.stop())
        found = [f"{name}/{site}" for name, sites in killed.items() for site in sites]
        if self.choices.trace:
            note_run(self, settled=at_rest and not found, down=list(self.nodes))
        return found

    def kill(self) -> None:
        if self.running():
            for cluster in self.clusters.values():
                cluster.kill()
            if self.choices.trace:
                note_run(self, settled=False, down=list(self.nodes))

    # -- faults

    def crash(self, *names: str) -> list[str]:
        """kill -9 of these; returns them as CLUSTER/SITE."""
        return self._each(names, lambda cluster, sites: cluster.crash(*sites))

    def restart(self, *names: str) -> list[str]:
        return self._each(names, lambda cluster, sites: cluster.restart(*sites))

    def pause(self, *names: str) -> list[str]:
        return self._each(names, lambda cluster, sites: cluster.pause(*sites))

    def resume(self, *names: str) -> list[str]:
        found = self._each(names, lambda cluster, sites: cluster.resume(*sites))
        self._block(Partition.load(self.layout.between), found)  # a paused gateway could not apply a partition
        return found

    def partition(self, components: Sequence[Sequence[str]]) -> None:
        """Replaces all connectivity between clusters: only those in one list are connected. Within them nothing
        changes."""
        parts = check_components(components, self.names)
        self._connect(Partition(components=parts if len(parts) > 1 else ()))

    def heal(self) -> None:
        """Ends the partition between clusters, and all those within them."""
        self._connect(Partition())
        for cluster in self.clusters.values():
            if cluster.components:
                cluster.heal()

    # -- waiting

    def wait_for(self, timeout_s: float = 20.0) -> dict[str, dict[str, Any]]:
        """Waits until all connected clusters, those with a gateway that is up, are in one wide configuration."""
        deadline = time.monotonic() + timeout_s
        while True:
            statuses = self.statuses()
            late = self._apart(statuses)
            if late is None:
                return statuses
            if time.monotonic() >= deadline:
                raise Unavailable(f"not in one wide configuration after {timeout_s:g} s: {late}")
            time.sleep(5 * POLL_S)

    def _apart(self, statuses: Mapping[str, dict[str, Any]]) -> str | None:
        """Who is not where it should be, in one line. Clusters with a partition of their own are not waited for."""
        up = {node for node, state in self.states().items() if state == "up"}
        whole = [name for name in self.names if not self.clusters[name].components]
        linked = [
            name
            for name in whole
            if any(f"{name}/{gateway}" in up for gateway in self.choices.clusters[name])
        ]  # fmt: skip
        for component in self.components or (self.names,):
            wanted = sorted(name for name in component if name in linked)
            above = [site for site in self.choices.upper if site.partition(".")[0] in component]
            present = [site for site in above if site.replace(".", "/", 1) in up]
            found: set[str] = set()
            for node in sorted(up):
                name = node.partition("/")[0]
                if name not in wanted:
                    continue
                domain = statuses.get(node, {}).get("domain")
                if domain is None:
                    return f"{node} does not answer"
                found.add(domain["configuration"])
                if domain["upper"] is not None and domain["upper"]["members"] != present:
                    return f"{node} is above with {','.join(domain['upper']['members'])}"
                if domain["phase"] != "open" or domain["domains"] != wanted or len(found) > 1:
                    return f"{node} is in {domain['configuration'] or 'none'} of {','.join(domain['domains'])}"
        return None

    def settle(self, timeout_s: float = 60.0, quiet_s: float = QUIET_S) -> None:
        """Waits until no site has recorded an event for a while, and the clusters are in their configurations."""
        if not self.choices.trace:
            raise Rejected(f"{self.layout}: writes no trace")
        deadline = time.monotonic() + timeout_s
        while not self._is_quiet(quiet_s):
            if time.monotonic() >= deadline:
                raise Unavailable(f"{self.layout}: was not quiet for {quiet_s:g} s within {timeout_s:g} s")
            time.sleep(POLL_S)
        self.wait_for(max(deadline - time.monotonic(), 1.0))

    def finish_trace(self, timeout_s: float = 60.0, quiet_s: float = QUIET_S) -> Path:
        """Waits until all is quiet, kills all sites at the same moment, and returns the trace of a settled run."""
        self.settle(timeout_s, quiet_s)
        down = [node for node, state in self.states().items() if state == "down"]
        running = [process for cluster in self.clusters.values() for process in cluster.processes()]
        kill_all(running)
        settled = self._is_quiet(quiet_s)
        for cluster in self.clusters.values():
            cluster.kill()
        note_run(self, settled=settled, down=down)
        return self.trace_dir

    def copy_trace(self, target: Path | str) -> Path:
        """The trace up to now, also while messages are sent: all sites are stopped while the sizes of their files are
        read, as `LocalCluster.copy_trace` does."""
        running = [process for cluster in self.clusters.values() for process in cluster.processes()]
        moving = [process for process in running if state_of(process) == "up"]
        try:
            for process in moving:
                process.signal(signal.SIGSTOP)
            deadline = time.monotonic() + _STOP_S
            while any(state_of(process) == "up" for process in moving) and time.monotonic() < deadline:
                time.sleep(0.0005)
            sizes = traces.sizes(self.trace_dir, files_of(self))
        finally:
            for process in moving:
                process.signal(signal.SIGCONT)
        copy_levels(self, Path(target), sizes)
        return Path(target)

    # -- inside

    def _all(self, act: Callable[[LocalCluster], Any]) -> dict[str, Any]:
        """Of all clusters at the same time."""
        with ThreadPoolExecutor(len(self.clusters)) as pool:
            found = {name: pool.submit(act, cluster) for name, cluster in self.clusters.items()}
        return {name: future.result() for name, future in found.items()}

    def _each(self, names: Iterable[str], act: Callable[[LocalCluster, list[str]], None]) -> list[str]:
        chosen: dict[str, list[str]] = {}
        for name in names:
            cluster, site = self.resolve(name)
            chosen.setdefault(cluster, []).append(site)
        for cluster, sites in chosen.items():
            act(self.clusters[cluster], sites)
        return [f"{cluster}/{site}" for cluster, sites in chosen.items() for site in sites]

    def _expect_clusters(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.clusters:
                raise Rejected(f"there is no cluster {name!r}; expected one of {', '.join(self.names)}")

    def _choose_ports(self) -> None:
        known = self.choices.ports
        if set(known) != set(self.choices.upper) or not all(map(ports.is_free, known.values())):
            chosen = dict(zip(self.choices.upper, ports.choose(len(self.choices.upper)), strict=True))
            self.choices = msgspec.structs.replace(self.choices, ports=chosen)
            self.layout.save(self.choices)

    def _write_settings(self, between: Partition) -> None:
        """What the site.toml of each cluster says of the others."""
        upper: dict[str, object] = {
            "cluster": ABOVE,
            "sites": {site: f"{ports.LOOPBACK}:{port}" for site, port in sorted(self.choices.ports.items())},
        }
        if not self.choices.insecure:
            upper["keys"] = [str(self.layout.key)]
        for name, cluster in self.clusters.items():
            told = cluster.choices.settings.get("domain", {})
            domain = dict(told) if isinstance(told, Mapping) else {}
            domain.setdefault("pass", {"out": ["*"], "in": ["*"]})
            above = domain.get("upper")
            domain["gateways"] = self.choices.clusters[name]
            domain["upper"] = {**(above if isinstance(above, Mapping) else {}), **upper}
            settings = {**cluster.choices.settings, "domain": domain}
            if self.choices.trace:
                settings["trace"] = {"dir": str(self.layout.trace)}
            cluster.change(settings=settings, blocked_above=self._blocked(between, name))

    def _blocked(self, between: Partition, name: str) -> list[str]:
        """The sites above that this cluster's gateways are disconnected from."""
        away = between.blocked(name, self.names)
        return [site for site in self.choices.upper if site.partition(".")[0] in away]

    def _connect(self, between: Partition) -> None:
        if not self.running():
            raise Rejected(f"{self.layout}: no site is up; `reconvene up --dir {self.layout}` starts them")
        between.save(self.layout.between)
        self._write_settings(between)
        up = [node for node, state in self.states().items() if state == "up"]
        self._block(between, up)

    def _block(self, between: Partition, nodes: Sequence[str]) -> None:
        for name, cluster in self.clusters.items():
            gateways = [site for site in self.choices.clusters[name] if f"{name}/{site}" in nodes]
            if gateways:
                cluster.block_above(gateways, self._blocked(between, name))

    def _changed_at(self) -> float:
        marks = [self.layout.between, *(cluster.layout.faults for cluster in self.clusters.values())]
        return max(Partition.load(path).changed_at for path in marks)

    def _is_quiet(self, quiet_s: float) -> bool:
        return is_quiet(self.trace_dir, files_of(self), self._changed_at(), quiet_s)

    def _is_at_rest(self) -> bool:
        if not self.choices.trace or self.components or any(c.components for c in self.clusters.values()):
            return False
        everyone_up = all(state == "up" for state in self.states().values())
        return everyone_up and self._apart(self.statuses()) is None and self._is_quiet(QUIET_S)
