"""Orders of receiving: of ABCASTs by label [3.2], of GBCASTs and views against everything [3.1]."""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from reconvene.verify.history import History
from reconvene.verify.isis.judged import IsisCheck, violate_in
from reconvene.verify.isis_history import Cast, Event, IsisHistory, Shown
from reconvene.verify.report import Tally

__all__ = ["CHECKS", "knots"]


def _is_excused(isis: IsisHistory, event: Event) -> bool:
    """What a process that is gone received after its last `view` or `site`: others may order it otherwise [3.2]."""
    return event.place > isis.processes[event.process].unsure_from


# -- ABCASTs ------------------------------------------------------------------------------------------------------


def _abcasts(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    labels: dict[str, list[Cast]] = {}
    for message in isis.casts.values():
        if message.attempts and message.kind == "abcast" and message.receives:
            labels.setdefault(message.first.text, []).append(message)
    for label in sorted(labels):
        receives: dict[int, list[Event]] = {}
        for message in labels[label]:
            tally.cases += 1
            counted = [event for event in message.got.values() if not _is_excused(isis, event)]
            problem = _unlike(isis, counted)
            if problem is not None:
                violate(*problem)  # and it has no place in the order, so it is no part of a circle
                continue
            for event in counted:
                receives.setdefault(event.process, []).append(event)
        for cycle in knots(receives.values()):
            words = "; then ".join(f"{isis.describe(one)}, {isis.describe(other)}" for one, other in cycle)
            lowest = min((event for edge in cycle for event in edge), key=lambda event: event.place)
            violate(lowest, f"ABCASTs with the label {label!r} in a circle: {words}")


def _unlike(isis: IsisHistory, receives: list[Event]) -> tuple[Event, str] | None:
    """The lowest receive that has no `ts`, or another than the lowest one."""
    receives = sorted(receives, key=lambda event: event.place)
    for event in receives:
        if event.ts is None:
            return event, "an ABCAST without `ts`"
        if event.ts != receives[0].ts:
            return (
                event,
                f"its `ts` is {list(event.ts)}, and {list(receives[0].ts or ())} at {isis.describe(receives[0])}",
            )
    return None


Edge = tuple[Event, Event]
"""Two receives of one process, one after the other."""


def knots(sequences: Iterable[list[Event]]) -> list[list[Edge]]:
    """Of each set of casts that the processes' orders tie into a circle: a shortest such circle."""
    edges: dict[Cast, dict[Cast, Edge]] = {}
    for events in sequences:
        events = sorted(events, key=lambda event: event.place)
        for one, other in pairwise(events):
            assert one.msg is not None
            assert other.msg is not None
            edges.setdefault(one.msg, {}).setdefault(other.msg, (one, other))
            edges.setdefault(other.msg, {})
    return [_circle(edges, knot) for knot in _components(edges)]


def _components(edges: dict[Cast, dict[Cast, Edge]]) -> list[set[Cast]]:
    """The strongly connected sets of more than one cast. First whatever is in no circle is taken away."""
    left = {cast: len(_into) for cast, _into in _reverse(edges).items()}
    free = deque(cast for cast, count in left.items() if not count)
    while free:
        cast = free.popleft()
        del left[cast]
        for other in edges[cast]:
            left[other] -= 1
            if not left[other]:
                free.append(other)
    found: list[set[Cast]] = []
    while left:
        start = next(iter(left))
        knot = _reach(start, edges, left) & _reach(start, _reverse(edges), left)
        if len(knot) > 1:
            found.append(knot)
        for cast in knot:
            del left[cast]
    return found


def _reverse(edges: dict[Cast, dict[Cast, Edge]]) -> dict[Cast, dict[Cast, Edge]]:
    back: dict[Cast, dict[Cast, Edge]] = {cast: {} for cast in edges}
    for cast, others in edges.items():
        for other, edge in others.items():
            back[other][cast] = edge
    return back


def _reach(start: Cast, edges: dict[Cast, dict[Cast, Edge]], within: dict[Cast, int]) -> set[Cast]:
    seen, todo = {start}, [start]
    while todo:
        for other in edges[todo.pop()]:
            if other in within and other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def _circle(edges: dict[Cast, dict[Cast, Edge]], knot: set[Cast]) -> list[Edge]:
    """A shortest way from the knot's cast of the lowest name back to itself."""
    start = min(knot, key=lambda cast: cast.name)
    came: dict[Cast, Edge] = {}
    todo = deque([start])
    while start not in came:
        cast = todo.popleft()
        for other, edge in edges[cast].items():
            if other in knot and other not in came:
                came[other] = edge
                todo.append(other)
    circle: list[Edge] = []
    at: Cast | None = start
    while at is not None and (not circle or at is not start):
        circle.append(came[at])
        at = came[at][0].msg
    return circle[::-1]


# -- GBCASTs and views --------------------------------------------------------------------------------------------

Item = Cast | tuple[str, int, int]
"""A cast; or a view, by group, line and number."""


class _Life:
    """What one process received, in its order, as bits: items have numbers, which all processes share."""

    __slots__ = ("all", "before", "events", "process")

    def __init__(self, process: int) -> None:
        self.process = process
        self.all = 0
        self.before: dict[int, int] = {}
        """Of each GBCAST and view: what the process received before it."""
        self.events: dict[int, Event] = {}


def _gbcasts(h: History, tally: Tally) -> None:
    isis, violate = h.isis, violate_in(h, tally)
    numbers: dict[Item, int] = {}
    lives = _lives(isis, numbers)
    walls = sum(1 << number for item, number in numbers.items() if _is_wall(item))
    names = list(numbers)
    for place, one in enumerate(lives):
        for other in lives[place + 1 :]:
            common = one.all & other.all
            shared = common & walls
            if not shared:
                continue
            wall_count, count = shared.bit_count(), common.bit_count()
            tally.cases += wall_count * (count - wall_count) + wall_count * (wall_count - 1) // 2
            for wall in sorted(one.before.keys() & other.before.keys()):
                apart = (one.before[wall] ^ other.before[wall]) & common
                while apart:
                    number = (apart & -apart).bit_length() - 1
                    apart &= apart - 1
                    if number > wall or not walls >> number & 1:  # two walls: once
                        low, high = sorted((one, other), key=lambda life: life.events[number].place)
                        violate(
                            high.events[number],
                            f"{_side(high, number, wall)} {_title(names[wall])}, and {_side(low, number, wall)} it at"
                            f" {isis.describe(low.events[number])}",
                        )


def _lives(isis: IsisHistory, numbers: dict[Item, int]) -> list[_Life]:
    shown = {view.event: view for view in isis.shown}
    lives: list[_Life] = []
    for index, process in enumerate(isis.processes):
        life = _Life(index)
        for event in process.events:
            item = _item(isis, event, shown)
            if item is None:
                continue
            number = numbers.setdefault(item, len(numbers))
            if number in life.events:
                continue
            if _is_wall(item):
                life.before[number] = life.all
            life.events[number] = event
            life.all |= 1 << number
        if life.before:
            lives.append(life)
    return lives


def _item(isis: IsisHistory, event: Event, shown: dict[Event, Shown]) -> Item | None:
    if event.kind == "view":
        return shown[event].key
    message = event.msg
    if event.kind != "receive" or message is None or not message.attempts:
        return None
    if message.kind == "abcast" and _is_excused(isis, event):
        return None
    return message


def _is_wall(item: Item) -> bool:
    """Is everything else on one side of it, the same at all processes?"""
    return not isinstance(item, Cast) or item.kind == "gbcast"


def _side(life: _Life, number: int, wall: int) -> str:
    return "before" if life.before[wall] >> number & 1 else "after"


def _title(item: Item) -> str:
    return f"GBCAST {item.name}" if isinstance(item, Cast) else f"view {item[2]} of {item[0]}"


CHECKS = (
    IsisCheck(
        id="isis.abcast",
        layer="isis",
        source="section 3.2",
        case="an ABCAST that was received",
        violated="received with different `ts`, or without one; or (counted by knot, of the others) ABCASTs of one"
        " label were received in different orders by two processes, by whatever chain. What a process that is gone"
        " received after its last `view` or `site` is excused",
        check=_abcasts,
    ),
    IsisCheck(
        id="isis.gbcast",
        layer="isis",
        source="section 3.1",
        case="a GBCAST or a view; another cast, GBCAST or view; and two processes that received both",
        violated="they are on different sides of each other (ABCASTs: excused as in `isis.abcast`)",
        check=_gbcasts,
    ),
)
