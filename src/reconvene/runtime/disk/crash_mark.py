"""Remembers whether the last process of a site crashed in native code, as it does when a page of storage is damaged
while the site runs.

Given: a site's directory, locked. Promised: `left` is true if the last process that used the mark ended by SIGABRT,
SIGBUS, SIGSEGV, SIGILL or SIGFPE, until `clear`. SIGKILL and a power failure leave no mark.
"""

import faulthandler
import os
from contextlib import suppress
from pathlib import Path

from reconvene.errors import Unavailable

__all__ = ["CRASH_FILE", "CrashMark"]

CRASH_FILE = "crash"
"""The stack of every thread at the crash, for a bug report; empty if there was none."""


class CrashMark:
    def __init__(self, directory: Path) -> None:
        """Raises Unavailable if the directory can't be written to."""
        try:
            self._fd = os.open(directory / CRASH_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"dir: {directory}: can't be written to: {error.strerror}") from None
        self.left = os.fstat(self._fd).st_size > 0
        self._was_enabled = faulthandler.is_enabled()
        faulthandler.enable(self._fd)

    def clear(self) -> None:
        with suppress(OSError):  # then the next start checks more than it has to
            os.ftruncate(self._fd, 0)

    def close(self) -> None:
        if self._was_enabled:
            faulthandler.enable(2)
        else:
            faulthandler.disable()
        os.close(self._fd)
