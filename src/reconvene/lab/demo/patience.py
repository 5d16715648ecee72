"""Waits as long as there is progress: on a busy machine everything takes longer, and nothing is wrong.

The processor time that a process has used is such a measure of progress. It does not grow while other processes keep
the processors busy, so a limit on it means the same on every machine.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["processor_s", "while_it_moves"]

_LOOK_S = 0.5
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

T = TypeVar("T")


async def while_it_moves(work: Awaitable[T], moved: Callable[[], object], idle_s: float) -> T:
    """Returns what the work returns. Raises TimeoutError if `moved()` returns the same for `idle_s` before that.

    If the result of `moved` keeps changing, this waits for ever.
    """
    task = asyncio.ensure_future(work)
    try:
        last, since = moved(), time.monotonic()
        while not (await asyncio.wait([task], timeout=min(_LOOK_S, idle_s)))[0]:
            now = moved()
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since >= idle_s:
                raise TimeoutError(f"nothing has moved for {idle_s:g} s")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


def processor_s(group: int) -> float:
    """The processor time of a process group, ended children included; 0 if the system does not show it."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # From the third field on: the second one, the program's name, may contain spaces and brackets.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_A_SECOND
