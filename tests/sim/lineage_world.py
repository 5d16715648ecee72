"""The line of used configurations on the simulator: at each site a layer that follows it, and speaks now and then.

Chaos, and in half of the worlds an operator who changes the list of sites. Now and then a layer has a site suspected.
"""

from collections.abc import Sequence
from random import Random

from tests.sim.groups_world import World
from tests.sim.list_world import ListWorld
from tests.stack.following import KIND, Following

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent, Used
from reconvene.ids import Service
from reconvene.stack.layer import Layer

__all__ = ["Line", "LineWorld", "run_line"]


class Line(Following):
    """One incarnation of a site. It speaks in used configurations only."""

    def __init__(self, site: int, sites: int, random: Random, start: int) -> None:
        super().__init__(f"{site}.{start}.")
        self.site = site
        self._sites = sites
        self._random = random
        self._said = 0
        self._open = False
        """It is in a regular configuration."""

    def take(self, events: Sequence[LayerEvent]) -> None:
        super().take(events)
        for event in events:
            if isinstance(event, Changed) and event.kind is not ConfKind.HIDDEN:
                self.to_send.clear()
                self._open = event.kind is ConfKind.REGULAR
            elif isinstance(event, Used) and self._open:
                self._say(3)
                if self._random.random() < 0.1:
                    self.to_suspect.append(self._random.randrange(self._sites))
            elif isinstance(event, Delivered) and self._open and self._random.random() < 0.3:
                self._say(1)

    def _say(self, most: int) -> None:
        for _ in range(self._random.randint(0, most)):
            self._said += 1
            service = self._random.choice((Service.AGREED, Service.SAFE))
            self.to_send.append((service, bytes((KIND,)) + f"{self.name}{self._said}".encode()))


class LineWorld(World):
    def __init__(self, seed: int) -> None:
        self.lines: list[Line] = []
        self._words = Random(f"line/{seed}")
        super().__init__(seed)

    def layers(self, ordinal: int) -> Sequence[Layer]:
        self.lines.append(Line(ordinal, len(self.cluster.names), self._words, len(self.lines)))
        return self.lines[-1:]


class _ListLineWorld(LineWorld, ListWorld):
    """The list of sites changes meanwhile."""


def run_line(seed: int) -> LineWorld:
    world = LineWorld(seed) if seed % 2 else _ListLineWorld(seed)
    world.run()
    return world
