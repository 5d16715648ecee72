"""A cluster inside a test: the real sites and the real client, on a simulated network, in virtual time."""

import asyncio
import gc
import random
import shutil
import tempfile
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from reconvene.client.channel import Channel
from reconvene.client.connecting import connect
from reconvene.client.site import Site
from reconvene.errors import Rejected
from reconvene.local.layout import site_names
from reconvene.runtime.config.file import parse
from reconvene.runtime.config.settings import Config
from reconvene.runtime.site.journal import run_quorum
from reconvene.runtime.site.trace import stack_name
from reconvene.sim.conditions import Conditions
from reconvene.sim.durations import show_duration
from reconvene.testing.errors import TimedOut, Violated
from reconvene.testing.loop import HEARTBEATS, SimLoop
from reconvene.testing.machine import PORT
from reconvene.testing.machines import POLL_S, Duration, Machines, as_ns
from reconvene.trace.events import CHANGED, SCHEMA, Run
from reconvene.trace.reader import read_trace, was_changed
from reconvene.trace.writer import RUN_FILE, encode_run, node_file
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

__all__ = ["Cluster"]

T = TypeVar("T")

_QUIET_S = 3.0
"""Without an event for this long a cluster has come to rest."""
_REST_S = 120.0
"""How long it may take until it has, once nothing is broken any more."""

HEARTBEATS.add(Channel._heartbeat)


class Cluster(Machines):
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
        names = site_names(nodes) if isinstance(nodes, int) else tuple(sorted(nodes))
        if len(set(names)) < len(names):
            raise Rejected(f"sites {', '.join(names)}: expected each name once")
        self.seed = seed
        self.directory = self._make_directory(directory)
        loop = SimLoop(self._stream("world"), as_ns(limit))
        weakref.finalize(self, loop.close)
        configs = {name: self._config(name, names, settings or {}) for name in names}
        conditions = Conditions(latency_ns=as_ns(latency), jitter_ns=as_ns(jitter), loss=loss)
        super().__init__(loop, configs, conditions, self._stream)
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
        return Random(f"{self.seed}/{name}")

    def _config(self, name: str, names: tuple[str, ...], settings: Mapping[str, Any]) -> Config:
        own = self.directory / name
        own.mkdir()
        table = {
            "cluster": "simulated",
            "name": name,
            "sites": {other: f"{other}:7001" for other in names},
            "dir": str(own),
            "seal": {"insecure": True},
            "trace": {"dir": str(self.trace_dir)},
            **settings,
        }
        table["log"] = {"begin": True, **settings.get("log", {})}
        return parse(table, self.directory / f"{name}.toml")

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
        if _in_coroutine():
            raise RuntimeError(
                "run() has an event loop of its own: call it in an ordinary function, not in a coroutine"
            )
        self._ran = True
        loop = self._loop
        collects, state = gc.isenabled(), random.getstate()
        gc.disable()
        random.seed(f"{self.seed}/random")
        try:
            result = loop.run_until_complete(loop.create_task(self._main(scenario, settle), name="the scenario"))
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

    # -- waiting

    async def settle(self) -> None:
        """`repair`, and waits until nothing happens any more: no program may send or append meanwhile."""
        await self.repair()
        until = self._loop.time() + _REST_S
        quiet_since, size = self._loop.time(), self._trace_bytes()
        while self._loop.time() - quiet_since < _QUIET_S:
            await asyncio.sleep(POLL_S)
            if self._trace_bytes() != size:
                quiet_since, size = self._loop.time(), self._trace_bytes()
            if self._loop.time() > until:
                raise TimedOut(f"seed {self.seed}: the cluster has not come to rest in {_REST_S:g} s")

    def _trace_bytes(self) -> int:
        return sum(node_file(self.trace_dir, name).stat().st_size for name in self.names)

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
            stack=stack_name(config),
            order=config.order.engine,
            seed=self.seed,
            settled=self._settled,
            components=[list(part) for part in self._components],
            down=[name for name in self.names if self.state(name) == "down"],
            quorum=run_quorum(self.names, config.log.replicas, config.log.quorum),
        )
        if was_changed(self.trace_dir):
            run.quorum = {**run.quorum, CHANGED: True}
        self.trace_dir.mkdir(exist_ok=True)
        (self.trace_dir / RUN_FILE).write_bytes(encode_run(run))
        for name in self.names:
            node_file(self.trace_dir, name).touch()


def _in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
