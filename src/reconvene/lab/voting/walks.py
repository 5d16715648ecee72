"""Ways through the model: all of them, as far as that is possible, and random ones.

Each raises `Conflict` with what the oracle found.
"""

from collections.abc import Iterator
from itertools import combinations
from random import Random

from reconvene.lab.voting.model import ESTABLISHED, LOGGED, OPENED, Item, Meeting, Model, Oracle, State

__all__ = ["explore", "interrupted", "walk"]


def explore(model: Model, configurations: int) -> int:
    """Every sequence of so many configurations, with every interruption of each. Returns how many ends were looked
    at; the same state on two ways is gone on from once."""
    state, oracle = model.start()
    front = {(state, oracle.key()): (state, oracle)}
    seen = set(front)
    looked = 0
    sites = range(model.size)
    views = [view for size in range(1, model.size + 1) for view in combinations(sites, size)]
    for depth in range(configurations):
        last = depth == configurations - 1
        following: dict[tuple[State, tuple[object, ...]], tuple[State, Oracle]] = {}
        for state, oracle in front.values():
            for after, judged in _ends(model, state, oracle, views, last):
                looked += 1
                key = after, judged.key()
                if not last and key not in seen:
                    seen.add(key)
                    following[key] = after, judged
        front = following
    return looked


def _ends(
    model: Model, state: State, oracle: Oracle, views: list[tuple[int, ...]], last: bool
) -> Iterator[tuple[State, Oracle]]:
    for view in views:
        meeting = model.meet(state, view)
        if meeting is None or (last and not meeting.allowed):
            continue
        for levels in model.levels(meeting):
            if not last or max(levels) >= OPENED:  # in the last one only what the oracle hears of counts
                yield model.end(state, oracle, meeting, levels, view)


def walk(model: Model, random: Random, configurations: int, *, changes: bool = True, losses: bool = False) -> int:
    """A random sequence of configurations. Returns how many primary components were established in it.

    `changes`: replicas are removed and added again meanwhile. `losses`: one of them may lose its disk."""
    state, oracle = model.start()
    sites = range(model.size)
    parts: list[tuple[int, ...]] = []
    for _ in range(configurations):
        if losses and random.random() < 0.15 and not any(one.lost for one in state):
            state = model.lose(state, random.choice(sites))
        if not parts:
            parts = _partition(sites, random)
        view = parts.pop() if random.random() < 0.7 else parts[-1]  # the same sites again find what they left undone
        following = (random.choice(view),) if len(view) > 2 and random.random() < 0.2 else ()
        meeting = model.meet(state, view, following)
        if meeting is None:
            continue
        change = _change(model, meeting, random) if changes else None
        state, oracle = model.end(state, oracle, meeting, interrupted(meeting, random, change), view, change)
    return len(oracle.established) - 1


def _partition(sites: range, random: Random) -> list[tuple[int, ...]]:
    """Two components, of about half of the sites each, or one without some of them."""
    shuffled = random.sample(sites, len(sites))
    cut = random.randint(1, len(sites))
    parts = [tuple(sorted(shuffled[:cut])), tuple(sorted(shuffled[cut:]))]
    return [part for part in parts if part]


def _change(model: Model, meeting: Meeting, random: Random) -> Item | None:
    if not meeting.allowed or random.random() < 0.5:
        return None
    replica = random.randrange(model.size)
    change: Item = model.change(meeting, replica)
    return change if model.may_order(meeting, change) else None


def interrupted(meeting: Meeting, random: Random, change: Item | None = None) -> list[int]:
    """How far each comes; most of them about as far as the others."""
    size = len(meeting.participants)
    if not meeting.allowed:
        return [random.choice((0, 1, 1)) for _ in range(size)]
    goal = random.choice((0, 1, 2, 3, 3, 4, 4, 4, 4))
    if goal == 0:
        return [3] * size
    if goal == 1:
        return [random.choice((0, 1, 2)) for _ in range(size)]
    if goal == 2:
        return [random.choice((2, 3)) for _ in range(size)]
    if goal == 3:
        return [random.choice((3, OPENED, ESTABLISHED)) for _ in range(size)]
    if change is None:
        return [ESTABLISHED] * size
    if random.random() < 0.5:
        return [random.choice((ESTABLISHED, LOGGED)) for _ in range(size)]
    return [random.choice((LOGGED, LOGGED + 1)) for _ in range(size)]
