"""Casts of this site's processes to processes of other clusters: to whom they go, and when they leave (4.6)."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.ids import MessageId, Service
from reconvene.isis import labels
from reconvene.isis.casting import Casting
from reconvene.isis.events import ALL, CastId, Sent
from reconvene.isis.far_calls import FarCalls
from reconvene.isis.far_events import FarProcess, FarSent, Origin
from reconvene.isis.far_messages import CONTROL, PREFIX, FarCast, FarMessage, encode_far
from reconvene.isis.far_watches import FarWatches
from reconvene.isis.here import Here
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Local
from reconvene.isis.pool import Entry

__all__ = ["FarCasting", "Reach"]

_CAST_BYTES = 2_048
_NAME_BYTES = 24
"""The most of a cast besides its payload and destinations; of a destination besides its names."""


class Reach(Protocol):
    """What it needs of the site's part in the tree of clusters."""

    @property
    def domain(self) -> str: ...
    @property
    def sites(self) -> Sequence[str]:
        """Of this cluster, by number."""

    @property
    def message_bytes(self) -> int:
        """The most that `send` takes."""

    def passes(self, group: str) -> bool:
        """Its messages may leave the cluster."""

    def room(self) -> int:
        """How many messages `send` would take now."""

    def send(self, service: Service, group: str, data: bytes) -> None: ...
    def join(self, group: str, process: str) -> None:
        """May raise Rejected or Unavailable."""

    def leave(self, group: str, process: str) -> None: ...
    def has(self, origin: Origin, counter: int) -> bool:
        """Messages flow in the local configuration, and this site has delivered the message with this counter, or one
        after it."""


class _Wish(NamedTuple):
    """What a process asks for, before it has an id."""

    to: str | Sequence[FarProcess]
    payload: bytes
    label: labels.Asked
    queue: str | None
    """Of an ABCAST."""
    replies: int
    sent: Sent | None
    answers: int = 0


class _Out(NamedTuple):
    service: Service
    group: str
    data: bytes
    causes: Sequence[Entry] = ()
    """Casts of this cluster that precede it, and were not everywhere when it was cast."""


class FarCasting:
    def __init__(
        self,
        here: Here,
        reach: Reach,
        casting: Casting,
        calls: FarCalls,
        watches: FarWatches,
        unblocked: Callable[[Process], Local],
        limits: IsisLimits,
    ) -> None:
        """`unblocked`: a process of this site that may ask for something; else it raises Rejected or Unavailable."""
        self._here = here
        self._reach = reach
        self._casting = casting
        self._calls = calls
        self._watches = watches
        self._unblocked = unblocked
        self._limits = limits
        self.me = Origin(reach.domain, reach.sites[here.site], here.incarnation)
        """This site."""
        self._next = 1
        self.domains: tuple[str, ...] = ()
        """Of the wide configuration."""
        self._views: dict[str, tuple[FarProcess, ...]] = {}
        """By group: the members in clusters that have told, in this wide configuration, who is in their groups."""
        self._before: dict[str, tuple[FarProcess, ...]] = {}
        """By group: members, before it, in those that have not told yet."""
        self._joined: dict[Process, set[str]] = {}
        self._out: deque[_Out] = deque()
        """What is to be sent to other clusters, in order."""
        self._out_bytes = 0

    def __len__(self) -> int:
        """What is to be sent to other clusters."""
        return len(self._out)

    # -- whom it can reach

    def enter(self, domains: tuple[str, ...]) -> None:
        """A regular wide configuration begins. Its clusters tell anew who is in their groups; until then their
        members are those that they had, or casts would miss them."""
        self.domains = domains
        self._before, self._views = _only(self.groups(), lambda one: one.domain in domains), {}

    def view(self, group: str, members: tuple[FarProcess, ...]) -> None:
        """`group`: as it crosses. `members`: in the clusters that have told."""
        self._views[group.removeprefix(PREFIX)] = members

    def told(self, domains: Collection[str]) -> None:
        """The views that were reported in this wide configuration have the members of these clusters."""
        if self._before and domains:
            self._before = _only(self._before, lambda one: one.domain not in domains)

    def groups(self) -> dict[str, tuple[FarProcess, ...]]:
        """All that have members in connected clusters, as far as this site knows."""
        names = sorted({*self._views, *self._before})
        return {name: members for name in names if (members := self.members(name))}

    def members(self, group: str) -> tuple[FarProcess, ...]:
        """Of the group, in all connected clusters, as far as this site knows."""
        members = self._views.get(group, ())
        before = self._before.get(group)
        return members if before is None else tuple(sorted({*members, *before}))

    def name(self, process: Process) -> FarProcess:
        """A process of this cluster, as others know it."""
        return FarProcess(self.me.domain, self._reach.sites[process.site], process.incarnation, process.number)

    # -- requests. Each may raise Rejected or Unavailable

    def join(self, process: Process, group: str) -> bool:
        """Processes of other clusters can cast to it by the name of this group from now on. Returns False where they
        could before."""
        if group in self._joined.get(process, ()):
            return False
        self.check_passes(PREFIX + group)
        self._reach.join(PREFIX + group, self.name(process).local)
        self._joined.setdefault(process, set()).add(group)
        return True

    def leave(self, process: Process, group: str) -> None:
        """Does nothing where it has not joined."""
        joined = self._joined.get(process, set())
        if group in joined:
            joined.discard(group)
            self._reach.leave(PREFIX + group, self.name(process).local)

    def cbcast(
        self,
        process: Process,
        to: str | Sequence[FarProcess],
        payload: bytes,
        label: labels.Asked = None,
        replies: int = 0,
        *,
        done: Sent | None = None,
    ) -> None:
        """To the members of a group in all connected clusters, or to processes by name. `done` is called with an id
        whose counter is that of the cast."""
        labels.check(label)
        self._cast(process, _Wish(to, payload, label, None, replies, done))

    def abcast(
        self,
        process: Process,
        to: str | Sequence[FarProcess],
        payload: bytes,
        label: str = "",
        replies: int = 0,
        *,
        done: Sent | None = None,
    ) -> None:
        labels.check(label)
        self._cast(process, _Wish(to, payload, None, label, replies, done))

    def reply(self, process: Process, request: MessageId, payload: bytes, *, done: Sent | None = None) -> None:
        local = self._unblocked(process)
        asker = local.owed_far.get(request)
        if asker is None:
            raise Rejected("a reply to what asks for none, or a second reply")
        self._cast(process, _Wish((asker,), payload, None, None, 0, done, request.counter))
        del local.owed_far[request]

    # -- casting

    def _cast(self, process: Process, wish: _Wish) -> None:
        local = self._unblocked(process)
        self._check(local, wish)
        self._casting.hold(local, lambda: self._try(local, wish), is_cast=True)

    def _check(self, local: Local, wish: _Wish) -> None:
        to, limits = wish.to, self._limits
        if len(wish.payload) > limits.payload_bytes:
            raise Rejected(f"a cast of {len(wish.payload)} bytes: expected at most {limits.payload_bytes}")
        self.check_passes(PREFIX + to if isinstance(to, str) else PREFIX)
        if isinstance(to, str):
            found: Sequence[FarProcess] = self.members(to)
            if not found:
                raise Rejected(f"group {to!r}: no cluster that can be reached has a member of it")
        else:
            found = to
            if not 0 < len(to) <= limits.destinations:
                raise Rejected(f"a cast to {len(to)} processes: expected 1 to {limits.destinations}")
            if not any(one.domain in self.domains for one in to):
                raise Unavailable(f"{_names(to)}: out of reach")
        size = _size(found, wish.payload)
        if size > self._reach.message_bytes:
            raise Rejected(
                f"a cast of {size} bytes with its {len(found)} destinations: expected at most"
                f" {self._reach.message_bytes}"
            )
        if wish.replies:
            self._check_replies(local, wish.replies, len(found))

    def _check_replies(self, local: Local, replies: int, count: int) -> None:
        self.check_passes(CONTROL)  # failures count as replies, and cross there
        if replies < ALL:
            raise Rejected(f"{replies} replies: expected a number from 0, or ALL")
        if replies > count:
            raise Rejected(f"{replies} replies of {count} destinations: expected at most one of each")
        if len(local.calls) + self._calls.of(local.process) >= self._limits.open_calls:
            raise Unavailable(f"{self._limits.open_calls} calls of this process are open: no room for more")

    def check_passes(self, group: str) -> None:
        if not self._reach.passes(group):
            raise Rejected(f"group {group!r} does not leave domain {self.me.domain}: see [domain.pass] out")

    def _try(self, local: Local, wish: _Wish) -> bool:
        here, to = self._here, wish.to
        if not here.open or not self._has_room:
            return False
        group = to if isinstance(to, str) else None
        found = tuple(dict.fromkeys(self.members(to) if isinstance(to, str) else to))
        if not found or _size(found, wish.payload) > self._reach.message_bytes:
            if wish.sent is not None:
                wish.sent(None)  # nobody is left to send it to, or the group has become too large
            return True
        clock, queue = here.tick(), wish.queue
        label = labels.effective(wish.label, clock) if queue is None else ()
        causes = [entry for entry in local.past.values() if labels.at_most(entry.label, label)]
        number = self._next
        self._next += 1
        id_ = MessageId(*self.me, number)
        if wish.sent is not None:
            wish.sent(CastId(here.site, here.incarnation, number))
        text = labels.text(label) if queue is None else queue
        kind = "cbcast" if queue is None else "abcast"
        here.events.append(FarSent(local.process, kind, id_, found, text, group))
        cast = FarCast(
            number, local.process.number, list(label), queue, list(found), group, clock, wish.payload, wish.replies,
            wish.answers,
        )  # fmt: skip
        service = Service.CAUSAL if queue is None else Service.AGREED
        self._put_out(_Out(service, PREFIX + (group or ""), encode_far(cast), causes))
        if queue is None:
            local.crossing.add(number)
        if wish.replies:
            self._open_call(local, id_, wish.replies, found)
        return True

    def _open_call(self, local: Local, id_: MessageId, replies: int, to: Sequence[FarProcess]) -> None:
        self._calls.open(local.process, id_, replies, to)
        for domain in sorted({one.domain for one in to}.difference(self.domains)):
            self._calls.unreachable(domain)  # also where that is asked by another call: nothing comes from there
        self._watches.ask(one for one in to if one in self._calls.pending)

    def _put_out(self, out: _Out) -> None:
        self._out.append(out)
        self._out_bytes += len(out.data)

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
            self._out_bytes -= len(out.data)
            self._reach.send(out.service, out.group, out.data)

    def say(self, make: Callable[[int], FarMessage | None]) -> bool:
        """Puts what `make` returns for its number behind what waits, and returns whether there was anything."""
        message = make(self._next) if self._has_room else None
        if message is None:
            return False
        self._next += 1
        self._put_out(_Out(Service.CAUSAL, CONTROL, encode_far(message)))
        return True

    # -- processes of this site

    def end(self, process: Process) -> None:
        """It is over."""
        for group in sorted(self._joined.pop(process, ())):
            self._reach.leave(PREFIX + group, self.name(process).local)

    def reset(self) -> None:
        """This site was killed: its processes are over, and go on as others."""
        self._out.clear()
        self._out_bytes = 0

    def invariants(self) -> None:
        assert self._out_bytes == sum(len(out.data) for out in self._out)


def _only(
    groups: Mapping[str, tuple[FarProcess, ...]], wanted: Callable[[FarProcess], bool]
) -> dict[str, tuple[FarProcess, ...]]:
    return {name: found for name, members in groups.items() if (found := tuple(filter(wanted, members)))}


def _names(processes: Iterable[FarProcess]) -> str:
    return ", ".join(map(str, processes))


def _size(to: Sequence[FarProcess], payload: bytes) -> int:
    """At most so many bytes cross."""
    names = sum(len(one.domain.encode()) + len(one.site.encode()) + _NAME_BYTES for one in to)
    return names + len(payload) + _CAST_BYTES
