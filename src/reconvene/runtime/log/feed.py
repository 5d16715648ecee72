"""Notifies subscribers of the log, once per turn."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from reconvene.corel.batch import Heading
from reconvene.corel.events import Color, Green, LogEvent, Logged, Recolored

__all__ = ["Feed"]

Moved = Callable[[int], None]
Change = tuple[Color, str, int, int, int]
"""(colour, author, incarnation, first, count)"""
Changed = Callable[[list[Change]], None]
T = TypeVar("T")
_BEYOND = 1 << 62
"""Higher than every green line."""


class Feed:
    def __init__(self, author: Callable[[int], str], green: int) -> None:
        self._author = author
        self._green = green
        self._moved: dict[object, Moved] = {}
        self._changed: dict[object, Changed] = {}

    def watch(self, moved: Moved) -> Callable[[], None]:
        return _join(self._moved, moved)

    def watch_colors(self, changed: Changed) -> Callable[[], None]:
        return _join(self._changed, changed)

    def tell(self, green: int, events: Sequence[LogEvent]) -> None:
        """Reports a turn's events. A callback may add or remove subscribers."""
        if self._changed and (changes := self._changes(events)):
            for changed in list(self._changed.values()):
                changed(changes)
        if green != self._green:
            self._green = green
            for moved in list(self._moved.values()):
                moved(green)

    def wake(self) -> None:
        """Makes followers look again although the green line has not moved: they may wait for messages that this site
        will never have."""
        for moved in list(self._moved.values()):
            moved(_BEYOND)

    def _changes(self, events: Sequence[LogEvent]) -> list[Change]:
        found: list[Change] = []
        logged: Heading | None = None
        for event in events:
            if isinstance(event, Recolored):
                if logged is event.batch:
                    found.pop()  # it was red only within this turn: report the last colour
                found.append(self._change(event.color, event.batch))
            elif isinstance(event, Logged):
                found.append(self._change(Color.RED, event.batch))
            elif isinstance(event, Green):
                found.append(self._change(Color.GREEN, event.batch))
            logged = event.batch if isinstance(event, Logged) else None
        return found

    def _change(self, color: Color, batch: Heading) -> Change:
        return color, self._author(batch.author), batch.incarnation, batch.first, batch.count


def _join(subscribers: dict[object, T], one: T) -> Callable[[], None]:
    key = object()
    subscribers[key] = one

    def end() -> None:
        subscribers.pop(key, None)

    return end
