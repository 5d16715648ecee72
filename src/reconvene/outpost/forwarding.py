"""An outpost's way to the log: one site at a time, everything in order, until it is read back green.

    idle ──▶ connecting ──▶ open ──▶ leaving ──▶ resting ──▶ connecting (the next site)
    idle, resting: no link. connecting: asked for, not there. leaving: to be closed in this turn.

At a site the outpost begins with the first message that is not green, whatever other sites may have of it: the log's
sessions know what they have. So a site never gets a message whose predecessor is neither green nor there. A site that
fails a request, or makes no progress for `patience_ns`, is left for the next one.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from reconvene.outpost.limits import OutpostLimits
from reconvene.outpost.queue import Batch, Queue
from reconvene.wire.client_log import Appended, Confirm, Confirmed, Forward

__all__ = ["Answer", "Forwarding", "Refusal", "Step"]

NEVER = 1 << 62


class Refusal(Struct, frozen=True):
    """A site did not carry out a request."""

    request: int
    reason: str


Answer = Appended | Confirmed | Refusal


class Step(Enum):
    IDLE = "idle"
    CONNECTING = "connecting"
    OPEN = "open"
    LEAVING = "leaving"
    RESTING = "resting"


class _Wanted(Protocol):
    """What a turn asks of the link."""

    connect: int | None
    disconnect: bool
    requests: list[Forward | Confirm]


class Forwarding:
    def __init__(self, name: str, sites: int, queue: Queue, limits: OutpostLimits) -> None:
        assert sites > 0, "there is a site to forward to"
        self._name = name
        self._sites = sites
        self._queue = queue
        self._limits = limits
        self.step = Step.IDLE
        self.site = 0
        """Which site it forwards to, or will."""
        self.trouble = ""
        """Why the last site was left; empty: none was since something became green."""
        self.forwarded = queue.green
        """Messages up to this counter are on stable storage at the site …"""
        self._sent = queue.green
        """… and up to this one they were sent to it."""
        self._unsent: deque[Batch] = deque(queue.batches)
        """Durable batches that are not, or not whole, sent to the site."""
        self._under_way: dict[int, tuple[int, int]] = {}
        """By request: (counter of the last message, bytes) of Forwards that are not answered."""
        self._under_way_bytes = 0
        self._confirm = 0
        """The request that asks for places; 0: none."""
        self._request = 0
        self._failed = 0
        """Sites that were left since something became green."""
        self._rest_until = 0
        self._progress_at = 0
        self._patience_ns = limits.patience_ns
        """A site that makes no progress for so long is left."""

    def durable(self, batches: Sequence[Batch]) -> None:
        """These are on stable storage here, and may be sent."""
        self._unsent += batches

    # -- the link

    def connected(self, now: int) -> None:
        if self.step is Step.CONNECTING:
            self.step = Step.OPEN
            self._progress_at = now
            self._restart()

    def _restart(self) -> None:
        self.forwarded = self._sent = self._queue.green
        self._unsent = deque(batch for batch in self._queue.batches if batch.last <= self._queue.durable)
        self._under_way.clear()
        self._under_way_bytes = 0
        self._confirm = 0

    def lost(self, reason: str, now: int) -> None:
        """The link is gone, or could not be made."""
        if self.step in (Step.CONNECTING, Step.OPEN):
            self._rest(reason, now)

    def _rest(self, reason: str, now: int) -> None:
        self.trouble = reason
        self.site = (self.site + 1) % self._sites
        self._failed += 1
        rounds = min(self._failed // self._sites, 16)
        self._rest_until = now + min(self._limits.retry_ns << rounds, self._limits.retry_most_ns)
        self.step = Step.RESTING
        self._restart()

    def _leave(self, reason: str, now: int) -> None:
        self._rest(reason, now)
        self.step = Step.LEAVING

    def answered(self, answer: Answer, now: int) -> list[tuple[int, int, int]]:
        """Returns the places of messages that are green now: (first, count, position) …"""
        if self.step is not Step.OPEN:
            return []
        if isinstance(answer, Refusal):
            if answer.request in self._under_way or answer.request == self._confirm:
                self._leave(answer.reason, now)
            return []
        if isinstance(answer, Appended):
            last, size = self._under_way.pop(answer.request, (0, 0))
            self._under_way_bytes -= size
            self.forwarded = max(self.forwarded, last)
            self._progress_at = now
            return []
        if answer.request != self._confirm:
            return []
        self._confirm = 0
        places = self._sound(answer)
        if places is None:
            self._leave("the site's answer about places makes no sense", now)
            return []
        self._patience_ns = max(self._limits.patience_ns, min(self._patience_ns, 4 * (now - self._progress_at)))
        self._progress_at = now
        self._failed = 0
        self.trouble = ""
        through = places[-1][0] + places[-1][1] - 1
        self._queue.confirm(through)
        self.forwarded = max(self.forwarded, through)
        self._sent = max(self._sent, through)
        return places

    def _sound(self, answer: Confirmed) -> list[tuple[int, int, int]] | None:
        """What a site says is not trusted: the places have to follow each other, of messages that are durable."""
        expected = self._queue.green + 1
        for first, count, _ in answer.places:
            if first != expected or count < 1:
                return None
            expected += count
        return answer.places if answer.places and expected - 1 <= self._queue.durable else None

    # -- turns

    @property
    def _waits(self) -> bool:
        return self._queue.green < self._queue.durable

    def deadline(self) -> int:
        match self.step:
            case Step.RESTING if self._waits:
                return self._rest_until
            case Step.OPEN if self._waits:
                return self._progress_at + self._patience_ns
            case _:
                return NEVER

    def speak(self, now: int, wanted: _Wanted) -> None:
        """Adds to the turn what is to be asked of the link and of the site."""
        if self.step is Step.OPEN and not self._waits:
            self._progress_at = now
        elif self.step is Step.OPEN and now >= self._progress_at + self._patience_ns:
            self._leave(f"nothing became green for {self._patience_ns / 1e9:g} s", now)
            self._patience_ns = min(2 * self._patience_ns, self._limits.patience_most_ns)
        if self.step is Step.LEAVING:
            wanted.disconnect = True
            self.step = Step.RESTING
        if self._waits and (self.step is Step.IDLE or (self.step is Step.RESTING and now >= self._rest_until)):
            self.step = Step.CONNECTING
            wanted.connect = self.site
        if self.step is Step.OPEN:
            self._forward(wanted)

    def _forward(self, wanted: _Wanted) -> None:
        limits = self._limits
        while self._unsent and (
            not self._under_way
            or (self._under_way_bytes < limits.window_bytes and len(self._under_way) < limits.window_requests)
        ):
            batch = self._unsent.popleft()
            if batch.last > self._sent:
                wanted.requests.append(self._request_from(batch))
        queue = self._queue
        if not self._confirm and queue.green < self._sent:
            self._request += 1
            self._confirm = self._request
            wanted.requests.append(Confirm(self._request, queue.record.session, queue.green + 1))

    def _request_from(self, batch: Batch) -> Forward:
        """With what of this batch was not sent, and with those after it that fit."""
        queue, limits = self._queue, self._limits
        number = max(self._sent + 1, batch.first)
        messages: list[bytes] = []
        sources: list[tuple[bytes, int, int, int]] = []
        size = 0
        while True:
            stored = queue.read(batch)
            skip = max(number - batch.first, 0)
            at = len(messages) - skip
            messages += stored.messages[skip:] if skip else stored.messages
            size += batch.size
            for session, first, start, count in stored.sources:
                cut = max(skip - start, 0)
                if cut < count:
                    sources.append((session, first + cut, start + cut + at, count - cut))
            self._sent = batch.last
            following = self._unsent[0] if self._unsent else None
            if (
                following is None
                or following.incarnation != batch.incarnation
                or size + following.size > limits.forward_bytes
                or len(messages) + following.count > limits.forward_messages
            ):
                break
            batch = self._unsent.popleft()
        self._request += 1
        self._under_way[self._request] = (self._sent, size)
        self._under_way_bytes += size
        session = queue.record.session
        return Forward(
            self._request, session, number, queue.green, self._name, batch.incarnation, messages, sources
        )  # fmt: skip
