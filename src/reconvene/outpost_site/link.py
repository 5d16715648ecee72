"""An outpost's connection to one site at a time, over the client protocol.

Promised: after `connect`, `connected` or `lost` is called once; after `connected`, `lost` is called once, unless the
link is closed here. Answers come in between.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence

from reconvene.client.addresses import Address
from reconvene.client.channel import Channel, open_channel
from reconvene.errors import ReconveneError, Unavailable
from reconvene.outpost.forwarding import Answer, Refusal
from reconvene.runtime.access.key_files import ClientKey
from reconvene.wire.client_log import Appended, Confirm, Confirmed, Forward
from reconvene.wire.clients import OUTPOST_MINOR, Failed, ToClient, Welcome

__all__ = ["CONNECT_S", "Link", "foreign"]

CONNECT_S = 5.0
"""How long a connection may take."""


def foreign(welcome: Welcome, cluster: str, name: str, address: Address) -> str | None:
    """Why an outpost of this cluster must not forward to a site; None: it may."""
    if welcome.cluster != cluster:
        return (
            f"log.follow: {address} is site {welcome.site} of cluster {welcome.cluster}; expected cluster {cluster}"
        )
    if welcome.site == name:
        return f"log.follow: {address} is {name} itself; expected a site of the cluster"
    if not welcome.names:
        return f"log.follow: {address} is outpost {welcome.site}, which forwards its own only; expected a site"
    if welcome.minor < OUTPOST_MINOR:
        return f"log.follow: {address}: site {welcome.site} runs an older program, which knows no outposts: update it"
    return None


class Link:
    def __init__(
        self,
        cluster: str,
        name: str,
        addresses: Sequence[Address],
        key: ClientKey | None,
        tls: ssl.SSLContext | None,
        connected: Callable[[], None],
        lost: Callable[[str], None],
        answered: Callable[[list[Answer]], None],
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._addresses = addresses
        self._key = key
        self._tls = tls
        self._connected = connected
        self._lost = lost
        self._answered = answered
        self._opening: asyncio.Task[None] | None = None
        self._channel: Channel | None = None
        self.site: str | None = None
        """The name of the site that it is connected to."""

    def connect(self, site: int) -> None:
        self.close()
        self._opening = asyncio.get_running_loop().create_task(self._open(self._addresses[site]))

    async def _open(self, address: Address) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                channel = await open_channel(address, self._key, self._tls, self._receive, self._ended)
        except TimeoutError:
            self._fail(f"{address}: no answer within {CONNECT_S:g} s")
            return
        except ReconveneError as error:
            self._fail(str(error))
            return
        why = foreign(channel.welcome, self._cluster, self._name, address)
        if why is not None:
            channel.close()
            self._fail(why)
            return
        self._opening, self._channel = None, channel
        self.site = channel.welcome.site
        self._connected()

    def _fail(self, why: str) -> None:
        self._opening = None
        self._lost(why)

    def send(self, requests: Sequence[Forward | Confirm]) -> None:
        if self._channel is not None:
            for request in requests:
                size = sum(map(len, request.messages)) if isinstance(request, Forward) else 0
                self._channel.send(request, size + 64)

    def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        channel, self._channel, self.site = self._channel, None, None
        if channel is not None:
            channel.close()

    # -- the channel calls

    def _receive(self, structs: list[ToClient]) -> None:
        if self._channel is None:
            return
        answers: list[Answer] = []
        for struct in structs:
            if isinstance(struct, Appended | Confirmed):
                answers.append(struct)
            elif isinstance(struct, Failed):
                answers.append(Refusal(struct.request, struct.reason))
        if answers:
            self._answered(answers)

    def _ended(self, channel: Channel, reason: str) -> None:
        if channel is self._channel:
            self._channel = self.site = None
            self._lost(reason)


async def check_sites(
    cluster: str,
    name: str,
    addresses: Sequence[Address],
    key: ClientKey | None,
    tls: ssl.SSLContext | None,
    wait_s: float,
) -> str | None:
    """Asks every site that answers in time who it is. Returns why one of them is the wrong one."""

    async def ask(address: Address) -> str | None:
        try:
            async with asyncio.timeout(wait_s):
                channel = await open_channel(address, key, tls, lambda _: None, lambda _, __: None)
        except (TimeoutError, Unavailable):
            return None  # it may come later: an outpost starts whether the line is there or not
        try:
            return foreign(channel.welcome, cluster, name, address)
        finally:
            channel.close()

    found = await asyncio.gather(*map(ask, addresses))
    return next((why for why in found if why is not None), None)
