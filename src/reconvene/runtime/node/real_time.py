"""The real-time class of the operating system, for a site that is configured to run in it.

With other programs on the machine, a thread of the ordinary class waits for the processor each time that a datagram
wakes it. One of the class SCHED_RR runs at once, and shares the processor only with others of its priority.

Promised: off unless `scheduling.real_time` is set. What the system does not allow is refused in one line, and nothing
is changed by asking.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from reconvene.errors import Rejected
from reconvene.runtime.config.settings import Config

__all__ = ["check_real_time", "real_time"]


def check_real_time(config: Config) -> None:
    """Raises Rejected if the system does not allow the class. It is tried in a thread of its own, since the class
    belongs to a thread."""
    priority = config.scheduling.real_time
    if not priority:
        return
    found: list[OSError | None] = []
    trial = Thread(target=lambda: found.append(_take(priority)), name="real-time trial")
    trial.start()
    trial.join()
    if found[0] is not None:
        raise _refusal(priority, found[0])


@contextmanager
def real_time(config: Config) -> Iterator[None]:
    """Inside, this thread runs in the class, and so do threads that it starts: the keeper has to wake up as soon as
    the loop does, or a sync would wait for other programs."""
    priority = config.scheduling.real_time
    if not priority:
        yield
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    error = _take(priority)
    if error is not None:
        raise _refusal(priority, error)
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


def _take(priority: int) -> OSError | None:
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    except OSError as error:
        return error
    return None


def _refusal(priority: int, error: OSError) -> Rejected:
    why = os.strerror(error.errno) if error.errno else str(error)
    return Rejected(
        f"scheduling.real_time: {priority}: the system refuses the real-time class: {why}; expected CAP_SYS_NICE, or "
        f"a limit of at least {priority} (LimitRTPRIO= of systemd, ulimit -r)"
    )
