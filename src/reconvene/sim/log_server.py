"""The end of connections at a process that has the log: it answers followers, as a site's listener does.

Requests are the core's own (`corel.following.messages`); what waits for the log to go on is answered when it has.
"""

from collections.abc import Callable

from reconvene.corel.following.messages import Ask, BaseAsk, PieceAsk, Pull
from reconvene.corel.following.source import Source
from reconvene.sim.calls import Connection, End
from reconvene.sim.loop import Loop

__all__ = ["LogServer"]

_WAIT_NS = 300_000_000
"""An answer that has nothing to tell comes after so long, so that both ends know the other."""


class LogServer:
    """Of the process `end`. `source`: what it has of the log; None while its process is down."""

    def __init__(self, end: End, loop: Loop, source: Callable[[], Source | None]) -> None:
        self._end = end
        self._loop = loop
        self._source = source
        self._waiting: dict[Connection, Ask] = {}

    def asked(self, connection: Connection, ask: Ask) -> None:
        source = self._source()
        answer = None if source is None else source.answer(ask)
        if answer is not None:
            connection.send(self._end, answer)
        else:
            self._waiting[connection] = ask
            self._loop.at(self._loop.now + _WAIT_NS, self._late, (connection, ask))

    @staticmethod
    def is_asked(message: object) -> bool:
        """Whether this is a follower's request."""
        return isinstance(message, Pull | BaseAsk | PieceAsk)

    def lost(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)

    def crashed(self) -> None:
        self._waiting.clear()

    def look(self) -> None:
        """The log may have gone on."""
        source = self._source()
        for connection, ask in list(self._waiting.items()):
            answer = None if source is None else source.answer(ask)
            if answer is not None:
                del self._waiting[connection]
                connection.send(self._end, answer)

    def _late(self, waited: tuple[Connection, Ask]) -> None:
        connection, ask = waited
        if self._waiting.get(connection) is not ask or self._end.paused:
            return
        source = self._source()
        answer = None if source is None else source.answer(ask, late=True)
        if answer is not None:
            del self._waiting[connection]
            connection.send(self._end, answer)
