"""The state of a group, as one of its members gives it to a newcomer, and as the newcomer takes it."""

import asyncio
from collections.abc import Callable
from typing import Any

from reconvene.client.isis_place import Place
from reconvene.core.groups import events
from reconvene.wire import client_isis as wire

__all__ = ["Giving"]


class Giving:
    def __init__(self, tell: Callable[[Callable[[int], wire.IsisRequest]], "asyncio.Future[Any] | None"]) -> None:
        """`tell` sends a request; None: there is no process any more."""
        self._tell = tell

    def take(self, place: Place, struct: wire.IsisWanted | wire.IsisTaken | wire.IsisChunk | wire.IsisStated) -> None:
        match struct:
            case wire.IsisChunk():
                if place.transfer is not None:
                    place.transfer.add(events.Process(*struct.member), struct.data)
            case wire.IsisStated():
                if place.transfer is not None and not place.transfer.done.done():
                    place.transfer.done.set_result(None)
            case wire.IsisWanted():
                newcomer = events.Process(*struct.newcomer)
                place.wanted[newcomer] = (struct.view, struct.first)
                self.give_wanted(place, newcomer)
            case wire.IsisTaken():
                newcomer = events.Process(*struct.newcomer)
                place.kept.pop(newcomer, None)
                place.wanted.pop(newcomer, None)

    def give_wanted(self, place: Place, newcomer: events.Process) -> None:
        """Gives what is kept for the newcomer, if it has asked for it."""
        kept, pieces = place.kept.get(newcomer, (0, []))
        view, first = place.wanted.get(newcomer, (0, 0))
        if kept and kept == view:
            del place.wanted[newcomer]
            # Where its own transfer ended early it may have fewer than were given before.
            self._give(place, newcomer, view, pieces + [b""] * (first + 1 - len(pieces)), first)

    def _give(self, place: Place, newcomer: events.Process, view: int, pieces: list[bytes], at: int) -> None:
        """One piece after the other: the next when the site has taken the last one."""
        last = at + 1 == len(pieces)
        asked = self._tell(lambda number: wire.IsisGive(number, place.group, view, newcomer, at, pieces[at], last))

        def given(done: "asyncio.Future[Any]") -> None:
            # Refused: the newcomer has gone, or has asked another one.
            if not last and not done.cancelled() and done.exception() is None:
                self._give(place, newcomer, view, pieces, at + 1)

        if asked is not None:
            asked.add_done_callback(given)
