"""Random faults of sites, and of the followers and outposts beside them."""

from collections.abc import Callable, Collection, Sequence

from reconvene.lab.soak.faults import BREAKS, DISK, MENDS, PLACE_BREAKS, PLACE_MENDS, RandomFaults
from reconvene.local.cluster import LocalCluster

__all__ = ["PlaceFaults"]

_START_S = 60.0
_STRUCK = 0.7


class PlaceFaults(RandomFaults):
    """As `RandomFaults`, and followers and outposts are killed and stopped: at most all but one of each kind, so that
    the readers and writers there have work."""

    breaks = (*BREAKS, *PLACE_BREAKS, DISK)

    def __init__(
        self,
        cluster: LocalCluster,
        seed: int,
        *,
        spared: Collection[str] = (),
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        kinds = (*BREAKS, *PLACE_BREAKS, *MENDS, *PLACE_MENDS)
        super().__init__(cluster, seed, kinds=kinds, spared=spared, isolating=True, disks=True, notify=notify)
        self._ended: list[str] = []
        self._stopped: list[str] = []

    def _victims(self) -> list[str]:
        """Those that may be killed or stopped now. The only one of its kind may be too."""
        found: list[str] = []
        for kind in (self.cluster.followers, self.cluster.outposts):
            there = [name for name in kind if name not in (*self._ended, *self._stopped)]
            found += there if len(there) > 1 or len(kind) == 1 else []
        return found

    def _possible(self) -> list[str]:
        victims = bool(self._victims())
        possible = {
            "kill-place": victims,
            "pause-place": victims and not self._stopped,
            "start-place": bool(self._ended),
            "resume-place": bool(self._stopped),
        }
        return [*super()._possible(), *(kind for kind, can in possible.items() if can)]

    def _watched(self) -> Sequence[str]:
        beside = (*self.cluster.followers, *self.cluster.outposts)
        return [*super()._watched(), *(name for name in beside if name not in self._ended)]

    def strike(self) -> None:
        """Besides, those beside the sites die too; one that is down is started first."""
        super().strike()
        if self._ended:
            self.do("start-place")
        if self._victims() and self._random.random() < _STRUCK:
            self.do("kill-place")

    def mend(self) -> None:
        while self._stopped:
            self.do("resume-place")
        while self._ended:
            self.do("start-place")
        super().mend()

    def _kill_place(self) -> str:
        name = self._random.choice(self._victims())
        self.cluster.crash(name)
        self._ended.append(name)
        return name

    def _pause_place(self) -> str:
        name = self._random.choice(self._victims())
        self.cluster.pause(name)
        self._stopped.append(name)
        return name

    def _start_place(self) -> str:
        name = self._random.choice(self._ended)
        self.cluster.restart(name, timeout_s=_START_S)
        self._ended.remove(name)
        return name

    def _resume_place(self) -> str:
        name = self._stopped.pop()
        self.cluster.resume(name)
        return name
