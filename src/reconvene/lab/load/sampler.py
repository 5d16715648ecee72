"""A sampling profiler: it shows where a process spends its time, and slows nothing down.

A sample is a signal after some processor time. Python handles it between two bytecodes, so the time of C code counts
for the line that called it.
"""

import signal
from collections import Counter
from pathlib import Path
from types import FrameType

import reconvene

__all__ = ["Sampler", "layer_of"]

EVERY_S = 0.001
"""The ticks of the system's clock may be longer."""

_PACKAGE = Path(reconvene.__file__).parent
_LAYERS = (
    ("core/multicast", "multicast"),
    ("core/membership", "membership"),
    ("core/evs", "evs"),
    ("core/order", "order"),
    ("core/groups", "groups"),
    ("core/", "site"),
    ("wire/seal", "seals"),
    ("runtime/net/seal_sessions", "seals"),
    ("wire/", "wire"),
    ("runtime/net/udp", "udp"),
    ("runtime/", "engine"),
    ("storage/", "storage"),
    ("client/", "client"),
    ("lab/", "the application"),
)
"""Layers by the prefix of a file's path in the package; the first match counts."""


class Sampler:
    """Samples from `start` to `stop`, in the main thread."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, str, int]] = Counter()
        """Samples by file, function and line."""

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _look(self, number: int, frame: FrameType | None) -> None:
        if frame is not None:
            code = frame.f_code
            self.seen[_short(code.co_filename), code.co_qualname, frame.f_lineno] += 1


def _short(file: str) -> str:
    """Relative to the package, if it is in there."""
    path = Path(file)
    return path.relative_to(_PACKAGE).as_posix() if path.is_relative_to(_PACKAGE) else path.name


def layer_of(file: str) -> str:
    """The layer of a file, as `Sampler.seen` names it."""
    for beginning, layer in _LAYERS:
        if file.startswith(beginning):
            return layer
    return "the event loop"
