"""Random faults on a local cluster, one after the other, from a seed.

Given: a running cluster. Promised: every step breaks or mends something; at any time only a minority of the sites is
down, paused or has a failing disk, so the others always have work; `mend` mends everything. A site whose disk fails
may end itself, and is started again when its disk works; no other site may end itself.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import ClassVar

from reconvene.errors import Unavailable
from reconvene.lab.soak.disk_faults import DiskFault, can_trace, draw_plan
from reconvene.local.cluster import LocalCluster
from reconvene.local.control import Line
from reconvene.wire.clients import Block

__all__ = [
    "BLACKOUT", "BREAKS", "DISK", "DISK_MEND", "HARD", "ISOLATE", "MENDS", "PLACE_BREAKS", "PLACE_MENDS",
    "PROCESS_BREAKS", "PROCESS_MENDS", "RandomFaults", "cut", "leave",
]  # fmt: skip

BREAKS = ("kill", "pause", "partition", "one-way", "term")
MENDS = ("restart", "resume", "heal")
BLACKOUT = "blackout"
"""All sites are killed at one moment and started again. No step chooses it: call `do(BLACKOUT)`."""
ISOLATE = "isolate"
"""One site is cut off from all others. This also works while another site starts."""
DISK, DISK_MEND = "disk", "disk-mend"
"""Writes or syncs of one site fail. Only if requested, and if strace can be used."""
PROCESS_BREAKS, PROCESS_MENDS = ("kill-process", "pause-process"), ("start-process", "resume-process")
"""Faults of programs that use the sites: see `process_faults`."""
PLACE_BREAKS, PLACE_MENDS = ("kill-place", "pause-place"), ("start-place", "resume-place")
"""Faults of followers and outposts: see `place_faults`."""
HARD = ("kill", "partition", ISOLATE, BLACKOUT)
"""Faults that kill a site or partition the network."""
_ANSWER_S = 15.0
_LEAVE_S = 15.0
_START_S = 60.0
_POLL_S = 0.005
_ILL_S, _WELL_S = 4.0, 6.0
"""How long a disk fails, and how long until the next one does."""
_PATIENCE_S = 3.5
"""The longest time without a new fault while a site starts."""


def leave(cluster: LocalCluster, name: str, timeout_s: float = _LEAVE_S) -> float:
    """SIGTERM: the site leaves and ends. Returns how long that took, in s."""
    began = time.monotonic()
    os.kill(cluster.pids[name], signal.SIGTERM)
    while cluster.state(name) != "down":
        if time.monotonic() - began > timeout_s:
            raise Unavailable(f"site {name} has not left {timeout_s:g} s after SIGTERM:\n{cluster.log_tail(name)}")
        time.sleep(_POLL_S)
    return time.monotonic() - began


def cut(cluster: LocalCluster, name: str, incoming: Collection[str] = (), outgoing: Collection[str] = ()) -> None:
    """The site drops datagrams from `incoming` and to `outgoing`, until the next partition or heal."""
    line = Line(Path(cluster.addresses[name]), _ANSWER_S)
    try:
        number = line.ask(lambda request: Block(request, sorted(incoming), sorted(outgoing)))
        line.answer(number, time.monotonic() + _ANSWER_S)
    finally:
        line.close()


class RandomFaults:
    breaks: ClassVar[tuple[str, ...]] = (*BREAKS, DISK)
    mends: ClassVar[tuple[str, ...]] = MENDS
    """The kinds of steps that break something, and those that mend it."""

    def __init__(
        self,
        cluster: LocalCluster,
        seed: int,
        *,
        kinds: Collection[str] = (*BREAKS, *MENDS),
        spared: Collection[str] = (),
        isolating: bool = False,
        disks: bool = False,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`spared` sites are paused and cut off like others, and never ended.

        `isolating`: while a site starts, another one is isolated instead of cut off in one direction.
        `disks`: disks fail too, if strace is installed.
        """
        self.cluster = cluster
        self.faults: Counter[str] = Counter()
        self.longest_gap_s = 0.0
        """The longest time without a new fault."""
        self.longest_hard_gap_s = 0.0
        """The longest time without one of `HARD`."""
        self._random = random.Random(f"campaign/{seed}")
        self._kinds = frozenset(kinds) | ({DISK, DISK_MEND} if disks and can_trace() else frozenset())
        self._spared = frozenset(spared)
        self._isolating = isolating
        self._notify = notify
        self._down: list[str] = []
        self._paused: list[str] = []
        self._ill: dict[str, DiskFault] = {}
        """Sites whose disk fails."""
        self._split = False
        self._broke_at = self._struck_at = self._disk_at = time.monotonic()

    # -- what is possible now

    @property
    def idle_s(self) -> float:
        """Time since the last fault."""
        return time.monotonic() - self._broke_at

    @property
    def hard_idle_s(self) -> float:
        """Time since the last fault of `HARD`."""
        return time.monotonic() - self._struck_at

    def _up(self) -> list[str]:
        out = {*self._down, *self._paused, *self._ill}
        return [name for name in self.cluster.names if name not in out]

    def _possible(self) -> list[str]:
        names = self.cluster.names
        out = len(self._down) + len(self._paused) + len(self._ill)
        room = out < (len(names) - 1) // 2
        victims = [name for name in self._up() if name not in self._spared]
        possible = {
            "kill": room and bool(victims),
            "term": room and bool(victims),
            "pause": room and not self._paused,
            DISK: room and not self._ill and bool(self._up()),
            DISK_MEND: bool(self._ill),
            "partition": not self._split,
            "one-way": not self._split and len(self._up()) > 1,
            "restart": bool(self._down),
            "resume": bool(self._paused),
            "heal": self._split,
        }
        return [kind for kind, can in possible.items() if can and kind in self._kinds]

    def check(self) -> None:
        """Raises Unavailable if a site has ended by itself."""
        for name in self._watched():
            if self.cluster.state(name) == "down":
                raise Unavailable(
                    f"site {name} has ended by itself; the end of its log:\n{self.cluster.log_tail(name)}"
                )

    def _watched(self) -> Sequence[str]:
        """Those that may not end by themselves."""
        return [name for name in self.cluster.names if name not in self._down and name not in self._ill]

    # -- faults

    def step(self, *, breaking: bool = False) -> str:
        """Breaks or mends something; with `breaking` it breaks something, if it can. Returns the kind."""
        possible = self._possible()
        breaks = [kind for kind in possible if kind in self.breaks]
        kind = self._random.choice(breaks if breaking and breaks else possible)
        self.do(kind)
        return kind

    def do(self, kind: str) -> None:
        try:
            what = getattr(self, f"_{kind.replace('-', '_')}")()
        except Unavailable:
            self.check()  # if a site has ended, that is the better explanation
            raise
        self.faults[kind] += 1
        self._notify(f"{kind} {what}")
        if kind in (DISK, DISK_MEND):
            self._disk_at = time.monotonic()
        if kind in self.breaks or kind == ISOLATE:
            self._broke(kind)

    def disk_due(self) -> str | None:
        """DISK or DISK_MEND if it is time for a disk to fail or to work again, else None."""
        since_s = time.monotonic() - self._disk_at
        kind = DISK_MEND if self._ill else DISK
        due = since_s > (_ILL_S if self._ill else _WELL_S) and kind in self._possible()
        return kind if due else None

    def strike(self) -> None:
        """A kill, if one more site may be down; or a partition, even if there is one already."""
        self.do(self._random.choice(["partition", *(kind for kind in self._possible() if kind == "kill")]))

    def _broke(self, kind: str) -> None:
        self.longest_gap_s = max(self.longest_gap_s, self.idle_s)
        self._broke_at = time.monotonic()
        if kind in HARD:
            self.longest_hard_gap_s = max(self.longest_hard_gap_s, self.hard_idle_s)
            self._struck_at = time.monotonic()

    def mend(self) -> None:
        """Mends everything."""
        while self._ill:
            self.do(DISK_MEND)
        while self._paused:
            self.do("resume")
        while self._down:
            self.do("restart")
        if self._split:  # last: a cut may be made while a site starts
            self.do("heal")

    def _victim(self, spare: bool = True) -> str:
        return self._random.choice([name for name in self._up() if not spare or name not in self._spared])

    def _kill(self) -> str:
        name = self._victim()
        self.cluster.crash(name)
        self._down.append(name)
        return name

    def _blackout(self) -> str:
        """One-way cuts are gone afterwards; a partition stays."""
        while self._ill:
            self.do(DISK_MEND)
        self.cluster.crash(*(name for name in self.cluster.names if name not in self._down))
        self._broke(BLACKOUT)
        self._down = list(self.cluster.names)
        self._paused.clear()
        self.cluster.restart(*self._down, timeout_s=_START_S)
        self._down.clear()
        return ",".join(self.cluster.names)

    def _term(self) -> str:
        name = self._victim()
        took_s = leave(self.cluster, name)
        self._down.append(name)
        return f"{name} in {took_s * 1e3:.0f} ms"

    def _pause(self) -> str:
        name = self._victim(spare=False)
        self.cluster.pause(name)
        self._paused.append(name)
        return name

    def _disk(self) -> str:
        name = self._victim(spare=False)
        plan = draw_plan(self._random)
        self._ill[name] = DiskFault(self.cluster.pids[name], plan)
        return f"{name}: {plan}"

    def _disk_mend(self) -> str:
        """A site that has ended itself meanwhile counts as down."""
        name, fault = self._ill.popitem()
        fault.mend()
        if self.cluster.state(name) == "down":
            self._down.append(name)
            return f"{name}, which had ended itself"
        return name

    def _partition(self) -> str:
        names = list(self.cluster.names)
        self._random.shuffle(names)
        parts = self._random.randint(2, min(3, len(names)))
        edges = sorted(self._random.sample(range(1, len(names)), parts - 1))
        components = [names[a:b] for a, b in zip([0, *edges], [*edges, len(names)], strict=True)]
        self.cluster.partition(components)
        self._split = True
        return _shown(components)

    def _one_way(self) -> str:
        name = self._victim(spare=False)
        others = [other for other in self.cluster.names if other != name]
        deaf = self._random.sample(others, self._random.randint(1, len(others)))
        incoming = self._random.random() < 0.5
        apart = {other for part in self.cluster.components if name not in part for other in part}
        cut(self.cluster, name, apart.union(deaf if incoming else ()), apart.union(() if incoming else deaf))
        self._split = True
        return f"{','.join(deaf)} to {name}" if incoming else f"{name} to {','.join(deaf)}"

    def _isolate(self) -> str:
        name = self._victim(spare=False)
        others = [other for other in self.cluster.names if other != name]
        cut(self.cluster, name, others, others)
        self._split = True
        return name

    def _heal(self) -> str:
        self.cluster.heal()
        self._split = False
        return ""

    def _restart(self) -> str:
        """On a busy machine a site takes seconds to start. Faults of the others continue meanwhile."""
        name = self._random.choice(self._down)
        with ThreadPoolExecutor(1) as thread:
            start = thread.submit(self.cluster.restart, name, timeout_s=_START_S)
            while not wait([start], _POLL_S).done:
                if self._isolating and self.hard_idle_s > _PATIENCE_S and self._up():
                    self.do(ISOLATE)
                elif self.idle_s > _PATIENCE_S and "one-way" in self._kinds and self._up():
                    self.do("one-way")
            start.result()
        self._down.remove(name)
        return name

    def _resume(self) -> str:
        name = self._paused.pop()
        self.cluster.resume(name)
        return name


def _shown(components: Sequence[Sequence[str]]) -> str:
    return " | ".join(",".join(sorted(component)) for component in components)
