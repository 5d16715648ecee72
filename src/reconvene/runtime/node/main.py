"""One site as a process: puts its parts together, and handles signals.

SIGTERM, SIGINT   clean stop: accepted messages are sent, the other sites are notified, the trace ends with `stop`
a second signal   the process ends at once, as if it had crashed
SIGHUP            reads key files and certificates again; connections stay
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from reconvene.errors import ReconveneError
from reconvene.runtime.access.certificates import tls_warnings
from reconvene.runtime.access.key_files import load_cluster_keys
from reconvene.runtime.clients.server import ClientServer
from reconvene.runtime.config.check import check
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics import structured_logging as logs
from reconvene.runtime.diagnostics.loop_lag import LoopLag
from reconvene.runtime.diagnostics.structured_logging import ERROR, INFO, WARNING, audit, event, logger
from reconvene.runtime.disk.crash_mark import CrashMark
from reconvene.runtime.disk.directory import held
from reconvene.runtime.disk.lmdb_disk import LmdbDisk
from reconvene.runtime.domain.parts import DomainPart
from reconvene.runtime.net.site_numbers import read_numbers
from reconvene.runtime.net.udp import Udp
from reconvene.runtime.node.garbage import collect_rarely
from reconvene.runtime.node.gateway import start_upper
from reconvene.runtime.node.preflight import preflight
from reconvene.runtime.node.real_time import real_time
from reconvene.runtime.outside import Dial
from reconvene.runtime.site.engine import SiteEngine
from reconvene.runtime.site.interface import Engine
from reconvene.units import show_address

if TYPE_CHECKING:
    from reconvene.runtime.http.server import HttpServer

__all__ = [
    "FAULT",
    "foreground",
    "load_modules",
    "new_event_loop",
    "notify",
    "reload_access",
    "run",
    "run_site",
    "running",
    "start_http",
    "warn_of_certificates",
]

T = TypeVar("T")

FAULT = 1
"""Exit code if the engine failed: a bug, never caused by the configuration or by input."""
_KILLED = 128
"""Plus the signal's number, as shells do."""


@dataclass(slots=True)
class RunningSite:
    """The parts of a running site."""

    config: Config
    transport: Udp
    engine: SiteEngine
    clients: ClientServer
    http: "HttpServer | None"
    upper: Udp | None = None
    """Of a gateway, in the cluster above."""

    def reload(self, reload: Callable[[], Config], log: logging.Logger) -> None:
        """A bad file is logged; what was read from it before stays."""
        again = _ReadAgain(log)
        again.attempt("seal.keys", lambda: self._reload_seal(reload(), log))
        _reload_access(self.config, self.clients, self.http, again)
        again.report()

    def _reload_seal(self, told: Config, log: logging.Logger) -> bool:
        """The list of keys, and which one seals, changes when keys are replaced: see docs/seals.md. Returns whether
        there are any."""
        if told.seal.keys:
            self.transport.reload_keys(load_cluster_keys(told.seal.keys, log))
        if self.upper is not None and told.domain is not None and told.domain.upper.keys:
            self.upper.reload_keys(load_cluster_keys(told.domain.upper.keys, log))
            assert self.config.domain is not None
            upper = replace(told.domain.upper, keys=self.config.domain.upper.keys)
            told = replace(told, domain=replace(told.domain, upper=upper))
        if replace(told, seal=self.config.seal) != self.config:
            event(
                log, WARNING, "configuration has changed", why="only [seal] is read again; the rest needs a restart"
            )
        return bool(told.seal.keys)


class _ReadAgain:
    """What a SIGHUP reads again, and what became of each."""

    def __init__(self, log: logging.Logger) -> None:
        self.log = log
        self._read: list[str] = []
        self._kept: list[str] = []

    def attempt(self, what: str, read: Callable[[], bool]) -> None:
        """`read` returns whether there was anything to read. If it raises, what was there before stays."""
        try:
            if read():
                self._read.append(what)
        except ReconveneError as error:
            self._kept.append(what)
            event(self.log, ERROR, "not read again", what=what, why=str(error))

    def report(self) -> None:
        audit("reloaded", "SIGHUP", read=self._read or "nothing", kept_as_before=self._kept or None)


def reload_access(config: Config, clients: ClientServer, http: "HttpServer | None", log: logging.Logger) -> None:
    """Reads the keys and certificates for programs and for HTTP again. A bad file is logged; what was read before
    stays."""
    again = _ReadAgain(log)
    _reload_access(config, clients, http, again)
    again.report()


def _reload_access(config: Config, clients: ClientServer, http: "HttpServer | None", again: _ReadAgain) -> None:
    again.attempt("clients.keys", clients.reload_keys)
    again.attempt("clients.tls", clients.reload_tls)
    if http is not None:
        again.attempt("http.keys", http.reload_keys)
        again.attempt("http.tls", http.reload_tls)
    warn_of_certificates(config, again.log)


def warn_of_certificates(config: Config, log: logging.Logger) -> None:
    for warning in tls_warnings(config):
        event(log, WARNING, "certificates", why=warning)


@asynccontextmanager
async def running(config: Config, dial: Dial | None = None) -> AsyncIterator[SiteEngine]:
    """Runs a site with all its parts in the current loop; they are closed in reverse order. `dial`: how a site that
    follows a log connects to its sources.

    Raises Malformed for a bad configuration, Rejected for one that is impossible on this machine, Unavailable if an
    address or the directory is in use, or if storage is newer than this program.
    """
    async with _parts(config, lambda: None, dial) as parts:
        yield parts.engine


@asynccontextmanager
async def _parts(
    config: Config, stop: Callable[[], None], dial: Dial | None, alone: bool = False
) -> AsyncIterator[RunningSite]:
    """`alone`: the process runs nothing but the site, and may leave a crash mark."""
    check(config)
    preflight(config)
    load_modules(config)
    warn_of_certificates(config, logger("site"))
    async with AsyncExitStack() as ends:
        ends.enter_context(held(config.dir, config.cluster, config.name))
        ends.enter_context(real_time(config))
        mark = ends.enter_context(closing(CrashMark(config.dir))) if alone else None
        crashed = mark is not None and mark.left
        if crashed:
            event(logger("site"), WARNING, "storage is checked as a whole", why="the last run ended in a crash")
        numbers = read_numbers(config, LmdbDisk(check_all=crashed))
        transport = Udp(config, logger("udp"), numbers)
        ends.callback(transport.close)
        part = None if config.domain is None else DomainPart(config, logger("domain"))
        engine = SiteEngine(config, transport, logger("site"), LmdbDisk(), numbers, dial, part)
        await engine.start()
        try:
            upper = await start_upper(config, part, engine, ends, crashed) if part and config.is_gateway else None
        except BaseException:
            await engine.stop()
            raise
        ends.push_async_callback(engine.stop)
        if mark is not None:
            mark.clear()
        clients = ClientServer(engine, config, stop, logger("clients"))
        await clients.start()
        ends.push_async_callback(clients.close)
        await engine.check_sources()
        http = await start_http(config, engine, clients, ends)
        yield RunningSite(config, transport, engine, clients, http, upper)


async def start_http(
    config: Config, engine: Engine, clients: ClientServer, ends: AsyncExitStack
) -> "HttpServer | None":
    """Health, metrics and status, where an address is configured; and what measures the loop for them."""
    lag = LoopLag(logger("site"))
    lag.start()
    ends.callback(lag.stop)
    if config.http.address is None:
        return None
    from reconvene.runtime.http.server import HttpServer

    http = HttpServer(config, engine, logger("http"), lag, clients.counters, lambda: clients.ends)
    await http.start()
    ends.push_async_callback(http.stop)
    return http


def run_site(config: Config, reload: Callable[[], Config] | None = None, dial: Dial | None = None) -> int:
    """Runs the site in the foreground until a signal or an admin ends it; returns the exit code. `reload` reads the
    configuration file again. `dial`: as in `running`."""
    logs.configure(config.logging)
    load_modules(config)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(run(config, reload, dial))


def load_modules(config: Config) -> None:
    """Imports optional modules before the site starts, because an import would stall a running site.

    The packages for HTTP take longer to load than all the rest of a site."""
    if config.http.address is not None:
        import_module("reconvene.runtime.http.server")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def run(config: Config, reload: Callable[[], Config] | None = None, dial: Dial | None = None) -> int:
    """Runs until a signal or an admin ends it. Raises as `running` does."""
    log = logger("site")

    def start(stop: Callable[[], None]) -> AbstractAsyncContextManager[RunningSite]:
        return _parts(config, stop, dial, alone=True)

    def again(parts: RunningSite) -> None:
        parts.reload(reload or (lambda: config), log)

    return await foreground(log, SiteEngine.__module__, start, _addresses, again)


async def foreground(
    log: logging.Logger,
    engine: str,
    start: Callable[[Callable[[], None]], AbstractAsyncContextManager[T]],
    addresses: Callable[[T], dict[str, object]],
    reload: Callable[[T], None],
) -> int:
    """A process that runs what `start` makes, until a signal ends it, or what `start` was given is called.
    `engine`: the module in which a fault ends the process. `addresses`: what is logged when it is ready. `reload`:
    what SIGHUP does."""
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    loop.set_exception_handler(_FaultHandler(log, engine).handle)

    def end(number: int) -> None:
        if ending.is_set():
            event(log, WARNING, "ends at once", signal=signal.Signals(number).name)
            os._exit(_KILLED + number)
        event(log, INFO, "leaves", signal=signal.Signals(number).name)
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    loop.add_signal_handler(signal.SIGHUP, lambda: event(log, INFO, "not ready yet", signal="SIGHUP"))
    async with start(ending.set) as parts:
        loop.add_signal_handler(signal.SIGHUP, reload, parts)
        collect_rarely()
        event(log, INFO, "ready", **addresses(parts))
        notify("READY=1")
        await ending.wait()
        notify("STOPPING=1")
    return 0


def _addresses(parts: RunningSite) -> dict[str, object]:
    config = parts.config
    return {
        "cluster": config.cluster,
        "site": config.name,
        "incarnation": parts.engine.incarnation,
        "pid": os.getpid(),
        "datagrams": show_address(config.sites[config.name]),
        "unix": config.unix_socket,
        "tcp": None if parts.clients.tcp is None else show_address(parts.clients.tcp),
        "http": None if parts.http is None or parts.http.address is None else show_address(parts.http.address),
    }


class _FaultHandler:
    """Handles uncaught exceptions. If the engine failed in the middle of a turn, its state may be inconsistent: the
    process ends, which the other sites handle like any crash."""

    def __init__(self, log: logging.Logger, engine: str) -> None:
        self._log = log
        self._engine = engine

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        info = None if error is None else (type(error), error, error.__traceback__)
        self._log.error("fault", exc_info=info, extra={"fields": {"where": context.get("message", "")}})
        if error is not None and _passes_through(error.__traceback__, self._engine):
            os._exit(FAULT)


def _passes_through(traceback: TracebackType | None, module: str) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__") == module:
            return True
        traceback = traceback.tb_next
    return False


def notify(state: str) -> None:
    """Notifies systemd, if NOTIFY_SOCKET is set."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.connect("\0" + address[1:] if address[0] == "@" else address)
        notifier.send(state.encode())
