"""The clocks: time-outs use the monotonic clock, ages in the log and traces the time of day."""

import ctypes
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

from reconvene.doctor.finding import Finding, advise, fine
from reconvene.units import show_duration

__all__ = ["ClockWatch", "look_at_clock"]

_COARSE_NS = 1_000_000
_READINGS = 1_000
_SLEEPS, _SLEEP_S = 50, 0.001
_LATE_NS = 200_000_000
"""With the default times, a site that stalls for this long is nearly suspected."""
_STEP_NS = 5_000_000
_TIME_ERROR = 5
"""What adjtimex returns if no daemon synchronises the clock."""
_TIMEX_BYTES = 512


class ClockWatch:
    """Notices if the time of day is set while it is watched."""

    def __init__(self) -> None:
        self._began_ns, self._apart_ns = time.monotonic_ns(), _apart_ns()

    def look(self) -> Finding:
        stepped, watched = _apart_ns() - self._apart_ns, time.monotonic_ns() - self._began_ns
        if abs(stepped) > _STEP_NS:
            seen = f"the time of day was set by {stepped / 1e9:+.3f}s in {show_duration(watched)}"
            return advise(
                "clock steps", seen, "let only one daemon synchronise it, by slewing: chrony or systemd-timesyncd"
            )
        return fine("clock steps", f"none in {show_duration(watched // 1_000_000 * 1_000_000)}")


def look_at_clock() -> Iterator[Finding]:
    smallest = _smallest_step_ns()
    if smallest > _COARSE_NS:
        change = "choose another clock source: /sys/devices/system/clocksource/clocksource0/current_clocksource"
        yield advise("monotonic clock", f"goes in steps of {show_duration(smallest)}", change)
    else:
        yield fine("monotonic clock", f"goes in steps of {show_duration(smallest)}")
    late = _lateness_ns()
    if late > _LATE_NS:
        seen = f"one of {_SLEEPS} came {show_duration(late)} late: the machine is overloaded, or stood still"
        yield advise("timers", seen, "give it more processor time, or raise timing.suspect_base at every site")
    else:
        yield fine("timers", f"the latest of {_SLEEPS} came {show_duration(late)} late")
    synchronised = _synchronised()
    if synchronised is None:
        yield fine("time of day", "it is unknown here whether it is synchronised")
    elif synchronised:
        yield fine("time of day", "synchronised")
    else:
        yield advise(
            "time of day", "no daemon synchronises it, as far as the kernel knows", "sudo timedatectl set-ntp true"
        )


def _apart_ns() -> int:
    return time.time_ns() - time.monotonic_ns()


def _smallest_step_ns() -> int:
    readings = [time.monotonic_ns() for _ in range(_READINGS)]
    steps = [later - earlier for earlier, later in pairwise(readings) if later > earlier]
    return min(steps, default=int(time.get_clock_info("monotonic").resolution * 1e9))


def _lateness_ns() -> int:
    worst = 0
    for _ in range(_SLEEPS):
        due = time.monotonic_ns() + int(_SLEEP_S * 1e9)
        time.sleep(_SLEEP_S)
        worst = max(worst, time.monotonic_ns() - due)
    return worst // 1_000 * 1_000


def _synchronised() -> bool | None:
    """As the kernel reports it; None if it can't."""
    if sys.platform != "linux":
        return None
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    state: int = adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))  # all zero: asks, and sets nothing
    return None if state < 0 else state != _TIME_ERROR
