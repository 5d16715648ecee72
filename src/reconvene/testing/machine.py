"""One machine of a simulated cluster: a site, the disk that outlives it, and the programs beside it.

The site is the real one (runtime.site.engine, runtime.clients.server): only its datagrams, its disk and its
connections are simulated.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

from reconvene.errors import ReconveneError, Rejected
from reconvene.runtime.access.auth import unix_endpoint
from reconvene.runtime.clients.connection import SILENCE_S, Connection
from reconvene.runtime.clients.server import ClientServer
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import logger
from reconvene.runtime.site.engine import SiteEngine
from reconvene.sim.network import Network
from reconvene.testing.disk import SimDisk
from reconvene.testing.loop import SimLoop
from reconvene.testing.process import Process
from reconvene.testing.transport import Postbox, SimTransport

__all__ = ["PORT", "Machine", "Program"]

PORT = 7000
"""Where a site's clients connect."""


class SiteServer(ClientServer):
    """The clients' server at an address of the simulation. Every client is an admin, as by a Unix socket."""

    async def start(self) -> None:
        connect = partial(Connection, self._state, unix_endpoint(), SILENCE_S)
        server = await asyncio.get_running_loop().create_server(connect, self._config.name, PORT)
        self._servers.append(server)


class Program:
    """A program of the user's at a machine. It dies when its machine crashes, and starts anew when that restarts."""

    def __init__(
        self, loop: SimLoop, name: str, machine: "Machine", main: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        self.name = name
        self._loop = loop
        self._machine = machine
        self._main = main
        self._process: Process | None = None
        self._ended: asyncio.Future[Any] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        if self.running:
            raise Rejected(f"{self.name} runs already")
        if self._machine.state == "down":
            raise Rejected(f"{self.name}: its machine is down; restart it")
        process = self._process = Process(self.name, self._machine.config.ordinal)
        process.paused = self._machine.state == "paused"
        self._ended = self._loop.create_future()
        task = process.context.run(partial(self._loop.create_task, self._main(), name=self.name))
        task.add_done_callback(self._over)

    def kill(self) -> None:
        """As `kill -9` does: its connections are reset, and nothing of it runs any more."""
        if self._process is not None:
            self._process.die()
            self._process = None
            if self._ended is not None:
                self._ended.cancel()

    async def wait(self) -> Any:
        """What its main returned, in this life. Cancelled where it is killed before."""
        assert self._ended is not None, f"{self.name} was never started"
        return await self._ended

    def pause(self, paused: bool) -> None:
        if self._process is not None:
            if paused:
                self._process.paused = True
            else:
                self._loop.resume(self._process)

    def _over(self, task: "asyncio.Task[Any]") -> None:
        self._process, ended = None, self._ended
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._loop.fault = error  # otherwise it would be lost
        elif ended is not None and not ended.done():
            ended.set_result(task.result())


class Machine:
    def __init__(
        self,
        loop: SimLoop,
        config: Config,
        network: Callable[[], Network],
        deaf_to: list[frozenset[int]],
        random: Random,
    ) -> None:
        self.name = config.name
        self.config = config
        self.state = "down"
        """up | paused | down"""
        self.disk = SimDisk(loop.timeline, random)
        self.postbox = Postbox()
        self.programs: list[Program] = []
        self.engine: SiteEngine | None = None
        """Of the site that runs."""
        self._loop = loop
        self._network = network
        self._deaf_to = deaf_to
        self._process: Process | None = None
        self._ending: asyncio.Event | None = None

    async def start(self) -> None:
        """Returns when the site answers. Raises as a site's start does, and then it is down."""
        process = self._process = Process(f"site {self.name}", self.config.ordinal, is_site=True)
        self.state = "up"
        self._ending = asyncio.Event()
        ready: asyncio.Future[None] = self._loop.create_future()
        site = process.context.run(
            partial(self._loop.create_task, self._run(process, self._ending, ready), name=process.name)
        )
        site.add_done_callback(self._failed)
        try:
            await ready
        except ReconveneError:
            self.crash()
            raise
        for program in self.programs:
            if not program.running:
                program.start()

    async def _run(self, process: Process, ending: asyncio.Event, ready: "asyncio.Future[None]") -> None:
        config = self.config
        transport = SimTransport(config, self._network(), self.postbox, self._deaf_to)
        engine = SiteEngine(config, transport, logger("site"), self.disk)
        try:
            await engine.start()
        except ReconveneError as error:
            ready.set_exception(error)
            return
        server = SiteServer(engine, config, ending.set, logger("clients"))
        await server.start()
        self.engine = engine
        ready.set_result(None)
        await ending.wait()
        await server.close()
        await engine.stop()
        self.engine = None
        self.state = "down"
        process.die()

    def _failed(self, site: "asyncio.Task[None]") -> None:
        error = None if site.cancelled() else site.exception()
        if error is not None:
            self._loop.fault = error

    async def stop(self) -> None:
        """A clean leave."""
        assert self._ending is not None
        self._ending.set()
        while self.state != "down":
            await asyncio.sleep(0.01)

    def crash(self) -> None:
        for program in self.programs:
            program.kill()
        if self._process is not None:
            self._process.die()
            self._process = None
        self.disk.crash()
        self.postbox.site = None
        self.state = "down"
        if self.engine is not None:
            self.engine.abandon()
            self.engine = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.paused = True
        for program in self.programs:
            program.pause(True)
        self.state = "paused"

    def resume(self) -> None:
        assert self._process is not None
        self.state = "up"
        self._loop.resume(self._process)
        for program in self.programs:
            program.pause(False)
