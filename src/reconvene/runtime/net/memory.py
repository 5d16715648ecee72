"""Tunes the C library's allocator for a process that allocates and frees megabytes of frames in every turn.

By default glibc returns the end of its heap to the system as soon as 128 KiB of it are free, and requests it again
page by page in the next turn. That costs more than opening the frames.
"""

import ctypes
import sys
from functools import cache

__all__ = ["KEPT_BYTES", "keep_freed_memory"]

KEPT_BYTES = 32 << 20
"""How much free memory at the heap's end is kept."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES = 1 << 20
"""Larger blocks are mapped and returned one by one, as by default."""


@cache
def keep_freed_memory() -> bool:
    """Applies the settings, once for the process; returns whether the C library has them."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES))
