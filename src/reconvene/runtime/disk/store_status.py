"""What a site reports about its storage: its size, the room that is left, and whether a write is stuck."""

from reconvene.runtime.outside import Keeping, Store

__all__ = ["store_status"]


def store_status(store: Store, keeper: Keeping, limit_bytes: int) -> dict[str, object]:
    """JSON-able: see docs/operations.md. Asks the file system, which answers from memory: LMDB needs a local one."""
    free, size = store.room() or (None, None)
    return {
        "used_bytes": store.used_bytes,
        "limit_bytes": limit_bytes,
        "free_bytes": free,
        "disk_bytes": size,
        "writing_s": keeper.writing_s(),
    }
