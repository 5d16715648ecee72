"""Whether the calls on a map are linearizable: the search of Wing and Gong, for one key at a time.

Given: what each call returned, and when it began and ended by one clock. A change of unknown outcome has no end: it
may take effect at any later time, or never. Promised: `not_linearizable` reports every key for whose calls there is
no order in which each call takes effect at one moment between its begin and its end.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

__all__ = ["Call", "fits", "not_linearizable"]

_MOST_SEEN = 1_000_000
"""States of one key after which the search gives up."""


class Call(Struct, array_like=True, frozen=True):
    key: str
    what: str
    """set | remove | add | get"""
    value: int = 0
    """The value that it sets or adds; different for each call."""
    found: int | bool | None = None
    """What get returned, None for an absent key; whether add added the key."""
    began_ns: int = 0
    ended_ns: int | None = None
    """None: it is unknown whether the call took effect."""


def not_linearizable(calls: Iterable[Call]) -> list[str]:
    """Each key whose calls are not linearizable, or are too many to decide."""
    by_key: dict[str, list[Call]] = {}
    for call in calls:
        by_key.setdefault(call.key, []).append(call)
    found = []
    for key, some in sorted(by_key.items()):
        fit = fits(some)
        if fit is None:
            found.append(f"key {key}: its {len(some)} calls could not be decided in {_MOST_SEEN:,} steps")
        elif not fit:
            found.append(f"key {key}: its {len(some)} calls are not linearizable")
    return found


def fits(calls: Sequence[Call]) -> bool | None:
    """Whether the calls of one key are linearizable. None: the search gave up."""
    ordered = sorted((call for call in calls if call.ended_ns is not None or call.what != "get"), key=_begin)
    wanted = sum(1 << at for at, call in enumerate(ordered) if call.ended_ns is not None)
    stack: list[tuple[int, int | None]] = [(0, None)]
    seen = set(stack)
    while stack:
        done, value = stack.pop()
        if done & wanted == wanted:
            return True
        for at in _next(ordered, done):
            right, after = _effect(ordered[at], value)
            state = (done | 1 << at, after)
            if right and state not in seen:
                if len(seen) >= _MOST_SEEN:
                    return None
                seen.add(state)
                stack.append(state)
    return False


def _begin(call: Call) -> int:
    return call.began_ns


def _next(calls: Sequence[Call], done: int) -> list[int]:
    """Calls that may take effect next: those that began before any other pending one ended."""
    found: list[int] = []
    first_end: int | None = None
    for at, call in enumerate(calls):
        if done >> at & 1:
            continue
        if first_end is not None and call.began_ns > first_end:
            break
        found.append(at)
        if call.ended_ns is not None and (first_end is None or call.ended_ns < first_end):
            first_end = call.ended_ns
    # The scan also collects calls that the end of a later call excludes.
    return [at for at in found if first_end is None or calls[at].began_ns <= first_end]


def _effect(call: Call, value: int | None) -> tuple[bool, int | None]:
    """Whether the call can return what it returned, and the key's value after it."""
    match call.what:
        case "set":
            return True, call.value
        case "remove":
            return True, None
        case "add":
            won = value is None
            return call.ended_ns is None or call.found is won, call.value if won else value
        case _:
            return call.found == value, value
