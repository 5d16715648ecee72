"""The stack `corel` of the simulator: a site with groups, the log, and plain messages beside it.

It is the same stack as in a real process; its log layer carries the plain messages too.
"""

from collections import deque
from collections.abc import Sequence

from reconvene.core.groups.groups import Groups
from reconvene.core.site import Site
from reconvene.corel.messages import FOREIGN, KINDS
from reconvene.corel.replica import Replica
from reconvene.errors import Unavailable
from reconvene.ids import Service
from reconvene.stack.layer import Outlet
from reconvene.stack.log import LogLayer
from reconvene.stack.stack import Stack

__all__ = ["LogSite"]

_PLAIN = bytes((FOREIGN,))


class LogBesidePlain(LogLayer):
    """The log, and the application's plain messages beside it, which share the replica's turns: the replica is handed
    them, ignores them, and counts them as work, so that a run with many of them meets long work too. What a change of
    configuration returns of them goes out again, before anything that is submitted after it."""

    kinds = KINDS | {FOREIGN}

    def __init__(self, replica: Replica) -> None:
        super().__init__(replica)
        self.waiting: deque[tuple[Service, bytes]] = deque()
        """Plain messages that came back: as many as the site's own queue holds."""

    def begin(self, outlet: Outlet, time: int) -> None:
        while self.waiting and outlet.submit(*self.waiting[0]):
            self.waiting.popleft()
        super().begin(outlet, time)

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        self.waiting += [message for message in unsent if message[1][:1] == _PLAIN]


class LogSite(Stack):
    def __init__(self, site: Site, groups: Groups, replica: Replica) -> None:
        self.replica = replica
        self._layer = LogBesidePlain(replica)
        super().__init__(site, groups, (self._layer,))

    @property
    def step(self) -> str:
        """The site's own while it changes its configuration, then the log's."""
        step = self.site.step
        return self.replica.step if step == "operational" else step

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        """A plain message beside the log."""
        if not self.groups.submit_other(service, (_PLAIN + payload,), now):
            raise Unavailable("a configuration is being installed")

    def room(self) -> int:
        return 0 if self._layer.waiting else self.site.room()

    def withdraw(self) -> int:
        """Messages beside the log alone: what the log has accepted goes on."""
        count = len(self._layer.waiting)
        self._layer.waiting.clear()
        return count

    def append(self, messages: Sequence[bytes], now: int) -> tuple[int, int]:
        replica = self.replica
        if not replica.is_replica:
            return 0, 0
        accepting = replica.accepting
        room, free = accepting.room(), replica.limits.red_bytes - accepting.open_bytes
        taken: list[bytes] = []
        for message in messages:
            free -= len(message)
            if len(taken) == room or free < 0:
                break
            taken.append(message)
        return (replica.append(taken), len(taken)) if taken else (0, 0)

    def author(self, number: int) -> str:
        return self.replica.name_of(number)
