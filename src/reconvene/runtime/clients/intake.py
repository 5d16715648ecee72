"""The requests of one client, handled a bounded share at a time.

Promised: requests are handled in order, and each record is opened and decoded only when its turn comes. However much
a client sends at once, the rest of the site runs after `TURN_NS`. While requests wait here, nothing more is read from
the client.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from reconvene.errors import ReconveneError
from reconvene.wire.clients import HANDSHAKE_BYTES, ToSite, Unreadable, decode_from_client
from reconvene.wire.records import RecordReader, RecordSeal
from reconvene.world import world

__all__ = ["TURN_NS", "Intake"]

TURN_NS = 5_000_000
"""How long one client's requests are handled without a break: far less than a site may stall for."""


class Intake:
    def __init__(
        self,
        transport: asyncio.Transport,
        receive: Callable[[ToSite | Unreadable], None],
        refuse: Callable[[ReconveneError], None],
    ) -> None:
        self.opener: RecordSeal | None = None
        """Opens the records from now on."""
        self._reader = RecordReader(HANDSHAKE_BYTES)
        self._transport = transport
        self._receive = receive
        self._refuse = refuse
        self._loop = asyncio.get_running_loop()
        self._now = world().monotonic_ns
        self._records: deque[bytes] = deque()
        self._requests: deque[ToSite | Unreadable] = deque()
        self._paused = False
        self._closed = False

    def feed(self, data: bytes) -> None:
        try:
            self._records.extend(self._reader.feed(data))
        except ReconveneError as error:
            self._refuse(error)
            return
        if not self._paused:
            self._work()

    def allow(self, record_bytes: int) -> None:
        """Sets the longest record that is accepted from now on."""
        self._reader.limit = record_bytes

    def close(self) -> None:
        """No request is handled any more."""
        self._closed = True
        self._records.clear()
        self._requests.clear()

    def _work(self) -> None:
        until = self._now() + TURN_NS
        try:
            while self._requests or self._records:
                if not self._requests:
                    record = self._records.popleft()
                    opened = record if self.opener is None else self.opener.open(record)
                    self._requests.extend(decode_from_client(opened))
                    continue
                self._receive(self._requests.popleft())
                if (self._requests or self._records) and self._now() > until:
                    self._pause()
                    return
        except ReconveneError as error:
            self._refuse(error)
            return
        if self._paused and not self._closed:
            self._paused = False
            self._transport.resume_reading()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._loop.call_soon(self._work)
