"""Where outposts' messages are in the log, for programs that appended at an outpost and ask a site.

Given: the replica's table of sessions. Promised: a program that waits is answered once its messages are green here,
whichever site the outpost forwards them to. An outpost's messages become green in the order of their counters,
without a gap: so a turn costs one look for each outpost that programs wait for.
"""

import asyncio
from heapq import heapify, heappop, heappush
from itertools import count

from reconvene.corel.replica import Replica
from reconvene.errors import PlaceForgotten, ReconveneError
from reconvene.runtime.log.places import Ranges, joined

__all__ = ["ForwardedPlaces"]

_LOOK_AT = 1_024
"""Whenever so many more wait for one outpost, those that gave up are removed."""


class ForwardedPlaces:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._order = count()
        self._waiting: dict[bytes, list[tuple[int, int, int, asyncio.Future[Ranges]]]] = {}
        """By the outpost's session, a heap: (last counter, order, first counter, future)."""

    def find(self, session: bytes, first: int, many: int) -> "asyncio.Future[Ranges]":
        """Done once these messages of the outpost are green. Fails with PlaceForgotten if a place is not known any
        more."""
        future: asyncio.Future[Ranges] = asyncio.get_running_loop().create_future()
        last = first + many - 1
        if self._is_green(session, last):
            self._answer(future, session, first, last)
        else:
            waiting = self._waiting.setdefault(session, [])
            heappush(waiting, (last, next(self._order), first, future))
            if len(waiting) % _LOOK_AT == 0:
                waiting[:] = [each for each in waiting if not each[3].done()]
                heapify(waiting)
        return future

    def look(self) -> None:
        """The log may have gone on."""
        for session, waiting in list(self._waiting.items()):
            while waiting and (waiting[0][3].done() or self._is_green(session, waiting[0][0])):
                last, _, first, future = heappop(waiting)
                if not future.done():
                    self._answer(future, session, first, last)
            if not waiting:
                del self._waiting[session]

    def _is_green(self, session: bytes, counter: int) -> bool:
        return bool(self._replica.confirmed(session, counter, 1))

    def _answer(self, future: "asyncio.Future[Ranges]", session: bytes, first: int, last: int) -> None:
        places = self._replica.confirmed(session, first, last + 1 - first)
        if any(position < 0 for _, _, position in places):
            _fail(future, PlaceForgotten(f"messages {first} to {last} are in the log, and it no longer knows where"))
        else:
            future.set_result(joined([(position, many) for _, many, position in places]))

    def close(self, error: ReconveneError) -> None:
        waiting, self._waiting = self._waiting, {}
        for heap in waiting.values():
            for _, _, _, future in heap:
                if not future.done():
                    _fail(future, error)


def _fail(future: "asyncio.Future[Ranges]", error: ReconveneError) -> None:
    future.set_exception(error)
    future.exception()  # marks it as retrieved: the client may have given up
