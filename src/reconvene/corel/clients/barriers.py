"""Reads that wait for everything that was ordered before them.

What is green anywhere is logged at every member of the primary component. Once every member has answered, after the
barrier was asked for, that it is still a member, no later primary component can have ordered anything, and all that
was green anywhere is at least yellow here. The barrier passes when that is green.
"""

from reconvene.corel.events import BarrierPassed
from reconvene.corel.messages import BARRIER, ECHO, Barrier, Echo
from reconvene.corel.outgoing import Outgoing
from reconvene.corel.paper.queue import Queue
from reconvene.corel.turn_share import TurnShare

__all__ = ["Barriers"]


class Barriers:
    def __init__(self, name: str, queue: Queue, outgoing: Outgoing, turn: TurnShare) -> None:
        self._name = name
        self._queue = queue
        self._outgoing = outgoing
        self._turn = turn
        self._number = 0
        self._asked: dict[int, set[str] | None] = {}
        """By number: the members that have answered; None: not sent in this primary component."""
        self._lines: list[tuple[int, int]] = []
        """(green line, number) of those that everyone has answered."""
        self._members: tuple[str, ...] = ()

    def ask(self) -> int:
        """Returns its number, which `BarrierPassed` will report."""
        self._number += 1
        self._asked[self._number] = None
        self._send()
        return self._number

    def forget(self, number: int) -> None:
        """No application waits for it any more."""
        self._asked.pop(number, None)

    def open(self, members: tuple[str, ...]) -> None:
        """A primary component is established."""
        self._members = members
        self._send()

    def lose(self) -> None:
        """What was answered means nothing in another primary component."""
        self._members = ()
        for _, number in self._lines:
            self._asked[number] = None
        self._lines.clear()
        for number in self._asked:
            self._asked[number] = None

    def _send(self) -> None:
        if not self._members:
            return
        unsent = [number for number, answers in self._asked.items() if answers is None]
        if unsent:
            for number in unsent:
                self._asked[number] = set()
            # One answer serves all that were asked before.
            self._outgoing.send(BARRIER, Barrier(max(unsent)))

    def receive(self, sender: str, message: Barrier) -> None:
        if self._members:
            self._outgoing.send(ECHO, Echo(sender, message.number))

    def receive_echo(self, sender: str, message: Echo) -> None:
        if message.to != self._name or sender not in self._members:
            return
        for number, answers in sorted(self._asked.items()):
            if answers is not None and number <= message.number:
                answers.add(sender)
                if len(answers) == len(self._members):
                    del self._asked[number]
                    self._lines.append((self._queue.yellow_line, number))
        self.advance()

    def advance(self) -> None:
        """The green line has moved, perhaps."""
        while self._lines and self._lines[0][0] <= self._queue.green:
            self._turn.report(BarrierPassed(self._lines.pop(0)[1]))
