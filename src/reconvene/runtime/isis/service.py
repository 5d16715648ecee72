"""The processes of a running site in the ISIS layer: their requests, and what each of them receives.

Given: the layer, and what it reports in each turn. Promised: each process gets its events in order, and a process
whose site was killed goes on under its new identity. Requests of one process are carried out in their order.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from reconvene.core.groups.events import Process
from reconvene.errors import ReconveneError, Rejected, Unavailable
from reconvene.ids import MessageId
from reconvene.isis.events import Cast, CastId, IsisEvent, Killed, Rejection, Seen, Sent
from reconvene.isis.far import Far
from reconvene.isis.far_events import FarProcess, FarReceived, FarSent
from reconvene.isis.isis import Isis
from reconvene.runtime.isis.interface import IsisReceiver

__all__ = ["NO_ISIS_COUNTERS", "IsisAccess", "IsisService"]

_SEEN = frozenset(Seen)
_GROUPS_SHOWN = 100
_QUEUED_BYTES = 1 << 20
"""What may wait for one site before further replies and pieces of state have to wait at their process."""


class IsisService:
    """`wake` asks for a turn."""

    def __init__(self, site: str, names: Sequence[str], isis: Isis, wake: Callable[[], None]) -> None:
        self.name = site
        self.isis = isis
        self.wake = wake
        self.stopping = False
        """The site stops: every request is refused."""
        self._names = names
        self._open: dict[Process, IsisAccess] = {}
        self._waiting: list[tuple[int, Sent]] = []
        """For room in the channel to a site."""
        self._casts = 0
        self._rejections = 0
        self._kills = 0
        self._wide_casts = 0
        self._wide_received = 0

    def open(self, receiver: IsisReceiver, name: str, *, answers: bool = True) -> "IsisAccess":
        self.refuse_if_stopping()
        process = self.isis.open(name, answers=answers)
        access = self._open[process] = IsisAccess(self, process, receiver)
        self.wake()
        return access

    def refuse_if_stopping(self) -> None:
        if self.stopping:
            raise Unavailable(f"site {self.name} is stopping")

    def far(self) -> Far:
        """Casts to other clusters. Raises Rejected where there are none."""
        if self.isis.far is None:
            raise Rejected(f"the cluster of site {self.name} is not joined with others: see [domain]")
        return self.isis.far

    def end(self, access: "IsisAccess", *, dead: bool) -> None:
        if self._open.pop(access.process, None) is None:
            return
        try:
            (self.isis.kill if dead else self.isis.close)(access.process)
        except ReconveneError:
            return  # it is over already
        self.wake()

    def when_room(self, site: int, done: Sent) -> None:
        """Calls it when little enough waits for that site: now, or after a later turn."""
        self.wake()
        if self._has_room(site):
            done(None)
        else:
            self._waiting.append((site, done))

    def _has_room(self, site: int) -> bool:
        channels = self.isis.channels
        return site not in channels.peers or channels.queued(site) < _QUEUED_BYTES

    def after_turn(self, events: Sequence[IsisEvent]) -> None:
        if events:
            self._deliver(events)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for site, done in waiting:
                if self._has_room(site):
                    done(None)
                else:
                    self._waiting.append((site, done))

    def stop(self) -> None:
        """The processes that are left leave their groups."""
        self.stopping = True
        for access in list(self._open.values()):
            self.end(access, dead=False)

    @property
    def drained(self) -> bool:
        """What its processes have asked for is done, or can't be done any more."""
        isis = self.isis
        return isis.blocked or not (
            isis.delivery.locals or isis.own.open or (isis.far is not None and len(isis.far.casting))
        )

    def _deliver(self, events: Sequence[IsisEvent]) -> None:
        """Hands each process what a turn brought for it."""
        batches: dict[IsisAccess, list[IsisEvent]] = {}
        open_ = self._open
        for event in events:
            kind = type(event)
            if kind not in _SEEN:
                if kind is Cast:
                    self._casts += 0 if event.attempt else event.count  # type: ignore[union-attr]
                elif kind is Rejection:
                    self._rejections += 1
                elif kind is FarSent:
                    self._wide_casts += 1
                continue
            if kind is FarReceived:
                self._wide_received += 1
            if isinstance(event, Killed):
                self._kills += 1
                access = open_.pop(event.was, None)
                if access is not None:
                    access.process = event.process
                    open_[event.process] = access
            else:
                access = open_.get(event.process)  # type: ignore[union-attr]
            if access is not None:
                batch = batches.get(access)
                if batch is None:
                    batches[access] = [event]
                else:
                    batch.append(event)
        for access, batch in batches.items():
            access.receiver.isis_events(batch)

    # -- what others ask

    def groups(self, most: int | None = None) -> list[dict[str, object]]:
        known = (group for _, group in sorted(self.isis.table.groups.items()) if group.ranked)
        return [
            {
                "name": group.name,
                "view": group.view,
                "members": [self._named(process) for process in group.members()],
                "properties": dict(group.properties),
            }
            for group in islice(known, most)
        ]

    def wide_groups(self) -> list[dict[str, object]]:
        return [
            {"name": name, "view": 0, "members": list(map(str, members)), "properties": {}}
            for name, members in self.far().casting.groups().items()
        ]

    def status(self) -> dict[str, object]:
        isis = self.isis
        far = isis.far
        groups = [{**group, "properties": {}} for group in self.groups(_GROUPS_SHOWN)]  # JSON has no bytes
        view = isis.here.view
        return {
            "blocked": isis.blocked,
            "refused": [self._names[site] for site in isis.site_views.without],
            "view": 0 if view is None else view.number,
            "members": {} if view is None else {self._names[s]: born.number for s, born in view.members.items()},
            "processes": len(self._open),
            "groups": groups,
            "group_count": sum(1 for group in isis.table.groups.values() if group.ranked),
            "open_casts": len(isis.own.open),
            "open_bytes": isis.own.bytes,
            "waiting_casts": sum(len(local.held) for local in isis.delivery.locals.values()),
            "pool": len(isis.pool),
            "pool_bytes": isis.pool.bytes,
            "open_gbcasts": len(isis.table.open),
            "open_calls": len(isis.calls),
            "watches": len(isis.monitor),
            "wide_waiting": 0 if far is None else len(far.casting),
            "wide_calls": 0 if far is None else len(far.calls),
            "wide_watches": 0 if far is None else len(far.watches),
            "wide_watched": 0 if far is None else far.watches.watched,
            "queues": self._queues(),
        }

    def _queues(self) -> dict[str, int]:
        isis = self.isis
        locals_ = isis.delivery.locals.values()
        return {
            "abcasts": len(isis.abcasts.items),
            "received": sum(
                len(local.waiting) + sum(map(len, local.queues.values())) + len(local.gates) for local in locals_
            ),
            "replies": sum(len(local.owed) for local in locals_),
            "channel_bytes": max(map(isis.channels.queued, isis.channels.peers), default=0),
        }

    def counters(self) -> dict[str, int]:
        channels = self.isis.channels.counters
        return {
            "isis_casts": self._casts,
            "isis_rejections": self._rejections,
            "isis_kills": self._kills,
            "isis_unordered": self.isis.casting.unordered,
            "isis_malformed": self.isis.here.malformed + self.isis.site_views.malformed,
            "isis_wide_casts": self._wide_casts,
            "isis_wide_received": self._wide_received,
            "isis_wide_dropped": 0 if self.isis.far is None else self.isis.far.dropped,
            **{f"isis_channel_{name}": getattr(channels, name) for name in _CHANNEL_COUNTERS},
        }

    def _named(self, process: Process) -> str:
        return f"{self._names[process.site]}:{process.incarnation}:{process.number}"


_CHANNEL_COUNTERS = ("packets", "records", "bare", "resent", "malformed", "stalled")
NO_ISIS_COUNTERS = dict.fromkeys(
    (
        *("isis_casts", "isis_rejections", "isis_kills", "isis_unordered", "isis_malformed"),
        *("isis_wide_casts", "isis_wide_received", "isis_wide_dropped"),
        *(f"isis_channel_{name}" for name in _CHANNEL_COUNTERS),
    ),
    0,
)
"""Of a site that takes no part in ISIS."""


class IsisAccess:
    """One process's requests (runtime.isis.interface.IsisHandle)."""

    __slots__ = ("_isis", "_service", "process", "receiver")

    def __init__(self, service: IsisService, process: Process, receiver: IsisReceiver) -> None:
        self._service = service
        self._isis = service.isis.requests
        self.process = process
        self.receiver = receiver

    def join(
        self,
        group: str,
        *,
        state: bool = False,
        vector: bool = False,
        answers: bool = True,
        last_to_fail: bool = False,
        wide: bool = False,
        done: Sent | None = None,
    ) -> None:
        self._service.refuse_if_stopping()
        is_new = wide and self._service.far().casting.join(self.process, group)
        try:
            self._isis.join(
                self.process, group, state=state, vector=vector, answers=answers, last_to_fail=last_to_fail, done=done
            )
        except ReconveneError:
            if is_new:
                self._service.far().casting.leave(self.process, group)
            raise
        self._service.wake()

    def leave(self, group: str, done: Sent) -> None:
        self._isis.leave(self.process, group, done=done)
        self._service.wake()

    def cbcast(
        self,
        to: str | Sequence[Process],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        done: Sent,
        more: Sequence[bytes] = (),
    ) -> None:
        if self._service.stopping:
            self._service.refuse_if_stopping()
        self._isis.cbcast(self.process, to, payload, label, replies, done=done, more=more)
        self._service.wake()

    def abcast(
        self, to: str | Sequence[Process], payload: bytes, label: str, causal: bool, replies: int, done: Sent
    ) -> None:
        self._service.refuse_if_stopping()
        self._isis.abcast(self.process, to, payload, label, causal=causal, replies=replies, done=done)
        self._service.wake()

    def gbcast(self, group: str, payload: bytes, done: Sent) -> None:
        self._service.refuse_if_stopping()
        self._isis.gbcast(self.process, group, payload, done=done)
        self._service.wake()

    def rank(self, group: str, order: Sequence[Process], done: Sent) -> None:
        self._service.refuse_if_stopping()
        self._isis.rank(self.process, group, order, done=done)
        self._service.wake()

    def set_properties(self, group: str, properties: dict[str, bytes], done: Sent) -> None:
        self._service.refuse_if_stopping()
        self._isis.set_properties(self.process, group, properties, done=done)
        self._service.wake()

    def delete(self, group: str, done: Sent) -> None:
        self._service.refuse_if_stopping()
        self._isis.delete(self.process, group, done=done)
        self._service.wake()

    def flush(self, done: Sent) -> None:
        self._isis.flush(self.process, done=done)
        self._service.wake()

    def watch(self, process: Process) -> None:
        self._service.refuse_if_stopping()
        self._isis.watch(self.process, process)
        self._service.wake()

    def reply(self, cast: CastId, payload: bytes, done: Sent) -> None:
        self._isis.reply(self.process, cast, payload)
        self._service.when_room(cast.site, done)

    def wide_cbcast(
        self,
        to: str | Sequence[FarProcess],
        payload: bytes,
        label: str | Mapping[str, int] | None,
        replies: int,
        done: Sent,
    ) -> None:
        self._service.refuse_if_stopping()
        self._service.far().casting.cbcast(self.process, to, payload, label, replies, done=done)
        self._service.wake()

    def wide_abcast(
        self, to: str | Sequence[FarProcess], payload: bytes, label: str, replies: int, done: Sent
    ) -> None:
        self._service.refuse_if_stopping()
        self._service.far().casting.abcast(self.process, to, payload, label, replies, done=done)
        self._service.wake()

    def wide_watch(self, process: FarProcess) -> None:
        self._service.refuse_if_stopping()
        self._service.far().watch(self.process, process)
        self._service.wake()

    def wide_reply(self, cast: MessageId, payload: bytes, done: Sent) -> None:
        self._service.far().casting.reply(self.process, cast, payload, done=done)
        self._service.wake()

    def give(self, group: str, view: int, newcomer: Process, index: int, data: bytes, last: bool, done: Sent) -> None:
        self._isis.give(self.process, group, view, newcomer, index, data, last)
        self._service.when_room(newcomer.site, done)

    def close(self) -> None:
        self._service.end(self, dead=False)

    def kill(self) -> None:
        self._service.end(self, dead=True)
