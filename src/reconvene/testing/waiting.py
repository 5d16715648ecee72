"""What a simulation was waiting for, told to whoever reads the failure."""

import asyncio
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from reconvene.testing.process import Process

__all__ = ["what_waits"]

_MOST = 10


class Waiting(Protocol):
    """A task, and the process that it belongs to."""

    owner: Process | None

    def done(self) -> bool: ...
    def get_name(self) -> str: ...
    def get_coro(self) -> Any: ...


def what_waits(tasks: Iterable[Waiting]) -> str:
    """One line: the tasks of the test and of its programs, and the line of the program at which each stands."""
    found = []
    for task in tasks:
        owner = task.owner
        if not task.done() and (owner is None or not (owner.is_site or owner.dead)):
            found.append(f"{task.get_name()}{'' if owner is None else f' ({owner.name})'} at {_place(task)}")
    shown = "; ".join(found[:_MOST])
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return f"Waiting: {shown}{more}" if found else "No task waits."


def _place(task: Waiting) -> str:
    """The innermost line that is not asyncio's or Reconvene's; else the outermost."""
    frames = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "ag_frame", "gi_frame")
        if frame is not None:
            frames.append(traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        awaited = _first(awaited, "cr_await", "ag_await", "gi_yieldfrom")
    if not frames:
        return "its start"
    own = [frame for frame in frames if not _is_library(frame.filename)]
    at = (own or frames)[-1]
    return f"{Path(at.filename).name}:{at.lineno} {at.line or at.name}"


def _first(of: Any, *names: str) -> Any:
    """Of a coroutine and of a generator, which name the same things differently."""
    return next(filter(None, (getattr(of, name, None) for name in names)), None)


_LIBRARIES = (str(Path(asyncio.__file__).parent), str(Path(__file__).parents[1]))


def _is_library(filename: str) -> bool:
    return filename.startswith(_LIBRARIES)
