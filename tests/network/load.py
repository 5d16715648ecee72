"""A light load on real sites: clients in their own thread, and the outcome of everything that they sent."""

import asyncio
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, cycle
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.network.sites import until

import reconvene
from reconvene.client.addresses import Addresses
from reconvene.lab.ledger.compare import repeated

__all__ = ["SERVICES", "Client", "Load"]

SERVICES = ("agreed", "safe", "causal", "fifo")


class Client:
    """Everything that one client received. Its messages are its name and a number."""

    def __init__(self, name: str, addresses: Addresses) -> None:
        self.name = name
        self.addresses = addresses
        self.sending = False
        self.site = ""
        self.accepted: list[bytes] = []
        """Messages whose `send` has returned."""
        self.unknown: list[bytes] = []
        """Messages whose `send` has raised OutcomeUnknown."""
        self.refused: list[bytes] = []
        """Messages whose `send` has raised Unavailable: nothing was sent."""
        self.received: list[bytes] = []
        self.rejoined: list[reconvene.Rejoined] = []
        self.views: list[reconvene.View] = []
        self.trouble: list[BaseException] = []
        """Errors that should not have been raised."""


class Load:
    """A client for each name, all in one group. A client tries its addresses in turn.

    Unless it is held, each client sends a message every `pause_s`, using all services in turn. With several
    `flights`, so many tasks of the client do that at the same time.
    """

    def __init__(
        self,
        addresses: Mapping[str, Addresses | Sequence[str | Path]],
        *,
        pause_s: float = 0.01,
        flights: int = 1,
        size: int = 0,
        tls: ssl.SSLContext | None = None,
        key: reconvene.ClientKey | None = None,
    ) -> None:
        """`size`: every message has at least so many bytes."""
        self.clients = {name: Client(name, where) for name, where in addresses.items()}
        self._pause_s = pause_s
        self._flights = flights
        self._size = size
        self._options: dict[str, Any] = {"tls": tls or False, "key": key, "timeout": 3.0, "wait": 10.0}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            until(lambda: self.trouble or all(map(self._sees_all, self.clients.values())), "clients join")
            assert not self.trouble
        except BaseException:
            self.end()
            raise
        self.go_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    def __getitem__(self, name: str) -> Client:
        return self.clients[name]

    def end(self) -> None:
        self._ended.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def trouble(self) -> list[BaseException]:
        return [error for client in self.clients.values() for error in client.trouble]

    def accepted(self, *names: str) -> list[bytes]:
        """How many messages these clients, or all, have sent."""
        return [data for name in names or self.clients for data in self.clients[name].accepted]

    def hold(self, *names: str) -> None:
        """These clients, or all, stop sending. Returns once the outcome of everything that they sent is known."""
        held = [self.clients[name] for name in names or self.clients]
        for client in held:
            client.sending = False
        before = {client.name: _told(client) for client in held}

        def still() -> bool:
            time.sleep(0.1)
            now = {client.name: _told(client) for client in held}
            same = before == now
            before.update(now)
            return same

        until(still, "senders hold")

    def go_on(self, *names: str) -> None:
        for name in names or self.clients:
            self.clients[name].sending = True

    def until_moved(self, *names: str, messages: int = 20) -> None:
        """Waits until these clients, or all, have sent and received so many more messages."""
        clients = [self.clients[name] for name in names or self.clients]
        before = [(len(client.accepted), len(client.received)) for client in clients]

        def moved() -> bool:
            return all(
                len(client.accepted) >= sent + messages and len(client.received) >= received + messages
                for client, (sent, received) in zip(clients, before, strict=True)
            )

        until(moved, lambda: f"{messages} messages move: {before}, {[c.trouble or c.refused for c in clients]}")

    def until_delivered(self, messages: Iterable[bytes], *names: str) -> None:
        """Waits until each of these clients has received all these messages, and none of them twice."""
        wanted = set(messages)

        def lacking() -> dict[str, list[bytes]]:
            found = {name: sorted(wanted - set(self.clients[name].received)) for name in names}
            return {name: lacks for name, lacks in found.items() if lacks}

        until(lambda: not lacking(), lambda: str({name: lacks[:9] for name, lacks in lacking().items()}), 20.0)
        for name in names:
            assert not repeated(self.clients[name].received)

    def _sees_all(self, client: Client) -> bool:
        """Every client must receive what is sent from now on."""
        return bool(client.views) and len(client.views[-1].members) == len(self.clients)

    # -- in the clients' thread

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for client in self.clients.values():
                tasks.create_task(self._serve(client))

    async def _serve(self, client: Client) -> None:
        try:
            async with reconvene.connect(client.addresses, **self._options) as site:
                group = await site.join("load")
                reading = asyncio.create_task(self._read(client, site, group))
                numbers = count(1)
                try:
                    await asyncio.gather(*(self._send(client, group, numbers) for _ in range(self._flights)))
                finally:
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
        except Exception as error:
            client.trouble.append(error)

    async def _read(self, client: Client, site: reconvene.Site, group: reconvene.Group) -> None:
        try:
            async for event in group.batches():
                client.site = site.name
                match event:
                    case reconvene.Batch():
                        client.received += [data.rstrip(b".") for data in event.payloads]
                    case reconvene.View():
                        client.views.append(event)
                    case reconvene.Rejoined():
                        client.rejoined.append(event)
        except Exception as error:
            client.trouble.append(error)

    async def _send(self, client: Client, group: reconvene.Group, numbers: Iterator[int]) -> None:
        services = cycle(SERVICES)
        while not self._ended.is_set():
            if client.sending:
                await self._send_one(client, group, f"{client.name}:{next(numbers)}".encode(), next(services))
            await asyncio.sleep(self._pause_s)

    async def _send_one(self, client: Client, group: reconvene.Group, data: bytes, service: str) -> None:
        try:
            async with asyncio.timeout(20):
                await group.send(data.ljust(self._size, b"."), service)
        except reconvene.OutcomeUnknown:
            client.unknown.append(data)
        except reconvene.Unavailable:
            client.refused.append(data)
        except Exception as error:
            client.trouble.append(error)
        else:
            client.accepted.append(data)


def _told(client: Client) -> int:
    return len(client.accepted) + len(client.unknown) + len(client.refused)
