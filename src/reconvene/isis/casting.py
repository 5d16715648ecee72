"""Casts of this site's processes: to whom they go, when, and again where a group has grown meanwhile (3.6).

A cast to a group names the view by which it is addressed. Its destinations reject it if the group has gained a
member since; then it keeps its id and goes out again, as the next attempt. Members are never rejected: while a group
grows, their casts to it wait. Until an outsider's cast is accepted, what follows it goes to nobody else: it could
come before the next attempt. That is the flush by which the paper protects a cache that changes.
"""

from collections.abc import Callable, Sequence

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.isis import labels
from reconvene.isis.abcast import Abcasts
from reconvene.isis.calls import Call, Calls
from reconvene.isis.events import Cast, CastId, Sent
from reconvene.isis.here import Here
from reconvene.isis.labels import Label
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import AbEntry, Held, Local
from reconvene.isis.messages import Ask, Copy, Verdict, runs
from reconvene.isis.own import OwnCast, OwnCasts
from reconvene.isis.pool import Entry, Pool
from reconvene.isis.table import Table

__all__ = ["Casting", "Wish"]


class Wish:
    """What a process asks for, before it has an id."""

    __slots__ = ("causal", "label", "more", "ordered", "payload", "queue", "replies", "sent", "to")

    def __init__(
        self,
        to: str | tuple[Process, ...],
        payload: bytes,
        label: labels.Asked,
        queue: str,
        replies: int,
        *,
        ordered: bool,
        causal: bool,
        sent: Sent | None = None,
        more: Sequence[bytes] = (),
    ) -> None:
        self.to = to
        self.payload = payload
        self.label = label
        """Of a CBCAST. A causal ABCAST counts as one without a label."""
        self.queue = queue
        """Of an ABCAST."""
        self.replies = replies
        self.ordered = ordered
        self.causal = causal
        self.sent = sent
        self.more = more
        """Further messages that go with it as one."""

    @property
    def size(self) -> int:
        return len(self.payload) + sum(map(len, self.more)) if self.more else len(self.payload)

    @property
    def follows(self) -> bool:
        """It comes after what its sender has seen."""
        return not self.ordered or self.causal


class _Out:
    """A cast of this site's that is under way."""

    __slots__ = ("call", "cast", "entry", "label", "local", "wish")

    def __init__(self, cast: OwnCast, local: Local, wish: Wish, label: Label) -> None:
        self.cast = cast
        self.local = local
        self.wish = wish
        self.label = label
        self.entry: Entry | None = None
        self.call: Call | None = None


class Casting:
    def __init__(
        self,
        here: Here,
        table: Table,
        pool: Pool,
        own: OwnCasts,
        abcasts: Abcasts,
        calls: Calls,
        limits: IsisLimits,
    ) -> None:
        self._here = here
        self._table = table
        self._pool = pool
        self._own = own
        self._abcasts = abcasts
        self._calls = calls
        self._limits = limits
        self._out: dict[CastId, _Out] = {}
        self._watched: dict[CastId, _Out] = {}
        """Of these, in the same order: those that may be rejected, wait for a place, or for their own copy here."""
        self.unordered = 0
        """Casts whose label is below one that their sender used before."""

    # -- requests

    def cast(self, local: Local, wish: Wish) -> None:
        """Sends it, or has it wait. Raises Rejected or Unavailable."""
        self._check(local, wish)
        self.hold(local, lambda: self._try(local, wish), is_cast=True)

    def hold(self, local: Local, request: Callable[[], bool], *, is_cast: bool = False) -> None:
        """Carries the request out behind those that wait. Raises Unavailable where too many wait."""
        self.check_room(local)
        if not local.held and not local.leaving and request():
            return
        local.held.append(Held(request, is_cast))

    def check_room(self, local: Local) -> None:
        """Raises Unavailable where so many requests of the process wait that no more can."""
        if len(local.held) >= self._limits.held_casts:
            raise Unavailable(f"{len(local.held)} casts of this process wait: no room for more")

    def pump(self, local: Local) -> bool:
        """Carries out what waits, as far as that is possible. Returns whether that was anything."""
        moved = False
        while local.held and not local.leaving and local.held[0].attempt():
            local.held.popleft()
            moved = True
        return moved

    def _check(self, local: Local, wish: Wish) -> None:
        if wish.size > self._limits.payload_bytes:
            raise Rejected(f"a cast of {wish.size} bytes: expected at most {self._limits.payload_bytes}")
        labels.check(wish.queue if wish.ordered else wish.label)
        if isinstance(wish.to, str):
            group = self._table.groups.get(wish.to)
            if self._here.open and (group is None or not (group.ranked or group.open)):
                raise Rejected(f"group {wish.to!r}: there is no such group")
            count = len(group.ranked) if group is not None else wish.replies
        else:
            count = len(wish.to)
            if not any(map(self._is_known, wish.to)):
                raise Rejected("a cast to nobody: expected at least one process of the site view")
            if count > self._limits.destinations:
                raise Rejected(f"a cast to {count} processes: expected at most {self._limits.destinations}")
        if wish.replies > max(count, 1):
            raise Rejected(f"{wish.replies} replies of {count} destinations: expected at most one of each")
        if wish.replies and len(local.calls) >= self._limits.open_calls:
            raise Unavailable(f"{len(local.calls)} calls of this process are open: no room for more")

    def _is_known(self, process: Process) -> bool:
        return self._here.has(process)

    def _try(self, local: Local, wish: Wish) -> bool:
        if not self._here.open or not self._own.has_room or (wish.follows and local.crossing):
            return False
        group: str | None = None
        view = 0
        judged = False
        if isinstance(wish.to, str):
            group = wish.to
            membership = local.groups.get(group)
            if membership is not None:
                if local.locked(group):
                    return False
                view, to = membership.view, tuple([member.process for member in membership.ranked])
            elif group in local.announced:
                return False
            else:
                known = self._table.groups.get(group)
                view, to = (0, ()) if known is None else (known.view, tuple(known.members()))
                judged = True
                if not to:
                    if known is not None and known.open:
                        return False  # someone is joining
                    return _to_nobody(wish)
        else:
            # A process whose site is not in the site view is over, or nobody has heard of it yet.
            to = tuple([process for process in wish.to if self._is_known(process)])
            if not to:
                return _to_nobody(wish)
        label = labels.effective(None if wish.ordered else wish.label, self._here.clock + 1)
        if wish.follows and self._blocked(local, label, group, view, wish.causal):
            return False
        causes = self._causes(local, label) if wish.follows else []
        if self._is_slow(to, causes):
            return False
        self._here.tick()
        self._send(local, wish, label, to, group, view, judged, causes)
        return True

    def _is_slow(self, to: tuple[Process, ...], causes: list[CastId]) -> bool:
        """Too much waits for some site of these processes, or would with what precedes the cast."""
        takes_ns, most, pool = self._here.channels.takes_ns, self._limits.queue_ns, self._pool
        return any(
            takes_ns(site, pool.bytes) > most and takes_ns(site, pool.brings(causes, site)) > most
            for site in self._here.sites(to)
        )

    def _blocked(
        self, local: Local, label: Label, group: str | None, view: int, causal: bool, until: CastId | None = None
    ) -> bool:
        """An earlier cast of the process, which this one follows, may still be rejected, or has no place yet.
        `until`: this one itself, if it goes out again."""
        for out in self._watched.values():
            if out.cast.id == until:
                break
            if not (out.wish.causal or out.cast.judged):
                continue
            if out.local is not local or not out.wish.follows or not labels.at_most(out.label, label):
                continue
            if out.wish.causal and self._abcasts.undecided(out.cast.id):
                return True
            if out.cast.judged and out.cast.may_be_rejected:
                together = (out.cast.group, out.cast.view) == (group, view) and not causal and not out.wish.causal
                if not together:
                    return True
        return False

    # -- out

    def _send(
        self,
        local: Local,
        wish: Wish,
        label: Label,
        to: tuple[Process, ...],
        group: str | None,
        view: int,
        judged: bool,
        causes: list[CastId],
    ) -> None:
        count = 1 + len(wish.more)
        cast = self._own.begin(local.process, group, view, wish.size, count)
        cast.judged = judged
        local.last_cast = cast.id if count == 1 else cast.id._replace(counter=cast.id.counter + count - 1)
        if wish.sent is not None:
            wish.sent(cast.id)
        out = self._out[cast.id] = self._watched[cast.id] = _Out(cast, local, wish, label)
        self._count_unordered(local, label, wish)
        self._go(out, to, self._here.clock, causes)

    def _causes(self, local: Local, label: Label) -> list[CastId]:
        """Every cast that precedes one with this label, in an order in which each comes after its own causes."""
        return [entry.id for entry in local.past.values() if labels.at_most(entry.label, label)]

    def _count_unordered(self, local: Local, label: Label, wish: Wish) -> None:
        if isinstance(wish.label, str) or wish.label is None or wish.ordered:
            return
        own = [out.label for out in self._out.values() if out.local is local and out.label != label]
        if any(labels.at_most(label, other) for other in own):
            self.unordered += 1

    def _go(self, out: _Out, to: tuple[Process, ...], clock: int, causes: list[CastId]) -> None:
        """One attempt."""
        cast, wish, local, here = out.cast, out.wish, out.local, self._here
        here.events.append(
            Cast(
                "abcast" if wish.ordered else "cbcast", local.process, cast.id, cast.attempt, to,
                wish.queue if wish.ordered else labels.text(out.label), wish.causal, wish.replies, cast.group,
                cast.view, 1 + len(wish.more),
            )
        )  # fmt: skip
        out.call = self._calls.open(local, cast.id, wish.replies, to, out.call)
        cast.parts.add("sending")
        if here.local(to):
            cast.parts.add("local")
        if cast.judged:
            cast.parts.update(("verdict", site) for site in here.sites(to))
        if wish.follows:
            self._send_copy(out, to, clock, causes)
        if wish.ordered:
            ask = Ask(
                cast.id, cast.attempt, local.process, wish.queue, list(to), cast.group, cast.view, wish.replies,
                clock, wish.payload, cast.judged, wish.causal,
            )  # fmt: skip
            self._abcasts.begin(cast, ask)
        self._own.done(cast, "sending")

    def _send_copy(self, out: _Out, to: tuple[Process, ...], clock: int, causes: list[CastId]) -> None:
        cast, wish, here = out.cast, out.wish, self._here
        copy = Copy(
            cast.id, cast.attempt, cast.process, list(out.label), list(to), cast.group, cast.view, wish.replies,
            clock, runs(causes), wish.payload, wish.queue if wish.causal else None, cast.judged,
            list(wish.more),
        )  # fmt: skip
        entry = Entry(copy, here)
        entry.causes = tuple(causes)
        out.local.remember(entry)  # in the place of the last attempt: casts that followed that follow this
        if out.entry is not None:
            self._pool.dispose(out.entry)
        out.entry = entry
        self._pool.add(entry)
        for site in entry.sites:
            if site != here.site:
                record = self._pool.send(entry, site)
                self._own.wait_for(cast, site, record)

    # -- verdicts

    def judged(self, item: Entry | AbEntry) -> None:
        """The destinations at this site have accepted or rejected a cast to their group."""
        attempt = item.copy.attempt if isinstance(item, Entry) else item.ask.attempt
        verdict = Verdict(item.id, attempt, item.verdict)
        if item.id.site == self._here.site:
            self.take_verdict(verdict, self._here.site)
        elif self._here.knows(item.id):
            self._here.send(item.id.site, verdict)

    def take_verdict(self, verdict: Verdict, site: int) -> None:
        cast = self._own.open.get(verdict.id)
        if cast is None or cast.attempt != verdict.attempt or ("verdict", site) not in cast.parts:
            return
        if verdict.accepted is not None:
            cast.accepted = cast.accepted or verdict.accepted
            cast.rejected = cast.rejected or not verdict.accepted
        self._settle(cast, site)

    def depart(self, sites: Sequence[int]) -> None:
        for cast in list(self._own.open.values()):
            for site in sites:
                if ("verdict", site) in cast.parts:
                    self._settle(cast, site)

    def _settle(self, cast: OwnCast, site: int) -> None:
        """The site has said what it makes of the cast, or is lost."""
        if cast.rejected:
            return
        last = not any(part != ("verdict", site) for part in cast.parts if isinstance(part, tuple))
        if last and not cast.accepted and self._has_grown(cast):
            cast.rejected = True  # all that it was for have left, or are lost, and others have come
        else:
            self._own.done(cast, ("verdict", site))

    def _has_grown(self, cast: OwnCast) -> bool:
        group = self._table.groups.get(cast.group or "")
        return group is not None and bool(group.ranked) and group.gained > cast.view

    # -- what follows

    def work(self) -> bool:
        """Sends rejected casts again, and closes what is done. Returns whether that was anything."""
        moved = False
        for out in list(self._watched.values()):
            cast = out.cast
            if cast.rejected and not cast.done:
                moved = self._again(out) or moved
            elif "local" in cast.parts:
                if self._is_released(out):
                    self._own.done(cast, "local")
                    moved = True
            elif not (cast.judged or out.wish.causal):
                del self._watched[cast.id]
        for cast in self._own.closed:
            closed = self._out.pop(cast.id, None)
            self._watched.pop(cast.id, None)
            if closed is not None:
                self._abcasts.forget(cast.id)
                if closed.entry is not None:
                    self._pool.dispose(closed.entry)
            moved = True
        self._own.closed.clear()
        return moved

    def _is_released(self, out: _Out) -> bool:
        if out.wish.ordered:
            item = self._abcasts.items.get(out.cast.id)
            return item is not None and item.released
        return out.entry is None or out.entry.released

    def _again(self, out: _Out) -> bool:
        cast = out.cast
        if out.local.dead:
            self._own.close(cast)
            return True
        assert cast.group is not None, "only casts to groups are rejected"
        group = self._table.groups[cast.group]
        if not self._here.open or not self._has_grown(cast):
            if self._here.open and not (group.ranked or group.open):
                self._own.close(cast)  # nobody is left to send it to: else nothing after it would ever be everywhere
                self._calls.give_up(cast.id)
                return True
            return False
        if out.wish.follows and self._blocked(
            out.local, out.label, cast.group, group.view, out.wish.causal, until=cast.id
        ):
            return False
        self._abcasts.forget(cast.id)
        cast.attempt += 1
        cast.view = group.view
        cast.rejected = cast.accepted = False
        cast.parts.clear()
        causes = (
            [] if out.entry is None else [cast_id for cast_id in out.entry.causes if cast_id in self._pool.entries]
        )
        self._go(out, tuple(group.members()), self._here.tick(), causes)
        return True

    def unfinished(self, process: Process) -> bool:
        """Some cast of the process is not everywhere."""
        return any(cast.process == process for cast in self._own.open.values())

    def unarrived(self, process: Process, group: str) -> bool:
        """Some cast of the process to this group may still be overtaken, or rejected."""
        return any(
            out.cast.process == process and out.cast.group == group and self._is_under_way(out)
            for out in self._out.values()
        )

    def _is_under_way(self, out: _Out) -> bool:
        if out.cast.judged:
            return True
        if out.wish.ordered and self._abcasts.unfinished(out.cast.group or "", (out.cast.process,)):
            return True
        arrived = self._here.channels.arrived
        return out.entry is not None and any(arrived(site) < record for site, record in out.entry.sent.items())

    def reset(self) -> None:
        self._out.clear()
        self._watched.clear()


def _to_nobody(wish: Wish) -> bool:
    if wish.sent is not None:
        wish.sent(None)
    return True
