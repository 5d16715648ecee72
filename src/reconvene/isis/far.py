"""Casts to processes of other clusters, and watches of such processes (4.6).

Given: messages that cross (`reconvene.domains`). They are delivered to all sites of all connected clusters to which
their group passes, causal ones after those that their site had delivered, agreed ones in one order; and a message is
safe in its own cluster before it leaves.
Promised, as the section asks:

- *Local first.* A CBCAST leaves once all casts that precede it are out of all queues of its own cluster, and it is
  safe there.
- *No piggybacking outside.* What crosses is what is addressed to other clusters, in the order of the labels. Casts
  within the cluster never cross; what is flushed and collected is a matter of each cluster.
- *Order.* A site that has taken a CBCAST from a crossing says so, on its channels, before what it casts afterwards
  (`Marked`): the others read that once they have taken the same. So causes come before effects, also where they lead
  through casts within a cluster.
- *Failures* come from the cluster of the process that failed (`isis.far_watches`).

An ABCAST crosses as an agreed message, so all ABCASTs of a wide configuration have one order, whatever their labels.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from reconvene.core.groups.events import Process
from reconvene.errors import Malformed, Rejected, Unavailable
from reconvene.ids import Service
from reconvene.isis import labels
from reconvene.isis.casting import Casting
from reconvene.isis.delivery import Delivery
from reconvene.isis.far_events import FarId, FarProcess, FarReceived, FarSent, Origin
from reconvene.isis.far_messages import (
    CONTROL,
    PREFIX,
    FarCast,
    FarMessage,
    FarOver,
    FarWatch,
    decode_far,
    encode_far,
)
from reconvene.isis.far_watches import FarWatches
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Local
from reconvene.isis.messages import Marked
from reconvene.isis.pool import Entry

__all__ = ["Far", "Reach"]

_MOST_HELD = 65_536
_MOST_HELD_BYTES = 64 << 20
"""Messages that wait while a site view is being adopted; more are dropped, and counted."""


class Reach(Protocol):
    """What it needs of the site's part in the tree of clusters."""

    @property
    def domain(self) -> str: ...
    @property
    def sites(self) -> Sequence[str]:
        """Of this cluster, by number."""

    @property
    def flows(self) -> bool:
        """Messages flow in the local configuration."""

    def passes(self, group: str) -> bool:
        """Its messages may leave the cluster."""

    def room(self) -> int:
        """How many messages `send` would take now."""

    def send(self, service: Service, group: str, data: bytes) -> None: ...
    def join(self, group: str, process: str) -> None:
        """May raise Rejected or Unavailable."""

    def leave(self, group: str, process: str) -> None: ...
    def has(self, origin: Origin, counter: int) -> bool:
        """This site has delivered the message with this counter, or one after it."""


class _Out(NamedTuple):
    service: Service
    group: str
    message: FarMessage
    causes: Sequence[Entry]
    """Casts of this cluster that precede it, and were not everywhere when it was cast."""


class _Taken(NamedTuple):
    origin: Origin
    counter: int
    """Of the message that crossed."""
    conf: str
    message: FarMessage


class Far:
    def __init__(
        self,
        here: Here,
        reach: Reach,
        casting: Casting,
        delivery: Delivery,
        unblocked: Callable[[Process], Local],
        has_begun: Callable[[Process], bool],
        limits: IsisLimits,
    ) -> None:
        """`unblocked`: a process of this site that may ask for something; raises Rejected or Unavailable otherwise.
        `has_begun`: a process of this site lives, or has lived."""
        self._here = here
        self._reach = reach
        self._casting = casting
        self._delivery = delivery
        self._unblocked = unblocked
        self._limits = limits
        self.watches = FarWatches(here, delivery, reach.domain, reach.sites, has_begun, limits)
        """Who watches whom, between clusters."""
        self._me = Origin(reach.domain, reach.sites[here.site], here.incarnation)
        self._next = 1
        self.dropped = 0
        """Messages beyond the limit of those that wait for a site view."""
        self._domains: tuple[str, ...] = ()
        """Of the wide configuration."""
        self._views: dict[str, tuple[FarProcess, ...]] = {}
        """By group: its members in all connected clusters."""
        self._joined: dict[Process, set[str]] = {}
        self._out: deque[_Out] = deque()
        """What is to be sent to other clusters, in order."""
        self._out_bytes = 0
        self._held: deque[_Taken] = deque()
        """Taken while a site view is being adopted."""
        self._held_bytes = 0
        self._conf = 0
        """The number of the local configuration …"""
        self._taken: dict[Origin, int] = {}
        """… and the CBCASTs that were taken since messages flow in it: by sender, the counter of the last."""
        self._version = 0
        self._marked: dict[tuple[int, int], int] = {}
        """By site and its born: the version that it was told last."""

    # -- requests. Each may raise Rejected or Unavailable

    def name(self, process: Process) -> FarProcess:
        """A process of this cluster, as others know it."""
        return FarProcess(self._me.domain, self._reach.sites[process.site], process.incarnation, process.number)

    def members(self, group: str) -> tuple[FarProcess, ...]:
        """Of the group, in all connected clusters, as far as this site knows."""
        return self._views.get(group, ())

    def join(self, process: Process, group: str) -> None:
        """Processes of other clusters can cast to it by the name of this group from now on."""
        local = self._unblocked(process)
        self._reach.join(PREFIX + group, self.name(local.process).local)
        self._joined.setdefault(local.process, set()).add(group)

    def leave(self, process: Process, group: str) -> None:
        joined = self._joined.get(process, set())
        if group in joined:
            joined.discard(group)
            self._reach.leave(PREFIX + group, self.name(process).local)

    def cbcast(
        self, process: Process, to: str | Sequence[FarProcess], payload: bytes, label: labels.Asked = None
    ) -> None:
        """To the members of a group in all connected clusters, or to processes by name."""
        labels.check(label)
        local = self._check(process, to, payload)
        self._casting.hold(local, lambda: self._try(local, to, payload, label, None), is_cast=True)

    def abcast(self, process: Process, to: str | Sequence[FarProcess], payload: bytes, label: str = "") -> None:
        labels.check(label)
        local = self._check(process, to, payload)
        self._casting.hold(local, lambda: self._try(local, to, payload, None, label), is_cast=True)

    def _check(self, process: Process, to: str | Sequence[FarProcess], payload: bytes) -> Local:
        local = self._unblocked(process)
        if len(payload) > self._limits.payload_bytes:
            raise Rejected(f"a cast of {len(payload)} bytes: expected at most {self._limits.payload_bytes}")
        self._check_passes(PREFIX + to if isinstance(to, str) else PREFIX)
        if isinstance(to, str):
            if not self.members(to):
                raise Rejected(f"group {to!r}: no cluster that can be reached has a member of it")
        elif not 0 < len(to) <= self._limits.destinations:
            raise Rejected(f"a cast to {len(to)} processes: expected 1 to {self._limits.destinations}")
        elif not any(one.domain in self._domains for one in to):
            raise Unavailable(f"{_names(to)}: out of reach")
        return local

    def _check_passes(self, group: str) -> None:
        if not self._reach.passes(group):
            raise Rejected(f"group {group!r} does not leave domain {self._me.domain}")

    def _try(
        self, local: Local, to: str | Sequence[FarProcess], payload: bytes, asked: labels.Asked, queue: str | None
    ) -> bool:
        here = self._here
        if not here.open or not self._has_room:
            return False
        group = to if isinstance(to, str) else None
        found = tuple(dict.fromkeys(self.members(to) if isinstance(to, str) else to))
        if not found:
            return True  # nobody is left to send it to
        clock = here.tick()
        label = labels.effective(asked, clock) if queue is None else ()
        causes = [entry for entry in local.past.values() if labels.at_most(entry.label, label)]
        number = self._next
        self._next += 1
        text = labels.text(label) if queue is None else queue
        kind = "cbcast" if queue is None else "abcast"
        here.events.append(FarSent(local.process, kind, FarId(*self._me, number), found, text, group))
        cast = FarCast(number, local.process.number, list(label), queue, list(found), group, clock, payload)
        service = Service.CAUSAL if queue is None else Service.AGREED
        self._out.append(_Out(service, PREFIX + (group or ""), cast, causes))
        self._out_bytes += _size(cast)
        if queue is None:
            local.crossing.add(number)
        return True

    @property
    def _has_room(self) -> bool:
        limits = self._limits
        return len(self._out) < limits.open_casts and self._out_bytes < limits.open_bytes

    def send(self) -> None:
        """Sends what may go, in order."""
        while self._out and self._reach.room() > 0:
            out = self._out[0]
            # Local first: what precedes it is out of all queues of this cluster.
            if not all(entry.disposed for entry in out.causes):
                break
            self._out.popleft()
            self._out_bytes -= _size(out.message)
            self._reach.send(out.service, out.group, encode_far(out.message))

    def watch(self, process: Process, watched: FarProcess) -> None:
        """`FarFailed` follows when its cluster says that it is over; `FarUnreachable` when that can't be reached."""
        local = self._unblocked(process)
        self._check_passes(CONTROL)
        if watched.domain == self._me.domain:
            raise Rejected(f"{watched} is of this cluster: expected a process of another one")
        if watched.domain not in self._domains:
            raise Unavailable(f"domain {watched.domain} is out of reach")
        self.watches.watch(local.process, watched)

    # -- from the tree of clusters

    def begin(self, conf: int) -> None:
        """A local configuration begins."""
        self._conf = conf
        self._taken.clear()
        self._version += 1

    def enter(self, domains: tuple[str, ...]) -> None:
        """A regular wide configuration begins. What was said of a watched process may have been missed: ask again."""
        self._domains = domains
        self._views = {
            group: tuple(one for one in members if one.domain in domains) for group, members in self._views.items()
        }
        for domain in domains:
            self.watches.ask_again(domain)

    def view(self, group: str, members: tuple[FarProcess, ...]) -> None:
        """`group`: as it crosses."""
        if members:
            self._views[group.removeprefix(PREFIX)] = members
        else:
            self._views.pop(group.removeprefix(PREFIX), None)

    def take(self, origin: Origin, counter: int, conf: str, data: bytes, *, flows: bool) -> None:
        """A message of ISIS was delivered. `counter`: of the message that crossed. `flows`: after the place at which
        messages began to flow in the local configuration; what comes before that not all its sites may get."""
        here = self._here
        try:
            message = decode_far(data)
        except Malformed:
            here.malformed += 1
            return
        if isinstance(message, FarCast):
            here.seen(message.clock)
            if message.queue is None and flows:
                self._taken[origin] = counter
                self._version += 1
        taken = _Taken(origin, counter, conf, message)
        if here.open:
            self._deliver(taken)
        elif not here.blocked:
            self._hold(taken)
        # Else its processes will be others when the site is in the primary component again.

    def _hold(self, taken: _Taken) -> None:
        self._held.append(taken)
        self._held_bytes += _size(taken.message)
        while len(self._held) > _MOST_HELD or self._held_bytes > _MOST_HELD_BYTES:
            self._held_bytes -= _size(self._held.popleft().message)
            self.dropped += 1

    def release(self) -> None:
        """A site view is adopted."""
        held, self._held, self._held_bytes = self._held, deque(), 0
        for taken in held:
            self._deliver(taken)

    def _deliver(self, taken: _Taken) -> None:
        match taken.message:
            case FarCast() as cast:
                self._receive(taken, cast)
            case FarWatch(_, process):
                self.watches.take_watch(process)
            case FarOver(_, process):
                if process.domain == taken.origin.domain:
                    self.watches.take_over(process)

    def _receive(self, taken: _Taken, cast: FarCast) -> None:
        here, origin = self._here, taken.origin
        if origin == self._me and cast.queue is None:
            sender = self._delivery.locals.get(Process(here.site, here.incarnation, cast.sender))
            if sender is not None:
                sender.crossing.discard(cast.number)
        kind = "cbcast" if cast.queue is None else "abcast"
        sent_by = FarProcess(*origin, cast.sender)
        for one in cast.to:
            if (one.domain, one.site) == self._me[:2]:
                process = Process(here.site, one.incarnation, one.number)
                if self._delivery.living(process) is not None:
                    received = FarReceived(
                        process,
                        kind,
                        sent_by,
                        FarId(*origin, cast.number),
                        cast.payload,
                        cast.group,
                        taken.conf,
                        taken.counter,
                    )
                    here.events.append(received)

    # -- order with casts within the cluster

    def mark(self, site: int) -> Marked | None:
        """What the site must have taken before it reads the next cast that is sent to it; None: it was told."""
        view = self._here.view
        if not self._taken or view is None or site not in view.members:
            return None
        key = site, view.members[site].number
        if self._marked.get(key) == self._version:
            return None
        if len(self._marked) > len(view.members):
            self._marked = {
                (one, born.number): self._marked.get((one, born.number), 0) for one, born in view.members.items()
            }
        self._marked[key] = self._version
        return Marked(self._conf, [(*origin, counter) for origin, counter in sorted(self._taken.items())])

    def is_reached(self, marked: Marked) -> bool:
        """This site has taken what the mark names. In a later local configuration it has, or never will: then it did
        not come there together with the site that sent the mark, and its processes are new."""
        if marked.conf != self._conf:
            return marked.conf < self._conf
        return self._reach.flows and all(
            self._reach.has(Origin(domain, site, incarnation), counter)
            for domain, site, incarnation, counter in marked.taken
        )

    # -- the end of a turn

    def work(self) -> None:
        """Says what has become of processes, and sends what may go."""
        for process in [process for process in self._joined if self._delivery.living(process) is None]:
            for group in sorted(self._joined.pop(process)):
                self._reach.leave(PREFIX + group, self.name(process).local)
        self.watches.forget_dead()
        while self._has_room and (message := self.watches.next(self._next)) is not None:
            self._next += 1
            self._out.append(_Out(Service.CAUSAL, CONTROL, message, ()))
        self.send()

    def reset(self) -> None:
        """This site was killed: its processes are over, and go on as others."""
        self._held.clear()
        self._out.clear()
        self._held_bytes = self._out_bytes = 0
        self.watches.reset()
        self._marked.clear()


def _names(processes: Iterable[FarProcess]) -> str:
    return ", ".join(map(str, processes))


def _size(message: FarMessage) -> int:
    """Bytes of its payload."""
    return len(message.payload) if isinstance(message, FarCast) else 0
