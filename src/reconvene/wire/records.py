"""Records in a stream of bytes: a length of four bytes, then the record, sealed where a handshake made keys for it.

Promised: a reader keeps at most one record of the allowed length in memory, whatever arrives. It detects a record
that was changed, left out, repeated or moved, since each is sealed with its number in the stream.
"""

from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reconvene.errors import Malformed

__all__ = ["SEAL_BYTES", "RecordReader", "RecordSeal", "frame"]

SEAL_BYTES = 16
"""How much longer a sealed record is."""

_LENGTH = Struct(">I")
_PLACE = Struct(">4xQ")


def frame(record: bytes) -> tuple[bytes, bytes]:
    """The length and the record, as two pieces, so that a long record is not copied."""
    return _LENGTH.pack(len(record)), record


class RecordReader:
    """Splits the received bytes into records."""

    __slots__ = ("_kept", "_wanted", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """The most bytes of a record; it may change between records."""
        self._kept = bytearray()
        self._wanted = 4
        """Of the bytes that are kept: so many are needed to go on."""

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the records that `data` completes. Raises Malformed if a record claims to be too long."""
        kept = self._kept
        if kept:
            kept += data
            if len(kept) < self._wanted:
                return []
            data = bytes(kept)
            kept.clear()
        records = []
        at, end, self._wanted = 0, len(data), 4
        while end - at >= 4:
            (length,) = _LENGTH.unpack_from(data, at)
            if not 0 < length <= self.limit:
                raise _wrong_length(data[at : at + 4], length, self.limit)
            if end - at < 4 + length:
                self._wanted = 4 + length
                break
            records.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        kept += data[at:]
        return records


def _wrong_length(word: bytes, length: int, limit: int) -> Malformed:
    """`word`: the bytes that were read as this length."""
    if word == b"HTTP":
        return Malformed("an answer in HTTP: this is a site's http.address; expected its clients.tcp")
    if word in _HTTP_REQUESTS:
        return Malformed("an HTTP request came to a port for clients; expected it at http.address")
    return Malformed(f"record of {length} bytes: 1 to {limit} expected")


_HTTP_REQUESTS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN")
"""The first bytes of an HTTP request. Read as a length, each of them exceeds every limit."""


class RecordSeal:
    """Seals one direction of one connection. The key is used only for that, so a counter is a nonce that never
    repeats."""

    __slots__ = ("_aead", "_place")

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)
        self._place = 0

    def seal(self, record: bytes) -> bytes:
        self._place += 1
        return self._aead.encrypt(_PLACE.pack(self._place), record, None)

    def open(self, record: bytes) -> bytes:
        self._place += 1
        try:
            return self._aead.decrypt(_PLACE.pack(self._place), record, None)
        except InvalidTag:
            raise Malformed("a record's seal does not hold: it was changed, left out, repeated or moved") from None
