"""What all connections of a site's client server share, and the limits on how many there may be."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reconvene.runtime.access.auth import REFUSALS, Endpoint
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import WARNING, event
from reconvene.runtime.site.interface import Engine

__all__ = ["Connected", "ServerState"]

_REFUSED = "clients_refused_"


class Connected(Protocol):
    """What the server needs of a connection to count it and to end it."""

    endpoint: Endpoint
    host: str | None
    """None over the Unix socket."""
    gone: bool
    """True: its transport is closed, and everything is written."""

    def goodbye(self, reason: str) -> None: ...

    def abort(self) -> None: ...


@dataclass(slots=True)
class ServerState:
    engine: Engine
    config: Config
    log: logging.Logger
    stop: Callable[[], None]
    """Asks the site to stop."""
    connections: dict[Connected, None] = field(default_factory=dict)
    """In the order of their arrival."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("clients", "clients_cut_off", "requests_refused", *(f"{_REFUSED}{reason}" for reason in REFUSALS)), 0
        )
    )

    def refused(self, reason: str, client: str, why: str) -> None:
        """Counts and logs a client that is refused; `reason` is one of `REFUSALS`."""
        self.counts[f"{_REFUSED}{reason}"] += 1
        event(self.log, WARNING, "client refused", client=client, reason=reason, why=why)

    def why_not(self, endpoint: Endpoint, host: str | None, arriving: Sequence[str] = ()) -> str | None:
        """Why one more connection can't be accepted at this endpoint; None: it can.

        Each endpoint has a limit of its own, so that strangers at the TCP port can't shut out the Unix socket.
        `arriving` are the hosts of connections that are not in the table yet. `host` is None for the Unix socket.
        """
        clients = self.config.clients
        here = [connection.host for connection in self.connections if connection.endpoint is endpoint] + list(
            arriving
        )
        if len(here) >= clients.connections:
            return f"site {self.config.name} has {clients.connections} clients, its limit"
        if host is not None and here.count(host) >= clients.connections_by_host:
            return (
                f"site {self.config.name} has {clients.connections_by_host} clients of {host}, its limit for one host"
            )
        return None
