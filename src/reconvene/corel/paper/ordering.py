"""Regular messages once the handler has opened a configuration: Order Rule 1 in a primary component, red elsewhere.

Given: DATA in the agreed order, the same at every member, and acknowledgements. Promised: a batch is green once every
member of the primary component has it, yellow, on stable storage.
"""

from collections import deque
from collections.abc import Callable

from reconvene.corel.batch import Heading, Kind, Timestamp
from reconvene.corel.events import Color, Logged, Recolored
from reconvene.corel.home import Home
from reconvene.errors import Malformed

__all__ = ["Ordering"]


class Ordering:
    def __init__(self, home: Home, primary: int, participants: tuple[str, ...]) -> None:
        self.home = home
        self.primary = primary
        """The primary component's number; 0: there is none, and everything is red."""
        self.participants = participants
        self.logged = 0
        """How many of the DATA delivered here are on stable storage: what is acknowledged."""
        self._delivered = 0
        self._ordered = 0
        self._acks = dict.fromkeys(participants, 0)
        self._unordered: deque[Heading | None] = deque()
        """Delivered and not green; None for one that added nothing."""

    def lose(self) -> None:
        """The configuration ends: what comes now is red."""
        self.primary = 0

    def deliver(self, heading: Heading, body: bytes, timestamp: Timestamp, marked: bool) -> None:
        home = self.home
        last = home.queue.last.get(heading.author, 0)
        new = heading.first == last + 1
        color = Color.YELLOW if self.primary else Color.RED
        if new:
            home.queue.log(heading, body, timestamp, marked, color)
            home.pace.spend(heading.size, heading.count)
        if self.primary:
            self._delivered += 1
            self._unordered.append(heading if new else None)
        home.durable.after(self._synced(heading if new else None, timestamp, color, self._delivered))
        if not new and heading.first > last:
            # Counted, so that the order of acknowledgements stays everyone's; never from a correct replica.
            raise Malformed(f"a batch {heading.id} out of its author's order")

    def _synced(self, heading: Heading | None, timestamp: Timestamp, color: Color, place: int) -> Callable[[], None]:
        home = self.home

        def told() -> None:
            if heading is not None:
                home.tell(Logged(heading, timestamp))
                if color is Color.YELLOW:
                    home.tell(Recolored(heading, Color.YELLOW))
            if color is Color.YELLOW and self.primary:
                self.logged = place
                self.acknowledged(home.name, place)

        return told

    def acknowledged(self, sender: str, count: int) -> None:
        """`sender` has so many of the DATA delivered in this primary component."""
        if not self.primary or count <= self._acks.get(sender, count):
            return
        self._acks[sender] = count
        self.advance()

    def advance(self) -> None:
        """Makes green what everyone has, as much as this turn takes."""
        home = self.home
        agreed = min(self._acks.values())
        while self._ordered < agreed and self._unordered and self.primary and home.has_share:
            heading = self._unordered[0]
            if heading is not None and heading.kind is Kind.CHANGE and not home.may_order(self.participants):
                return  # not a quorum of the new set: it waits for a primary component that is
            self._unordered.popleft()
            self._ordered += 1
            if heading is not None:
                home.green(*home.queue.advance())
