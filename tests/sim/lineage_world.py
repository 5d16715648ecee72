"""The line of used configurations on the simulator: at each site a layer that follows it, and speaks now and then.

Chaos, and in half of the worlds an operator who changes the list of sites. Now and then a layer has a site suspected.
In some worlds sites run an older program now and then, which knows nothing of what a site reports of its earlier
incarnations.
"""

from collections.abc import Mapping, Sequence
from random import Random

from msgspec import msgpack
from tests.sim.groups_world import Life, World
from tests.sim.list_world import ListWorld
from tests.stack.following import KIND, Following

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent, Used
from reconvene.core.groups.lineage import Claim, Lineage
from reconvene.core.record import Record
from reconvene.ids import Service
from reconvene.stack.layer import Layer

__all__ = ["Line", "LineWorld", "run_line"]


class Line(Following):
    """One incarnation of a site. It speaks in used configurations only."""

    def __init__(self, site: int, sites: int, random: Random, start: int, stored: int, older: bool) -> None:
        super().__init__(f"{site}.{start}.")
        self.site = site
        self.stored = stored
        """The highest configuration that it had answered for before, as its storage has it; 0: it had an older
        program, or this is its first start."""
        self.older = older
        """It runs an older program."""
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


class OlderLineage(Lineage):
    """What a program did before sites reported what their earlier incarnations were in."""

    def claim(self) -> Claim:
        return super().claim()._replace(forgotten=None)

    def _heirs(self, claims: Mapping[int, Claim]) -> tuple[int, ...]:
        remembering = [site for site in sorted(claims) if claims[site].memory]
        if not self.primary or not self.sites.primary(remembering):
            return ()
        exits: dict[int, list[int]] = {}
        for site in remembering:
            if claims[site].active == self.lineage:
                exits.setdefault(claims[site].exit, []).append(site)
        return tuple(max(sorted(exits.items()), key=lambda one: len(one[1]), default=(0, ()))[1])


class LineWorld(World):
    def __init__(self, seed: int) -> None:
        self.lines: list[Line] = []
        self._words = Random(f"line/{seed}")
        self._upgrades = Random(f"upgrades/{seed}")
        self._older_part = 0.3 if seed % 4 >= 2 else 0.0
        self._older: set[int] = set()
        """Sites that run an older program."""
        self._not_whole: set[int] = set()
        """Sites that ran one once."""
        self._stored: dict[int, int] = {}
        super().__init__(seed)

    def boot(self, stored: bytes | None, ordinal: int, token: int) -> bytes:
        if stored is not None:
            record = msgpack.decode(stored, type=Record)
            if ordinal in self._older:
                stored = msgpack.encode((record.incarnation, record.number, record.token, record.sites))
                self._not_whole.add(ordinal)
            self._stored[ordinal] = 0 if ordinal in self._not_whole else record.number
        self._older.discard(ordinal)
        if self._upgrades.random() < self._older_part:
            self._older.add(ordinal)
        return super().boot(stored, ordinal, token)

    def layers(self, ordinal: int) -> Sequence[Layer]:
        names, stored = self.cluster.names, self._stored.get(ordinal, 0)
        line = Line(ordinal, len(names), self._words, len(self.lines), stored, ordinal in self._older)
        self.lines.append(line)
        return self.lines[-1:]

    def begin(self, life: Life) -> None:
        if life.site in self._older:
            life.groups._lineage.__class__ = OlderLineage
        super().begin(life)


class _ListLineWorld(LineWorld, ListWorld):
    """The list of sites changes meanwhile."""


def run_line(seed: int) -> LineWorld:
    world = LineWorld(seed) if seed % 2 else _ListLineWorld(seed)
    world.run()
    return world
