"""Section 5.4 of the ISIS paper in virtual time: a replicated file that is updated, with and without waiting.

A caller asks the file's coordinator for some updates. The coordinator takes the write-lock by an ABCAST, carries each
update out and tells its cohorts by a CBCAST, and replies to its caller. *Asynchronous*: it goes on at once, and has
the lock when it receives its own ABCAST, since all copies receive the requests in that order. *Synchronous*: it waits
until every cohort has answered, for the lock and for each update.

Casting a message, receiving one, replying and receiving a reply each take the site's processor `COST_NS`, one after
the other. Packets and the disk take none.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reconvene.isis.events import ALL, Answered, CastId, IsisEvent, Received
from reconvene.lab.load.isis_simulated import IsisLab
from reconvene.lab.load.simulated import MS

__all__ = ["COST_NS", "Request", "measure"]

COST_NS = 10 * MS
_SIZE = 64
_CALLER = 0
_COORDINATOR = 1


@dataclass(frozen=True, slots=True)
class Request:
    response_ns: int
    """From the call to its reply."""
    done_ns: int
    """From the call until every cohort has carried out every update."""


class _Processors:
    """One for each site, which does one thing at a time."""

    def __init__(self, lab: IsisLab, sites: int) -> None:
        self._lab = lab
        self._free_at = [0] * sites

    def do(self, site: int, step: Callable[[], None]) -> None:
        """Carries out the step when the processor has spent its time on it."""
        at = self._free_at[site] = max(self._lab.now, self._free_at[site]) + COST_NS

        def go(_: None) -> None:
            step()
            self._lab.turn(site)

        self._lab.cluster.loop.at(at, go)


class _File:
    """One request to a file that has so many copies."""

    def __init__(self, copies: int, updates: int, *, synchronous: bool, seed: int) -> None:
        sites = copies + 1
        self._lab = lab = IsisLab(sites, seed=seed, answers=True)
        self._processors = _Processors(lab, sites)
        self._coordinator = lab.processes[_COORDINATOR]
        self._cohorts = lab.processes[_COORDINATOR + 1 :]
        self._replies = ALL if synchronous else 0
        self._updates = updates
        self._left = updates
        self._call_id: CastId | None = None
        self._answers = 0
        """Of cohorts, to what the coordinator waits for."""
        self._carried_out = 0
        """By cohorts."""
        self._replied_at = 0
        self._done_at = 0

    def play(self) -> Request:
        lab = self._lab
        lab.rest()
        lab.hear = self._hear
        began = lab.now
        self._processors.do(_CALLER, self._call)
        lab.wait(lambda: bool(self._replied_at and self._done_at), 10 * MS)
        return Request(self._replied_at - began, self._done_at - began)

    def _call(self) -> None:
        lab = self._lab
        lab.isis(_CALLER).cbcast(lab.processes[_CALLER], [self._coordinator], _message(b"call"), replies=1)

    def _hear(self, site: int, event: IsisEvent) -> None:
        if isinstance(event, Received):
            self._processors.do(site, lambda: self._receive(site, event))
        elif isinstance(event, Answered) and event.sender != event.process:
            self._processors.do(site, lambda: self._answered(site))

    def _receive(self, site: int, event: Received) -> None:
        if event.payload.startswith(b"call"):
            self._call_id = event.id
            self._processors.do(site, self._lock)
        elif site == _COORDINATOR:  # the lock, which it has now if it waits for nobody
            if event.replies:
                self._reply(site, event.id)
            else:
                self._next()
        else:
            if event.payload.startswith(b"update"):
                self._carried_out += 1
                if self._carried_out == self._updates * len(self._cohorts):
                    self._done_at = self._lab.now
            if event.replies:
                self._processors.do(site, lambda: self._reply(site, event.id))

    def _reply(self, site: int, cast_id: CastId) -> None:
        self._lab.isis(site).reply(self._lab.processes[site], cast_id, b"done")

    def _answered(self, site: int) -> None:
        if site == _CALLER:
            self._replied_at = self._lab.now
            return
        self._answers += 1
        if self._answers == len(self._cohorts):
            self._answers = 0
            self._next()

    def _lock(self) -> None:
        copies = [self._coordinator, *self._cohorts]
        self._lab.isis(_COORDINATOR).abcast(
            self._coordinator, copies, _message(b"lock"), "item", replies=self._replies
        )

    def _next(self) -> None:
        """The lock, or the last update, needs no more attention."""
        if self._left:
            self._left -= 1
            self._processors.do(_COORDINATOR, self._update)
        else:
            assert self._call_id is not None
            cast_id = self._call_id
            self._processors.do(_COORDINATOR, lambda: self._reply(_COORDINATOR, cast_id))

    def _update(self) -> None:
        self._lab.isis(_COORDINATOR).cbcast(
            self._coordinator, self._cohorts, _message(b"update"), replies=self._replies
        )
        if not self._replies:
            self._next()


def _message(what: bytes) -> bytes:
    return what.ljust(_SIZE, b".")


def measure(copies: int, updates: int, *, synchronous: bool, seed: int) -> Request:
    return _File(copies, updates, synchronous=synchronous, seed=seed).play()
