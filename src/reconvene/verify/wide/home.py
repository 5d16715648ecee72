"""Where a site stood in its own cluster when something happened to it in the layer `wide`.

A site's rows of both layers have one order, by `n`. A *leg* is a regular local configuration with the transitional
one that follows it. Two lives are *together* from one leg to another if both went through all legs between, by the
same transitional configurations: then the cluster's virtual synchrony holds between them.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from reconvene.verify.codes import NONE
from reconvene.verify.history import History, Stay
from reconvene.verify.wide_history import Life, WideHistory

__all__ = ["Home"]


@dataclass(slots=True)
class _Legs:
    """The regular local configurations of one life, in their order."""

    confs: list[int] = field(default_factory=list)
    """Of the level's history."""
    through: list[int] = field(default_factory=list)
    """The transitional configuration that led to each; NONE at the first."""
    index: dict[int, int] = field(default_factory=dict)


class Home:
    def __init__(self, wide: WideHistory) -> None:
        self.wide = wide
        self._begins: list[list[int]] = []
        self._legs: dict[Life, _Legs] = {}
        self._since: dict[tuple[Life, Life], list[int]] = {}
        for node in range(wide.nodes):
            level, site = self.level(node)
            stays = level.stays[site]
            self._begins.append([level.n[stay.begin] for stay in stays])
            self._add_legs(node, level, stays)

    def level(self, node: int) -> tuple[History, int]:
        """The history of the node's domain, and the node's number there."""
        level = self.wide.levels[self.wide.home[node]]
        return level, level.name_index(self.wide.site[node])

    def _add_legs(self, node: int, level: History, stays: list[Stay]) -> None:
        through = NONE
        for stay in stays:
            if level.confs[stay.conf].kind != "regular":
                through = stay.conf
                continue
            legs = self._legs.setdefault((node, stay.inc), _Legs())
            legs.index[stay.conf] = len(legs.confs)
            legs.through.append(through if legs.confs else NONE)
            legs.confs.append(stay.conf)
            through = NONE

    def stay(self, node: int, n: int) -> Stay | None:
        """Where the node was in its cluster at this number of its events."""
        level, site = self.level(node)
        place = bisect_left(self._begins[node], n) - 1
        return level.stays[site][place] if place >= 0 else None

    def leg(self, life: Life, n: int) -> int:
        """The number of the leg that the life was in; NONE: it was in none."""
        node, inc = life
        stay = self.stay(node, n)
        if stay is None or stay.inc != inc or life not in self._legs:
            return NONE
        return self._legs[life].index.get(self.level(node)[0].root[stay.conf], NONE)

    def sending_leg(self, life: Life, n: int) -> int:
        """The leg in which something that the life sends goes out, at the earliest."""
        leg = self.leg(life, n)
        if leg == NONE:
            return NONE
        stay = self.stay(life[0], n)
        assert stay is not None
        level, _ = self.level(life[0])
        return leg + (level.confs[stay.conf].kind != "regular")

    def legs_after(self, life: Life, n: int) -> int:
        """How many legs of the life begin after this number of its events."""
        leg = self.leg(life, n)
        return 0 if leg == NONE else len(self._legs[life].confs) - 1 - leg

    def are_together(self, one: Life, n: int | None, other: Life, leg: int) -> bool:
        """Were both together from this leg of the other's on, up to where the one was at `n` (None: at its end)?"""
        if leg == NONE or one not in self._legs or other not in self._legs:
            return False
        mine = self._legs[one]
        at = self.leg(one, n) if n is not None else len(mine.confs) - 1
        if at == NONE:
            return False
        theirs = self._legs[other].index.get(mine.confs[at], NONE)
        return leg <= theirs and self._together_since(one, other)[theirs] <= leg

    def _together_since(self, one: Life, other: Life) -> list[int]:
        """For each leg of the other's: the first one from which both were together up to it."""
        since = self._since.get((one, other))
        if since is None:
            mine, theirs = self._legs[one], self._legs[other]
            since = self._since[one, other] = []
            for leg, conf in enumerate(theirs.confs):
                here = mine.index.get(conf, NONE)
                before = mine.index.get(theirs.confs[leg - 1], NONE) if leg else NONE
                joined = here > 0 and before == here - 1 and mine.through[here] == theirs.through[leg] and leg > 0
                since.append(since[-1] if joined and before != NONE else leg if here != NONE else leg + 1)
        return since

    def has_gateway(self, node: int, n: int | None = None) -> bool:
        """Is there a gateway in the local configuration that the node is in at `n` (None: at its end)?"""
        level, site = self.level(node)
        stay = level.last_stay(site) if n is None else self.stay(node, n)
        if stay is None:
            return False
        gateways = self.wide.tree.domains[self.wide.home[node]].gateways
        return any(level.names[member] in gateways for member in level.confs[stay.conf].members)
