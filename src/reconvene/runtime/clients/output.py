"""Output to one client: answers and events, put into records, with one write for each turn.

Promised: what waits to be written is counted. Beyond the limit `overflow` is called once, and has to close the
connection. What waits takes little more memory than its bytes: while the client does not read, it is kept here as
one piece. A transport keeps a piece for each write; uvloop's weighs ten times as much as a small message.
"""

import asyncio
from collections.abc import Callable

from reconvene.core.groups import events
from reconvene.errors import Malformed, OutcomeUnknown, PlaceForgotten, ReconveneError, Rejected
from reconvene.wire.clients import RECORD_BYTES, Arrived, Done, Failed, Refused, ToClient, Viewed, encode
from reconvene.wire.records import RecordSeal, frame

__all__ = ["ClientOutput"]

_PROCESS_BYTES = 16
_SMALL_BYTES = 64
_LINE = 2_000
"""The most characters of a reason."""


class ClientOutput:
    def __init__(self, transport: asyncio.Transport, limit_bytes: int, overflow: Callable[[str], None]) -> None:
        self._transport = transport
        self._limit_bytes = limit_bytes
        self._overflow = overflow
        self._loop = asyncio.get_running_loop()
        self._seal: RecordSeal | None = None
        self._structs: list[ToClient] = []
        self._structs_bytes = 0
        self._done: list[int] = []
        self._pieces: list[bytes] = []
        self._paused = False
        self._backlog = bytearray()
        """Encoded while the transport was paused."""
        self._flushing = False
        self._closed = False

    def answer(self, request: int) -> None:
        """Answers that a request succeeded. Answers of one turn are sent together."""
        if not self._closed:
            self._done.append(request)
            if not self._flushing:
                self._flushing = True
                self._loop.call_soon(self.flush)

    def push(self, struct: ToClient, size: int = _SMALL_BYTES) -> None:
        """`size`: its approximate size in bytes."""
        if self._closed:
            return
        self._structs.append(struct)
        self._structs_bytes += size
        if self._structs_bytes > RECORD_BYTES:
            self._encode()
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    appended = push

    def fail(self, request: int, error: ReconveneError, taken: int = 0) -> None:
        """The request failed. `taken`: how many of a send's messages were accepted, from the first on."""
        self.push(Failed(request, _kind_of(error), str(error)[:_LINE], taken))

    def refuse(self, error: ReconveneError) -> None:
        """The connection ends."""
        self.push(Refused(_kind_of(error), str(error)[:_LINE]))

    def arrived(self, arrived: events.Arrived) -> None:
        payloads = arrived.payloads
        self.push(
            Arrived(
                arrived.membership, arrived.sender, arrived.service, payloads, arrived.view, arrived.conf,
                arrived.first, arrived.timestamp, arrived.index,
            ),
            sum(map(len, payloads)) + 5 * len(payloads),
        )  # fmt: skip

    def viewed(self, changed: events.ViewChanged) -> None:
        self.push(
            Viewed(
                changed.membership, changed.kind.value, changed.view, changed.conf, list(changed.members),
                changed.primary, changed.process,
            ),
            _PROCESS_BYTES * len(changed.members),
        )  # fmt: skip

    def seal_from_now_on(self, seal: RecordSeal) -> None:
        self._encode()
        self._seal = seal

    def flush(self) -> None:
        self._flushing = False
        if self._closed or self._transport.is_closing():  # asyncio's TLS raises if the connection is gone
            return
        if self._done:
            self._structs.append(Done(self._done))
            self._done = []
        if self._structs:
            self._encode()
        pieces, self._pieces = self._pieces, []
        if self._paused:
            self._backlog += b"".join(pieces)
        else:
            self._transport.writelines(pieces)
        waiting = self._transport.get_write_buffer_size() + len(self._backlog)
        if waiting > self._limit_bytes:
            self._overflow(f"does not read: {waiting} bytes wait for it, more than limits.inbox_bytes")

    def pause(self) -> None:
        """The transport has much to write: the client does not read, or slowly."""
        self._paused = True

    def resume(self) -> None:
        """It has written most of that."""
        self._paused = False
        self._write_backlog()

    def _write_backlog(self) -> None:
        if self._backlog and not self._transport.is_closing():
            backlog, self._backlog = self._backlog, bytearray()  # the transport may keep it as it is
            self._transport.write(backlog)

    def close(self) -> None:
        """Ends the output: nothing is written after this. What waits is the transport's, which may write it."""
        self._closed = True
        self._write_backlog()
        self._structs.clear()
        self._pieces.clear()

    def abort(self) -> None:
        """Ends the output: what waits is dropped."""
        self._backlog.clear()
        self.close()

    def _encode(self) -> None:
        structs, self._structs, self._structs_bytes = self._structs, [], 0
        record = encode(structs)
        self._pieces += frame(record if self._seal is None else self._seal.seal(record))


def _kind_of(error: ReconveneError) -> str:
    match error:
        case Rejected():
            return "rejected"
        case OutcomeUnknown():
            return "unknown"
        case Malformed():
            return "malformed"
        case PlaceForgotten():
            return "forgotten"
        case _:
            return "unavailable"
