"""ISIS layers of some sites above an ideal group communication. Configurations, the order of control messages, and
the packets of channels are chosen at random, as extended virtual synchrony allows.

Every site reads the control messages of its configuration in one order, at its own pace. A safe message is read in a
regular configuration only if all its members have it. Sites that go on together read the same messages, the rest of
them in their transitional configuration. The real lineage decides which configuration is used, and who goes on.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent, Used
from reconvene.core.groups.lineage import Claim, Lineage
from reconvene.ids import Service
from reconvene.isis.isis import Isis
from reconvene.sim.isis_application import IsisApplication, NodeProcesses
from reconvene.sim.isis_scenario import IsisVerb, ProcessPlan, home
from reconvene.site_list import first_list
from reconvene.storage.memory import MemoryTables
from reconvene.trace.events import SCHEMA, Row, Run
from reconvene.trace.isis_recorder import IsisRecorder
from reconvene.trace.recorder import Recorder
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import CheckResult
from reconvene.wire.codec import decode
from reconvene.wire.messages import Packet

__all__ = ["MS", "World"]

MS = 1_000_000


class _Table(NamedTuple):
    """What a site brings into a configuration whose members do not all come together."""

    claim: Claim
    brought: bytes


class _Message(NamedTuple):
    sender: str
    service: Service
    content: bytes | _Table | None
    """None: all came together, and the configuration is used when this is read."""


class _Conf:
    def __init__(self, number: int, members: tuple[str, ...]) -> None:
        self.number = number
        self.members = members
        self.order: list[_Message] = []
        self.spoken: list[_Message] = []
        """Sent, and without a place in the order."""
        self.stable = 1 << 60
        """Safe messages from this place on are not at all members."""
        self.known = 0
        """Up to here some site has read safe messages in the regular configuration: all that go on read them."""


class _Site:
    def __init__(self, isis: Isis, processes: NodeProcesses, lineage: Lineage) -> None:
        self.isis = isis
        self.processes = processes
        self.lineage = lineage
        self.conf = _Conf(0, ())
        self.place = 0
        """How many messages of its configuration it has read."""
        self.settled = False
        self.tables: dict[str, _Table] = {}
        self.asleep = False


class World:
    def __init__(self, random: Random, names: str, plans: tuple[ProcessPlan, ...], made: type[Isis] = Isis) -> None:
        self.random = random
        self.names = names
        self.made = made
        self.now = MS
        self.sites: dict[str, _Site] = {}
        """Those that are up."""
        self.cut: set[str] = set()
        """Links on which packets are lost, as "ab"."""
        self.delay_ms: dict[str, float] = {}
        self.loss = 0.0
        self.lag_ms = 1.0
        """How far apart sites read the same message."""
        self.application = IsisApplication(plans, lambda name, size: name + b"." * (size % 7))
        self.rows: dict[str, list[Row]] = {name: [] for name in names}
        self._recorders = {name: Recorder(name, sorted(names), self.rows[name]) for name in names}
        self._disks = {name: MemoryTables() for name in names}
        self._incarnations = dict.fromkeys(names, 0)
        self._primaries = dict.fromkeys(names, 0)
        """The last primary configuration that each was in, as its storage has it."""
        self._number = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        for name in names:
            self.start(name)

    # -- sites

    def start(self, name: str) -> None:
        self._incarnations[name] += 1
        ordinal = self.names.index(name)
        isis = self.made(ordinal, self._incarnations[name], tables=self._disks[name])
        site = self.sites[name] = _Site(isis, self.application.of_node(name), Lineage(self._primaries[name]))
        self._recorders[name].begin(self._incarnations[name])
        site.processes.begin(isis)
        self.install(name)

    def crash(self, name: str) -> None:
        site = self.sites.pop(name)
        conf = site.conf
        conf.stable = min(conf.stable, self.random.randint(site.place, len(conf.order)))
        conf.spoken = [message for message in conf.spoken if message.sender != name]
        self._recorders[name].fail(self.now)
        site.processes.crash()

    def ask(self, verb: IsisVerb, name: str) -> None:
        if name in self.sites:
            self.sites[name].processes.ask(verb, counted=False)
            self.turn(name)

    # -- configurations

    def install(self, members: str) -> None:
        """These sites, which are up, form a configuration."""
        self._number += 1
        conf = _Conf(self._number, tuple(sorted(members)))
        olds = list(dict.fromkeys(self.sites[name].conf for name in conf.members))
        together = len(olds) == 1 and (set(olds[0].members) >= set(members)) and self.sites[members[0]].settled
        for old in olds:
            self._part(old, [name for name in conf.members if self.sites[name].conf is old])
        ordinals = tuple(map(self.names.index, conf.members))
        sites = first_list(len(self.names))
        for name in conf.members:
            site = self.sites[name]
            first = not site.conf.number
            self._tell(name, Changed(ConfKind.REGULAR, str(conf.number), ordinals, sites=sites))
            site.lineage.install(conf.number, ordinals, sites)
            if site.lineage.primary:
                self._primaries[name] = conf.number
            site.conf, site.place, site.tables = conf, 0, {}
            site.settled = together or first
        for name in conf.members:
            site = self.sites[name]
            if not site.settled:
                self._say(name, Service.SAFE, _Table(site.lineage.claim(), site.isis.brings()))
            elif site.lineage.primary and name == conf.members[0]:
                self._say(name, Service.SAFE, None)
        for name in conf.members:
            self.turn(name)

    def _part(self, old: _Conf, going: list[str]) -> None:
        """These sites leave a configuration together."""
        if not old.number:
            return
        upto = max(self.sites[name].place for name in going)
        for name in going:
            while self.sites[name].place < upto:
                self._read(name)
        ordinals = tuple(map(self.names.index, going))
        for name in going:
            self._tell(name, Changed(ConfKind.TRANSITIONAL, f"{old.number}t{going[0]}", ordinals, str(old.number)))
        rest = [
            message
            for place, message in enumerate(old.order)
            if place >= upto and (message.sender in going or place < old.known or self.random.random() < 0.5)
        ]
        for message in rest:
            for name in going:
                self._take(name, message)
        old.stable = min(old.stable, max(upto, old.known))
        for name in going:
            unsent = [m for m in old.spoken if m.sender == name and isinstance(m.content, bytes)]
            self.sites[name].isis.control.take_back([(m.service, m.content) for m in unsent])  # type: ignore[misc]
        old.spoken = [message for message in old.spoken if message.sender not in going]

    def _tell(self, name: str, event: LayerEvent) -> None:
        self.sites[name].isis.take([event], self.now)
        if isinstance(event, Changed):
            self._recorders[name].events(self.now, [event])

    # -- control messages

    def _say(self, name: str, service: Service, content: bytes | _Table | None) -> None:
        conf = self.sites[name].conf
        conf.spoken.append(_Message(name, service, content))
        self.after(self.random.choice((0.2, 1, 1, 3)), lambda: self._order(conf, name))

    def _order(self, conf: _Conf, name: str) -> None:
        message = next((message for message in conf.spoken if message.sender == name), None)
        if message is None:
            return
        conf.spoken.remove(message)
        conf.order.append(message)
        for member in conf.members:
            self.after(self.random.random() * self.lag_ms, lambda member=member: self._read_on(member, conf))  # type: ignore[misc]

    def _read_on(self, name: str, conf: _Conf) -> None:
        site = self.sites.get(name)
        if site is None or site.conf is not conf or site.asleep or site.place >= len(conf.order):
            return
        if conf.order[site.place].service is Service.SAFE:
            if site.place >= conf.stable:
                return
            conf.known = max(conf.known, site.place + 1)
        self._read(name)
        self.turn(name)

    def _read(self, name: str) -> None:
        site = self.sites[name]
        site.place += 1
        self._take(name, site.conf.order[site.place - 1])

    def _take(self, name: str, message: _Message) -> None:
        site = self.sites[name]
        content, lineage = message.content, site.lineage
        if isinstance(content, bytes):
            sender = self.names.index(message.sender)
            self._tell(name, Delivered(str(site.conf.number), sender, 1, message.service, 1, [content], (1,)))
        elif content is None:
            if not lineage.active:
                self._use(name, None)
        else:
            site.tables[message.sender] = content
            if len(site.tables) == len(site.conf.members):
                site.settled = True
                lineage.decide({self.names.index(other): table.claim for other, table in site.tables.items()})
                if lineage.primary:
                    tables = site.tables
                    self._use(name, {self.names.index(other): tables[other].brought for other in sorted(tables)})

    def _use(self, name: str, brought: dict[int, bytes] | None) -> None:
        site = self.sites[name]
        site.lineage.activate()
        ordinals = tuple(map(self.names.index, site.conf.members))
        self._tell(name, Used(site.conf.number, str(site.conf.number), ordinals, site.lineage.heirs, brought))

    # -- time

    def run(self, ms: float) -> None:
        until = self.now + round(ms * MS)
        while self._events and self._events[0][0] <= until:
            self.now, _, happen = heappop(self._events)
            happen()
        self.now = until

    def after(self, ms: float, happen: Callable[[], None]) -> None:
        self._at(self.now + round(ms * MS), happen)

    def _at(self, time: int, happen: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._events, (time, self._count, happen))

    def sleep(self, name: str, ms: float) -> None:
        """It stands still; what comes meanwhile is lost."""
        site = self.sites[name]
        site.asleep = True

        def wake() -> None:
            site.asleep = False
            if self.sites.get(name) is site:
                for _ in site.conf.order[site.place :]:
                    self._read_on(name, site.conf)
                self.turn(name)

        self.after(ms, wake)

    def turn(self, name: str) -> None:
        site = self.sites[name]
        if site.asleep:
            return
        isis = site.isis
        site.processes.submit(self.now)
        isis.work()
        while (message := isis.next_control()) is not None:
            isis.control.sent()
            self._say(name, *message)
        events, datagrams = isis.finish(self.now)
        write = isis.stored.flush()
        if write is not None:
            self._disks[name].write(write[1])
            isis.stored.synced(write[0])
            self.after(0.1, lambda: self._wake(name, site))
        IsisRecorder(self._recorders[name]).events(self.now, events)
        site.processes.take(events)
        for destinations, data in datagrams:
            for to in destinations:
                self._send(name + self.names[to], data)
        deadlines = [at for at in (isis.deadline(), site.processes.wants_turn_at) if at is not None]
        if site.processes.wants_turn:
            deadlines.append(self.now)
        if deadlines:
            self._at(max(min(deadlines), self.now + 1), lambda: self._wake(name, site))
        isis.invariants()

    def _wake(self, name: str, site: _Site) -> None:
        if self.sites.get(name) is site:
            self.turn(name)

    def _send(self, link: str, data: bytes) -> None:
        packet = decode(data)
        assert isinstance(packet, Packet)
        if link not in self.cut and self.random.random() >= self.loss:
            self.after(self.delay_ms.get(link, 1), lambda: self._arrive(link, packet))

    def _arrive(self, link: str, packet: Packet) -> None:
        if link not in self.cut and link[1] in self.sites and not self.sites[link[1]].asleep:
            self.sites[link[1]].isis.receive([packet], self.now)
            self.turn(link[1])

    # -- what happened

    def recorded(self, members: str) -> tuple[Run, dict[str, list[Row]]]:
        """A settled run whose last configuration has these members."""
        run = Run(
            schema=SCHEMA, run="world", nodes=sorted(self.names), stack="isis", order="atop", seed=0, settled=True,
            components=[sorted(members)], down=[name for name in self.names if name not in self.sites],
            quorum={"kind": "majority"},
        )  # fmt: skip
        return run, self.rows

    def problems(self, members: str) -> list[str]:
        """What does not hold: checks with their first witness, different states, and protocols that did not end."""
        found = [
            _written(check) for check in verify([History.of(*self.recorded(members))]).checks if check.violations
        ]
        self.application.judge_watches()
        found = [line for line in found if line.startswith("isis.")] + self.application.ledger.problems
        for name, site in sorted(self.sites.items()):
            if site.isis.step != "isis: idle" or site.isis.own.open:
                found.append(f"{name} stands still: {site.isis.step}, {len(site.isis.own.open)} casts are open")
        return found


def _written(check: CheckResult) -> str:
    return f"{check.id}: {check.violations}, {check.witnesses[0].detail}"


def plan_home(plan: ProcessPlan) -> str:
    return home(plan.written)[0]
