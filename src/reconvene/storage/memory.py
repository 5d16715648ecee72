"""Sorted keys and values in memory, for the simulated disk and for tests."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from reconvene.errors import Malformed
from reconvene.storage.tables import MOST_KEY_BYTES, Clear, Op

__all__ = ["MemoryTables"]


class MemoryTables:
    """Keys mostly come in rising order, so a sorted list is as quick as anything: it is extended at its end."""

    __slots__ = ("_corrupt", "_keys", "_values")

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._values: dict[bytes, bytes] = {}
        self._corrupt: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: bytes) -> bytes | None:
        if key in self._corrupt:
            raise Malformed(f"the value of {key.hex()} is corrupt: its checksum does not match")
        return self._values.get(key)

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return iter(self._between(start, end))

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        values = self._values
        found = [(key, values[key]) for key in self._between(start, end)]
        return self._checked(found) if self._corrupt else iter(found)

    def last(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        index = bisect_left(self._keys, end) - 1
        if index < 0 or (key := self._keys[index]) < start:
            return None
        value = self.get(key)
        assert value is not None
        return key, value

    def write(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if type(op) is Clear:
                self._clear(op)
            else:
                key, value = op
                if not 0 < len(key) <= MOST_KEY_BYTES:
                    raise ValueError(f"a key of {len(key)} bytes; it must have 1 to {MOST_KEY_BYTES}")
                self._corrupt.discard(key)
                if value is None:
                    self._delete(key)
                else:
                    assert type(value) is bytes
                    self._put(key, value)

    def corrupt(self, key: bytes) -> None:
        """Makes the value under this key unreadable, until another one is put there."""
        assert key in self._values, f"nothing is kept under {key.hex()}"
        self._corrupt.add(key)

    def close(self) -> None:
        """Nothing to do."""

    def _put(self, key: bytes, value: bytes) -> None:
        if key not in self._values:
            keys = self._keys
            if not keys or key > keys[-1]:
                keys.append(key)
            else:
                insort(keys, key)
        self._values[key] = value

    def _delete(self, key: bytes) -> None:
        if self._values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def _clear(self, op: Clear) -> None:
        keys = self._keys
        first, beyond = bisect_left(keys, op.start), bisect_left(keys, op.end)
        for key in keys[first:beyond]:
            del self._values[key]
            self._corrupt.discard(key)
        del keys[first : max(first, beyond)]

    def _between(self, start: bytes, end: bytes) -> list[bytes]:
        keys = self._keys
        return keys[bisect_left(keys, start) : bisect_left(keys, end)]

    def _checked(self, found: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for key, value in found:
            self.get(key)
            yield key, value
