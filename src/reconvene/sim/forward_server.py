"""The end of connections at a node that takes what outposts forward, as a site's listener does."""

from collections.abc import Callable, Sequence

from reconvene.corel.batch import Origin, Source
from reconvene.corel.events import Accepted, LogEvent
from reconvene.corel.replica import Replica
from reconvene.errors import ReconveneError
from reconvene.outpost.forwarding import Refusal
from reconvene.sim.calls import Connection, End
from reconvene.wire.client_log import Appended, Confirm, Confirmed, Forward

__all__ = ["ForwardServer"]

_MOST_CONFIRMED = 64


class ForwardServer:
    """Of the node `end`. `replica`: None while its process is down."""

    def __init__(self, end: End, replica: Callable[[], Replica | None]) -> None:
        self._end = end
        self._replica = replica
        self._durable: int | None = None
        """The counter up to which the node's own messages are on stable storage; None: the process has just begun."""
        self._accepting: list[tuple[Connection, int, int]] = []
        """(connection, request, counter) of Forwards whose messages are not on stable storage yet."""
        self._confirming: list[tuple[Connection, Confirm]] = []

    @staticmethod
    def is_asked(message: object) -> bool:
        return isinstance(message, Forward | Confirm)

    def asked(self, connection: Connection, request: Forward | Confirm) -> None:
        replica = self._replica()
        if replica is None:
            return
        if isinstance(request, Confirm):
            self._confirming.append((connection, request))
            self._confirm(replica)
            return
        inner = [Source(*source) for source in request.sources]
        origin = Origin(request.outpost, request.incarnation)
        try:
            taken = replica.forward(request.messages, request.session, request.number, request.after, origin, inner)
        except ReconveneError as error:
            connection.send(self._end, Refusal(request.request, str(error)))
            return
        own = [part.first + part.count - 1 for part in taken if part.author == replica.own and part.position is None]
        self._accepting.append((connection, request.request, max(own, default=0)))

    def lost(self, connection: Connection) -> None:
        self._accepting = [each for each in self._accepting if each[0] is not connection]
        self._confirming = [each for each in self._confirming if each[0] is not connection]

    def crashed(self) -> None:
        self._accepting.clear()
        self._confirming.clear()
        self._durable = None

    def look(self, events: Sequence[LogEvent]) -> None:
        """What happened to the log in a turn, all of it durable."""
        replica = self._replica()
        if replica is None:
            return
        own = [event.batch.last for event in events if isinstance(event, Accepted)]
        if self._durable is None:
            self._durable = replica.queue.next_counter() - 1
        durable = self._durable = max(own, default=self._durable)
        waiting, self._accepting = self._accepting, []
        for connection, request, counter in waiting:
            if counter <= durable:
                connection.send(self._end, Appended(request, [], replica.green))
            else:
                self._accepting.append((connection, request, counter))
        self._confirm(replica)

    def _confirm(self, replica: Replica) -> None:
        waiting, self._confirming = self._confirming, []
        for connection, request in waiting:
            places = replica.confirmed(request.session, request.first, _MOST_CONFIRMED)
            if places:
                connection.send(self._end, Confirmed(request.request, places))
            else:
                self._confirming.append((connection, request))
