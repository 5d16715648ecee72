"""Snapshots that one client is saving, piece by piece.

Promised: the pieces of a snapshot are accepted only in order. A client may save snapshots of several names at the
same time; one limit holds for all of them together.
"""

from reconvene.corel.keeping.snapshot_rows import MOST_NAMES
from reconvene.errors import Rejected
from reconvene.wire.client_log import SaveSnapshot

__all__ = ["SnapshotUploads"]


class _Upload:
    __slots__ = ("data", "position", "total")

    def __init__(self, position: int, total: int) -> None:
        self.position = position
        self.total = total
        self.data = bytearray()


class SnapshotUploads:
    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._uploads: dict[str, _Upload] = {}
        """By the name of the state machine."""

    def clear(self) -> None:
        self._uploads.clear()

    def take(self, piece: SaveSnapshot) -> bytes | None:
        """Returns the whole snapshot if this was its last piece, else None. Raises Rejected if the piece does not
        follow the one before it or exceeds a limit."""
        if piece.total > self._most_bytes:
            raise Rejected(f"a snapshot of {piece.total} bytes: at most log.snapshot_bytes, {self._most_bytes}")
        if piece.offset == 0:
            self._begin(piece)
        upload = self._uploads.get(piece.name)
        if upload is None or (upload.position, upload.total, len(upload.data)) != (
            piece.position, piece.total, piece.offset,
        ):  # fmt: skip
            self._uploads.pop(piece.name, None)
            raise Rejected("the piece of a snapshot does not follow the one before it")
        upload.data += piece.data
        if len(upload.data) < piece.total:
            if not piece.data:
                raise Rejected("an empty piece of a snapshot")
            return None
        del self._uploads[piece.name]
        if len(upload.data) > piece.total:
            raise Rejected(f"a snapshot longer than the {piece.total} bytes that were announced")
        return bytes(upload.data)

    def _begin(self, piece: SaveSnapshot) -> None:
        self._uploads.pop(piece.name, None)
        others = sum(upload.total for upload in self._uploads.values())
        if piece.total + others > self._most_bytes:
            raise Rejected(
                f"snapshots of {piece.total + others} bytes at the same time: at most log.snapshot_bytes, "
                f"{self._most_bytes}"
            )
        if len(self._uploads) >= MOST_NAMES:
            raise Rejected(f"more than {MOST_NAMES} snapshots at the same time")
        self._uploads[piece.name] = _Upload(piece.position, piece.total)
