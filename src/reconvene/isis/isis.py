"""The ISIS layer of one site as its shell sees it: requests of processes in, events and packets out.

No input, no output, no clock. In a turn: any number of requests, packets and events of the site; then `work`; then
`finish`, which returns what is to be recorded and sent.
"""

from collections.abc import Iterable, Sequence

from reconvene.core.effects import Changed, Delivered, Used
from reconvene.core.groups.events import Process
from reconvene.core.intersite.channels import Channels
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.ids import Service
from reconvene.isis import labels
from reconvene.isis.abcast import Abcasts
from reconvene.isis.calls import Calls
from reconvene.isis.casting import Casting
from reconvene.isis.change import Change
from reconvene.isis.control import ControlQueue
from reconvene.isis.delivery import Delivery
from reconvene.isis.events import CastId, IsisEvent, SiteAdopted
from reconvene.isis.excess import Excess
from reconvene.isis.far import Far
from reconvene.isis.far_casting import Reach
from reconvene.isis.gbcast import Gbcasts
from reconvene.isis.here import Here, SiteView
from reconvene.isis.last_to_fail import StoredViews
from reconvene.isis.lasting import Lasting
from reconvene.isis.limits import IsisLimits
from reconvene.isis.local import AbEntry, Gate, Local, Outcome
from reconvene.isis.messages import Announce, Decided, Entered, FlushedSite, Ready
from reconvene.isis.monitor import Monitor
from reconvene.isis.own import OwnCasts
from reconvene.isis.plausible import is_plausible_action
from reconvene.isis.pool import Entry, Pool
from reconvene.isis.processes import Processes
from reconvene.isis.reading import Reading
from reconvene.isis.receipts import Receipts
from reconvene.isis.requests import Requests
from reconvene.isis.site_views import Adoption, Block, Control, Lost, SiteViews, TellDecided, TellTable
from reconvene.isis.state import StateTransfers
from reconvene.isis.table import Table
from reconvene.storage.tables import Reader
from reconvene.wire.messages import Packet

__all__ = ["Isis"]


class Isis:
    def __init__(
        self,
        site: int,
        incarnation: int,
        limits: IsisLimits | None = None,
        channels: ChannelLimits | None = None,
        tables: Reader | None = None,
    ) -> None:
        """`tables`: what was synced of what the layer wrote; None: it writes nothing."""
        self.limits = limits = limits or IsisLimits()
        self.channels = Channels(site, channels or ChannelLimits())
        self.here = here = Here(site, incarnation, self.channels)
        self.site_views = SiteViews(site, incarnation)
        self.table = table = Table()
        self.stored = StoredViews(tables)
        self.control = control = ControlQueue()
        self._receipts = Receipts(here)
        self.pool = pool = Pool(here, self._receipts)
        self.own = own = OwnCasts(here, limits)
        self.calls = calls = Calls(here, self._find, limits)
        self.monitor = monitor = Monitor(here, self._find, self._has_begun, limits)
        self.delivery = delivery = Delivery(
            here, pool, calls, self._judged, self._passed, self._shown, self._left, self._store, self._settle
        )
        self.lasting = Lasting(table, delivery.locals, self.stored)
        self.abcasts = abcasts = Abcasts(here, table, own, pool, delivery, self._receipts)
        self.casting = casting = Casting(here, table, pool, own, abcasts, calls, limits)
        self.gbcasts = gbcasts = Gbcasts(here, table, pool, own, abcasts, delivery, control, self.lasting)
        self.change = Change(here, table, pool, abcasts, gbcasts, delivery, control)
        self.excess = Excess(here, pool, abcasts, limits)
        self.state = state = StateTransfers(here, delivery.living)
        self.processes = Processes(here, table, own, delivery, casting, calls, monitor, state, control, limits)
        self.requests = Requests(
            here, table, pool, own, delivery, casting, calls, monitor, gbcasts, state, control, self.stored, limits
        )
        self.reading = Reading(here, self._receipts, pool, abcasts, casting, calls, monitor, gbcasts, state, limits)
        self.far: Far | None = None
        """Casts to other clusters, where there are any."""

    def extend(self, reach: Reach) -> Far:
        """There are other clusters: requests about their processes go to what is returned."""
        requests, limits = self.requests, self.limits
        self.far = self.processes.far = far = Far(
            self.here, reach, self.casting, self.delivery, self.monitor, requests.unblocked, self._has_begun, limits
        )
        self.here.mark = far.marks.mark
        self.reading.is_reached = far.marks.is_reached
        return far

    def _find(self, process: Process) -> Local | None:
        return self.delivery.locals.get(process)

    def _has_begun(self, process: Process) -> bool:
        return process.number < self.processes.next

    def _judged(self, item: Entry | AbEntry) -> None:
        self.casting.judged(item)

    def _settle(self, process: Process) -> bool:
        return self.abcasts.settle(process)

    def _passed(self, gate: Gate) -> None:
        self.gbcasts.passed(gate)

    def _store(self, local: Local, group: str, outcome: Outcome) -> bool:
        return self.lasting.store(local, group, outcome)

    def _shown(self, local: Local, group: str, outcome: Outcome) -> None:
        local.joining.discard(group)
        local.announced.discard(group)
        self.state.shown(local, group, outcome)

    def _left(self, process: Process, group: str) -> None:
        self.state.left(process, group)
        if self.far is not None:
            self.far.casting.leave(process, group)

    # -- requests. Each may raise Rejected or Unavailable

    def open(self, name: str = "", *, answers: bool = False, state: bool = False) -> Process:
        """A new process. `answers`: it replies to what asks for replies; else its site does, with nothing. `state`:
        it gives and takes state."""
        return self.processes.open(name, answers=answers, state=state)

    def close(self, process: Process) -> None:
        """It leaves its groups; then it is over."""
        self.requests.close(process)

    def kill(self, process: Process) -> None:
        """It dies: what it has cast goes out, and its groups are told behind that."""
        self.processes.end(self.requests.local(process))

    def join(self, process: Process, group: str, *, vector: bool = False, last_to_fail: bool = False) -> None:
        """`vector`: a process that takes state wants a contribution of every member that gives any, not the state of
        one of them.

        `last_to_fail`: views are on stable storage before the process sees them. Where all members have failed, it
        becomes a member after those that failed last, as soon as that is known (`isis.last_to_fail`)."""
        self.requests.join(process, group, vector=vector, last_to_fail=last_to_fail)

    def leave(self, process: Process, group: str) -> None:
        self.requests.leave(process, group)

    def cbcast(
        self,
        process: Process,
        to: str | Sequence[Process],
        payload: bytes,
        label: labels.Asked = None,
        replies: int = 0,
    ) -> None:
        self.requests.cbcast(process, to, payload, label, replies)

    def abcast(
        self,
        process: Process,
        to: str | Sequence[Process],
        payload: bytes,
        label: str = "",
        *,
        causal: bool = False,
        replies: int = 0,
    ) -> None:
        self.requests.abcast(process, to, payload, label, causal=causal, replies=replies)

    def gbcast(self, process: Process, group: str, payload: bytes) -> None:
        self.requests.gbcast(process, group, payload)

    def rank(self, process: Process, group: str, order: Sequence[Process]) -> None:
        """Members by their new rank. An order that is no permutation of the members when its turn comes is ignored
        by all of them."""
        self.requests.rank(process, group, order)

    def set_properties(self, process: Process, group: str, properties: dict[str, bytes]) -> None:
        """Properties of the group, which come with its next view."""
        self.requests.set_properties(process, group, properties)

    def delete(self, process: Process, group: str) -> None:
        """Ends the group, at one place of the order: each member receives what was cast to it by members before, then
        `LeftGroup`, and is a member no more. Anyone may do that. The name can be used again at once."""
        self.requests.delete(process, group)

    def flush(self, process: Process) -> None:
        """`Flushed` follows when all that the process has cast, and all that it has received, is everywhere."""
        self.requests.flush(process)

    def watch(self, process: Process, watched: Process) -> None:
        """`Failed` follows, without a cast's id, when the watched process is over: dead, closed, or lost with its
        site. Nothing of it is received after that."""
        self.requests.watch(process, watched)

    def reply(self, process: Process, cast_id: CastId, payload: bytes) -> None:
        self.requests.reply(process, cast_id, payload)

    def give(
        self, process: Process, group: str, view: int, newcomer: Process, index: int, data: bytes, last: bool
    ) -> None:
        """Answers `StateWanted`, chunk by chunk."""
        self.requests.give(process, group, view, newcomer, index, data, last=last)

    def withdraw(self) -> int:
        """Takes back casts that wait and have no id yet; returns how many."""
        return self.requests.withdraw()

    # -- the site

    @property
    def blocked(self) -> bool:
        """The site is not in the primary component, as far as it knows."""
        return self.here.blocked

    def brings(self) -> bytes:
        self.site_views.next = (self.own.next, self.processes.next)
        self.site_views.stored = self.stored.all
        return self.site_views.brings()

    def take(self, events: Iterable[Changed | Delivered | Used], now: int) -> None:
        """Configurations and control messages, in their order."""
        for event in events:
            if isinstance(event, Changed):
                self.control.begin()  # what is said of a configuration is not said in the next one
            for step in self.site_views.take(event):
                match step:
                    case Control():
                        self._take_control(step)
                    case Adoption():
                        self._adopt(step, now)
                    case TellDecided():
                        self.control.begin()
                        self.control.tell(self.abcasts.decided(step.number))
                    case TellTable():
                        changing = step.changing or self.change.active
                        most = self.limits.payload_bytes // 2
                        self.control.tell(
                            self.table.pieces(step.number, self.here.clock, changing=changing, most=most)
                        )
                    case Lost():
                        self._lose(step.first_process)
                    case Block():
                        self._block()
            self.here.open = self.site_views.open

    def _take_control(self, control: Control) -> None:
        message = control.message
        if isinstance(message, Announce):
            actions = [action for action in message.actions if is_plausible_action(action, control.site)]
            self.here.malformed += len(message.actions) - len(actions)
            for action in actions:
                self.monitor.hear(action.process)
            self.gbcasts.take_announce(actions)
            self.gbcasts.conclude_ready()  # of a group without members nobody will say so
        elif isinstance(message, Ready):
            self.here.seen(message.priority[0])
            self.gbcasts.take_ready(message, control.site)
            self.gbcasts.conclude_ready()
            self.abcasts.restate()
        elif isinstance(message, Decided):
            self.abcasts.learn(message)
        elif isinstance(message, FlushedSite):
            self.here.seen(message.priority[0])
            self.change.take_flushed(message, control.site)
            self.change.conclude()
            self.gbcasts.conclude_ready()
            self.abcasts.restate()

    def _block(self) -> None:
        if not self.here.blocked:
            self.here.blocked = True
            self.processes.block()

    def _adopt(self, adoption: Adoption, now: int) -> None:
        here, view = self.here, adoption.view
        old, here.view = here.view, view
        here.open = self.site_views.open
        here.blocked = False
        self.control.begin()
        if adoption.table:
            self.table.load(adoption.table)
            here.barrier = max([group.barrier for group in self.table.groups.values()], default=(0, 0))
            here.seen(adoption.table[-1].clock)
            for group in self.table.groups.values():
                for member in group.members():
                    self.monitor.hear(member)
        self.table.number = view.number
        self.table.forget_waiting(view)
        self.table.note_stored(adoption.stored)
        members = tuple([(site, view.members[site].number) for site in sorted(view.members)])
        here.events.append(SiteAdopted(view.conf, view.number, members))
        departed = sorted(adoption.departed)
        lives = {} if old is None else self._disconnect(departed, old)
        born = view.members[here.site].number
        others = [site for site in sorted(view.members) if site != here.site]
        for site in others:
            self.channels.connect(site, born, view.members[site].number, now)
        if old is not None:
            self._depart(departed, lives)
            self.monitor.depart(departed, old)
            for site in others:
                if site in adoption.heirs:
                    here.send(site, Entered(view.number))
        self.gbcasts.adopt(adoption.departed)
        if adoption.changing or self.change.active:
            self.change.begin(view.number, adoption.heirs)
        self.monitor.ask()
        if self.far is not None:
            self.far.adopt()
        self.reading.adopt(now)

    def _disconnect(self, left: Sequence[int], old: SiteView) -> dict[CastId, int]:
        """Returns, by the first cast of each life that is over, the floor that was heard of it."""
        lives = {
            CastId(site, old.members[site].incarnation, old.members[site].first_cast): self.channels.floor_of(site)
            for site in left
        }
        self.here.broken.difference_update(left)
        for site in left:
            self.channels.disconnect(site)
            self._receipts.forget(site)
        self.reading.depart(left)
        return lives

    def _depart(self, left: Sequence[int], lives: dict[CastId, int]) -> None:
        self.pool.depart(left, lives)
        self.own.depart(left)
        self.casting.depart(left)
        self.calls.depart(left)
        self.abcasts.depart(left)

    def _lose(self, first_process: int) -> None:
        """The others have gone on without this site: its processes are over, and go on as others."""
        for peer in self.channels.peers:
            self.channels.disconnect(peer)
            self._receipts.forget(peer)
        self.here.broken.clear()
        self.reading.reset()
        self.pool.reset()
        self.own.reset()
        self.abcasts.reset()
        self.casting.reset()
        self.calls.reset()
        self.monitor.reset()
        self.gbcasts.reset()
        self.change.reset()
        self.state.reset()
        self.control.reset()
        self.table.reset()
        self.here.view = None
        if self.far is not None:
            self.far.reset()
        self.here.open = False
        self.processes.lose(first_process)

    # -- packets

    def receive(self, packets: Iterable[Packet], now: int) -> None:
        self.reading.receive(packets, now)

    # -- the end of a turn

    def work(self) -> None:
        """Delivers and sends whatever can be delivered and sent."""
        if not self.here.open:
            return
        self.pool.hear_floors()
        self.abcasts.collect()
        self.own.hear_released()
        if self.far is not None:
            self.reading.resume()
        moved = True
        while moved:
            moved = self._arrive()
            moved = self.delivery.advance() or moved
            self.abcasts.release_deferred()
            moved = self.casting.work() or moved
            moved = self.processes.serve() or moved
            self.gbcasts.work()
            self.change.work()
        if self.far is not None:
            self.far.work()
        self.calls.report_arrived(self.pool.awaits)
        self.pool.collect()
        if not self.change.active:
            self.calls.report_lost(self._has_heard)
            self.monitor.report(self._has_heard)
        self._receipts.mark()
        self.own.tell_floor()

    def _arrive(self) -> bool:
        if self.pool.late:
            self.pool.release_late(self.abcasts.asked_early)
        moved = bool(self.pool.arrivals)
        while self.pool.arrivals:
            entry = self.pool.arrivals.popleft()
            if entry.disposed:
                continue
            if entry.copy.queue is None:
                self.delivery.arrive(entry)
            else:
                self.abcasts.arrive(entry)
        return moved

    def _has_heard(self, process: Process, sender: Process) -> bool:
        local = self.delivery.living(process)
        return local is None or not (
            self.calls.has_late(sender)
            or any(gate.barrier is not None for gate in local.gates)
            or any(entry.copy.sender == sender for entry in local.waiting)
            or any(
                item.ask.sender == sender and process in item.local and process not in item.handled
                for item in self.abcasts.items.values()
            )
        )

    def next_control(self) -> tuple[Service, bytes] | None:
        """What is to be submitted next in the present configuration, if anything."""
        return self.control.first(everything=self.here.open)

    def finish(self, now: int) -> tuple[list[IsisEvent], list[tuple[tuple[int, ...], bytes]]]:
        """What has happened, and the datagrams to send."""
        events, self.here.events = self.here.events, []
        return events, self.channels.flush(now) if self.here.open else []

    def deadline(self) -> int | None:
        return self.channels.deadline() if self.here.open else None

    def stalled(self, now: int) -> list[int]:
        """Sites whose channel stands still, or that have more under way than they may."""
        if not self.here.open:
            return []
        stalled, excess = self.channels.stalled(now), self.excess.sites()
        return list(dict.fromkeys((*stalled, *excess))) if stalled or excess else []

    @property
    def step(self) -> str:
        """Where in its protocols the site is, for the tables of what was tested."""
        if not self.here.open:
            return "isis: blocked" if self.blocked else "isis: adopting"
        if self.change.active:
            return f"isis: change {self.change.step}"
        gates = [gate for local in self.delivery.locals.values() for gate in local.gates[:1]]
        if any(gate.barrier is not None for gate in gates):
            return "isis: gbcast concluded"
        if any(gate.proposed is not None for gate in gates):
            return "isis: gbcast ready"
        if gates:
            return "isis: gbcast announced"
        return "isis: transfer" if len(self.state) else "isis: idle"

    def invariants(self) -> None:
        self.pool.invariants()
        self.own.invariants()
        self.table.invariants()
        self.delivery.invariants()
        self.monitor.invariants()
        if self.far is not None:
            self.far.invariants()
