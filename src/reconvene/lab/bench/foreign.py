"""How much processor time other programs used during a measurement: without it, figures of a busy machine say
little."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

__all__ = ["Foreign", "spent_s"]


class Foreign:
    """`cores`: the cores that other programs used between entering and leaving.

    Our own time is that of this process, of the children that it has waited for, and of the processes in `ours`; one
    that starts or ends meanwhile is missed. Time of the hypervisor and of kernel threads counts as other programs'.
    0 if the system has no /proc.
    """

    def __init__(self, ours: Callable[[], Iterable[int]] = tuple) -> None:
        self.cores = 0.0
        self._ours = ours
        self._before = (0.0, 0.0)

    def __enter__(self) -> Self:
        self._before = self._sample()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        at, foreign_s = self._sample()
        self.cores = max(0.0, foreign_s - self._before[1]) / max(1e-9, at - self._before[0])

    def _sample(self) -> tuple[float, float]:
        own = os.times()
        ours_s = own.user + own.system + own.children_user + own.children_system
        return monotonic(), _busy_s() - ours_s - sum(map(spent_s, set(self._ours()) - {os.getpid()}))


def _busy_s() -> float:
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def spent_s(pid: int) -> float:
    """Processor time of a process so far; 0 if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
