"""Random faults of sites and of the programs that use them."""

from collections.abc import Callable, Collection

from reconvene.lab.load.isis_fleet import IsisFleet
from reconvene.lab.soak.faults import BREAKS, PROCESS_BREAKS, PROCESS_MENDS, RandomFaults
from reconvene.local.cluster import LocalCluster

__all__ = ["ProcessFaults"]

_MOST_DOWN, _MOST_PAUSED = 3, 1
_CUTS, _ENDS = ("partition", "one-way"), ("kill", "term", "pause")


class ProcessFaults(RandomFaults):
    """As `RandomFaults`, and programs are killed and stopped, whose processes are in groups."""

    breaks = (*BREAKS, *PROCESS_BREAKS)

    def __init__(
        self,
        cluster: LocalCluster,
        fleet: IsisFleet,
        seed: int,
        *,
        spared: Collection[str] = (),
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        kinds = (*self.breaks, *self.mends, *PROCESS_MENDS)
        super().__init__(cluster, seed, kinds=kinds, spared=spared, notify=notify)
        self._fleet = fleet

    def _possible(self) -> list[str]:
        fleet = self._fleet
        possible = {
            "kill-process": fleet.down < _MOST_DOWN and bool(fleet.alive),
            "pause-process": len(fleet.paused) < _MOST_PAUSED and bool(fleet.alive),
            "start-process": bool(fleet.down),
            "resume-process": bool(fleet.paused),
        }
        kinds = [*super()._possible(), *(kind for kind, can in possible.items() if can)]
        return [kind for kind in kinds if not self._stops_all(kind)]

    def _stops_all(self, kind: str) -> bool:
        """Without a majority nobody can cast. So at most one site is out while the network is cut, at least until
        a site that starts has to be waited for."""
        out = len(self._down) + len(self._paused)
        return out > 0 and (kind in _CUTS if out > 1 else self._split and kind in _ENDS)

    def mend(self) -> None:
        while self._fleet.paused:
            self.do("resume-process")
        while self._fleet.down:
            self.do("start-process")
        super().mend()

    def _kill_process(self) -> str:
        pid = self._random.choice(self._fleet.alive)
        self._fleet.kill(pid)
        return str(pid)

    def _pause_process(self) -> str:
        pid = self._random.choice(self._fleet.alive)
        self._fleet.pause(pid)
        return str(pid)

    def _start_process(self) -> str:
        return str(self._fleet.revive())

    def _resume_process(self) -> str:
        pid = self._fleet.paused[0]
        self._fleet.resume(pid)
        return str(pid)
