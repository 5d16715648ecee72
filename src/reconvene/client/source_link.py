"""How a follower reaches its source: a connection of the client protocol, with one request at a time."""

import os
from collections.abc import Callable

from reconvene.client.addresses import Address, parse_addresses
from reconvene.client.channel import Channel, open_channel
from reconvene.client.connecting import find_key
from reconvene.corel.following.messages import Answer, Ask
from reconvene.errors import InvalidArgument, Malformed, ReconveneError, Rejected
from reconvene.runtime.config.check import is_loopback
from reconvene.runtime.config.settings import Config
from reconvene.runtime.outside import Dial
from reconvene.wire.client_log import Follow, Followed
from reconvene.wire.clients import FOLLOW_MINOR, Failed, ToClient, Welcome

__all__ = ["RemoteSource", "source_dial"]


class RemoteSource:
    def __init__(self, answered: Callable[[Answer], None], broken: Callable[[str], None]) -> None:
        self._answered = answered
        self._broken = broken
        self._channel: Channel | None = None
        self._request = 0
        self._over = False

    def attach(self, channel: Channel) -> None:
        self._channel = channel

    def ask(self, ask: Ask) -> None:
        if self._channel is not None and not self._over:
            self._request += 1
            self._channel.send(Follow(self._request, ask))

    def close(self) -> None:
        self._over = True
        if self._channel is not None:
            self._channel.close()

    def receive(self, structs: list[ToClient]) -> None:
        for struct in structs:
            if self._over:
                return
            if isinstance(struct, Followed) and struct.request == self._request:
                self._answered(struct.answer)
            elif isinstance(struct, Failed) and struct.request == self._request:
                self._end(struct.reason)

    def lost(self, channel: Channel, why: str) -> None:
        self._end(why)

    def _end(self, why: str) -> None:
        if not self._over:
            self.close()
            self._broken(why)


def _is_own(address: Address, config: Config) -> bool:
    """The same socket, however it is written. Names of this machine other than localhost are found at the start."""
    if address.path:
        return os.path.realpath(address.path) == os.path.realpath(config.unix_socket)
    tcp = config.clients.tcp
    if tcp is None or address.port != tcp[1]:
        return False
    return address.host == tcp[0] or (is_loopback((address.host, address.port)) and is_loopback(tcp))


def _unfit(welcome: Welcome) -> str | None:
    """Why this one can't be a source."""
    if not welcome.names:
        return f"{welcome.site} is an outpost, which keeps no copy of the log"
    if welcome.minor < FOLLOW_MINOR:
        return f"site {welcome.site} is of an older version, and has no followers"
    return None


def source_dial(config: Config) -> Dial:
    """How a follower of this configuration connects. Raises Malformed for a bad `log.follow` or `log.follow_key`."""
    try:
        addresses = parse_addresses(config.log.follow)
    except InvalidArgument as error:
        raise Malformed(f"log.follow: {error}") from None
    for address in addresses:
        if _is_own(address, config):
            raise Malformed(f"log.follow: {address} is this site itself; expected another one: nobody follows itself")
    try:
        key = find_key(config.log.follow_key, None)
    except ReconveneError as error:
        raise Malformed(f"log.follow_key: {error}") from None

    async def dial(address: str, answered: Callable[[Answer], None], broken: Callable[[str], None]) -> RemoteSource:
        source = RemoteSource(answered, broken)
        (place,) = parse_addresses(address)
        channel = await open_channel(place, key, None, source.receive, source.lost)
        source.attach(channel)
        why = _unfit(channel.welcome)
        if why is not None:
            source.close()
            raise Rejected(f"{address}: {why}")
        return source

    return dial
