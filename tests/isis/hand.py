"""Real ISIS layers without their sites: configurations, the order of control messages and every link by hand.

Sites are letters. A configuration begins when a test says so, and is used if it is a majority. Control messages come
to all its members in one order, together. Packets take a millisecond, or as long as the test says for that link.
Those of a link that is cut are lost, and sent again. What happens is recorded, and can be judged as any trace.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import TypeVar

from reconvene.core.effects import Changed, ConfKind, Delivered, Used
from reconvene.core.groups.events import Process
from reconvene.core.intersite.limits import ChannelLimits
from reconvene.core.options import Limits
from reconvene.ids import Service
from reconvene.isis.events import IsisEvent, Received, ViewShown
from reconvene.isis.isis import Isis
from reconvene.isis.limits import IsisLimits
from reconvene.isis.messages import Control, decode_control, decode_record
from reconvene.site_list import first_list
from reconvene.storage.memory import MemoryTables
from reconvene.storage.tables import Op
from reconvene.trace.events import SCHEMA, Row, Run
from reconvene.trace.isis_recorder import IsisRecorder
from reconvene.trace.recorder import Recorder
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.wire.codec import decode
from reconvene.wire.messages import Packet

__all__ = ["MS", "Hand"]

MS = 1_000_000
_MESSAGE_BYTES = Limits().message_bytes
T = TypeVar("T")


class _Configuration:
    def __init__(self, number: int, members: str) -> None:
        self.number = number
        self.members = members
        self.name = f"{number}@{members}"
        self.over = False
        """Some member has gone on to another."""
        self.spoken: deque[tuple[str, Service, bytes]] = deque()
        """Control messages that wait for their delivery."""


class Hand:
    def __init__(
        self,
        names: str,
        *,
        answers: str = "",
        state: str = "",
        limits: IsisLimits | None = None,
        channels: ChannelLimits | None = None,
        made: type[Isis] = Isis,
    ) -> None:
        """`answers`, `state`: the sites whose processes reply, and give and take state."""
        self.names = names
        self._answers, self._stateful = answers, state
        self._limits, self._channels, self._made = limits, channels, made
        self.now = MS
        self.sites: dict[str, Isis] = {}
        """Those that are up."""
        self.delay_ms: dict[str, float] = {}
        """By link, as "ab": how long packets of a to b take; 1 where it is not said."""
        self.cut: set[str] = set()
        """Links on which packets are lost."""
        self.lost: Callable[[], bool] = lambda: False
        """Of packets on the other links."""
        self.hold: Callable[[Control, str], bool] = lambda message, site: False
        """Control messages that are not sent yet, with the site that says them."""
        self.honest = True
        """Invariants hold, and control messages can be read."""
        self.disks = {name: MemoryTables() for name in names}
        self.writes: Callable[[str], bool | None] = lambda site: True
        """What becomes of a site's write: it is durable and the site hears of that; or (False, None) the site crashes
        before, or after it is durable."""
        self.packets: list[tuple[str, Packet]] = []
        """All that were sent, each with its link."""
        self.events: dict[str, list[IsisEvent]] = {name: [] for name in names}
        """By site, since the beginning or the last `take`."""
        self.on_event: Callable[[IsisEvent], None] = lambda event: None
        self.suspected: list[str] = []
        """Links whose first site suspects the second, in order."""
        self.line: dict[str, int] = {}
        """The sites of the last used configuration that went on since, and their incarnations."""
        self.number = 0
        """Of the newest configuration."""
        self.rows: dict[str, list[Row]] = {name: [] for name in names}
        self._recorders = {name: Recorder(name, sorted(names), self.rows[name]) for name in names}
        self._incarnations = dict.fromkeys(names, 0)
        self._confs: dict[str, _Configuration] = {}
        self._unsent: dict[str, list[tuple[Service, bytes]]] = {name: [] for name in names}
        """Control messages that their configuration has left behind."""
        self._wire: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._woken: dict[str, int] = {}
        """By site: when it is to be woken next."""
        for name in names:
            self.start(name)

    # -- sites

    def start(self, name: str) -> None:
        """With what is durable. It is in no configuration until one is installed with it."""
        self._incarnations[name] += 1
        incarnation = self._incarnations[name]
        self.sites[name] = self._made(
            self.names.index(name), incarnation, self._limits, self._channels, self.disks[name]
        )
        self._recorders[name].begin(incarnation)

    def crash(self, name: str) -> None:
        """What it has sent is still under way, unless its links are cut."""
        self._recorders[name].fail(self.now)
        self._unsent[name] = []
        conf = self._confs.pop(name, None)
        if conf is not None:
            conf.spoken = deque([spoken for spoken in conf.spoken if spoken[0] != name])
        del self.sites[name]
        self.line.pop(name, None)

    def restart(self, name: str) -> None:
        if name in self.sites:
            self.crash(name)
        self.start(name)

    def install(self, members: str, *, late: str = "") -> None:
        """A configuration of these sites, which is used if they are a majority. `late`: those that leave the last one
        apart from the others, and are handed what was said in it when they leave. Then only they go on."""
        self.number += 1
        conf = _Configuration(self.number, members)
        said = [
            self._delivered(self._confs[name], *spoken) for name in late[:1] for spoken in self._confs[name].spoken
        ]
        for old in [self._confs[name] for name in members if name in self._confs]:
            self._end(old)
        regular = Changed(ConfKind.REGULAR, conf.name, self._ordinals(members), sites=first_list(len(self.names)))
        for name in members:
            together = [other for other in members if (other in late) == (name in late)]
            changes = [
                Changed(ConfKind.TRANSITIONAL, f"{conf.name}+{together[0]}", self._ordinals(together), "before"),
                regular,
            ]
            self._confs[name] = conf
            isis = self.sites[name]
            isis.control.take_back(self._unsent[name])
            self._unsent[name] = []
            isis.take([changes[0], *(said if name in late else ()), regular], self.now)
            self._recorders[name].events(self.now, changes)
        if late:
            self.line = {name: incarnation for name, incarnation in self.line.items() if name in late}
        if 2 * len(members) > len(self.names):
            self._use(conf)
        else:
            for name in members:
                self.line.pop(name, None)
        for name in members:
            self.turn(name)

    def _ordinals(self, members: Iterable[str]) -> tuple[int, ...]:
        return tuple(sorted(map(self.names.index, members)))

    def _end(self, conf: _Configuration) -> None:
        conf.over = True
        for site, service, data in conf.spoken:
            self._unsent[site].append((service, data))
        conf.spoken.clear()

    def _use(self, conf: _Configuration) -> None:
        members, heirs = conf.members, [name for name in conf.members if name in self.line]
        brought = {self.names.index(name): self.brings(name) for name in members}
        self.line = {name: self._incarnations[name] for name in members}
        for name in members:
            own = {**brought, self.names.index(name): self.sites[name].brings()}
            used = Used(conf.number, conf.name, self._ordinals(members), self._ordinals(heirs), own)
            self.sites[name].take([used], self.now)

    def brings(self, name: str) -> bytes:
        """What the others hear that this site brings into a configuration."""
        return self.sites[name].brings()

    @property
    def members(self) -> str:
        """Those of the newest configuration that are up."""
        return "".join(name for name in self.sites if self.number and self._is_newest(name))

    def _is_newest(self, name: str) -> bool:
        return name in self._confs and self._confs[name].number == self.number

    def links(self, *, of: str | None = None, to: str | None = None) -> set[str]:
        """All links of these sites to those; where it is not said, of or to all."""
        return {
            sender + receiver for sender in of or self.names for receiver in to or self.names if sender != receiver
        }

    # -- processes

    def begin(self, **groups: str) -> dict[str, Process]:
        """All sites together, with one process each, by its site's name. `groups`: who is in which, "ab"."""
        self.install(self.names)
        self.run()
        processes = {name: self.open(name) for name in self.names}
        for group, members in groups.items():
            for name in members:
                self.join(processes[name], group)
        return processes

    def open(self, name: str, *groups: str, answers: bool | None = None, state: bool | None = None) -> Process:
        """A process that is in these groups, once the others are ready."""
        process = self.sites[name].open(
            name,
            answers=name in self._answers if answers is None else answers,
            state=name in self._stateful if state is None else state,
        )
        for group in groups:
            self.join(process, group)
        return process

    def join(self, process: Process, group: str) -> None:
        """And waits until it is a member."""
        self.at(process).join(process, group)
        self.run()

    def at(self, process: Process) -> Isis:
        return self.sites[self.names[process.site]]

    # -- time

    def run(self, ms: float = 50.0) -> None:
        until = self.now + round(ms * MS)
        for name in list(self.sites):
            self.turn(name)
        while self._wire and self._wire[0][0] <= until:
            self.now, _, happen = heappop(self._wire)
            happen()
        self.now = until

    def later(self, ms: float, process: Process, request: Callable[[Isis], None]) -> None:
        """The process asks for something then, unless it is over."""

        def happen() -> None:
            isis = self.sites.get(self.names[process.site])
            if isis is not None and isis.delivery.living(process) is not None:
                request(isis)
                self.turn(self.names[process.site])

        self._after(ms, happen)

    def turn(self, name: str) -> None:
        isis = self.sites.get(name)
        if isis is None:
            return
        self.suspected += [name + self.names[peer] for peer in isis.stalled(self.now)]
        isis.work()
        conf = self._confs.get(name)
        while conf is not None and not conf.over and (message := isis.next_control()) is not None:
            if self.honest and self.hold(decode_control(message[1]), name):
                break
            isis.control.sent()
            self._submit(conf, name, *message)
        events, datagrams = isis.finish(self.now)
        self.events[name] += events
        IsisRecorder(self._recorders[name]).events(self.now, events)
        for event in events:
            self.on_event(event)
        if self.honest:
            isis.invariants()
        write = isis.stored.flush()
        if write is not None and not self._write(name, *write):
            return
        for destinations, data in datagrams:
            for to in destinations:
                self._send(name, self.names[to], data)
        self._plan(name, isis)

    def _write(self, name: str, token: int, ops: Sequence[Op]) -> bool:
        outcome = self.writes(name)
        if outcome is not False:
            self.disks[name].write(ops)
        if not outcome:
            self.crash(name)
            return False
        self.sites[name].stored.synced(token)
        self._after(1, lambda: self.turn(name))
        return True

    def _plan(self, name: str, isis: Isis) -> None:
        deadline = isis.deadline()
        if deadline is None:
            return
        planned = self._woken.get(name)
        if planned is None or planned <= self.now or deadline < planned:
            self._woken[name] = max(deadline, self.now + 1)
            self._at(self._woken[name], lambda: self._wake(name))

    def _wake(self, name: str) -> None:
        isis = self.sites.get(name)
        if isis is None:
            return
        if (deadline := isis.deadline()) is not None and deadline <= self.now:
            self.turn(name)
        else:
            self._plan(name, isis)

    def _send(self, name: str, to: str, data: bytes) -> None:
        packet = decode(data)
        assert isinstance(packet, Packet)
        self.packets.append((name + to, packet))
        if name + to not in self.cut and not self.lost():
            self._after(self.delay_ms.get(name + to, 1), lambda: self._arrive(name + to, packet))

    def _arrive(self, link: str, packet: Packet) -> None:
        if link not in self.cut and link[1] in self.sites:
            self.sites[link[1]].receive([packet], self.now)
            self.turn(link[1])

    def submit(self, name: str, data: bytes) -> None:
        """A control message that no layer made."""
        self._submit(self._confs[name], name, Service.SAFE, data)

    def _submit(self, conf: _Configuration, name: str, service: Service, data: bytes) -> None:
        assert len(data) <= _MESSAGE_BYTES, f"a site takes no message of {len(data)} bytes"
        conf.spoken.append((name, service, data))
        self._after(1, lambda: self._deliver(conf))

    def _deliver(self, conf: _Configuration) -> None:
        """The next control message."""
        if not conf.spoken:
            return
        name, service, data = conf.spoken.popleft()
        event = self._delivered(conf, name, service, data)
        here = [member for member in conf.members if self._confs.get(member) is conf]
        for member in here:
            self.sites[member].take([event], self.now)
        for member in here:
            self.turn(member)

    def _delivered(self, conf: _Configuration, name: str, service: Service, data: bytes) -> Delivered:
        return Delivered(conf.name, self.names.index(name), 1, service, 1, [data], (1,))

    def _after(self, ms: float, happen: Callable[[], None]) -> None:
        self._at(self.now + round(ms * MS), happen)

    def _at(self, time: int, happen: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._wire, (time, self._order, happen))

    # -- what happened

    def records(self, link: str, kind: type[T]) -> list[T]:
        """Records of this kind that were sent on the link, in order. For runs in which nothing is lost."""
        sent = [record for other, packet in self.packets if other == link for record in packet.records]
        return [record for record in map(decode_record, sent) if isinstance(record, kind)]

    def take(self) -> dict[str, list[IsisEvent]]:
        """All events since the last call, by site."""
        events, self.events = self.events, {name: [] for name in self.names}
        return events

    def seen(self, process: Process) -> list[IsisEvent]:
        """The events of a process, in order."""
        return [
            event for event in self.events[self.names[process.site]] if getattr(event, "process", None) == process
        ]

    def of(self, kind: type[T], process: Process) -> list[T]:
        """Those of this type."""
        return [event for event in self.seen(process) if isinstance(event, kind)]

    def received(self, process: Process) -> list[bytes]:
        """Payloads, in order."""
        return [event.payload for event in self.of(Received, process)]

    def views(self, process: Process) -> list[tuple[Process, ...]]:
        """The members of views by rank, in order."""
        return [event.ranked for event in self.of(ViewShown, process)]

    def told(self, process: Process) -> list[bytes | tuple[Process, ...]]:
        """Both."""
        return [
            event.payload if isinstance(event, Received) else event.ranked
            for event in self.seen(process)
            if isinstance(event, Received | ViewShown)
        ]

    def judge(self) -> list[str]:
        """The checks of process groups that do not hold."""
        run = Run(
            schema=SCHEMA, run="hand", nodes=sorted(self.names), stack="isis", order="atop", seed=0, settled=True,
            components=[list(self.members)], down=[name for name in self.names if name not in self.sites],
            quorum={"kind": "majority"},
        )  # fmt: skip
        return [check for check in verify([History.of(run, self.rows)]).violated() if check.startswith("isis.")]
