"""The pool of CBCASTs: copies that this site must keep because some destination may lack them (4.3.2, 4.4).

Promised: a cast in the pool is *complete*: every cast that precedes it and that is not everywhere yet is in the pool
too, or was. It goes when its origin says, by its floor, that every destination has it out of all queues. Copies that
come later are duplicates.

A cast that this site sends to another goes behind the casts that precede it. Those go along as copies, each once on a
channel, or, where the receiver is a destination to which the living origin sends the cast itself, as *stubs*: the
receiver then waits for the copy. So a payload crosses the network once for each destination, and once for each site
that has to keep it for others. A site of another cluster gets only what is addressed to it: it keeps nothing for
others (4.6).
"""

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import cast

from reconvene.core.groups.events import Process
from reconvene.isis.events import CastId
from reconvene.isis.here import Here
from reconvene.isis.labels import Label
from reconvene.isis.messages import AttemptId, Copy, Offer, Run, Stub
from reconvene.isis.offers import Awaited, Offers
from reconvene.isis.receipts import Receipts

__all__ = ["Entry", "Pool"]


class Entry:
    """One attempt of a CBCAST, or of the first step of a causal ABCAST, at this site."""

    __slots__ = (
        "causes", "copy",
        "disposed",
        "handled",
        "id",
        "key",
        "label",
        "local",
        "offered",
        "pasts",
        "received",
        "sent",
        "sites",
        "size",
        "stubbed",
        "undecided",
        "verdict",
        "waits",
    )  # fmt: skip

    def __init__(self, copy: Copy, here: Here) -> None:
        self.copy = copy
        self.size = len(copy.payload) + sum(map(len, copy.more)) if copy.more else len(copy.payload)
        """Bytes of its messages."""
        self.id = copy.id
        self.key = AttemptId(*copy.id, copy.attempt)
        self.label: Label = tuple(copy.label)
        self.sites = here.sites(copy.to)
        """Of its destinations, as far as they are in the site view."""
        self.local = here.local(copy.to)
        self.causes: tuple[CastId, ...] = ()
        """Casts that precede it, as far as this site has them or waits for them."""
        self.waits: dict[CastId, int] = {}
        """Casts that precede it, and that this site is told to wait for: the attempt that has to come, or a later."""
        self.sent: dict[int, int] = {}
        """By site: the record by which this site sent it there."""
        self.offered: dict[int, int] = {}
        """By site: the record by which this site offered it there."""
        self.stubbed: set[int] = set()
        """Sites that this site told to wait for it."""
        self.handled: set[Process] = set()
        """Local destinations that are done with it …"""
        self.received: set[Process] = set()
        """… and those that received it."""
        self.pasts: list[dict[CastId, Entry]] = []
        """Of processes of this site: what their next casts have to follow. It stays in each of them until it is
        disposed of."""
        self.verdict: bool | None = None
        """Whether the local destinations accepted it, once one of them did or did not."""
        self.undecided = False
        """Of a causal ABCAST of a lost site: it has no final priority here. Sites that bring it wait for that too."""
        self.disposed = False
        """It is out of the pool: at every destination, superseded by the next attempt, or lost with its sender."""

    @property
    def complete(self) -> bool:
        return self.disposed or not (self.waits or self.undecided)

    @property
    def released(self) -> bool:
        return self.disposed or (not self.waits and len(self.handled) == len(self.local))

    def dispose(self) -> None:
        """It is out of the pool. Also those forget it that will cast nothing any more."""
        self.disposed = True
        for past in self.pasts:
            if past.get(self.id) is self:
                del past[self.id]
        self.pasts.clear()


class Pool:
    def __init__(self, here: Here, receipts: Receipts) -> None:
        self._here = here
        self._receipts = receipts
        self.entries: dict[CastId, Entry] = {}
        """Complete ones, in the order in which they became so: one comes after all that precede it."""
        self.arrivals: deque[Entry] = deque()
        """Complete since this was last looked at, with destinations here."""
        self.late: dict[CastId, Entry] = {}
        """Casts of departed origins that became complete here after this site had counted them, with destinations
        here: they wait until all sites have said what they have."""
        self.bytes = 0
        """Of the payloads."""
        self.undone: dict[Process, int] = {}
        """By process of this site: of how many of these casts it is a destination, and is not done with it."""
        self.departing: dict[CastId, int] = {}
        """By the first cast of a life of a site that left the line, while the others still exchange its casts: the
        floor that the site told this one."""
        self._floors = 0
        """The last change of a floor that was heard of."""
        self._counted = False
        """This site has counted the departed origins' casts that it has."""
        self._orphaned = False
        """There may be casts whose origin is gone."""
        self._coming: dict[CastId, int] = {}
        """By cast that this site is told to wait for: the attempt that has to come."""
        self._offers = Offers(here)
        self._incomplete: dict[CastId, Entry] = {}
        self._waiters: dict[CastId, list[Entry]] = {}

    def __len__(self) -> int:
        return len(self.entries) + len(self._incomplete)

    # -- in

    def add(self, entry: Entry) -> None:
        """One of this site's own."""
        self._complete(entry)

    def receive(self, copy: Copy, peer: int, number: int) -> None:
        """Rules 4 to 6."""
        here = self._here
        here.seen(copy.clock)
        if self.is_old(copy.id):
            self._receipts.add(peer, number, None)
            return
        known = self.entries.get(copy.id) or self._incomplete.get(copy.id)
        if known is not None and (known.copy.attempt >= copy.attempt or copy.id.site == here.site):
            self._receipts.add(peer, number, known)
            return
        if known is not None:
            self._drop(known)
        entry = Entry(copy, here)
        entry.undecided = copy.queue is not None and bool(entry.local) and not here.knows(copy.id)
        entry.causes, entry.waits = self._due(copy.causes, peer)
        self._receipts.add(peer, number, entry)
        if not entry.waits:
            self._complete(entry)
            return
        self._incomplete[entry.id] = entry
        for cause in entry.waits:
            self._waiters.setdefault(cause, []).append(entry)

    def _due(self, causes: Iterable[Run], peer: int) -> tuple[tuple[CastId, ...], dict[CastId, int]]:
        """Of these casts, in their order, those that are here or will come; and those that have to come."""
        entries = cast("dict[tuple[int, int, int], Entry]", self.entries)  # an id equals its three numbers
        keys = [
            (site, life, counter) for site, life, first, count in causes for counter in range(first, first + count)
        ]
        if not (self._coming or self._incomplete):
            return tuple([entry.id for key in keys if (entry := entries.get(key)) is not None]), {}
        due: list[CastId] = []
        waits: dict[CastId, int] = {}
        for key in keys:
            attempt = self._attempt_due(CastId(*key), peer)
            if attempt is not None:
                due.append(CastId(*key))
                waits[due[-1]] = attempt
            elif (entry := entries.get(key)) is not None:
                due.append(entry.id)
        return tuple(due), waits

    def _attempt_due(self, cast_id: CastId, peer: int) -> int | None:
        """The attempt of it that has to come before what the peer sends behind it; None: none."""
        if cast_id in self._coming and cast_id.site != peer:
            return self._coming[cast_id]
        # Its origin has sent it before on the same channel. Others may have told of a later attempt: what the origin
        # sent with an earlier one is rejected with that, and must not wait for what may be lost with those who told.
        entry = self._incomplete.get(cast_id)
        return None if entry is None else entry.copy.attempt

    def receive_stub(self, stub: Stub) -> None:
        known = self.entries.get(stub.id)
        if (known is None or known.copy.attempt < stub.attempt) and not self.is_old(stub.id):
            self._coming[stub.id] = max(stub.attempt, self._coming.get(stub.id, 0))

    def receive_offer(self, offer: Offer, peer: int, number: int) -> None:
        self._receipts.add(peer, number, Awaited(self, offer))
        known = self._incomplete.get(offer.id)
        if not self.has(offer.id, offer.attempt) and (known is None or known.copy.attempt < offer.attempt):
            self._offers.add(offer, peer)

    def has(self, cast_id: CastId, attempt: int) -> bool:
        """This attempt or a later one is complete here, or everywhere."""
        entry = self.entries.get(cast_id)
        if entry is not None:
            return entry.complete and entry.copy.attempt >= attempt
        return self.is_old(cast_id)

    def receive_want(self, cast_id: CastId, peer: int) -> None:
        entry = self.entries.get(cast_id)
        if entry is not None:
            self.send(entry, peer)

    def _complete(self, entry: Entry) -> None:
        done = [entry]
        while done:
            entry = done.pop()
            self._incomplete.pop(entry.id, None)
            if self._coming.get(entry.id, -1) <= entry.copy.attempt:
                self._coming.pop(entry.id, None)
            self._offers.forget(entry.id)
            self.entries[entry.id] = entry
            self.bytes += entry.size
            if entry.local and self._counted and self._is_departing(entry.id):
                self.late[entry.id] = entry
            elif entry.local:
                self.arrivals.append(entry)
            for process in entry.local:
                self.undone[process] = self.undone.get(process, 0) + 1
            done += self._go_on(entry.id, entry.copy.attempt)

    def _go_on(self, cast_id: CastId, attempt: int | None) -> list[Entry]:
        """What has waited for this cast, and is complete now. `attempt`: which one has come; None: none will."""
        complete: list[Entry] = []
        later: list[Entry] = []
        for waiter in self._waiters.pop(cast_id, ()):
            if attempt is not None and waiter.waits[cast_id] > attempt:
                later.append(waiter)
                continue
            del waiter.waits[cast_id]
            if not waiter.waits and not waiter.disposed:
                complete.append(waiter)
        if later:
            self._waiters[cast_id] = later
        return complete

    def awaits(self, process: Process, sender: Process) -> bool:
        """A cast of the sender has come, and this process of this site is a destination that is not done with it."""
        if not self._incomplete and not self.undone.get(process):
            return False
        return any(
            entry.copy.sender == sender and process in entry.local and process not in entry.handled
            for entries in (self._incomplete, self.entries)
            for entry in entries.values()
        )

    def is_old(self, cast_id: CastId) -> bool:
        """Every destination is done with it."""
        here = self._here
        if cast_id.site == here.site:
            return cast_id not in self.entries
        if here.knows(cast_id):
            return cast_id.counter < here.channels.floor_of(cast_id.site)
        return not self._is_departing(cast_id)

    def _is_departing(self, cast_id: CastId) -> bool:
        if not self.departing or self._here.knows(cast_id):
            return False
        lives = [first for first in self.departing if first[:2] == cast_id[:2] and first <= cast_id]
        return bool(lives) and cast_id.counter >= self.departing[max(lives)]

    # -- out

    def send(self, entry: Entry, site: int) -> int:
        """Makes sure that the site gets it from here, behind all that precedes it. Returns the record's number."""
        number = entry.sent.get(site)
        if number is not None:
            return number
        entry.sent[site] = 0  # where a false cast is among its own causes, this ends
        for cause in self._lacking(entry.causes, site):
            if self._comes_by_itself(cause, site):
                cause.stubbed.add(site)
                self._here.send(site, Stub(cause.id, cause.copy.attempt))
            else:
                self.send(cause, site)
        number = entry.sent[site] = self._here.send(site, entry.copy)
        return number

    def brings(self, causes: Iterable[CastId], site: int) -> int:
        """How many bytes a cast with these causes would bring along to the site."""
        return sum(cause.size for cause in self._lacking(causes, site) if not self._comes_by_itself(cause, site))

    def _lacking(self, causes: Iterable[CastId], site: int) -> Iterator[Entry]:
        """Those of the causes that this site has not told the other of."""
        for cast_id in causes:
            cause = self.entries.get(cast_id)
            if cause is not None and site not in cause.sent and site not in cause.stubbed:
                yield cause

    def _comes_by_itself(self, entry: Entry, site: int) -> bool:
        """The living origin sends it there."""
        return site in entry.sites and entry.id.site != self._here.site and self._here.knows(entry.id)

    def offer(self, entry: Entry, site: int) -> int:
        """Makes sure that the site gets it, from here if it lacks it. Returns the number of the record that has
        arrived when the site has it."""
        number = entry.sent.get(site) or entry.offered.get(site)
        if number is None:
            number = entry.offered[site] = self._here.send(site, Offer(entry.id, entry.copy.attempt))
        return number

    # -- gone

    def hear_floors(self) -> None:
        """Disposes of what its origin says is everywhere."""
        here = self._here
        if self._floors == here.channels.floor_changes:
            return
        self._floors = here.channels.floor_changes
        done = [
            entry
            for cast_id, entry in self.entries.items()
            if cast_id.site != here.site
            and here.knows(cast_id)
            and cast_id.counter < here.channels.floor_of(cast_id.site)
        ]
        for entry in done:
            self._drop(entry)
        if self._offers:
            self._offers.forget_where(self.is_old)

    def dispose(self, entry: Entry) -> None:
        """One of this site's own: it is everywhere, or given up."""
        self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        entry.dispose()
        if self.entries.get(entry.id) is entry:
            for process in entry.local:
                if process not in entry.handled:
                    self._count_done(process)
            del self.entries[entry.id]
            self.bytes -= entry.size
        elif self._incomplete.get(entry.id) is entry:
            del self._incomplete[entry.id]

    def handle(self, entry: Entry, process: Process) -> None:
        """The process, a destination of it at this site, is done with it."""
        if process not in entry.handled:
            entry.handled.add(process)
            if self.entries.get(entry.id) is entry:
                self._count_done(process)

    def _count_done(self, process: Process) -> None:
        self.undone[process] -= 1
        if not self.undone[process]:
            del self.undone[process]

    def depart(self, sites: Iterable[int], lives: Mapping[CastId, int]) -> None:
        """These sites have left the line: nothing is sent to them."""
        left = frozenset(sites)
        self.departing |= lives
        self._orphaned = True
        for entry in (*self.entries.values(), *self._incomplete.values()):
            entry.sites = tuple([site for site in entry.sites if site not in left])
            for site in left:
                entry.sent.pop(site, None)
                entry.offered.pop(site, None)
            entry.stubbed -= left
        self._offers.depart(left)

    def of_departed(self) -> Iterator[Entry]:
        for entry in self.entries.values():
            if self._is_departing(entry.id):
                yield entry

    def begin_departure(self) -> None:
        """The departed origins' casts are to be counted, or counted again."""
        self._counted = False
        self._release_late(self.late)

    def count_departed(self) -> dict[CastId, Entry]:
        """The departed origins' casts that this site brings to all destinations. One that becomes complete here from
        now on may be complete nowhere else, and this site may have said already what it has: so it waits."""
        self._counted = True
        return {entry.id: entry for entry in self.of_departed()}

    def release_late(self, asked: Container[AttemptId]) -> None:
        """Another site had these before it counted, and asks for their place: they go on at once."""
        self._release_late([cast_id for cast_id, entry in self.late.items() if entry.key in asked])

    def _release_late(self, ids: Iterable[CastId]) -> None:
        for cast_id in list(ids):
            self.arrivals.append(self.late.pop(cast_id))

    def end_departure(self, before: Container[AttemptId]) -> None:
        """Every copy of the departed origins' casts that a site has counted (`before`) is at all its destinations.
        All others are given up by all: those that are incomplete here, and those that nobody had when it counted."""
        self._release_late([cast_id for cast_id, entry in self.late.items() if entry.key in before])
        for entry in self.late.values():
            if not entry.disposed:
                self._drop(entry)
        self.late.clear()
        self._counted = False
        lost = [entry for entry in self._incomplete.values() if self._is_departing(entry.id)]
        for entry in lost:
            self._drop(entry)
        gone = [cast_id for cast_id in sorted(self._coming) if self._is_departing(cast_id)]
        for cast_id in gone:
            del self._coming[cast_id]
        for cast_id in (*gone, *[entry.id for entry in lost]):
            for waiter in self._go_on(cast_id, None):
                self._complete(waiter)
        for entry in list(self.of_departed()):
            if entry.released:
                self._drop(entry)
        self.departing.clear()
        self._offers.forget_where(self.is_old)

    def collect(self) -> None:
        """Disposes of casts whose origin is gone, once the local destinations are done with them."""
        if not self._orphaned:
            return
        orphans = [entry for cast_id, entry in self.entries.items() if self._is_orphan(cast_id)]
        for entry in orphans:
            if entry.released:
                self._drop(entry)
        self._orphaned = bool(self.departing) or not all(entry.disposed for entry in orphans)

    def _is_orphan(self, cast_id: CastId) -> bool:
        return cast_id.site != self._here.site and not self._here.knows(cast_id) and not self._is_departing(cast_id)

    def reset(self) -> None:
        """This site was killed."""
        for entry in (*self.entries.values(), *self._incomplete.values()):
            entry.dispose()
        self.entries.clear()
        self.arrivals.clear()
        self.late.clear()
        self._counted = False
        self.undone.clear()
        self.departing.clear()
        self._coming.clear()
        self._offers.reset()
        self._incomplete.clear()
        self._waiters.clear()
        self.bytes = 0

    def invariants(self) -> None:
        assert self.bytes == sum(entry.size for entry in self.entries.values())
        undone = Counter(p for entry in self.entries.values() for p in entry.local if p not in entry.handled)
        assert undone == self.undone
        for cast_id, entry in self.entries.items():
            assert not entry.waits
            assert not entry.disposed
            assert entry.id == cast_id
        for entry in self._incomplete.values():
            assert entry.waits
            assert not entry.disposed
