"""A connection to a site on which the answer to an append is lost: the vote is on disk, and the voter does not know.

Everything else passes in both directions. When the site closes its end, the voter's end is closed too.
"""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from reconvene.wire.client_log import Appended
from reconvene.wire.clients import decode_from_site
from reconvene.wire.records import RecordReader, frame

__all__ = ["LossyLine"]

_RECORD_BYTES = 1 << 20
"""Far more than a site sends to one voter."""
_READ_BYTES = 1 << 16


class LossyLine:
    """`async with LossyLine(site) as line:` listens at `line.path`."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._directory = tempfile.TemporaryDirectory(prefix="reconvene-")  # a socket's path has to be short
        self.path = str(Path(self._directory.name) / "line.sock")
        self.lost = asyncio.Event()
        """The site has answered, so the message is durable there; the answer was dropped."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self.path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None, "it was entered"
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._directory.cleanup()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up: asyncio.Task[None] | None = None
        with suppress(OSError):
            try:
                from_site, to_site = await asyncio.open_unix_connection(self._site)
                up = asyncio.ensure_future(_pass(reader, to_site))
                await self._lose(from_site, writer)
            finally:
                writer.close()
                if up is not None:
                    up.cancel()
                    to_site.close()

    async def _lose(self, from_site: asyncio.StreamReader, to_voter: asyncio.StreamWriter) -> None:
        records = RecordReader(_RECORD_BYTES)
        while data := await from_site.read(_READ_BYTES):
            for record in records.feed(data):
                if any(isinstance(struct, Appended) for struct in decode_from_site(record)):
                    self.lost.set()
                else:
                    to_voter.writelines(frame(record))
            await to_voter.drain()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
