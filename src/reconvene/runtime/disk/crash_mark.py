"""Whether the last run of a site ended in a crash of the interpreter or of a library: a page of storage that was
damaged while the site ran ends it that way.

Given: a site's directory, held. Promised: `left` is true where the last process that armed the mark here ended by
SIGABRT, SIGBUS, SIGSEGV, SIGILL or SIGFPE, until `clear`. SIGKILL and a power failure leave no mark.
"""

import faulthandler
import os
from contextlib import suppress
from pathlib import Path

from reconvene.errors import Unavailable

__all__ = ["CRASH_FILE", "CrashMark"]

CRASH_FILE = "crash"
"""Where every thread was when the process crashed, for a bug report; empty otherwise."""


class CrashMark:
    def __init__(self, directory: Path) -> None:
        """Raises Unavailable where the directory can't be written to."""
        try:
            self._fd = os.open(directory / CRASH_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"dir: {directory}: can't be written to: {error.strerror}") from None
        self.left = os.fstat(self._fd).st_size > 0
        self._was_enabled = faulthandler.is_enabled()
        faulthandler.enable(self._fd)

    def clear(self) -> None:
        with suppress(OSError):  # then the next start looks at more than it has to
            os.ftruncate(self._fd, 0)

    def close(self) -> None:
        if self._was_enabled:
            faulthandler.enable(2)
        else:
            faulthandler.disable()
        os.close(self._fd)
