"""How the C library keeps memory, in a process that makes and frees megabytes of frames in every turn.

Left alone, glibc gives the end of its heap back to the system as soon as 128 KiB of it are free, and takes it again
page by page in the next turn: that costs more than opening the frames.
"""

import ctypes
import sys
from functools import cache

__all__ = ["KEPT_BYTES", "keep_freed_memory"]

KEPT_BYTES = 32 << 20
"""How much may be free at the heap's end and stay with the process."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES = 1 << 20
"""What is larger than this is mapped and given back one by one, as before."""


@cache
def keep_freed_memory() -> bool:
    """Once for the process; whether the C library has such a setting."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES))
