"""Batches' bodies: those that are not durable yet and recent ones in memory, all others on stable storage.

Memory is bounded: what is not durable by the replica's limits, what is cached by `cache_bytes`.
"""

from collections.abc import Iterable, Mapping

from reconvene.corel.batch import BatchId, Heading, decode_heading
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.keeping.layout import body_key
from reconvene.storage.tables import Reader

__all__ = ["Bodies"]


class Bodies:
    def __init__(self, tables: Reader, cache_bytes: int) -> None:
        self._tables = tables
        self._cache_bytes = cache_bytes
        self._fresh: dict[BatchId, bytes] = {}
        """Not on stable storage yet."""
        self._cached: dict[BatchId, bytes] = {}
        self._bytes = 0
        self._unwritten: list[BatchId] = []

    def put(self, batch: BatchId, body: bytes) -> None:
        """Its write is in the present turn."""
        self._fresh[batch] = body
        self._unwritten.append(batch)

    def take_unwritten(self) -> list[BatchId]:
        """Those put since the last call. The caller reports to `synced` when they are durable."""
        taken, self._unwritten = self._unwritten, []
        return taken

    def synced(self, batches: Iterable[BatchId]) -> None:
        cached = self._cached
        for batch in batches:
            body = self._fresh.pop(batch, None)
            if body is not None:
                cached[batch] = body
                self._bytes += len(body)
        while self._bytes > self._cache_bytes:
            oldest = next(iter(cached))
            self._bytes -= len(cached.pop(oldest))

    def get(self, batch: BatchId) -> bytes:
        """Raises Damaged where stable storage lacks it or holds something else."""
        body = self._fresh.get(batch) or self._cached.get(batch)
        if body is None:
            body = self._tables.get(body_key(batch))
            if body is None:
                raise Damaged(f"the log's storage lacks batch {batch.author}:{batch.first}")
        return body

    def heading(self, batch: BatchId) -> Heading:
        heading = decode_heading(self.get(batch))
        if heading.id != batch:
            raise Damaged(f"the log's storage has {heading.id} in the place of {batch}")
        return heading

    def forget(self, last: Mapping[int, int]) -> None:
        """All up to these authors' counters are deleted."""
        for batch in [batch for batch in self._cached if batch.first <= last.get(batch.author, 0)]:
            self.drop(batch)

    def drop(self, batch: BatchId) -> None:
        """It is deleted."""
        body = self._cached.pop(batch, None)
        if body is not None:
            self._bytes -= len(body)
