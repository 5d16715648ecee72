"""Which records of each other site are complete and released here: what the channels report back."""

from collections import deque
from typing import Protocol

from reconvene.isis.here import Here

__all__ = ["Receipts"]


class Item(Protocol):
    """What came in a record, and is not done when the record is read."""

    @property
    def complete(self) -> bool: ...
    @property
    def released(self) -> bool: ...


class Receipts:
    def __init__(self, here: Here) -> None:
        self._here = here
        self._last: dict[int, int] = {}
        self._incomplete: dict[int, deque[tuple[int, Item]]] = {}
        self._unreleased: dict[int, deque[tuple[int, Item]]] = {}
        self._marked: dict[int, int] = {}
        """By peer: up to which of its records the channels were told that they are released."""

    def add(self, peer: int, number: int, item: Item | None) -> None:
        """`item`: what the record brought, if it is not done at once."""
        self._last[peer] = number
        if item is not None and not item.released:
            self._unreleased.setdefault(peer, deque()).append((number, item))
            if not item.complete:
                self._incomplete.setdefault(peer, deque()).append((number, item))

    def mark(self) -> None:
        """Tells the channels."""
        for peer, last in self._last.items():
            if self._marked.get(peer) == last:
                continue
            arrived = self._below(self._incomplete.get(peer), last, complete=True)
            released = self._below(self._unreleased.get(peer), last, complete=False)
            self._here.channels.mark(peer, arrived, released)
            self._marked[peer] = released

    def _below(self, waiting: deque[tuple[int, Item]] | None, last: int, *, complete: bool) -> int:
        while waiting:
            number, item = waiting[0]
            if not (item.complete if complete else item.released):
                return number - 1
            waiting.popleft()
        return last

    def forget(self, peer: int) -> None:
        self._last.pop(peer, None)
        self._marked.pop(peer, None)
        self._incomplete.pop(peer, None)
        self._unreleased.pop(peer, None)
