"""A program that starts processes, and is ended by SIGTERM: it ends them first.

Without this, SIGTERM ends Python at once. What a benchmark or a soak had started would stay, and what it had stopped
by SIGSTOP would not even end by a SIGTERM of its own: a stopped process takes that only once it is continued.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["unwinds_on_sigterm"]


@contextmanager
def unwinds_on_sigterm() -> Iterator[None]:
    """SIGTERM raises SystemExit inside, so that all that was begun there is ended. A second one ends the program at
    once. For the main thread."""
    before = signal.getsignal(signal.SIGTERM)

    def unwind(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
