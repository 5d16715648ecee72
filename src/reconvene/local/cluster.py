"""A cluster of real sites on this machine: one process each, on loopback, with faults made to order.

Everything it knows is in its directory, so that any process may go on where another one stopped: the command line
does, and tests. Whatever it signals it knows by pid and start time. Partitions are made by the sites themselves,
which drop each other's datagrams, so that no privilege is needed.
"""

import re
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct

from reconvene.errors import Rejected, Unavailable
from reconvene.local import ports, traces
from reconvene.local.control import Lines
from reconvene.local.faults import Faults, check_components
from reconvene.local.layout import Choices, Layout, Ports, Settings, site_names
from reconvene.local.processes import Proc, kill_all, spawn, state_of, wait_ended
from reconvene.local.site_file import write_site_file
from reconvene.runtime.keys import write_cluster_key

__all__ = ["LocalCluster", "SiteView"]

_ORDERS = ("atop", "all-ack")
_POLL_S = 0.02
_START_TRIES = 3
"""How often ports are chosen anew when another program was faster."""
_STOP_S = 15.0
_LOG_LINES = 5


class SiteView(Struct, frozen=True):
    """One site as it is seen from outside."""

    name: str
    state: str
    """up | paused | down | silent: it runs, and does not answer"""
    pid: int | None
    status: dict[str, Any] | None
    """What the site says of itself, where it answers."""


class LocalCluster:
    """Synchronous: a method returns when what it does is done. Raises Rejected for what can't be asked, Unavailable
    for what did not come about in time, with the end of the site's log where one died.

        with LocalCluster.create(directory, nodes=5) as cluster:
            cluster.start()
            cluster.partition([["a", "b"], ["c", "d", "e"]])
            cluster.wait_for()
            cluster.crash("e")
            ...

    Leaving the `with` block kills what still runs. Without one, the sites go on when the program ends.
    """

    def __init__(self, directory: Path | str) -> None:
        """The cluster that is in the directory."""
        self.layout = Layout(Path(directory))
        self.choices = self.layout.load()

    @classmethod
    def create(
        cls,
        directory: Path | str,
        nodes: int | Sequence[str] = 3,
        *,
        order: str = "atop",
        insecure: bool = False,
        trace: bool = True,
        settings: Settings | None = None,
    ) -> Self:
        """A new cluster in a new or empty directory, nothing started. `settings` go into every site.toml."""
        names = site_names(nodes) if isinstance(nodes, int) else tuple(nodes)
        if order not in _ORDERS:
            raise Rejected(f"order {order!r}: expected {' or '.join(_ORDERS)}")
        layout = Layout(Path(directory))
        layout.make(names)
        if not insecure:
            write_cluster_key(layout.key)
        word = re.sub(r"[^a-z0-9]+", "-", layout.directory.name.lower()).strip("-")[:24] or "cluster"
        choices = Choices(
            cluster=f"{word}-{secrets.token_hex(4)}",  # a stranger on one of our ports is told apart by it
            order=order,
            insecure=insecure,
            trace=trace,
            sites=dict.fromkeys(names, Ports(0, 0)),
            settings=dict(settings or {}),
        )
        layout.save(choices)
        return cls(directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    # -- who is there

    @property
    def names(self) -> tuple[str, ...]:
        return self.choices.names

    @property
    def trace_dir(self) -> Path:
        return self.layout.trace

    @property
    def addresses(self) -> dict[str, str]:
        """Where `reconvene.connect` finds each site."""
        return {name: str(path) for name, path in self._sockets().items()}

    @property
    def pids(self) -> dict[str, int]:
        """Of those that run."""
        return {name: process.pid for name, process in self._processes().items()}

    @property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """The partition in force; empty where there is none."""
        return self._faults().components

    def state(self, name: str) -> str:
        """up | paused | down"""
        self._check_names([name])
        process = Proc.load(self.layout.process(name))
        return "down" if process is None else state_of(process)

    def states(self) -> dict[str, str]:
        return {name: self.state(name) for name in self.names}

    def running(self) -> bool:
        return bool(self._processes())

    def sites(self) -> list[SiteView]:
        """All of them, whatever became of them."""
        states = self.states()
        with self._lines(1.0) as lines:
            statuses = lines.statuses([name for name, state in states.items() if state == "up"])
        pids = self.pids
        views = []
        for name, state in states.items():
            if state == "up" and name not in statuses:
                state = "silent" if self.state(name) == "up" else "down"
            views.append(SiteView(name, state, pids.get(name), statuses.get(name)))
        return views

    def statuses(self) -> dict[str, dict[str, Any]]:
        """By name, of those that answer."""
        return {view.name: view.status for view in self.sites() if view.status is not None}

    def log_tail(self, name: str, since: int = 0) -> str:
        """The last lines of a site's log."""
        try:
            with self.layout.log(name).open("rb") as log:
                log.seek(max(since, log.seek(0, 2) - 4096))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-_LOG_LINES:])

    # -- start and end

    def start(self, timeout_s: float = 30.0) -> None:
        """Starts all sites, without faults, and waits until they are in one configuration."""
        with self.layout.locked():
            if self.running():
                raise Rejected(f"{self.layout}: holds a running cluster; `reconvene down` ends it")
            deadline = time.monotonic() + timeout_s
            self._save_faults(Faults())
            for attempt in range(_START_TRIES):
                self._choose_ports()
                self._note(down=())
                if self._start(self.names, deadline, last=attempt == _START_TRIES - 1):
                    break
        try:
            self.wait_for([self.names], max(deadline - time.monotonic(), 1.0))
        except Unavailable:
            self.kill()
            raise

    def stop(self, timeout_s: float = _STOP_S) -> list[str]:
        """Has every site leave and end; gives those that had to be killed, since they did not."""
        with self.layout.locked():
            processes = self._processes()
            at_rest = len(processes) == len(self.names) and self._is_at_rest()
            for process in processes.values():
                process.signal(signal.SIGTERM)
                process.signal(signal.SIGCONT)
            left = wait_ended(processes.values(), timeout_s)
            kill_all(left)
            self._ended(self.names)
            self._note(settled=at_rest and not left, down=self.names)
            self.layout.remove_sockets(self.choices)
            return [name for name, process in processes.items() if process in left]

    def kill(self) -> None:
        """Ends whatever runs, at once."""
        processes = self._processes()
        kill_all(processes.values())
        if processes:
            self._ended(processes)
            self._note(down=self.names)
        self.layout.remove_sockets(self.choices)

    # -- faults

    def crash(self, *names: str) -> None:
        """kill -9, all of them at the same moment."""
        with self.layout.locked():
            self._expect(names, ("up", "paused"), "is not up")
            processes = self._processes()
            kill_all(processes[name] for name in names)
            self._ended(names)
            self._note()

    def restart(self, *names: str, timeout_s: float = 20.0) -> None:
        """Starts sites that are down, into the partition in force. Returns when they answer."""
        with self.layout.locked():
            self._expect(names, ("down",), "is up; expected one that is down")
            for name in names:
                self._expect_ports(name)
            self._save_faults(self._faults())
            self._start(names, time.monotonic() + timeout_s, last=True)
            self._note()

    def pause(self, *names: str) -> None:
        """SIGSTOP: the process stands still, and loses nothing but time."""
        with self.layout.locked():
            self._expect(names, ("up",), "is not up")
            self._save_faults(self._faults())
            for name in names:
                self._processes()[name].signal(signal.SIGSTOP)
            self._wait_states(names, "paused")

    def resume(self, *names: str) -> None:
        with self.layout.locked():
            self._expect(names, ("paused",), "is not paused")
            faults = self._faults()
            self._save_faults(faults)
            for name in names:
                self._processes()[name].signal(signal.SIGCONT)
                self._wait_states([name], "up")
                # It could not be told of a partition while it stood still. The others drop what it says; so that
                # two that were paused can't talk either, each is told before the next one goes on.
                self._block([name], faults)

    def partition(self, components: Sequence[Sequence[str]]) -> None:
        """Replaces all connectivity: only sites in the same list can talk. A site in no list is alone."""
        parts = check_components(components, self.names)
        self._connect(Faults(components=parts if len(parts) > 1 else ()))

    def heal(self) -> None:
        """Everyone can talk with everyone."""
        self._connect(Faults())

    def _connect(self, faults: Faults) -> None:
        with self.layout.locked():
            up = [name for name, state in self.states().items() if state == "up"]
            if not self.running():
                raise Rejected(f"{self.layout}: no site is up; `reconvene up` starts them")
            # Written first: who restarts meanwhile starts into it.
            self._save_faults(faults)
            self._note()
            self._block(up, faults)

    # -- waiting

    def wait_for(
        self, components: Sequence[Sequence[str]] | None = None, timeout_s: float = 15.0
    ) -> dict[str, dict[str, Any]]:
        """Waits until the sites of each component are in one configuration of exactly these; gives their statuses.

        By default those components that can talk and run now.
        """
        if components is None:
            components = self._faults().connected(name for name, state in self.states().items() if state == "up")
        wanted = [sorted(component) for component in components]
        names = [name for component in wanted for name in component]
        self._check_names(names)
        deadline = time.monotonic() + timeout_s
        with self._lines(2.0) as lines:
            while True:
                statuses = lines.statuses(names)
                if all(_together(component, statuses) for component in wanted):
                    return statuses
                for name in names:
                    if name not in statuses and self.state(name) == "down":
                        raise self._died(name)
                if time.monotonic() >= deadline:
                    raise Unavailable(_apart(wanted, statuses, timeout_s))
                time.sleep(_POLL_S)

    def settle(self, timeout_s: float = 60.0, quiet_s: float = traces.QUIET_S) -> None:
        """Waits until the components in force have each come together, and nothing has happened since for a while.

        Nothing that a site would record, that is: needs the trace, and that nobody sends any more.
        """
        self._expect_trace()
        deadline = time.monotonic() + timeout_s
        while not traces.is_quiet(self.trace_dir, self.names, self._faults().changed_at, quiet_s):
            if time.monotonic() >= deadline:
                raise Unavailable(f"{self.layout}: was not quiet for {quiet_s:g} s within {timeout_s:g} s")
            time.sleep(0.05)
        self.wait_for(timeout_s=max(deadline - time.monotonic(), 1.0))

    # -- the trace

    def finish_trace(self, timeout_s: float = 60.0, quiet_s: float = traces.QUIET_S) -> Path:
        """Settles, ends all sites at one moment, and gives the trace of a run that ended in rest.

        They are killed and do not leave: a trace whose sites have left tells nothing of how they would have stayed.
        """
        self.settle(timeout_s, quiet_s)
        with self.layout.locked():
            faults = self._faults()
            processes = self._processes()
            kill_all(processes.values())
            self._ended(processes)
            # What came in between would show in the files; then this is not the end that was waited for.
            settled = traces.is_quiet(self.trace_dir, self.names, faults.changed_at, quiet_s)
            self._note(settled=settled, down=[name for name in self.names if name not in processes])
            self.layout.remove_sockets(self.choices)
        return self.trace_dir

    def copy_trace(self, target: Path | str) -> Path:
        """The trace up to now, also while messages flow: all files are cut at the same moment.

        Files that are read one after the other tell of deliveries whose sendings were not yet there. So all sites are
        stopped for as long as it takes to see how long their files are, which is less than a millisecond.
        """
        self._expect_trace()
        with self.layout.locked():
            up = [process for process in self._processes().values() if state_of(process) == "up"]
            try:
                for process in up:
                    process.signal(signal.SIGSTOP)
                while any(state_of(process) == "up" for process in up):
                    time.sleep(0.0002)
                sizes = traces.sizes(self.trace_dir, self.names)
            finally:
                for process in up:
                    process.signal(signal.SIGCONT)
            traces.copy_prefixes(self.trace_dir, Path(target), sizes)
        return Path(target)

    # -- inside

    def _lines(self, timeout_s: float) -> Lines:
        return Lines(self._sockets(), timeout_s)

    def _sockets(self) -> dict[str, Path]:
        return {name: self.layout.socket(self.choices, name) for name in self.names}

    def _processes(self) -> dict[str, Proc]:
        """Of the sites that run, paused or not."""
        found = {name: Proc.load(self.layout.process(name)) for name in self.names}
        return {name: process for name, process in found.items() if process and state_of(process) != "down"}

    def _faults(self) -> Faults:
        return Faults.load(self.layout.faults)

    def _save_faults(self, faults: Faults) -> None:
        faults.save(self.layout.faults)

    def _ended(self, names: Sequence[str] | Mapping[str, object]) -> None:
        for name in names:
            self.layout.process(name).unlink(missing_ok=True)
        self._save_faults(self._faults())

    def _note(self, *, settled: bool = False, down: Sequence[str] | None = None) -> None:
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
            components=self._faults().components or (self.names,),
            down=down,
        )

    def _is_at_rest(self) -> bool:
        """All sites together, with no fault, and nothing happened for a while."""
        faults = self._faults()
        if not self.choices.trace or faults.components:
            return False
        with self._lines(1.0) as lines:
            together = _together(list(self.names), lines.statuses(self.names))
        return together and traces.is_quiet(self.trace_dir, self.names, faults.changed_at)

    def _choose_ports(self) -> None:
        """The ones that it has, where they are free."""
        now = [port for pair in self.choices.sites.values() for port in (pair.datagrams, pair.http)]
        if not all(port and ports.is_free(port) for port in now):
            free = iter(ports.choose(2 * len(self.names)))
            sites = {name: Ports(next(free), next(free)) for name in self.names}
            self.choices = msgspec.structs.replace(self.choices, sites=sites)
        self.choices = self.layout.place_sockets(self.choices)
        self.layout.save(self.choices)

    def _expect_ports(self, name: str) -> None:
        pair = self.choices.sites[name]
        for port in (pair.datagrams, pair.http):
            if not ports.is_free(port):
                raise Unavailable(
                    f"site {name}: port {port} on {ports.LOOPBACK} is in use by another program;"
                    " `reconvene down` and `up` choose others"
                )

    def _start(self, names: Sequence[str], deadline: float, last: bool) -> bool:
        """Starts these and waits until they answer. False: a port was taken in between; none of them is left."""
        faults = self._faults()
        before: dict[str, int] = {}
        started: dict[str, Proc] = {}
        try:
            for name in names:
                write_site_file(self.layout, self.choices, name, faults.blocked(name, self.names))
                log = self.layout.log(name)
                before[name] = log.stat().st_size if log.exists() else 0
                started[name] = spawn(["node", "--config", str(self.layout.config(name))], log)
                started[name].save(self.layout.process(name))
            self._wait_answers(names, deadline, before)
        except BaseException as error:
            kill_all(started.values())
            self._ended(started)
            if isinstance(error, _Died) and not last and not all(map(ports.is_free, self._ports_of(error.name))):
                return False
            raise
        return True

    def _ports_of(self, name: str) -> tuple[int, int]:
        return self.choices.sites[name].datagrams, self.choices.sites[name].http

    def _wait_answers(self, names: Sequence[str], deadline: float, before: Mapping[str, int]) -> None:
        waiting = list(names)
        with self._lines(2.0) as lines:
            while waiting:
                answered = lines.statuses(waiting)
                waiting = [name for name in waiting if name not in answered]
                for name in waiting:
                    if self.state(name) == "down":
                        raise self._died(name, before[name])
                if waiting and time.monotonic() >= deadline:
                    raise Unavailable(f"site {waiting[0]} does not answer:\n{self.log_tail(waiting[0])}")
                time.sleep(_POLL_S if waiting else 0)

    def _died(self, name: str, since: int = 0) -> "_Died":
        log = self.layout.log(name)
        said = self.log_tail(name, since) or "it said nothing"
        return _Died(name, f"site {name} has ended; the end of {log}:\n{said}")

    def _block(self, names: Sequence[str], faults: Faults) -> None:
        with self._lines(2.0) as lines:
            failed = lines.block({name: faults.blocked(name, self.names) for name in names})
        for name, why in failed.items():
            if self.state(name) != "down":
                raise Unavailable(f"site {name} was not told who it can talk with: {why}")

    def _wait_states(self, names: Sequence[str], state: str) -> None:
        deadline = time.monotonic() + 5.0
        while any(self.state(name) != state for name in names):
            if time.monotonic() >= deadline:
                raise Unavailable(f"{', '.join(names)}: not all are {state}")
            time.sleep(0.001)

    def _check_names(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.choices.sites:
                raise Rejected(f"there is no site {name!r}; expected some of {', '.join(self.names)}")

    def _expect(self, names: Sequence[str], states: tuple[str, ...], complaint: str) -> None:
        if not names:
            raise Rejected(f"expected at least one site of {', '.join(self.names)}")
        self._check_names(names)
        if len(set(names)) != len(names):
            raise Rejected(f"{', '.join(names)}: a site is named twice")
        for name in names:
            if self.state(name) not in states:
                raise Rejected(f"site {name} {complaint}")

    def _expect_trace(self) -> None:
        if not self.choices.trace:
            raise Rejected(f"{self.layout}: keeps no trace")


class _Died(Unavailable):
    """A site's process ended by itself."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def _together(component: list[str], statuses: Mapping[str, Mapping[str, Any]]) -> bool:
    """All in one configuration of exactly these, and done with entering it."""
    seen = [statuses.get(name) for name in component]
    first = seen[0] if seen else None
    return all(
        status is not None
        and first is not None
        and status["health"] != "forming"
        and status["configuration"] == first["configuration"]
        and sorted(status["members"]) == component
        for status in seen
    )


def _apart(wanted: list[list[str]], statuses: Mapping[str, Mapping[str, Any]], timeout_s: float) -> str:
    names = [name for component in wanted for name in component]
    parts = " | ".join(",".join(component) for component in wanted)
    found = "; ".join(_whereabouts(name, statuses.get(name)) for name in names)
    return f"not in the configurations {parts} after {timeout_s:g} s: {found}"


def _whereabouts(name: str, status: Mapping[str, Any] | None) -> str:
    if status is None:
        return f"{name} is silent"
    return f"{name} is in {status['configuration']} of {','.join(status['members'])} ({status['health']})"
