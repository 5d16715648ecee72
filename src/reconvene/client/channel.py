"""One connection to one site: the handshake, then records both ways. When it ends, it says so once."""

import asyncio
import os
import ssl
from collections.abc import Callable, Collection
from typing import cast

from reconvene.client.addresses import Address
from reconvene.errors import Malformed, OutcomeUnknown, PlaceForgotten, ReconveneError, Rejected, Unavailable
from reconvene.runtime.access.key_files import ClientKey
from reconvene.transports import abort
from reconvene.wire.clients import (
    HANDSHAKE_BYTES,
    MAJOR,
    MINOR,
    RECORD_BYTES,
    SLACK_BYTES,
    Challenge,
    Goodbye,
    Hello,
    Ping,
    Proof,
    Proven,
    Refused,
    ToClient,
    ToSite,
    Welcome,
    decode_from_site,
    encode,
)
from reconvene.wire.handshake import NONCE_BYTES, client_proof, is_proof, session_seals, site_proof, transcript
from reconvene.wire.records import SEAL_BYTES, RecordReader, RecordSeal, frame
from reconvene.world import world

__all__ = ["ERRORS", "HEARTBEAT_S", "Channel", "open_channel"]

HEARTBEAT_S = 5.0
"""How often a client that says or hears nothing asks for a sign of life; two times without one: the site is dead."""
FAREWELL_S = 1.0
"""How long the end of a connection may take: with TLS, both sides say goodbye."""
MESSAGE_BYTES = 1 << 30
"""The longest message that a site may announce."""
_SMALL_BYTES = 64

ERRORS: dict[str, type[ReconveneError]] = {
    "rejected": Rejected,
    "unavailable": Unavailable,
    "unknown": OutcomeUnknown,
    "malformed": Malformed,
    "forgotten": PlaceForgotten,
}

Receive = Callable[[list[ToClient]], None]
Lost = Callable[["Channel", str], None]


async def open_channel(
    address: Address, key: ClientKey | None, tls: ssl.SSLContext | None, receive: Receive, lost: Lost
) -> "Channel":
    """Connects and shakes hands. Raises Rejected where the site refuses or can't prove what it is, else
    Unavailable; both with one line that names the address."""
    loop = asyncio.get_running_loop()
    by_unix = bool(address.path)
    channel = Channel(address, None if by_unix else key, not by_unix and tls is not None, receive, lost)
    try:
        if by_unix:
            await loop.create_unix_connection(lambda: channel, address.path)
        elif tls is None:
            await loop.create_connection(lambda: channel, address.host, address.port)
        else:
            server_hostname = address.host if tls.check_hostname else ""
            await loop.create_connection(
                lambda: channel, address.host, address.port, ssl=tls, server_hostname=server_hostname
            )
        await channel.shake_hands()
    except ssl.SSLCertVerificationError as error:
        raise Rejected(f"{address}: the site's certificate does not hold: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Rejected(f"{address}: TLS: {error.reason or error}") from None
    except OSError as error:
        # Of a refused connection asyncio reports which call failed, not that it was refused.
        why = os.strerror(error.errno) if isinstance(error, ConnectionError) and error.errno else error.strerror
        raise Unavailable(f"{address}: {why or error}") from None
    except BaseException:
        channel.close()
        raise
    return channel


class Channel(asyncio.Protocol):
    welcome: Welcome
    held: Collection[object] = ()

    def __init__(self, address: Address, key: ClientKey | None, tls: bool, receive: Receive, lost: Lost) -> None:
        self.address = address
        self._key = key
        self._tls = tls
        self._receive = receive
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._reader = RecordReader(HANDSHAKE_BYTES)
        self._seal: RecordSeal | None = None
        self._opener: RecordSeal | None = None
        self._hello = Hello(MAJOR, MINOR, "" if key is None else key.name, world().random_bytes(NONCE_BYTES))
        self._said = b""
        self._proven = False
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._structs: list[ToSite] = []
        self._structs_bytes = 0
        self._pieces: list[bytes] = []
        self._flushing = False
        self._heard = True
        self._spoke = True
        self._missed = 0
        self._beat_at = 0.0
        self._beat: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self.closed = False

    # -- use

    async def shake_hands(self) -> None:
        self.send(self._hello)
        await self._done
        self._beat_at = self._loop.time() + HEARTBEAT_S
        self._beat = self._loop.call_at(self._beat_at, self._heartbeat)

    def send(self, struct: ToSite, size: int = _SMALL_BYTES) -> None:
        """One write for all that this round of the loop brings. `size`: about how many bytes it takes."""
        self._spoke = True
        self._structs.append(struct)
        self._structs_bytes += size
        if self._structs_bytes > RECORD_BYTES:
            self._encode()
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def close(self, reason: str = "closed") -> None:
        if self.closed:
            return
        self.closed = True
        if self._beat is not None:
            self._beat.cancel()
        if self._transport is not None:
            self._flush()
            self._transport.close()
        if self._done.done():
            self._lost(self, reason)
        else:
            self._done.cancel()

    async def wait_closed(self) -> None:
        """After `close`: until nothing is left of the connection, so that the loop may end."""
        if self._transport is None:
            return
        await asyncio.wait([self._gone], timeout=FAREWELL_S)
        abort(self._transport)  # where it is gone, nothing happens

    def _flush(self) -> None:
        self._flushing = False
        if self._structs:
            self._encode()
        pieces, self._pieces = self._pieces, []
        if pieces and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(pieces)

    def _encode(self) -> None:
        """A site takes records up to a length: what does not fit into one goes into several."""
        structs, self._structs, self._structs_bytes = self._structs, [], 0
        record = encode(structs)
        self._pieces += frame(record if self._seal is None else self._seal.seal(record))

    def _heartbeat(self) -> None:
        late = self._loop.time() - self._beat_at
        if self._heard or late > HEARTBEAT_S:
            # If this process was stopped, it has not listened either.
            self._missed = 0
        else:
            self._missed += 1
            if self._missed > 1:
                self._fail(Unavailable(f"{self.address}: the site is silent"), at_once=True)
                return
        quiet = not (self._heard and self._spoke)
        self._heard = self._spoke = False
        if quiet:
            self.send(Ping(0))
            self._spoke = False
        self._beat_at = self._loop.time() + HEARTBEAT_S
        self._beat = self._loop.call_at(self._beat_at, self._heartbeat)

    # -- the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no such class
        if self.closed:
            transport.close()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        try:
            records = self._reader.feed(data)
        except Malformed as error:
            self._fail(Malformed(f"{self.address}: {error}"))
            return
        try:
            for record in records:
                body = record if self._opener is None else self._opener.open(record)
                structs = decode_from_site(body)
                if self._done.done():
                    self._take(structs)
                else:
                    for at, struct in enumerate(structs):
                        self._take_in_handshake(struct)
                        if self._done.done():
                            self._take(structs[at + 1 :])
                            break
                if self.closed:
                    return
        except ReconveneError as error:
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._gone.done():
            self._gone.set_result(None)
        if isinstance(error, ssl.SSLError):
            self._fail(Rejected(f"{self.address}: TLS: {error.reason or error}"))
        else:
            why = "the site ended the connection" if error is None else str(error) or type(error).__name__
            self._fail(Unavailable(f"{self.address}: {why}"))

    # -- what arrives

    def _take(self, structs: list[ToClient]) -> None:
        for struct in structs:
            if isinstance(struct, Refused | Goodbye):
                self._receive([known for known in structs if not isinstance(known, Refused | Goodbye)])
                self._fail(Unavailable(f"{self.address}: {struct.reason}"))
                return
        self._receive(structs)

    def _take_in_handshake(self, struct: ToClient) -> None:
        match struct:
            case Challenge():
                self._prove(struct)
            case Proven():
                self._check_site(struct)
            case Welcome():
                self._check_welcome(struct)
                self.welcome = struct
                self._reader.limit = min(struct.message_bytes, MESSAGE_BYTES) + SLACK_BYTES + SEAL_BYTES
                self._done.set_result(None)
            case Refused(kind=kind, reason=reason):
                raise ERRORS.get(kind, Rejected)(f"{self.address}: {reason}")
            case Goodbye(reason=reason):
                raise Unavailable(f"{self.address}: {reason}")
            case _:
                raise Malformed(f"{self.address}: not the handshake of a site")

    def _prove(self, challenge: Challenge) -> None:
        if self._key is None or self._said:
            raise Rejected(f"{self.address}: the site asks for a client key: none was given")
        self._said = transcript(self._hello, challenge, self._tls)
        self.send(Proof(client_proof(self._key.key, self._said)))

    def _check_site(self, proven: Proven) -> None:
        key = self._key
        if key is None or not self._said or not is_proof(proven.proof, site_proof(key.key, self._said)):
            raise Rejected(f"{self.address}: the site does not prove that it holds this client's key")
        self._proven = True
        if not self._tls:
            self._seal, self._opener = session_seals(key.key, self._said)

    def _check_welcome(self, welcome: Welcome) -> None:
        if self._key is not None and not self._proven:
            raise Rejected(f"{self.address}: the site lets everyone in, though this client has a key for it")
        if welcome.major != MAJOR:
            raise Rejected(
                f"{self.address}: site {welcome.site} speaks version {welcome.major}.{welcome.minor} of the client "
                f"protocol, this program {MAJOR}.{MINOR}: the first number must be the same"
            )

    def _fail(self, error: ReconveneError, at_once: bool = False) -> None:
        if self.closed:
            return
        if at_once and self._transport is not None:
            abort(self._transport)
        if self._done.done():
            self.close(str(error))
            return
        self._done.set_exception(error)
        self._done.exception()  # marks it as seen: perhaps no caller waits any more
        self.closed = True
        if self._transport is not None:
            self._transport.close()
