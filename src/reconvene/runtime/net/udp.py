"""Datagrams over UDP, sealed: the transport of a real site.

One non-blocking socket is read in turns: the datagrams that have arrived, up to a limit, are opened and passed on as
one list. A datagram is sealed once, however many sites it goes to. With multicast, a datagram for several sites is
sent to the group once, and a second socket receives it. What is longer than a packet is sent as a train (`trains`) to
sites that can join one; to others the kernel sends it in fragments.
"""

import asyncio
import logging
import os
import socket
import time
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
from reconvene.runtime.net.trains import ANCILLARY_BYTES, Trains, choose_trains, join_runs, run_size
from reconvene.wire.seal import ClusterKey, Reason, Refused, Sealer
from reconvene.wire.trains import AGE_S, SEGMENT_MARK, Joiner

__all__ = ["Udp"]

_DATAGRAM_BYTES = 65_536
_TURN_BYTES = 2 << 20
"""Most bytes read in one turn, besides the limit on the number of datagrams."""
_SEGMENTS = 16
"""So many segments of trains count as one datagram there: they cost less, and a train has dozens."""


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
        self._sweeping: asyncio.TimerHandle | None = None
        self._buffer = bytearray(_DATAGRAM_BYTES)
        self._view = memoryview(self._buffer)
        self._sent_large = 0
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
        self.packet_bytes = choose_frame_bytes(config, others, family, log)
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
        self._trains = choose_trains(config, others, self._socket, self.packet_bytes, self.buffer_bytes, log)
        self.frame_bytes = self.packet_bytes if self._trains is None else self._trains.frame_bytes
        for sock in self._sockets:
            join_runs(sock)
        self._joiner = Joiner(others, time.monotonic)
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
                self._send_to_group(seal(data), destinations, self._group)
                continue
            if not destinations:
                continue
            packet = seal(data)
            if self._trains is not None and len(packet) >= self._trains.counted_from:
                self._sent_large += len(destinations)
                if len(packet) > self._trains.longer_than and self._send_train(self._trains, packet, destinations):
                    continue
            for site in destinations:
                try:
                    sendto(packet, addresses[site])
                except OSError as error:
                    self._unsent(addresses[site], len(packet), error)
                else:
                    self._sent += 1
                    self._sent_bytes += len(packet)

    def adapt(self, members: Sequence[int], resent: int) -> int:
        """Bytes of a frame's messages from now on; see `runtime.outside.Transport`."""
        trains = self._trains
        if trains is None or not self._sessions.take_trains(members):
            return self.packet_bytes
        return trains.adapt(self._sent_large, resent)

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
            "sent_trains": 0 if self._trains is None else self._trains.sent,
            "sent_segments": 0 if self._trains is None else self._trains.segments,
            "received_trains": self._joiner.joined,
            "received_segments": self._joiner.segments,
            "doubled_segments": self._joiner.doubled,
            "dropped_incomplete": self._joiner.dropped,
            "sessions": self._sessions.opened,
            **self._refusals.counters(),
        }

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
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
        take, buffers, view, open_ = sock.recvmsg_into, [self._buffer], self._view, self._sessions.open
        turn: list[bytes] = []
        packets: Sequence[memoryview]
        count = size = 0
        left = self._turn * _SEGMENTS
        while left > 0 and size < _TURN_BYTES:
            try:
                length, ancillary, _, source = take(buffers, ANCILLARY_BYTES)
            except OSError:
                break  # nothing more to read, or an error of an earlier packet, which reading clears
            size += length
            if ancillary:
                packets, taken = self._split(view[:length], run_size(ancillary) or length, source)
                left -= taken
            elif length and view[0] == SEGMENT_MARK:
                left -= 1
                joined = self._join(view[:length], source)
                if joined is None:
                    continue
                packets = (joined,)
            else:
                packets = (view[:length],)
            count += len(packets)
            left -= _SEGMENTS * len(packets)
            for packet in packets:
                data = open_(packet, source)
                if data is not None:
                    turn.append(data)
        self._received += count
        self._received_bytes += size
        if turn:
            receive(turn)

    def _split(self, run: memoryview, size: int, source: Source) -> tuple[Sequence[memoryview], int]:
        """Datagrams of `size` bytes that were read as one, the last one perhaps shorter. Returns those to be opened,
        and how many segments there were besides."""
        whole = self._joiner.take_run(run, size, source)
        if whole is not None:
            return (memoryview(whole),), 0
        packets: list[memoryview] = []
        segments = 0
        for at in range(0, len(run), max(size, 1)):
            packet = run[at : at + size]
            if packet[0] != SEGMENT_MARK:
                packets.append(packet)
                continue
            segments += 1
            joined = self._join(packet, source)
            if joined is not None:
                packets.append(joined)
        return packets, segments

    def _join(self, segment: memoryview, source: Source) -> memoryview | None:
        """The datagram that is whole by this segment; a segment that is refused is counted."""
        try:
            joined = self._joiner.take(segment, source)
        except Refused as refusal:
            self._received += 1
            self._refusals.note(refusal.reason, source, str(refusal))
            return None
        if joined is None:
            if self._sweeping is None and self._loop is not None:
                self._sweeping = self._loop.call_later(AGE_S, self._sweep)
            return None
        return memoryview(joined)

    def _sweep(self) -> None:
        self._sweeping = None
        self._joiner.sweep()
        if self._joiner.held and self._loop is not None:
            self._sweeping = self._loop.call_later(AGE_S, self._sweep)

    def _send_train(self, trains: Trains, packet: bytes, sites: tuple[int, ...], group: Source | None = None) -> bool:
        """Whether it was sent as a train: to every one of these sites, by the group if there is one."""
        if not self._sessions.take_trains(sites):
            return False
        addresses = [self._addresses[site] for site in sites] if group is None else [group]
        unsent = trains.send(packet, addresses)
        if unsent is None:
            return False
        taken = len(addresses) - len({address for address, _, _ in unsent})
        self._sent += taken
        self._sent_bytes += len(packet) * taken
        for address, length, error in unsent:
            self._unsent(address, length, error)
        return True

    def _send_to_group(self, packet: bytes, sites: tuple[int, ...], group: Source) -> None:
        trains = self._trains
        if trains is not None and len(packet) >= trains.counted_from:
            self._sent_large += len(sites)
            if len(packet) > trains.longer_than and self._send_train(trains, packet, sites, group):
                return
        self._send_one(packet, group)

    def _post(self, site: int, packet: bytes) -> None:
        """Sends a challenge or an answer for the sessions."""
        if self._not_muted((site,)):
            self._send_one(packet, self._addresses[site])

    def _send_one(self, packet: bytes, address: Source) -> None:
        try:
            self._socket.sendto(packet, address)
        except OSError as error:
            self._unsent(address, len(packet), error)
        else:
            self._sent += 1
            self._sent_bytes += len(packet)

    def _not_muted(self, destinations: tuple[int, ...]) -> tuple[int, ...]:
        for site in destinations:
            if site in self._mute:
                why = f"to {self._names[site]}, which is blocked"
                self._refusals.note(Reason.BLOCKED, self._addresses[site], why, outgoing=True)
        return tuple(site for site in destinations if site not in self._mute)

    def _unsent(self, address: Source, length: int, error: OSError) -> None:
        what = os.strerror(error.errno) if error.errno else str(error)
        self._refusals.note(Reason.SEND, address, f"{length} bytes not sent: {what}", outgoing=True)
