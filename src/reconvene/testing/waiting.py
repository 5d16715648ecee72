"""What a simulation was waiting for, for the reader of the failure."""

import asyncio
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, cast

from reconvene.testing.process import Process

__all__ = ["is_own_task", "task_of", "what_waits"]

_MOST = 10


class Waiting(Protocol):
    """A task, and the process that it belongs to."""

    owner: Process | None
    is_own: bool

    def done(self) -> bool: ...
    def get_name(self) -> str: ...
    def get_coro(self) -> Any: ...


def what_waits(tasks: Iterable[Waiting]) -> str:
    """One line: the tasks of the test and of its programs, and the line of the program at which each stands."""
    found = []
    for task in tasks:
        owner = task.owner
        if not task.done() and not task.is_own and (owner is None or not (owner.is_site or owner.dead)):
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
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    at = (own or frames)[-1]
    return f"{Path(at.filename).name}:{at.lineno} {at.line or at.name}"


def _first(of: Any, *names: str) -> Any:
    """Of a coroutine and of a generator, which name the same things differently."""
    return next(filter(None, (getattr(of, name, None) for name in names)), None)


_TESTING = str(Path(__file__).parent)
_RECONVENE = str(Path(__file__).parents[1])
_LIBRARIES = (str(Path(asyncio.__file__).parent), _RECONVENE)


def is_own_task(coroutine: object) -> bool:
    """One that Reconvene has started for itself: not the test's, nor one of its programs'."""
    filename = getattr(getattr(coroutine, "cr_code", None), "co_filename", "")
    return filename.startswith(_RECONVENE) and not filename.startswith(_TESTING)


def task_of(timer: asyncio.TimerHandle) -> "asyncio.Task[Any] | None":
    """The task that it will wake: one that sleeps, or has a time-out. None: it does something else."""
    callback: Any = timer._callback  # type: ignore[attr-defined]
    timeout = getattr(callback, "__self__", None)
    if isinstance(timeout, asyncio.Timeout):
        return cast("asyncio.Task[Any]", timeout._task)  # type: ignore[attr-defined]
    for argument in timer._args or ():
        if isinstance(argument, asyncio.Future):
            for waiting, _ in argument._callbacks or ():
                task = getattr(waiting, "__self__", None)
                if isinstance(task, asyncio.Task):
                    return task
    return None
