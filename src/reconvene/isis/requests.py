"""Requests of this site's processes: each is checked, and carried out at once or behind those that wait.

A request that can't be raises Rejected, one for which there is no room or no majority Unavailable. Joins, leaves and
other GBCASTs are announced once the process's own casts to the group have arrived. `done` is called once a request is
carried out: a cast has its id, a GBCAST is announced, a flush returns.
"""

from collections import deque
from collections.abc import Sequence

from msgspec import structs

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected, Unavailable
from reconvene.isis import labels
from reconvene.isis.calls import Calls
from reconvene.isis.casting import Casting, Wish
from reconvene.isis.control import ControlQueue
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import ALL, Cast, CastId, JoinAsked, Sent
from reconvene.isis.gbcast import Gbcasts, Pushes
from reconvene.isis.here import Here
from reconvene.isis.last_to_fail import StoredViews
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import Flush, Local
from reconvene.isis.messages import Action, Announce
from reconvene.isis.monitor import Monitor
from reconvene.isis.own import OwnCasts
from reconvene.isis.pool import Pool
from reconvene.isis.state import StateTransfers
from reconvene.isis.table import GROUP_PROPERTIES_BYTES, PROPERTIES_BYTES, Table

__all__ = ["Requests"]


class Requests:
    def __init__(
        self,
        here: Here,
        table: Table,
        pool: Pool,
        own: OwnCasts,
        delivery: Delivery,
        casting: Casting,
        calls: Calls,
        monitor: Monitor,
        gbcasts: Gbcasts,
        state: StateTransfers,
        control: ControlQueue,
        stored: StoredViews,
        limits: IsisLimits,
    ) -> None:
        self._here = here
        self._table = table
        self._pool = pool
        self._own = own
        self._delivery = delivery
        self._casting = casting
        self._calls = calls
        self._monitor = monitor
        self._gbcasts = gbcasts
        self._state = state
        self._control = control
        self._stored = stored
        self._limits = limits

    def join(
        self,
        process: Process,
        group: str,
        *,
        vector: bool = False,
        last_to_fail: bool = False,
        state: bool | None = None,
        answers: bool = True,
        done: Sent | None = None,
    ) -> None:
        """`state`: it gives and takes the state of this group; default: as it said when it was opened. `answers`:
        False: its site answers in this group, with nothing. That counts where all are asked to reply, not where some
        replies are enough.

        `vector`: a process that takes state wants a contribution of every member that gives any, not the state of
        one of them.

        `last_to_fail`: views are on stable storage before the process sees them. Where all members have failed, it
        becomes a member after those that failed last, as soon as that is known (`isis.last_to_fail`)."""
        local = self.local(process)
        if last_to_fail and not self._stored.enabled:
            raise Rejected("last_to_fail needs stable storage, and this site has none")
        self._check_group(group)
        if last_to_fail:
            self._check_stored(group)
        if group in local.groups or group in local.joining:
            raise Rejected(f"group {group!r}: the process is in it, or has asked to join it")
        self._casting.check_room(local)  # first: a join that is refused was never asked for
        self._here.events.append(JoinAsked(process, group))
        local.joining.add(group)
        if vector:
            local.vectors.add(group)
        else:
            local.vectors.discard(group)
        if last_to_fail:
            local.lasting.add(group)
        stateful = local.state if state is None else state
        answers = local.answers and answers
        (local.stateful.add if stateful else local.stateful.discard)(group)
        (local.silent.discard if answers else local.silent.add)(group)
        self._request(local, Action("join", group, process, answers, stateful, lasting=last_to_fail), done)

    def leave(self, process: Process, group: str, *, done: Sent | None = None) -> None:
        local = self.local(process)
        if group not in local.groups:
            raise Rejected(f"group {group!r}: the process is not in it")
        self._request(local, Action("leave", group, process), done)

    def cbcast(
        self,
        process: Process,
        to: str | Sequence[Process],
        payload: bytes,
        label: labels.Asked = None,
        replies: int = 0,
        *,
        done: Sent | None = None,
        more: Sequence[bytes] = (),
    ) -> None:
        """`more`: further messages that go with this one, as one: for that none of them asks for replies."""
        if more and replies:
            raise Rejected("casts that go together ask for no replies")
        wish = Wish(_to(to), payload, label, "", _replies(replies), ordered=False, causal=False, sent=done, more=more)
        self._casting.cast(self.unblocked(process), wish)

    def abcast(
        self,
        process: Process,
        to: str | Sequence[Process],
        payload: bytes,
        label: str = "",
        *,
        causal: bool = False,
        replies: int = 0,
        done: Sent | None = None,
    ) -> None:
        wish = Wish(_to(to), payload, None, label, _replies(replies), ordered=True, causal=causal, sent=done)
        self._casting.cast(self.unblocked(process), wish)

    def gbcast(self, process: Process, group: str, payload: bytes, *, done: Sent | None = None) -> None:
        local = self.unblocked(process)
        self._check_known(group)
        self._check_size("a cast", payload)
        self._request(local, Action("cast", group, process, payload=payload), done)

    def rank(self, process: Process, group: str, order: Sequence[Process], *, done: Sent | None = None) -> None:
        """Members by their new rank. An order that is no permutation of the members when its turn comes is ignored
        by all of them."""
        local = self.unblocked(process)
        known = self._table.groups.get(group)
        if known is None or sorted(order) != sorted(known.members()):
            raise Rejected(f"group {group!r}: the order expected to be a permutation of its members")
        self._request(local, Action("rank", group, process, order=list(order)), done)

    def set_properties(
        self, process: Process, group: str, properties: dict[str, bytes], *, done: Sent | None = None
    ) -> None:
        """Properties of the group, which come with its next view. Those that are too much for the group, or for all
        groups together, when their turn comes are ignored by all sites."""
        local = self.unblocked(process)
        self._check_known(group)
        if len(properties) > self._limits.properties:
            raise Rejected(f"{len(properties)} properties: expected at most {self._limits.properties}")
        for name, value in properties.items():
            self._check_size(f"property {name!r}", name.encode() + value)
        known = self._table.groups.get(group)
        if not self._table.has_room(known, properties):
            raise Rejected(
                f"group {group!r}: no room for these properties: expected at most {GROUP_PROPERTIES_BYTES} bytes of a"
                f" group, and {PROPERTIES_BYTES} of all groups"
            )
        self._request(local, Action("set", group, process, properties=properties), done)

    def delete(self, process: Process, group: str, *, done: Sent | None = None) -> None:
        local = self.unblocked(process)
        known = self._table.groups.get(group)
        if self._here.open and (known is None or known.is_empty):
            raise Rejected(f"group {group!r}: there is no such group")
        self._request(local, Action("delete", group, process), done)

    def flush(self, process: Process, *, done: Sent | None = None) -> None:
        """`Flushed` follows when all that the process has cast, and all that it has received, is everywhere."""
        local = self.unblocked(process)
        self._casting.hold(local, lambda: self._begin_flush(local, done))

    def _begin_flush(self, local: Local, done: Sent | None) -> bool:
        """What others have cast goes out again from here: that is quicker than to wait for their word (4.5)."""
        if not self._here.open:
            return False
        own = frozenset(cast.id for cast in self._own.open.values() if cast.process == local.process)
        pushes = Pushes(self._here, self._pool)
        seen = self._gbcasts.received_by([local])
        pushes.push({cast_id: entry for cast_id, entry in seen.items() if cast_id not in own}, None)
        local.flushes.append(Flush(own, local.last_cast, pushes.arrived, done))
        return True

    def watch(self, process: Process, watched: Process) -> None:
        """`Failed` follows when the watched process is over, behind all that it sent: at once where it is by now."""
        self._monitor.watch(self.unblocked(process), watched)

    def reply(self, process: Process, cast_id: CastId, payload: bytes) -> None:
        self._check_size("a reply", payload)
        self._calls.reply(self.local(process), cast_id, payload)

    def give(
        self, process: Process, group: str, view: int, newcomer: Process, index: int, data: bytes, last: bool
    ) -> None:
        """Answers `StateWanted`, chunk by chunk. Raises Rejected where this state is no longer wanted."""
        self.local(process)
        self._check_size("a chunk of state", data)
        self._state.give(process, group, view, newcomer, index, data, last=last)

    def close(self, process: Process) -> None:
        """It leaves its groups; then it is over."""
        local = self.local(process)
        if local.closing:
            return
        for group in sorted(local.groups):
            self.leave(process, group)
        local.closing = True

    def withdraw(self) -> int:
        """Takes back casts that wait and have no id yet; returns how many."""
        count = 0
        for local in self._delivery.locals.values():
            kept = [held for held in local.held if not held.is_cast]
            count += len(local.held) - len(kept)
            local.held = deque(kept)
        return count

    # -- checks

    def local(self, process: Process) -> Local:
        local = self._delivery.living(process)
        if local is None:
            raise Rejected("the process is over, or never was")
        return local

    def unblocked(self, process: Process) -> Local:
        local = self.local(process)
        if self._here.blocked:
            raise Unavailable("the site is not in the primary component")
        return local

    def _check_size(self, what: str, data: bytes) -> None:
        if len(data) > self._limits.payload_bytes:
            raise Rejected(f"{what} of {len(data)} bytes: expected at most {self._limits.payload_bytes}")

    def _check_group(self, group: str) -> None:
        if not group or len(group.encode()) > self._limits.group_bytes:
            raise Rejected(f"group {group!r}: expected a name of 1 to {self._limits.group_bytes} bytes")
        if group not in self._table.groups and len(self._table.groups) >= self._limits.groups:
            raise Unavailable(f"{self._limits.groups} groups are known: no room for more")

    def _check_stored(self, group: str) -> None:
        asked = {group}.union(*(local.lasting for local in self._delivery.locals.values()))
        if not self._stored.has_room(asked, self._limits.stored_bytes):
            raise Unavailable(
                f"group {group!r}: this site stores the views of so many groups that another does not fit: "
                f"expected at most {self._limits.stored_bytes} bytes, names included"
            )

    def _check_known(self, group: str) -> None:
        known = self._table.groups.get(group)
        if self._here.open and (known is None or not (known.ranked or known.open)):
            raise Rejected(f"group {group!r}: there is no such group")

    # -- GBCASTs

    def _request(self, local: Local, action: Action, done: Sent | None) -> None:
        self._casting.hold(local, lambda: self._announce(local, action, done), is_cast=action.kind == "cast")

    def _announce(self, local: Local, action: Action, done: Sent | None) -> bool:
        """Once the process's own casts to the group have arrived: nothing overtakes them."""
        if not self._here.open or self._casting.unarrived(local.process, action.group):
            return False
        if len(self._table.open) + len(self._control) >= self._limits.open_gbcasts:
            return False
        membership = local.groups.get(action.group)
        if action.kind == "leave":
            if membership is None:
                return _done(done, None)
            if self._casting.unfinished(local.process):
                return False
            local.leaving.add(action.group)
        elif membership is not None and membership.transfer:
            return False
        if action.lasting:
            action = structs.replace(action, stored=self._stored.of(action.group))
        if action.kind == "cast":
            group = self._table.groups.get(action.group)
            if group is None or not group.ranked:
                if group is not None and group.open:
                    return False  # someone is joining
                return _done(done, None)
            if not self._own.has_room:
                return False
            cast = self._own.begin(local.process, action.group, group.view, len(action.payload))
            cast.parts.add("gbcast")
            local.last_cast = cast.id
            action = Action("cast", action.group, action.process, id=cast.id, payload=action.payload, view=group.view)
            members = tuple(group.members())
            self._here.events.append(
                Cast("gbcast", local.process, cast.id, 0, members, "", False, 0, action.group, group.view)
            )
        if action.kind == "join":
            local.announced.add(action.group)
        self._control.announce(Announce([action]))
        return _done(done, action.id)


def _done(done: Sent | None, cast_id: CastId | None) -> bool:
    if done is not None:
        done(cast_id)
    return True


def _to(to: str | Sequence[Process]) -> str | tuple[Process, ...]:
    return to if isinstance(to, str) else tuple(dict.fromkeys(to))


def _replies(replies: int) -> int:
    if replies < ALL:
        raise Rejected(f"{replies} replies: expected a number from 0, or ALL")
    return replies
