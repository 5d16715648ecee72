"""Random histories of faults, gone through by several rules of voting side by side.

A history is a sequence of connectivities, each with the time that it lasts. After each change the components try to
become a primary one. Some connectivities are *brief*: they end while that is going on, anywhere on the way.
*Cascading*: sites fail one after
the other, and come back only later. *Scattered*: the network parts and heals, and single sites fail, at random.
"""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from reconvene.lab.voting.model import ESTABLISHED, RECOVERED, Conflict, Model
from reconvene.lab.voting.walks import interrupted

__all__ = ["KINDS", "Availability", "Part", "available_static", "go_through", "history"]

KINDS = ("cascading", "scattered")
_CHANGES = 24
"""Changes of connectivity in a history."""
_BRIEF = 0.3
"""How many of the connectivities are."""


class Part(NamedTuple):
    duration: float
    components: tuple[tuple[int, ...], ...]
    """Of the sites that are up."""
    brief: bool = False


def history(kind: str, size: int, random: Random) -> list[Part]:
    made = _cascading(size, random) if kind == "cascading" else _scattered(size, random)
    return [Part(0.0, part.components, brief=True) if random.random() < _BRIEF else part for part in made]


def _cascading(size: int, random: Random) -> list[Part]:
    """Sites fail one by one, each cut off or down for long, and come back together or one by one."""
    parts, left = [], set(range(size))
    failing = True
    for _ in range(_CHANGES):
        parts.append(Part(random.expovariate(1.0), (tuple(sorted(left)),)))
        if failing:
            left.remove(random.choice(sorted(left)))
            failing = len(left) > 2 or (len(left) == 2 and random.random() < 0.2)
        else:
            away = sorted(set(range(size)) - left)
            left |= set(away if random.random() < 0.5 else [random.choice(away)])
            failing = len(left) == size
    return parts


def _scattered(size: int, random: Random) -> list[Part]:
    """Single sites fail and come back, and now and then the network parts in two and heals."""
    parts: list[Part] = []
    down: set[int] = set()
    side = [0] * size
    for _ in range(_CHANGES):
        components = (tuple(site for site in range(size) if site not in down and side[site] == one) for one in (0, 1))
        parts.append(Part(random.expovariate(1.0), tuple(component for component in components if component)))
        draw = random.random()
        if draw < 0.3 and len(down) < size - 1:
            down.add(random.choice([site for site in range(size) if site not in down]))
        elif draw < 0.7 and down:
            down.remove(random.choice(sorted(down)))
        elif any(side):
            side = [0] * size
        else:
            side = [random.randrange(2) for _ in range(size)]
    return parts


@dataclass(frozen=True, slots=True)
class Availability:
    available: float
    """The time in which some component was a primary one."""
    total: float
    conflict: str | None = None
    """What the oracle found; the history ends there."""


def go_through(model: Model, parts: list[Part], random: Random) -> Availability:
    """By dynamic voting, as the model has it."""
    state, oracle = model.start()
    available = total = 0.0
    for part in parts:
        total += part.duration
        primary = False
        for component in part.components:
            meeting = model.meet(state, component)
            if meeting is None:
                continue
            levels = [ESTABLISHED if meeting.allowed else RECOVERED] * len(meeting.participants)
            if part.brief:
                levels = interrupted(meeting, random)
            try:
                state, oracle = model.end(state, oracle, meeting, levels, component)
            except Conflict as conflict:
                return Availability(available, total, str(conflict))
            primary |= meeting.allowed
        available += part.duration if primary else 0.0
    return Availability(available, total)


def available_static(size: int, parts: list[Part]) -> Availability:
    """By a majority of all."""
    held = sum(part.duration for part in parts if any(2 * len(each) > size for each in part.components))
    return Availability(held, sum(part.duration for part in parts))
