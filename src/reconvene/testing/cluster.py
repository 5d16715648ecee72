"""A cluster inside a test: the real sites and the real client, on a simulated network, in virtual time."""

import asyncio
import gc
import random
import shutil
import tempfile
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from reconvene.client.channel import Channel
from reconvene.client.connecting import connect
from reconvene.client.site import Site
from reconvene.errors import Rejected
from reconvene.local.layout import site_names
from reconvene.local.together import apart, together
from reconvene.runtime.config import Config
from reconvene.runtime.config_file import parse
from reconvene.runtime.faults import check_components
from reconvene.runtime.journal import run_quorum
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.durations import parse_duration, show_duration
from reconvene.sim.network import Network
from reconvene.testing.errors import TimedOut, Violated
from reconvene.testing.loop import HEARTBEATS, SimLoop
from reconvene.testing.machine import PORT, Machine, Program
from reconvene.testing.streams import Streams
from reconvene.trace.events import SCHEMA, Run
from reconvene.trace.reader import read_trace
from reconvene.trace.writer import RUN_FILE, encode_run, node_file
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

__all__ = ["Cluster", "Duration"]

Duration = str | int | float
"""`"500ms"`, or a number of seconds."""

T = TypeVar("T")

_POLL_S = 0.02
_QUIET_S = 3.0
"""Without an event for this long a cluster has come to rest."""
_REST_S = 120.0
"""How long it may take until it has, once nothing is broken any more."""

HEARTBEATS.add(Channel._heartbeat)


class Cluster:
    """Sites named a, b, c … (or as you like), one on each machine of a simulated network.

    >>> from reconvene.testing import Cluster
    >>> async def scenario(net):
    ...     async with net.connect("a") as site:
    ...         net.partition([["a"], ["b", "c"]])
    ...         receipt = await site.log.append(b"accepted on the small side")
    ...         net.heal()
    ...         return await receipt.ordered()
    >>> Cluster("abc", seed=7).run(scenario)
    0
    """

    def __init__(
        self,
        nodes: int | Iterable[str] = 3,
        *,
        seed: int = 0,
        latency: Duration = "1ms",
        jitter: Duration = "200us",
        loss: float = 0.0,
        limit: Duration = "60min",
        settings: Mapping[str, Any] | None = None,
        directory: Path | str | None = None,
    ) -> None:
        """nodes: how many sites, or their names.
        latency, jitter, loss: of datagrams between machines; see `network`.
        limit: of virtual time, after which a scenario that has not ended fails.
        settings: what every site's file has besides names and addresses, as `{"log": {"retain_bytes": "1MiB"}}`.
        directory: a new or empty one, for the trace; it stays. By default a temporary one.
        """
        self.names: tuple[str, ...] = site_names(nodes) if isinstance(nodes, int) else tuple(sorted(nodes))
        self.seed = seed
        self.directory = self._make_directory(directory)
        self._loop = SimLoop(self._stream("world"), _ns(limit))
        weakref.finalize(self, self._loop.close)
        deaf_to: list[frozenset[int]] = [frozenset()] * len(self.names)
        self._machines = {
            name: Machine(
                self._loop,
                self._config(name, settings or {}),
                lambda: self._network,
                deaf_to,
                self._stream(f"disk {name}"),
            )
            for name in self.names
        }
        self._network = Network(
            self._loop.timeline,
            [machine.postbox.receive for machine in self._machines.values()],
            self._stream("network"),
            Conditions(latency_ns=_ns(latency), jitter_ns=_ns(jitter), loss=loss),
        )
        self._streams = self._loop.streams = Streams(self._loop, self.names, self._network, self._stream("streams"))
        self._components: tuple[tuple[str, ...], ...] = (self.names,)
        self._settled = False
        self._ran = False

    def _make_directory(self, given: Path | str | None) -> Path:
        if given is None:
            made = Path(tempfile.mkdtemp(prefix="reconvene-test-"))
            weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
            return made
        path = Path(given)
        if path.exists() and any(path.iterdir()):
            raise Rejected(f"{path}: expected a new or empty directory")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _stream(self, name: str) -> Random:
        """A source of random numbers of its own, so that one user's draws do not move another's."""
        return Random(f"{self.seed}/{name}")

    def _config(self, name: str, settings: Mapping[str, Any]) -> Config:
        own = self.directory / name
        own.mkdir()
        told = {
            "cluster": "simulated",
            "name": name,
            "sites": {other: f"{other}:7001" for other in self.names},
            "dir": str(own),
            "seal": {"insecure": True},
            "trace": {"dir": str(self.trace_dir)},
            **settings,
        }
        told["log"] = {"begin": True, **settings.get("log", {})}
        return parse(told, self.directory / f"{name}.toml")

    # -- running

    def run(
        self, scenario: "Callable[[Cluster], Coroutine[Any, Any, T]]", *, judge: bool = True, settle: bool = True
    ) -> T:
        """Starts the sites, waits until they are together, and runs `scenario(self)` to its end, in virtual time.

        Returns what it returns, and raises what it raises. Then, unless `settle` is False, all that is broken is
        mended, and the cluster comes to rest; at last the history of the run is judged, also for what had to get
        done: `Violated` says what was broken. A cluster runs one scenario.
        """
        if self._ran:
            raise RuntimeError("a simulated cluster runs one scenario: make another one")
        self._ran = True
        loop = self._loop
        collects, state = gc.isenabled(), random.getstate()
        gc.disable()
        random.seed(f"{self.seed}/random")
        try:
            result = loop.run_until_complete(self._main(scenario, settle))
        except BaseException as error:
            error.add_note(f"in a simulated cluster: seed {self.seed}, at {show_duration(loop.timeline.now)}")
            raise
        finally:
            self._write_run()
            for machine in self._machines.values():
                machine.crash()
            loop.end()
            random.setstate(state)
            if collects:
                gc.enable()
        if judge:
            self.verify()
        return result

    async def _main(self, scenario: "Callable[[Cluster], Coroutine[Any, Any, T]]", settle: bool) -> T:
        await asyncio.gather(*(machine.start() for machine in self._machines.values()))
        await self.wait_for()
        try:
            result = await scenario(self)
        finally:
            await self._loop.cancel_others()
        for machine in self._machines.values():
            for program in machine.programs:
                program.kill()
            machine.programs.clear()
        if settle:
            await self.settle()
            self._settled = True
        return result

    # -- what is there

    @property
    def addresses(self) -> dict[str, str]:
        """Where each site's clients connect: for `reconvene.connect`, in this cluster's scenario."""
        return {name: self.address(name) for name in self.names}

    def address(self, name: str) -> str:
        self._machine(name)
        return f"tcp://{name}:{PORT}"

    def connect(self, *names: str, **options: Any) -> AbstractAsyncContextManager[Site]:
        """`reconvene.connect` to the first of these sites (or of all) that answers."""
        return connect([self.address(name) for name in names or self.names], **options)

    def state(self, name: str) -> str:
        """up | paused | down"""
        return self._machine(name).state

    def statuses(self) -> dict[str, dict[str, Any]]:
        """What the sites that are up say of themselves."""
        return {
            name: machine.engine.status()
            for name, machine in self._machines.items()
            if machine.engine is not None and machine.state == "up"
        }

    # -- waiting

    async def wait_for(
        self, components: Sequence[Sequence[str]] | None = None, timeout_s: float = 30.0
    ) -> dict[str, dict[str, Any]]:
        """Until the sites of each component are in one configuration of exactly these; gives their statuses.

        By default those components that can talk and run now.
        """
        until = self._loop.time() + timeout_s
        while True:
            statuses = self.statuses()
            wanted = self._connected() if components is None else components
            if all(together(component, statuses) for component in wanted):
                return statuses
            if self._loop.time() >= until:
                shown = " | ".join(",".join(component) for component in wanted)
                raise TimedOut(
                    f"seed {self.seed}: not in the configurations {shown} after {timeout_s:g} s: "
                    f"{apart(wanted, statuses)}"
                )
            await asyncio.sleep(_POLL_S)

    def _connected(self) -> list[list[str]]:
        up = [[name for name in part if self._machines[name].state == "up"] for part in self._components]
        return [part for part in up if part]

    async def repair(self) -> None:
        """Mends everything, starts what is down, and waits until all sites are together."""
        self._network.calm()
        self.heal()
        for name in self.names:
            self.mend_disk(name)
            if self.state(name) == "paused":
                self.resume(name)
            elif self.state(name) == "down":
                await self.restart(name)
        await self.wait_for()

    async def settle(self) -> None:
        """`repair`, and waits until nothing happens any more: nobody may send or append meanwhile."""
        await self.repair()
        until = self._loop.time() + _REST_S
        quiet_since, size = self._loop.time(), self._trace_bytes()
        while self._loop.time() - quiet_since < _QUIET_S:
            await asyncio.sleep(_POLL_S)
            if self._trace_bytes() != size:
                quiet_since, size = self._loop.time(), self._trace_bytes()
            if self._loop.time() > until:
                raise TimedOut(f"seed {self.seed}: the cluster has not come to rest in {_REST_S:g} s")

    def _trace_bytes(self) -> int:
        return sum(node_file(self.trace_dir, name).stat().st_size for name in self.names)

    # -- programs

    def spawn(self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Program:
        """Starts `main(*arguments)` at the machine of this site.

        It is cut off with its machine, is paused and dies with it, and starts anew when that restarts. What it raises
        ends the scenario.
        """
        machine = self._up(name)
        label = f"{getattr(main, '__name__', 'program')} at {name}"
        program = Program(self._loop, label, machine.config.ordinal, partial(main, *arguments))
        machine.programs.append(program)
        program.start()
        return program

    # -- faults

    def partition(self, components: Sequence[Sequence[str]]) -> None:
        """Replaces all connectivity: only machines in the same list can talk. One in no list is alone."""
        self._connect(check_components(components, self.names))

    def heal(self) -> None:
        """Everyone can talk with everyone."""
        self._connect((self.names,))

    def _connect(self, components: tuple[tuple[str, ...], ...]) -> None:
        self._components = components
        self._network.partition([[self.names.index(name) for name in part] for part in components])
        self._streams.mended()

    def cut(self, source: str, destination: str) -> None:
        """One way: what `source` sends to `destination` is lost."""
        self._network.cut(self._ordinal(source), self._ordinal(destination))

    def mend(self, source: str, destination: str) -> None:
        self._network.mend(self._ordinal(source), self._ordinal(destination))
        self._streams.mended()

    def network(
        self,
        *,
        latency: Duration | None = None,
        jitter: Duration | None = None,
        loss: float | None = None,
        duplicate: float | None = None,
        reorder: float | None = None,
    ) -> None:
        """Changes these conditions from now on. What is lost, doubled and reordered is datagrams between sites."""
        self._network.change(
            Changes(
                latency_ns=None if latency is None else _ns(latency),
                jitter_ns=None if jitter is None else _ns(jitter),
                loss=loss,
                duplicate=duplicate,
                reorder=reorder,
            )
        )

    def crash(self, *names: str) -> None:
        """kill -9 of everything on these machines, at one moment. What was synced stays."""
        for machine in [self._up(name, "up", "paused") for name in names]:
            machine.crash()

    async def restart(self, *names: str) -> None:
        """Starts sites that are down, and the programs beside them. Returns when they answer."""
        for machine in [self._up(name, "down") for name in names]:
            await machine.start()

    async def stop(self, *names: str) -> None:
        """A clean leave: what was accepted is sent, and the others are told."""
        for machine in [self._up(name) for name in names]:
            await machine.stop()

    def pause(self, *names: str) -> None:
        """SIGSTOP of everything on these machines: it stands still, and loses nothing but time."""
        for machine in [self._up(name) for name in names]:
            machine.pause()

    def resume(self, *names: str) -> None:
        """SIGCONT."""
        for machine in [self._up(name, "paused") for name in names]:
            machine.resume()

    def fill_disk(self, name: str) -> None:
        """Every write fails with "No space left on device", until `mend_disk`."""
        self._machine(name).disk.fill()

    def fail_disk(self, name: str) -> None:
        """Every write fails with "Input/output error", until `mend_disk`."""
        self._machine(name).disk.fail()

    def slow_disk(self, name: str, by: Duration) -> None:
        """Every sync takes so much longer, until `mend_disk`."""
        self._machine(name).disk.slower_ns = _ns(by)

    def mend_disk(self, name: str) -> None:
        self._machine(name).disk.mend()

    def _machine(self, name: str) -> Machine:
        if name not in self._machines:
            raise Rejected(f"there is no site {name!r}; expected one of {', '.join(self.names)}")
        return self._machines[name]

    def _ordinal(self, name: str) -> int:
        return self._machine(name).config.ordinal

    def _up(self, name: str, *states: str) -> Machine:
        expected = states or ("up",)
        machine = self._machine(name)
        if machine.state not in expected:
            raise Rejected(f"site {name} is {machine.state}; expected one that is {' or '.join(expected)}")
        return machine

    # -- the verdict

    @property
    def trace_dir(self) -> Path:
        """The history of the run, as `reconvene verify` reads it; for as long as this object lives."""
        return self.directory / "trace"

    def verify(self) -> Report:
        """Judges the history of the run; raises Violated."""
        trace = read_trace(self.trace_dir)
        report = verify([History.of(trace.run, trace.rows)])
        if not report.ok:
            raise Violated(report, trace.run.run)
        return report

    def _write_run(self) -> None:
        config = self._machines[self.names[0]].config
        run = Run(
            schema=SCHEMA,
            run=f"seed-{self.seed}",
            nodes=list(self.names),
            stack="corel" if config.log.enabled else "evs",
            order=config.order.engine,
            seed=self.seed,
            settled=self._settled,
            components=[list(part) for part in self._components],
            down=[name for name in self.names if self.state(name) == "down"],
            quorum=run_quorum(self.names, config.log.replicas, config.log.quorum),
        )
        self.trace_dir.mkdir(exist_ok=True)
        (self.trace_dir / RUN_FILE).write_bytes(encode_run(run))
        for name in self.names:
            node_file(self.trace_dir, name).touch()


def _ns(duration: Duration) -> int:
    return parse_duration(duration) if isinstance(duration, str) else int(duration * 1_000_000_000)
