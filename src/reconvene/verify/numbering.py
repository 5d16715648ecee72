"""The number of a regular configuration: how far a node has come. Some checks excuse a node that has not come far
enough.

An id that holds one integer is numbered by it ("131073", "c7"), as long as these numbers grow along every node's
file. Otherwise the run's configurations are numbered by the order in which they were entered, as late as that order
allows, and a node's first one later still: a restarted node then counts as having come back after what it missed.
Nothing else in the checks depends on what an id looks like.
"""

import re
from itertools import pairwise

from reconvene.verify.history import NONE, History, Stay

__all__ = ["configuration_numbers"]

_INTEGER = re.compile(r"[0-9]+")


def configuration_numbers(h: History) -> list[int]:
    """By configuration. Only those of regular (and hidden) ones mean anything."""
    return h.once(_number)


def _number(h: History) -> list[int]:
    numbers = _by_id(h)
    if numbers is None or not all(_grow(regulars, numbers) for regulars in _regular_stays(h)):
        return _by_entering(h)
    return numbers


def _regular_stays(h: History) -> list[list[Stay]]:
    return [[stay for stay in stays if h.confs[stay.conf].kind == "regular"] for stays in h.stays]


def _by_id(h: History) -> list[int] | None:
    numbers = [NONE] * len(h.confs)
    for index, conf in enumerate(h.confs):
        if conf.kind in ("regular", "hidden"):
            found = _INTEGER.findall(conf.id)
            if len(found) != 1:
                return None
            numbers[index] = int(found[0])
    return numbers


def _grow(stays: list[Stay], numbers: list[int]) -> bool:
    return all(numbers[before.conf] < numbers[after.conf] for before, after in pairwise(stays))


def _by_entering(h: History) -> list[int]:
    """From the end: a configuration's height is one more than that of any entered next; the highest come first."""
    after: dict[int, set[int]] = {}
    before: dict[int, set[int]] = {}
    starts: set[int] = set()
    for stays in _regular_stays(h):
        previous: Stay | None = None
        for stay in stays:
            after.setdefault(stay.conf, set())
            if previous is None or previous.inc != stay.inc:
                starts.add(stay.conf)
            if previous is not None:
                after[previous.conf].add(stay.conf)
                before.setdefault(stay.conf, set()).add(previous.conf)
            previous = stay
    left = {conf: len(nexts) for conf, nexts in after.items()}
    height = dict.fromkeys(after, 0)
    ready = [conf for conf, count in left.items() if count == 0]
    while ready:
        conf = ready.pop()
        for earlier in before.get(conf, ()):
            height[earlier] = max(height[earlier], height[conf] + 1)
            left[earlier] -= 1
            if left[earlier] == 0:
                ready.append(earlier)
    # Twice the height leaves room for a start between what is entered at its height and what comes next.
    top = 2 * max(height.values(), default=0) + 1
    numbers = [NONE] * len(h.confs)
    for conf, value in height.items():
        numbers[conf] = top - 2 * value + (conf in starts)
    return numbers
