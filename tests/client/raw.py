"""A client that says what a test tells it to, byte by byte if need be."""

import asyncio
from typing import TypeVar

from reconvene.client.addresses import parse_addresses
from reconvene.wire.clients import MAJOR, MINOR, Hello, ToClient, ToSite, Welcome, decode_from_site, encode
from reconvene.wire.records import RecordReader, RecordSeal, frame

__all__ = ["Raw"]

T = TypeVar("T")


class Raw:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._records = RecordReader(64 << 20)
        self._unread: list[bytes] = []
        self._structs: list[ToClient] = []
        self.seal: RecordSeal | None = None
        self.opener: RecordSeal | None = None

    @classmethod
    async def connect(cls, address: str) -> "Raw":
        (where,) = parse_addresses(address)
        if where.path:
            return cls(*await asyncio.open_unix_connection(where.path))
        return cls(*await asyncio.open_connection(where.host, where.port))

    @classmethod
    async def welcome(cls, address: str) -> "Raw":
        """Past a handshake without a key."""
        raw = await cls.connect(address)
        raw.send(hello())
        await raw.expect(Welcome)
        return raw

    def send(self, *structs: ToSite) -> None:
        record = encode(list(structs))
        self.write(b"".join(frame(record if self.seal is None else self.seal.seal(record))))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def next(self) -> ToClient:
        while not self._structs:
            while not self._unread:
                data = await asyncio.wait_for(self._reader.read(1 << 16), 10)
                if not data:
                    raise EOFError
                self._unread += self._records.feed(data)
            record = self._unread.pop(0)
            self._structs += decode_from_site(record if self.opener is None else self.opener.open(record))
        return self._structs.pop(0)

    async def expect(self, kind: type[T]) -> T:
        """The next of this kind; others are passed over."""
        while True:
            struct = await self.next()
            if isinstance(struct, kind):
                return struct

    async def ended(self) -> bool:
        """The site closed the connection."""
        try:
            while True:
                await self.next()
        except (EOFError, ConnectionError):
            return True

    def close(self) -> None:
        self.writer.close()


def hello(name: str = "", major: int = MAJOR, minor: int = MINOR) -> Hello:
    return Hello(major, minor, name, bytes(32))
