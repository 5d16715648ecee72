"""Regular messages once the handler has opened a configuration: Order Rule 1 in a primary component, red elsewhere.

Given: DATA in the agreed order, the same at every member, and acknowledgements. Promised: a batch is green once every
member of the primary component has it, yellow, on stable storage.
"""

from collections import deque

from reconvene.corel.after_sync import Acknowledge, Report
from reconvene.corel.batch import Heading, Kind, Timestamp
from reconvene.corel.events import Color, LogEvent, Logged, Recolored
from reconvene.corel.keeping.writes import Writes
from reconvene.corel.paper.applying import Applying
from reconvene.corel.paper.queue import Queue
from reconvene.corel.replicas.voting import Voting
from reconvene.corel.turn_share import TurnShare
from reconvene.errors import Malformed

__all__ = ["Ordering"]


class Ordering:
    def __init__(
        self,
        number: int,
        name: str,
        primary: int,
        participants: tuple[str, ...],
        *,
        queue: Queue,
        writes: Writes,
        turn: TurnShare,
        voting: Voting,
        applying: Applying,
        held: int | None = None,
    ) -> None:
        """`number`: of the configuration, among those of this replica. `held`: how many yellow batches become green
        first, and only once `finalize` is called; None: there are none, and nothing is held."""
        self.primary = primary
        """The primary component's number; 0: there is none, and everything is red."""
        self.logged = 0
        """How many of the batches delivered here are on stable storage: what is acknowledged."""
        self._number = number
        self._name = name
        self._participants = participants
        self._queue = queue
        self._writes = writes
        self._turn = turn
        self._voting = voting
        self._applying = applying
        self.held = held is not None
        """The primary component is not established on stable storage yet: nothing becomes green."""
        self._before = held or 0
        """Yellow batches from before this primary component."""
        self._delivered = 0
        self._ordered = 0
        self._acks = dict.fromkeys(participants, 0)
        self._unordered: deque[Heading | None] = deque()
        """Delivered and not green; None for a batch that added nothing."""

    def finalize(self) -> None:
        """The primary component is established on stable storage."""
        self.held = False
        self.advance()

    def lose(self) -> None:
        """The configuration ends: what comes now is red."""
        self.primary = 0

    def deliver(self, heading: Heading, body: bytes, timestamp: Timestamp, marked: bool) -> None:
        last = self._queue.last.get(heading.author, 0)
        new = heading.first == last + 1
        events: tuple[LogEvent, ...] = ()
        if new:
            self._queue.log(heading, body, timestamp, marked, Color.YELLOW if self.primary else Color.RED)
            self._turn.spend(heading.size, heading.count)
            logged = Logged(heading, timestamp)
            events = (logged, Recolored(heading, Color.YELLOW)) if self.primary else (logged,)
        # Also where nothing is new here: what was decided before is written in this turn.
        self._writes.after(Report(events))
        if self.primary:
            self._delivered += 1
            self._unordered.append(heading if new else None)
            self._writes.after(Acknowledge(self._number, self._delivered))
        if not new and heading.first > last:
            # Counted, so that the order of acknowledgements stays everyone's; never from a correct replica.
            raise Malformed(f"a batch {heading.id} out of its author's order")

    def synced(self, count: int) -> None:
        """So many of the batches delivered here are on stable storage."""
        if self.primary:
            self.logged = count
            self.acknowledged(self._name, count)

    def acknowledged(self, sender: str, count: int) -> None:
        """`sender` has so many of the batches delivered in this primary component."""
        if not self.primary or count <= self._acks.get(sender, count):
            return
        self._acks[sender] = count
        self.advance()

    def advance(self) -> None:
        """Makes green what everyone has, as much as this turn takes."""
        while self._before and not self.held and self.primary and self._turn.has_share:
            self._before -= 1
            self._applying.advance()
        if self._before or self.held or not self._unordered:
            return
        agreed = min(self._acks.values())
        while self._ordered < agreed and self._unordered and self.primary and self._turn.has_share:
            heading = self._unordered[0]
            if (
                heading is not None
                and heading.kind is Kind.CHANGE
                and not self._voting.may_change(self._participants)
            ):
                return  # not a quorum of the new set: it waits for a primary component that is
            self._unordered.popleft()
            self._ordered += 1
            if heading is not None:
                self._applying.advance()
