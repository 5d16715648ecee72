"""A cluster of real sites on this machine: one process each, on loopback, with fault injection.

All state is in its directory, so that any process can continue where another one stopped, as the command line does.
Processes are identified by pid and start time before they are signalled. The sites themselves make partitions by
dropping datagrams, so no privilege is needed.
"""

import re
import secrets
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from reconvene.errors import Rejected, Unavailable
from reconvene.local import traces
from reconvene.local.directory import Ending
from reconvene.local.fleet import POLL_S, Fleet
from reconvene.local.layout import Choices, Layout, Ports, Settings, follower_names, outpost_names, site_names
from reconvene.local.ports import LOOPBACK
from reconvene.local.processes import Proc, kill_all, wait_ended
from reconvene.local.together import apart, together
from reconvene.runtime.access.key_files import write_cluster_key
from reconvene.runtime.net.partition import Partition, check_components

__all__ = ["LocalCluster", "SiteState"]

_ORDERS = ("atop", "all-ack")
_STOP_S = 15.0
_BLOCK_S = 15.0
"""For sites to apply a partition: on a busy machine a site may stall for seconds."""


class SiteState(Struct, frozen=True):
    """The state of one site, as seen from outside."""

    name: str
    state: str
    """up | paused | down | silent: the process runs, but does not answer"""
    pid: int | None
    status: dict[str, Any] | None
    """The status that the site reports; None if it does not answer."""
    kind: str = "site"
    """site | follower | outpost"""


class LocalCluster(Ending):
    """Synchronous: a method returns when its work is done. Raises Rejected for an impossible request, Unavailable if
    something did not happen in time, with the end of the site's log if a site died.

        with LocalCluster.create(directory, nodes=5) as cluster:
            cluster.start()
            cluster.partition([["a", "b"], ["c", "d", "e"]])
            cluster.wait_for()
            cluster.crash("e")
            ...

    Leaving the `with` block kills the sites that still run. Without one, the sites outlive the program.
    """

    def __init__(self, directory: Path | str) -> None:
        """Opens the cluster in the directory."""
        self.layout = Layout(Path(directory))
        self._fleet = Fleet(self.layout)

    @classmethod
    def create(
        cls,
        directory: Path | str,
        nodes: int | Sequence[str] = 3,
        *,
        order: str = "atop",
        insecure: bool = False,
        trace: bool = True,
        isis: bool = False,
        settings: Settings | None = None,
        followers: int | Sequence[str] = 0,
        outposts: int | Sequence[str] = 0,
    ) -> Self:
        """Makes a new cluster in a new or empty directory, without starting it. `isis`: its sites take
        part in process groups in the manner of ISIS. `settings` go into every site.toml. `followers`: so many
        sites beside it follow its log. `outposts`: so many processes beside it accept messages for it."""
        names = site_names(nodes) if isinstance(nodes, int) else tuple(nodes)
        if order not in _ORDERS:
            raise Rejected(f"order {order!r}: expected {' or '.join(_ORDERS)}")
        layout = Layout(Path(directory))
        beside = follower_names(followers) if isinstance(followers, int) else tuple(followers)
        away = outpost_names(outposts) if isinstance(outposts, int) else tuple(outposts)
        layout.make(names, (*beside, *away))
        if not insecure:
            write_cluster_key(layout.key)
        word = re.sub(r"[^a-z0-9]+", "-", layout.directory.name.lower()).strip("-")[:24] or "cluster"
        choices = Choices(
            cluster=f"{word}-{secrets.token_hex(4)}",  # so that another program on one of our ports is noticed
            order=order,
            insecure=insecure,
            trace=trace,
            isis=isis,
            sites=dict.fromkeys(names, Ports(0, 0)),
            followers=dict.fromkeys(beside, Ports(0, 0)),
            outposts=dict.fromkeys(away, Ports(0, 0)),
            settings=dict(settings or {}),
        )
        layout.save(choices)
        return cls(directory)

    # -- state

    @property
    def choices(self) -> Choices:
        """The choices made when the cluster was made, and the ports in use."""
        return self._fleet.choices

    @property
    def names(self) -> tuple[str, ...]:
        return self.choices.names

    @property
    def trace_dir(self) -> Path:
        return self.layout.trace

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each site for `reconvene.connect`."""
        return {name: str(path) for name, path in self._fleet.sockets().items()}

    @property
    def dashboards(self) -> dict[str, str]:
        """The URL of each site's dashboard; of each follower's too."""
        served = {**self.choices.sites, **self.choices.followers}
        return {name: f"http://{LOOPBACK}:{ports.http}/" for name, ports in sorted(served.items())}

    @property
    def followers(self) -> tuple[str, ...]:
        """The sites beside the cluster that follow its log."""
        return tuple(sorted(self.choices.followers))

    @property
    def outposts(self) -> tuple[str, ...]:
        """The processes beside the cluster that accept messages for its log."""
        return tuple(sorted(self.choices.outposts))

    @property
    def pids(self) -> dict[str, int]:
        """The pids of the running sites."""
        return {name: process.pid for name, process in self._fleet.processes().items()}

    @property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """The current partition; empty if there is none."""
        return self._faults().components

    def running(self) -> bool:
        return bool(self._fleet.processes())

    def state(self, name: str) -> str:
        """up | paused | down"""
        self._fleet.expect_known([name])
        return self._fleet.state(name)

    def states(self) -> dict[str, str]:
        return self._fleet.states()

    def sites(self) -> list[SiteState]:
        """The state of every site, also of those that do not run."""
        states = self.states()
        with self._fleet.lines(1.0) as lines:
            statuses = lines.statuses([name for name, state in states.items() if state == "up"])
        pids = self.pids
        views = []
        for name, state in states.items():
            if state == "up" and name not in statuses:
                state = "silent" if self.state(name) == "up" else "down"
            views.append(SiteState(name, state, pids.get(name), statuses.get(name), self._kind(name)))
        return views

    def _kind(self, name: str) -> str:
        if name in self.names:
            return "site"
        return "follower" if name in self.followers else "outpost"

    def statuses(self) -> dict[str, dict[str, Any]]:
        """The statuses of the sites that answer, by name."""
        return {view.name: view.status for view in self.sites() if view.status is not None}

    def log_tail(self, name: str) -> str:
        """The last lines of a site's log."""
        self._fleet.expect_known([name])
        return self._fleet.log_tail(name)

    # -- start and end

    def start(self, timeout_s: float = 30.0) -> None:
        """Starts all sites, without faults, and waits until they are in one configuration."""
        deadline = time.monotonic() + timeout_s
        with self.layout.locked():
            if self.running():
                raise Rejected(f"{self.layout}: holds a running cluster; `reconvene down` ends it")
            self._changed(Partition())
            self._note(down=())
            self._fleet.start_all(deadline)
        try:
            statuses = self.wait_for([self.names], max(deadline - time.monotonic(), 1.0))
            self._wait_for_log(statuses, deadline)
        except BaseException:
            self.kill()
            raise

    def stop(self, timeout_s: float = _STOP_S) -> list[str]:
        """Makes every site leave and end; returns those that did not and had to be killed."""
        with self.layout.locked():
            processes = self._fleet.processes()
            if not self._fleet.remembered():
                return []  # the command that ended them has noted it in the trace
            at_rest = len(processes) == len(self.choices.everyone) and self._is_at_rest()
            for process in processes.values():
                process.signal(signal.SIGTERM)
                process.signal(signal.SIGCONT)
            left = wait_ended(processes.values(), timeout_s)
            self._end(left, self.choices.everyone)
            self._note(settled=at_rest and not left, down=self.choices.everyone)
            self.layout.remove_sockets(self.choices)
            return [name for name, process in processes.items() if process in left]

    def kill(self) -> None:
        """Kills all running sites."""
        processes = self._fleet.processes()
        if processes:
            self._end(processes.values(), processes)
            self._note(down=self.choices.everyone)
        self.layout.remove_sockets(self.choices)

    # -- faults

    def crash(self, *names: str) -> None:
        """kill -9, all of them at the same moment."""
        with self.layout.locked():
            self._fleet.expect(names, ("up", "paused"), "is not up")
            processes = self._fleet.processes()
            self._end([processes[name] for name in names], names)
            self._note()

    def restart(self, *names: str, timeout_s: float = 20.0) -> None:
        """Starts sites that are down, with the current partition. Returns when they answer."""
        with self.layout.locked():
            self._fleet.expect(names, ("down",), "is up; expected one that is down")
            self._changed()
            self._fleet.start(names, self._faults(), time.monotonic() + timeout_s)
            self._note()

    def pause(self, *names: str) -> None:
        """SIGSTOP: the process is stopped, and loses nothing but time."""
        with self.layout.locked():
            self._fleet.expect(names, ("up",), "is not up")
            self._changed()
            self._signal(names, signal.SIGSTOP, "paused")

    def resume(self, *names: str) -> None:
        """SIGCONT."""
        with self.layout.locked():
            self._fleet.expect(names, ("paused",), "is not paused")
            self._changed()
            for name in names:
                self._signal([name], signal.SIGCONT, "up")
                # It could not apply a partition while it was paused. Running sites drop its datagrams. So that two
                # paused sites can't exchange any either, each one applies the partition before the next one is
                # resumed.
                if name in self.names:
                    self._block([name])

    def partition(self, components: Sequence[Sequence[str]]) -> None:
        """Replaces all connectivity: only sites in the same list are connected. A site in no list is alone."""
        parts = check_components(components, self.names)
        self._connect(Partition(components=parts if len(parts) > 1 else ()))

    def heal(self) -> None:
        """Connects all sites again."""
        self._connect(Partition())

    # -- as one of several clusters

    def processes(self) -> list[Proc]:
        """Of the sites that run."""
        return list(self._fleet.processes().values())

    def change(self, *, settings: Settings, blocked_above: Sequence[str]) -> None:
        """From now on every site.toml has these settings; sites that run keep theirs."""
        self._fleet.choices = replace(self.choices, settings=dict(settings), blocked_above=list(blocked_above))
        self.layout.save(self._fleet.choices)

    def block_above(self, gateways: Sequence[str], others: Sequence[str]) -> None:
        """From now on the sites of these gateways in the cluster above are disconnected from these, and no others."""
        self._changed()
        with self._fleet.lines(_BLOCK_S) as lines:
            failed = lines.block_above({name: list(others) for name in gateways})
        for name, why in failed.items():
            if self.state(name) != "down":
                raise Unavailable(f"site {name} did not apply the partition above: {why}")

    # -- waiting

    def _wait_for_log(self, statuses: dict[str, dict[str, Any]], deadline: float) -> None:
        """A new log is created soon after its sites are connected, unless the settings leave that to an operator."""
        if self._log_settings().get("begin") is False:
            return
        with self._fleet.lines() as lines:
            while all((status.get("log") or {}).get("waits") for status in statuses.values()):
                if time.monotonic() >= deadline:
                    raise Unavailable("the log was not created; see `reconvene log status`")
                time.sleep(POLL_S)
                statuses = lines.statuses(self.names)

    def wait_for(
        self, components: Sequence[Sequence[str]] | None = None, timeout_s: float = 15.0
    ) -> dict[str, dict[str, Any]]:
        """Waits until the sites of each component are in one configuration of exactly these; returns their statuses.
        By default the components of the current partition, with the sites that are up."""
        if components is None:
            components = self._faults().connected(name for name in self.names if self.state(name) == "up")
        names = [name for component in components for name in component]
        self._fleet.expect_known(names)
        deadline = time.monotonic() + timeout_s
        with self._fleet.lines() as lines:
            while True:
                statuses = lines.statuses(names)
                if all(together(component, statuses) for component in components):
                    return statuses
                for name in names:
                    if name not in statuses and self.state(name) == "down":
                        raise self._fleet.died(name)
                if time.monotonic() >= deadline:
                    wanted = " | ".join(",".join(component) for component in components)
                    raise Unavailable(
                        f"not in the configurations {wanted} after {timeout_s:g} s: {apart(components, statuses)}"
                    )
                time.sleep(POLL_S)

    def settle(self, timeout_s: float = 60.0, quiet_s: float = traces.QUIET_S) -> None:
        """Waits until each component has its configuration, and no site has recorded an event for a while. Needs the
        trace, and that no program sends any more."""
        self._expect_trace()
        deadline = time.monotonic() + timeout_s
        while not self._is_quiet(quiet_s):
            if time.monotonic() >= deadline:
                raise Unavailable(f"{self.layout}: was not quiet for {quiet_s:g} s within {timeout_s:g} s")
            time.sleep(POLL_S)
        self.wait_for(timeout_s=max(deadline - time.monotonic(), 1.0))

    # -- the trace

    def finish_trace(self, timeout_s: float = 60.0, quiet_s: float = traces.QUIET_S) -> Path:
        """Waits until the cluster is quiet, kills all sites at the same moment, and returns the trace of a settled
        run.

        They are killed because a trace in which sites leave does not show the final state of the run.
        """
        self.settle(timeout_s, quiet_s)
        with self.layout.locked():
            since = self._faults().changed_at
            processes = self._fleet.processes()
            self._end(processes.values(), processes)
            # Events in between show in the files: then this is not the quiet end that was waited for.
            settled = traces.is_quiet(self.trace_dir, self.choices.everyone, since, quiet_s)
            self._note(settled=settled, down=[name for name in self.choices.everyone if name not in processes])
            self.layout.remove_sockets(self.choices)
        return self.trace_dir

    def copy_trace(self, target: Path | str) -> Path:
        """The trace up to now, also while messages are sent: all files are cut at the same moment.

        If the files were read one after the other, one could contain deliveries of messages whose sending another one
        lacks. So all sites are stopped while the sizes of their files are read, about a millisecond.
        """
        self._expect_trace()
        with self.layout.locked():
            up = [name for name, state in self.states().items() if state == "up"]
            try:
                self._signal(up, signal.SIGSTOP, "paused")
                sizes = traces.sizes(self.trace_dir, self.choices.everyone)
            finally:
                self._signal(up, signal.SIGCONT, "up")
        traces.copy_prefixes(self.trace_dir, Path(target), sizes)
        return Path(target)

    # -- inside

    def _faults(self) -> Partition:
        return Partition.load(self.layout.faults)

    def _changed(self, faults: Partition | None = None) -> None:
        """Notes that a fault happened or ended now: the cluster has to become quiet again."""
        (self._faults() if faults is None else faults).save(self.layout.faults)

    def _connect(self, faults: Partition) -> None:
        with self.layout.locked():
            if not self.running():
                raise Rejected(f"{self.layout}: no site is up; `reconvene up --dir {self.layout}` starts them")
            # Written first, so that a site that restarts meanwhile follows it.
            self._changed(faults)
            self._note()
            self._block([name for name in self.names if self.state(name) == "up"])

    def _block(self, names: Sequence[str]) -> None:
        faults = self._faults()
        with self._fleet.lines(_BLOCK_S) as lines:
            failed = lines.block({name: faults.blocked(name, self.names) for name in names})
        for name, why in failed.items():
            if self.state(name) != "down":
                raise Unavailable(f"site {name} did not apply the partition: {why}")

    def _signal(self, names: Sequence[str], number: signal.Signals, then: str) -> None:
        processes = self._fleet.processes()
        there = [name for name in names if name in processes]
        for name in there:
            processes[name].signal(number)
        self._fleet.wait_state(there, then)

    def _end(self, processes: Iterable[Proc], names: Iterable[str]) -> None:
        kill_all(processes)
        self._fleet.forget(names)
        self._changed()

    def _note(self, *, settled: bool = False, down: Sequence[str] | None = None) -> None:
        """Writes what is known of the run into its trace."""
        if not self.choices.trace:
            return
        if down is None:
            down = [name for name, state in self.states().items() if state == "down"]
        traces.write_run(
            self.trace_dir,
            run=self.choices.cluster,
            nodes=self.names,
            order=self.choices.order,
            settled=settled,
            followers=self.followers,
            outposts=self.outposts,
            components=self._connected(),
            down=down,
            log=self._log_settings(),
        )

    def _connected(self) -> list[list[str]]:
        """Followers and outposts reach every site, whatever partition is in force between the sites: they are with
        the first that is named."""
        first, *others = self.components or (self.names,)
        return [[*first, *self.followers, *self.outposts], *map(list, others)]

    def _log_settings(self) -> Mapping[str, object]:
        told = self.choices.settings.get("log", {})
        return told if isinstance(told, Mapping) else {}

    def _is_at_rest(self) -> bool:
        """Whether all sites are connected, without a fault, and nothing has happened for a while."""
        if not self.choices.trace or self.components:
            return False
        with self._fleet.lines(1.0) as lines:
            statuses = lines.statuses(self.names)
        return together(self.names, statuses) and self._is_quiet(traces.QUIET_S)

    def _is_quiet(self, quiet_s: float) -> bool:
        return traces.is_quiet(self.trace_dir, self.choices.everyone, self._faults().changed_at, quiet_s)

    def _expect_trace(self) -> None:
        if not self.choices.trace:
            raise Rejected(f"{self.layout}: writes no trace")
