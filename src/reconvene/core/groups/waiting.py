"""What a site may not send yet: requests, and messages that came back, while a configuration exchanges its tables.

Promised: they go out in their order, as far as the site has room. Bounded: messages come back only from the site's
own queue, which is bounded, and requests by the number of memberships.
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from reconvene.core.effects import Sent
from reconvene.core.groups.payloads import CONFIRM, DATA, FIRST_OTHER, LIST, SUBSET, SYNC, TABLE, membership_of
from reconvene.core.site import Site
from reconvene.ids import Service

__all__ = ["Waiting"]

_OF_THE_CONFIGURATION = (TABLE, CONFIRM, SYNC, LIST)
"""They mean nothing in another one."""


class Waiting:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._queue: deque[tuple[Service, bytes]] = deque()
        self.submitted: deque[tuple[int, int]] | None = None
        """(membership or 0, messages) that the site has and has not sent, where casts are recorded."""

    def __len__(self) -> int:
        return len(self._queue)

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        self._site.submit(service, payload, now)
        if self.submitted is not None:
            self.submitted.append((_casting(payload), 1))

    def submit_many(self, service: Service, payloads: Sequence[bytes], membership: int, now: int) -> int:
        taken = self._site.submit_many(service, payloads, now)
        if self.submitted is not None and taken:
            self.submitted.append((membership, taken))
        return taken

    def add(self, service: Service, payload: bytes) -> None:
        self._queue.append((service, payload))

    def begin(self) -> None:
        """A configuration begins: the site has nothing to send."""
        if self.submitted:
            self.submitted.clear()

    def come_back(self, unsent: Iterable[tuple[Service, bytes]]) -> list[tuple[Service, bytes]]:
        """The site has not sent these. Returns those that are not of this layer."""
        others = []
        own = []
        for service, payload in unsent:
            if payload and payload[0] >= FIRST_OTHER:
                others.append((service, payload))
            elif payload[0] not in _OF_THE_CONFIGURATION:
                own.append((service, payload))
        self._queue.extendleft(reversed(own))
        return others

    def drop(self, memberships: Collection[int]) -> None:
        """Messages of these memberships are void."""
        self._queue = deque(
            (service, payload)
            for service, payload in self._queue
            if payload[0] not in (DATA, SUBSET) or membership_of(payload) not in memberships
        )

    def pump(self, now: int) -> bool:
        """Submits what there is room for. Returns whether that was anything."""
        any_ = False
        while self._queue and self._site.room() > 0:
            service, payload = self._queue.popleft()
            self.submit(service, payload, now)
            any_ = True
        return any_

    def sent(self, event: Sent) -> list[tuple[int, int, int]]:
        """(membership, counter of the first, messages) of a frame's casts: a frame holds what was submitted, in
        order."""
        casts = []
        first, left = event.first, event.count
        while left and self.submitted:
            membership, count = self.submitted.popleft()
            now = min(count, left)
            if membership:
                casts.append((membership, first, now))
            if now < count:
                self.submitted.appendleft((membership, count - now))
            first += now
            left -= now
        return casts


def _casting(payload: bytes) -> int:
    """The membership that sends this to its whole group."""
    return membership_of(payload) if payload[0] == DATA else 0
