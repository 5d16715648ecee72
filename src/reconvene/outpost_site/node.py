"""An outpost as a foreground process: puts its parts together, and handles signals as a site does."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from reconvene.client.addresses import Address, parse_addresses
from reconvene.client.connecting import client_tls, find_key
from reconvene.errors import InvalidArgument, Malformed, Rejected
from reconvene.outpost_site.engine import OutpostEngine
from reconvene.outpost_site.link import Link, check_sites
from reconvene.runtime.clients.server import ClientServer
from reconvene.runtime.config.check import check
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics import structured_logging as logs
from reconvene.runtime.diagnostics.structured_logging import INFO, event, logger
from reconvene.runtime.disk.directory import held
from reconvene.runtime.node.main import new_event_loop, notify
from reconvene.runtime.node.preflight import preflight
from reconvene.units import show_address

__all__ = ["outpost_addresses", "run_outpost", "running_outpost"]

_CHECK_S = 2.0
"""How long the sites may take to say who they are at the start."""
_KILLED = 128


def outpost_addresses(config: Config) -> tuple[Address, ...]:
    """Of the sites to forward to. Raises Malformed for what is no address, and for the outpost's own."""
    try:
        addresses = parse_addresses(config.log.follow)
    except InvalidArgument as error:
        raise Malformed(f"log.follow: {error}") from None
    found = []
    for address in addresses:
        path = str(config.dir / address.path) if address.path else ""
        if path == str(config.unix_socket) or (not path and (address.host, address.port) == config.clients.tcp):
            raise Malformed(f"log.follow: {address} is {config.name} itself; expected a site of the cluster")
        found.append(address)
    return tuple(found)


def run_outpost(config: Config) -> int:
    """Runs until a signal or an admin ends it; returns the exit code."""
    logs.configure(config.logging)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_run(config))


@asynccontextmanager
async def running_outpost(config: Config, stop: Callable[[], None] = lambda: None) -> AsyncIterator[OutpostEngine]:
    """Raises Malformed for a bad configuration, Rejected where a site that answers is of another cluster or is this
    outpost, Unavailable where an address or the directory is in use."""
    check(config)
    preflight(config)
    addresses = outpost_addresses(config)
    key, tls = find_key(config.log.follow_key, None), client_tls(config.log.follow_tls or False)
    async with AsyncExitStack() as ends:
        ends.enter_context(held(config.dir, config.cluster, config.name))
        wrong = await check_sites(config.cluster, config.name, addresses, key, tls, _CHECK_S)
        if wrong is not None:
            raise Rejected(wrong)
        link = partial(Link, config.cluster, config.name, addresses, key, tls)
        engine = OutpostEngine(config, len(addresses), link, logger("outpost"))
        await engine.start()
        ends.push_async_callback(engine.stop)
        clients = ClientServer(engine, config, stop, logger("clients"))
        await clients.start()
        ends.push_async_callback(clients.close)
        tcp = None if clients.tcp is None else show_address(clients.tcp)
        event(
            logger("outpost"), INFO, "ready", cluster=config.cluster, outpost=config.name,
            incarnation=engine.incarnation, pid=os.getpid(), unix=config.unix_socket, tcp=tcp,
        )  # fmt: skip
        yield engine


async def _run(config: Config) -> int:
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()

    def end(number: int) -> None:
        if ending.is_set():
            os._exit(_KILLED + number)
        event(logger("outpost"), INFO, "stops", signal=signal.Signals(number).name)
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    async with running_outpost(config, ending.set):
        notify("READY=1")
        await ending.wait()
        notify("STOPPING=1")
    return 0
