"""Stable storage in LMDB: transactions and crash safety are its own; the checksum on each value is ours."""

from collections.abc import Mapping
from errno import EIO
from pathlib import Path
from zlib import crc32

import lmdb

from reconvene.errors import Malformed, Unavailable

__all__ = ["FORMAT", "LmdbStore"]

FORMAT = 1
"""Of what a store holds. A newer one is refused."""

_FORMAT_KEY = b"format"
_MAP_BYTES = 1 << 30
"""The most that a store can hold; the file grows with what it does hold."""
_SUM_BYTES = 4


class LmdbStore:
    """A directory of its own. One process at a time: the site holds a lock on its directory."""

    def __init__(self, path: Path, map_bytes: int = _MAP_BYTES) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._env = lmdb.open(str(path), map_size=map_bytes, max_readers=16)
        except (OSError, lmdb.Error) as error:
            raise Unavailable(f"{path}: can't be used as storage: {error}") from None
        try:
            self._check_format()
        except OSError as error:
            self._env.close()
            raise Unavailable(f"{path}: can't be used as storage: {error.strerror or error}") from None
        except BaseException:
            self._env.close()
            raise

    def get(self, key: str) -> bytes | None:
        try:
            with self._env.begin() as transaction:
                stored = transaction.get(key.encode())
        except lmdb.Error as error:
            raise Malformed(f"{self.path}: {key} can't be read: {error}") from None
        if stored is None:
            return None
        value = stored[_SUM_BYTES:]
        if int.from_bytes(stored[:_SUM_BYTES]) != crc32(value, crc32(key.encode())):
            raise Malformed(f"{self.path}: the value of {key} is corrupt: its checksum does not fit")
        return value

    def put(self, values: Mapping[str, bytes]) -> None:
        try:
            with self._env.begin(write=True) as transaction:
                for key, value in values.items():
                    name = key.encode()
                    # The name is in the sum: a value under another's name is corrupt too.
                    transaction.put(name, crc32(value, crc32(name)).to_bytes(_SUM_BYTES) + value)
        except lmdb.Error as error:
            raise OSError(EIO, str(error), str(self.path)) from error

    def close(self) -> None:
        self._env.close()

    def _check_format(self) -> None:
        stored = self.get(_FORMAT_KEY.decode())
        if stored is None:
            self.put({_FORMAT_KEY.decode(): b"%d" % FORMAT})
        elif not stored.isdigit() or int(stored) > FORMAT:
            raise Unavailable(
                f"{self.path}: was written by a newer program: format {stored.decode(errors='replace')};"
                f" this one knows up to {FORMAT}"
            )
