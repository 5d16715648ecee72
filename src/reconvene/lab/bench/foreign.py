"""How much of the machine others used while something was measured: figures taken under load say little alone."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

__all__ = ["Foreign", "spent_s"]


class Foreign:
    """Cores that were busy for others between entering and leaving, in `cores`.

    Ours is this process with the children that it has waited for, and the processes that `ours` names: one that
    starts or ends meanwhile is missed. Time stolen by the hypervisor is others', and so is what the kernel does in
    threads of its own. 0 where the system has no /proc.
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
    """Processor time of a process so far; 0 where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
