"""Casts to processes of other clusters, and what comes of them (4.6).

Given: messages that cross (`reconvene.domains`). They are delivered to all sites of all connected clusters to which
their group passes, causal ones after those that their site had delivered, agreed ones in one order; and a message is
safe in its own cluster before it leaves.
Promised, as the section asks:

- *Local first.* A CBCAST leaves once all casts that precede it are out of all queues of its own cluster, and it is
  safe there.
- *No piggybacking outside.* What crosses is what is addressed to other clusters, in the order of the labels. Casts
  within the cluster never cross; what is flushed and collected is a matter of each cluster.
- *Order.* Causes come before effects, also where they lead through casts within a cluster (`isis.far_marks`).
- *Failures* come from the cluster of the process that failed (`isis.far_watches`).

An ABCAST crosses as an agreed message, so all ABCASTs of a wide configuration have one order, whatever their labels.
A reply is a CBCAST back (`isis.far_calls`).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from reconvene.core.groups.events import Process
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import MessageId
from reconvene.isis.casting import Casting
from reconvene.isis.delivery import Delivery
from reconvene.isis.far_calls import FarCalls
from reconvene.isis.far_casting import FarCasting, Reach
from reconvene.isis.far_events import FarProcess, FarReceived, Origin
from reconvene.isis.far_marks import Marks
from reconvene.isis.far_messages import CONTROL, FarCast, FarOver, FarRefused, FarWatch, decode_far
from reconvene.isis.far_watches import FarWatches
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Local
from reconvene.isis.monitor import Monitor

__all__ = ["Far"]

_MOST_HELD = 65_536
_MOST_HELD_BYTES = 64 << 20
"""Messages that wait while a site view is being adopted; more are dropped, and counted."""


class _Taken(NamedTuple):
    origin: Origin
    counter: int
    """Of the message that crossed."""
    conf: str
    message: FarCast | FarOver | FarRefused
    size: int


class Far:
    def __init__(
        self,
        here: Here,
        reach: Reach,
        casting: Casting,
        delivery: Delivery,
        monitor: Monitor,
        unblocked: Callable[[Process], Local],
        has_begun: Callable[[Process], bool],
        limits: IsisLimits,
    ) -> None:
        """`unblocked`: a process of this site that may ask for something; raises Rejected or Unavailable otherwise.
        `has_begun`: a process of this site lives, or has lived."""
        self._here = here
        self._sites = reach.sites
        self._delivery = delivery
        self._monitor = monitor
        self._unblocked = unblocked
        self._limits = limits
        self.marks = Marks(here, reach.has)
        self.calls = FarCalls(here)
        self.watches = FarWatches(
            here, delivery, self.calls, reach.domain, reach.sites, has_begun, monitor.is_over, limits
        )
        self.casting = FarCasting(here, reach, casting, self.calls, self.watches, unblocked, limits)
        """For requests to cast, and to be a member of groups that others can cast to."""
        self._me = self.casting.me
        self.dropped = 0
        """Messages beyond the limit of those that wait for a site view."""
        self._held: deque[_Taken] = deque()
        """Taken while a site view is being adopted."""
        self._held_bytes = 0

    # -- requests. Each may raise Rejected or Unavailable

    def watch(self, process: Process, watched: FarProcess) -> None:
        """`FarFailed` follows when its cluster says that it is over; `FarUnreachable` when that can't be reached."""
        local = self._unblocked(process)
        self.casting.check_passes(CONTROL)
        if watched.domain == self._me.domain:
            raise Rejected(f"{watched} is of this cluster: expected a process of another one")
        if watched.domain not in self.casting.domains:
            raise Unavailable(f"{watched}: domain {watched.domain} is out of reach")
        self.watches.watch(local.process, watched)

    # -- from the tree of clusters

    def enter(self, domains: tuple[str, ...]) -> None:
        """A regular wide configuration begins. What was said of a watched process may have been missed: ask again."""
        self.casting.enter(domains)
        for domain in domains:
            self.watches.reachable(domain)
            self.watches.ask_again(domain)

    def take(self, origin: Origin, counter: int, conf: str, data: bytes, *, flows: bool) -> None:
        """A message of ISIS was delivered. `counter`: of the message that crossed. `flows`: after the place at which
        messages began to flow in the local configuration; what comes before that not all its sites may get."""
        here = self._here
        try:
            message = decode_far(data)
        except Malformed:
            here.malformed += 1
            return
        if isinstance(message, FarWatch):
            self.watches.take_watch(message.process)  # also where the site is blocked: else nobody may know of it
            return
        if isinstance(message, FarCast):
            here.seen(message.clock)
            if message.queue is None and flows:
                self.marks.take(origin, counter)
        taken = _Taken(origin, counter, conf, message, len(data))
        if here.open:
            self._deliver(taken)
        elif not here.blocked:
            self._hold(taken)
        elif isinstance(message, FarOver) and message.process.domain == origin.domain:
            self.watches.forget(message.process)
        # All else is for its processes, which will be others when the site is in the primary component again.

    def _hold(self, taken: _Taken) -> None:
        self._held.append(taken)
        self._held_bytes += taken.size
        while len(self._held) > _MOST_HELD or self._held_bytes > _MOST_HELD_BYTES:
            dropped = self._held.popleft()
            self._held_bytes -= dropped.size
            self.dropped += 1
            self._came_back(dropped)

    def adopt(self) -> None:
        """A site view is adopted."""
        self.watches.adopt()
        held, self._held, self._held_bytes = self._held, deque(), 0
        for taken in held:
            self._deliver(taken)

    def _deliver(self, taken: _Taken) -> None:
        match taken.message:
            case FarCast() as cast:
                self._came_back(taken)
                self._receive(taken, cast)
            case FarOver(_, process):
                if process.domain == taken.origin.domain:
                    self.watches.take_over(process)
            case FarRefused(_, process):
                if process.domain == taken.origin.domain:
                    self.watches.take_refused(process)

    def _came_back(self, taken: _Taken) -> None:
        """What the sender casts next within the cluster need not wait for it any more."""
        cast = taken.message
        if isinstance(cast, FarCast) and taken.origin == self._me and cast.queue is None:
            sender = self._delivery.locals.get(Process(self._here.site, self._here.incarnation, cast.sender))
            if sender is not None:
                sender.crossing.discard(cast.number)

    def _receive(self, taken: _Taken, cast: FarCast) -> None:
        here, origin = self._here, taken.origin
        sent_by, id_ = FarProcess(*origin, cast.sender), MessageId(*origin, cast.number)
        if origin.domain == self._me.domain:
            self._monitor.hear(Process(self._sites.index(origin.site), origin.incarnation, cast.sender))
        kind = "cbcast" if cast.queue is None else "abcast"
        for one in cast.to:
            if (one.domain, one.site) != self._me[:2]:
                continue
            local = self._delivery.living(Process(here.site, one.incarnation, one.number))
            if local is None:
                continue
            here.events.append(
                FarReceived(
                    local.process, kind, sent_by, id_, cast.payload, cast.group, taken.conf,
                    taken.counter, cast.replies, cast.answers, cast.clock,
                )
            )  # fmt: skip
            if cast.answers:
                self.calls.answered(cast.answers, sent_by)
            if cast.replies:
                self._owe(local, id_, sent_by, cast.group)

    def _owe(self, local: Local, request: MessageId, asker: FarProcess, group: str | None) -> None:
        local.owed_far[request] = asker
        if not local.answers or group in local.silent:
            self._answer(local, request)
        elif len(local.owed_far) > self._limits.owed_replies:
            self._answer(local, next(iter(local.owed_far)))

    def _answer(self, local: Local, request: MessageId) -> None:
        """In place of the process, with nothing."""
        try:
            self.casting.reply(local.process, request, b"")
        except (Rejected, Unavailable):
            del local.owed_far[request]  # whoever asked is out of reach, and is told that of this domain

    # -- the end of a process, and of a turn

    def end(self, process: Process) -> None:
        """It is over."""
        self.casting.end(process)
        self.watches.end(process)
        self.calls.end(process)

    def work(self) -> None:
        """Says what has become of processes, and sends what may go."""
        while self.casting.say(self.watches.next):
            pass
        self.casting.send()

    def reset(self) -> None:
        """This site was killed: its processes are over, and go on as others."""
        self._held.clear()
        self._held_bytes = 0
        self.casting.reset()
        self.watches.reset()
        self.marks.reset()

    def invariants(self) -> None:
        assert self._held_bytes == sum(taken.size for taken in self._held)
        self.casting.invariants()
        self.watches.invariants()
