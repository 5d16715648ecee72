"""An outpost as a foreground process: puts its parts together, and handles signals as a site does."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from reconvene.client.addresses import Address, parse_addresses
from reconvene.client.connecting import client_tls, find_key
from reconvene.errors import InvalidArgument, Malformed, Rejected
from reconvene.outpost_site.engine import OutpostEngine
from reconvene.outpost_site.link import Link, check_sites
from reconvene.runtime.clients.server import ClientServer
from reconvene.runtime.config.check import check
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics import structured_logging as logs
from reconvene.runtime.diagnostics.structured_logging import logger
from reconvene.runtime.disk.directory import held
from reconvene.runtime.node.main import (
    foreground,
    load_modules,
    new_event_loop,
    reload_access,
    start_http,
    warn_of_certificates,
)
from reconvene.runtime.node.preflight import preflight
from reconvene.runtime.node.real_time import real_time
from reconvene.units import show_address

if TYPE_CHECKING:
    from reconvene.runtime.http.server import HttpServer

__all__ = ["RunningOutpost", "outpost_addresses", "run_outpost", "running_outpost"]

_CHECK_S = 2.0
"""How long the sites may take to say who they are at the start."""


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


@dataclass(slots=True)
class RunningOutpost:
    config: Config
    engine: OutpostEngine
    clients: ClientServer
    http: "HttpServer | None"


def run_outpost(config: Config) -> int:
    """Runs until a signal or an admin ends it; returns the exit code."""
    logs.configure(config.logging)
    load_modules(config)
    log = logger("outpost")

    def start(stop: Callable[[], None]) -> AbstractAsyncContextManager[RunningOutpost]:
        return running_outpost(config, stop)

    def again(parts: RunningOutpost) -> None:
        reload_access(config, parts.clients, parts.http, log)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(foreground(log, OutpostEngine.__module__, start, _addresses, again))


@asynccontextmanager
async def running_outpost(config: Config, stop: Callable[[], None] = lambda: None) -> AsyncIterator[RunningOutpost]:
    """Raises Malformed for a bad configuration, Rejected where a site that answers is of another cluster or is this
    outpost, Unavailable where an address or the directory is in use."""
    check(config)
    preflight(config)
    warn_of_certificates(config, logger("outpost"))
    addresses = outpost_addresses(config)
    key, tls = find_key(config.log.follow_key, None), client_tls(config.log.follow_tls or False)
    async with AsyncExitStack() as ends:
        ends.enter_context(held(config.dir, config.cluster, config.name))
        ends.enter_context(real_time(config))
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
        http = await start_http(config, engine, clients, ends)
        yield RunningOutpost(config, engine, clients, http)


def _addresses(parts: RunningOutpost) -> dict[str, object]:
    clients, http = parts.clients.tcp, None if parts.http is None else parts.http.address
    return {
        "cluster": parts.config.cluster,
        "outpost": parts.config.name,
        "incarnation": parts.engine.incarnation,
        "pid": os.getpid(),
        "unix": parts.config.unix_socket,
        "tcp": None if clients is None else show_address(clients),
        "http": None if http is None else show_address(http),
    }
