"""How much a replica does and reports in one turn, so that no turn of its site is long, however much waits.

Given: each batch that is handled, and each event. Promised: a turn's work ends after the batch that uses up the
turn's share. The rest goes on in the next turn, in the same order. The share is counted in bytes and in messages, not
in time: the core has no clock, and the same inputs lead to the same turns.
"""

from collections import deque
from collections.abc import Iterator

from reconvene.corel.events import LogEvent, messages_in
from reconvene.corel.limits import LogLimits

__all__ = ["BATCH_BYTES", "MESSAGE_BYTES", "Step", "TurnShare"]

BATCH_BYTES = 16 << 10
"""What handling a batch costs besides its size: as much as copying so many bytes …"""
MESSAGE_BYTES = 256
"""… and each of its messages, which may get a row in the trace."""
_BACKLOG = 16
"""A turn takes at least this fraction (1/16) of what was delivered and waits: else the backlog could grow forever."""

Step = Iterator[None]
"""Work on many batches, one batch at a time. Until it is done, nothing else is handled."""


class TurnShare:
    def __init__(self, limits: LogLimits) -> None:
        self._share = limits.turn_bytes
        self._left = limits.turn_bytes
        self._most_messages = limits.turn_messages
        self._batch_messages = limits.batch_messages
        self.step: Step | None = None
        """What is being done in several turns. Until it is done, nothing that is delivered is handled."""
        self._events: deque[LogEvent] = deque()
        """Not reported yet, in order …"""
        self._unreported = 0
        """… and how many messages they concern."""

    # -- the share

    def begin(self, backlog_bytes: int) -> None:
        """A turn begins. `backlog_bytes`: what was delivered before and is not handled yet."""
        self._left = max(self._share, backlog_bytes // _BACKLOG)

    def spend(self, size: int = 0, messages: int = 0) -> None:
        """A batch was handled. `size`: how many bytes of it were copied, read or sent."""
        self._left -= BATCH_BYTES + size + MESSAGE_BYTES * messages

    def end(self) -> None:
        """Nothing more is handled in this turn."""
        self._left = 0

    @property
    def has_share(self) -> bool:
        """This turn may do more, and report more."""
        return self._left > 0 and self._unreported <= self._most_messages

    # -- work that takes several turns

    def start(self, step: Step) -> None:
        """Until this step is done, nothing that is delivered is handled."""
        assert self.step is None, "one step at a time"
        self.step = step

    def go_on(self) -> None:
        """Continues the step, as far as this turn's share goes."""
        if self.step is not None:
            for _ in self.step:
                if not self.has_share:
                    return
            self.step = None

    # -- events

    def report(self, event: LogEvent) -> None:
        """It happened, and everything that it depends on is on stable storage."""
        self._events.append(event)
        self._unreported += messages_in(event)

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def take_events(self) -> list[LogEvent]:
        """The events in order, as many as one turn reports. What became green in this turn is always among them:
        nothing becomes green while more than that is unreported."""
        if not self._events:
            return []
        if self._unreported <= self._most_messages + self._batch_messages:
            events, self._events = list(self._events), deque()
            self._unreported = 0
            return events
        events, count = [], 0
        while self._events and count < self._most_messages:
            events.append(self._events.popleft())
            count += messages_in(events[-1])
        self._unreported -= count
        return events
