"""What readers of a cursor may do, as a naive oracle: it is told of everything in the order in which it happens.

Given: a world with one clock, so that the order of calls is the order of time. Promised: `problems` names every rule
that was broken.
"""

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["Ledger"]


class Ledger:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.committed = 0
        """The highest position for which a commit has returned."""
        self.term = -1
        """Of the last holder that did something."""
        self.begun: dict[int, int] = {}
        """By term: where its holder began …"""
        self.handed: dict[int, list[int]] = {}
        """… and the positions that it was handed."""
        self.lost = 0

    def take(self, term: int, position: int) -> None:
        self._act(term)
        if position < self.committed:
            self.problems.append(f"cursor.position: term {term} begins at {position}, {self.committed} is committed")
        self.begun[term] = position
        self.handed[term] = []

    def hand(self, term: int, position: int) -> None:
        self._act(term)
        self.handed[term].append(position)

    def commit(self, position: int) -> None:
        """A commit has returned."""
        self.committed = max(self.committed, position)

    def _act(self, term: int) -> None:
        if term < self.term:
            self.problems.append(f"cursor.one-holder: term {term} is used after term {self.term}")
        self.term = max(self.term, term)

    def judge(self, positions: Sequence[int]) -> None:
        """At the end. `positions`: of all messages of the log."""
        for term, handed in self.handed.items():
            due = [position for position in positions if position >= self.begun[term]]
            if handed != due[: len(handed)]:
                self.problems.append(f"cursor.complete: term {term} was handed {handed}, {due} were due")
        for (term, start), (_, following) in pairwise(sorted(self.begun.items())):
            # What lies between was committed by this holder, so it was handed to it, or to one before it.
            seen = {position for one, handed in self.handed.items() if one <= term for position in handed}
            missing = [position for position in positions if start <= position < following and position not in seen]
            if missing:
                self.problems.append(f"cursor.complete: nobody was handed {missing} before {following}")
        rest = [position for position in positions if position >= self.committed]
        if rest:
            self.problems.append(f"cursor.complete: {rest} were never committed")
