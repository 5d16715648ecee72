"""Datagrams over UDP, sealed: the transport of a real site.

One non-blocking socket is read in turns: the datagrams that have arrived, up to a limit, are opened and passed on as
one list. A datagram is sealed once, however many sites it goes to. With multicast, a datagram for several sites is
sent to the group once, and a second socket receives it.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence

from reconvene.errors import Rejected
from reconvene.runtime.access.key_files import load_cluster_keys
from reconvene.runtime.config.settings import Config
from reconvene.runtime.diagnostics.structured_logging import INFO, WARNING, event
from reconvene.runtime.net.memory import keep_freed_memory
from reconvene.runtime.net.path import bind, choose_frame_bytes, family_of, join_group, resolve, set_buffers
from reconvene.runtime.net.refusals import Refusals, Source
from reconvene.runtime.net.seal_sessions import SealSessions
from reconvene.runtime.net.site_numbers import Numbers, numbers_in
from reconvene.wire.seal import ClusterKey, Reason, Sealer

__all__ = ["Udp"]

_DATAGRAM_BYTES = 65_536
_TURN_BYTES = 2 << 20
"""Most bytes read in one turn, besides the limit on the number of datagrams."""


class Udp:
    """Implements `runtime.outside.Transport`. The socket is bound when the object is made; it receives from `start`
    on."""

    def __init__(self, config: Config, log: logging.Logger, numbers: Numbers | None = None) -> None:
        """`numbers`: default: those of a new site. Raises Rejected or Unavailable if this machine can't do what the
        configuration requests."""
        transport = config.transport
        if transport.kind not in ("unicast", "multicast"):
            raise Rejected(f"transport.kind: {transport.kind}: expected unicast or multicast")
        if transport.kind == "multicast" and transport.group is None:
            raise Rejected("transport.group: expected the address of a multicast group, since kind is multicast")
        if not config.seal.insecure and not config.seal.keys:
            raise Rejected(
                "seal.keys: expected a key file (`reconvene keygen FILE` makes one) or seal.insecure = true"
            )
        keys = () if config.seal.insecure else load_cluster_keys(config.seal.keys, log)
        self._log = log
        numbers = numbers_in(config) if numbers is None else numbers
        self._names = numbers.names
        self._turn = transport.turn_datagrams
        self._loop: asyncio.AbstractEventLoop | None = None
        self._buffer = bytearray(_DATAGRAM_BYTES)
        self._view = memoryview(self._buffer)
        self._mute: frozenset[int] = frozenset()
        self._sent = self._sent_bytes = self._received = self._received_bytes = 0
        family = family_of(config)
        own = resolve(config.name, config.sites[config.name], family)
        self._addresses = {
            number: resolve(numbers.names[number], at, family)
            for number, at in enumerate(numbers.addresses)
            if at is not None and number != numbers.ordinal
        }
        others = list(self._addresses.values())
        self.frame_bytes = choose_frame_bytes(config, others, family, log)
        self._socket = bind(config.name, own, family)
        self._sockets = [self._socket]
        self._group = transport.group if transport.kind == "multicast" else None
        try:
            if self._group is not None:
                self._sockets.append(join_group(self._group, transport.ttl, own, self._socket))
            asked = transport.receive_buffer_bytes, transport.send_buffer_bytes
            self.buffer_bytes = min(set_buffers(sock, *asked, log) for sock in self._sockets)
        except Rejected:
            self.close()
            raise
        self._refusals = Refusals(log)
        self._sealer = Sealer(config.cluster, numbers.ordinal, keys)
        self._sessions = SealSessions(
            config.cluster, numbers.sites, self._addresses, keys, self._sealer, self._refusals, self._post, log
        )
        self.disputes = self._sessions.disputes
        if not keys:
            event(
                log, WARNING, "insecure", why="seal.insecure is set: anyone who can reach the port can act as a site"
            )

    # -- for the engine

    def start(self, receive: Callable[[list[bytes]], None]) -> None:
        """From now on `receive` is called with the datagrams of each turn, opened, in the order of their arrival."""
        keep_freed_memory()
        self._loop = asyncio.get_running_loop()
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._read, sock, receive)
        self._sessions.greet()

    def send(self, datagrams: Sequence[tuple[tuple[int, ...], bytes]]) -> None:
        """Sends pairs of (destinations by ordinal, bytes). Never blocks: what the kernel does not take is dropped and
        counted."""
        seal, sendto, addresses = self._sealer.seal, self._socket.sendto, self._addresses
        for destinations, data in datagrams:
            if self._mute:
                destinations = self._not_muted(destinations)
            elif self._group is not None and len(destinations) > 1:
                self._send_one(seal(data), self._group)
                continue
            if not destinations:
                continue
            packet = seal(data)
            for site in destinations:
                try:
                    sendto(packet, addresses[site])
                except OSError as error:
                    self._unsent(addresses[site], packet, error)
                else:
                    self._sent += 1
                    self._sent_bytes += len(packet)

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        """Fault injection: from now on drops datagrams from, and to, these sites. Replaces an earlier call."""
        self._sessions.deaf = incoming
        self._mute = outgoing

    def counters(self) -> dict[str, int]:
        """By name: datagrams and bytes sent and received, and datagrams dropped by reason."""
        return {
            "sent_datagrams": self._sent,
            "sent_bytes": self._sent_bytes,
            "received_datagrams": self._received,
            "received_bytes": self._received_bytes,
            "sessions": self._sessions.opened,
            **self._refusals.counters(),
        }

    def close(self) -> None:
        for sock in self._sockets:
            if sock.fileno() >= 0 and self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(sock.fileno())
            sock.close()

    # -- keys

    def reload_keys(self, keys: Sequence[ClusterKey]) -> None:
        """From now on the first of these keys seals, and any of them is accepted. Sessions continue. Nothing is lost
        as long as every site has the first key of the others."""
        if not keys or not self._sealer.sealed:
            raise Rejected("seal.keys: sealing can't be switched on or off while a site runs")
        self._sealer.use(keys)
        self._sessions.use(keys)
        event(self._log, INFO, "keys", seals=keys[0].id.hex(), opens=[key.id.hex() for key in keys])

    # -- turns

    def _read(self, sock: socket.socket, receive: Callable[[list[bytes]], None]) -> None:
        take, buffer, view, open_ = sock.recvfrom_into, self._buffer, self._view, self._sessions.open
        turn: list[bytes] = []
        count = size = 0
        while count < self._turn and size < _TURN_BYTES:
            try:
                length, source = take(buffer)
            except OSError:
                break  # nothing more to read, or an error of an earlier packet, which reading clears
            count += 1
            size += length
            data = open_(view[:length], source)
            if data is not None:
                turn.append(data)
        self._received += count
        self._received_bytes += size
        if turn:
            receive(turn)

    def _post(self, site: int, packet: bytes) -> None:
        """Sends a challenge or an answer for the sessions."""
        if self._not_muted((site,)):
            self._send_one(packet, self._addresses[site])

    def _send_one(self, packet: bytes, address: Source) -> None:
        try:
            self._socket.sendto(packet, address)
        except OSError as error:
            self._unsent(address, packet, error)
        else:
            self._sent += 1
            self._sent_bytes += len(packet)

    def _not_muted(self, destinations: tuple[int, ...]) -> tuple[int, ...]:
        for site in destinations:
            if site in self._mute:
                why = f"to {self._names[site]}, which is blocked"
                self._refusals.note(Reason.BLOCKED, self._addresses[site], why, outgoing=True)
        return tuple(site for site in destinations if site not in self._mute)

    def _unsent(self, address: Source, packet: bytes, error: OSError) -> None:
        what = os.strerror(error.errno) if error.errno else str(error)
        self._refusals.note(Reason.SEND, address, f"{len(packet)} bytes not sent: {what}", outgoing=True)
