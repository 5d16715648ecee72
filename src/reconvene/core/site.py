"""A site: the layers put together, without input or output.

A turn is any number of `receive`, `submit`, `synced` and `tick`, then one `flush`, which returns what is to be done.
`now` is the site's clock in ns and never goes back.
"""

from collections.abc import Collection, Sequence
from functools import partial

from msgspec import msgpack

from reconvene.core.beacons import Beacons
from reconvene.core.changes import Changes, Phase
from reconvene.core.effects import Effects
from reconvene.core.evs.configuration import Configuration
from reconvene.core.membership.disputes import Disputes
from reconvene.core.multicast.multicast import Counters
from reconvene.core.multicast.packing import Outbox
from reconvene.core.options import Options
from reconvene.core.order import make_engine
from reconvene.core.outgoing import Outgoing
from reconvene.core.record import Record
from reconvene.errors import Malformed
from reconvene.ids import MAX_SITES, Service
from reconvene.site_list import NextList, SiteList
from reconvene.wire.codec import decode
from reconvene.wire.messages import (
    Alive,
    Beacon,
    Frame,
    Nack,
    Packet,
    Progress,
    Propose,
    Rebroadcast,
    Relay,
    State,
)

__all__ = ["Site"]

_MOST_PACKETS = 4_096
"""Of channels, in one turn."""


class Site:
    def __init__(
        self,
        options: Options,
        ordinal: int,
        sites: int,
        record: bytes,
        now: int,
        peers: Collection[int] | None = None,
    ) -> None:
        """`sites`: how many numbers there are. `peers`: the other sites that datagrams can be sent to; default:
        all."""
        if not 0 <= ordinal < sites <= MAX_SITES:
            raise ValueError(f"ordinal {ordinal} of {sites} sites: at most {MAX_SITES} sites expected")
        booted = msgpack.decode(record, type=Record)
        self.options = options
        self.ordinal = ordinal
        self.incarnation = booted.incarnation
        self.counters = Counters()
        self.outbox = Outbox(options.limits)
        self._out = Outgoing()
        self.changes = Changes(
            ordinal, sites, booted, options, partial(make_engine, options), self.counters, self._out, now
        )
        self._timing = options.timing
        others = tuple(site for site in sorted(range(sites) if peers is None else peers) if site != ordinal)
        self._beacons = Beacons(ordinal, others, self.changes, self.counters, self._out, options.timing, now)
        self._current = self.changes.current
        self._peers: tuple[int, ...] = ()
        self._packets: list[Packet] = []
        self._counter = 1
        """Of the next message."""
        self._last = now
        self.stirred = True
        """It wants to be flushed: something has come but packets of channels, in which it has no part."""
        self._install(self.changes.current)

    # -- what a shell asks

    @property
    def current(self) -> Configuration:
        return self._current

    @property
    def configuration(self) -> str:
        """The id of the configuration that the site is in; never a transitional one, which takes no time."""
        return self._current.id

    @property
    def members(self) -> tuple[int, ...]:
        return self._current.members

    @property
    def primary(self) -> bool:
        """The present configuration may be the primary component: it holds all majorities that it needs."""
        return self.changes.agreed.primary(self._current.members)

    @property
    def sites(self) -> SiteList:
        """What this site knows of the cluster's list."""
        return self.changes.sites

    @property
    def names(self) -> list[str]:
        """By number. It grows in place; empty in tests of the core, which has numbers only."""
        return self.changes.kept.names

    @property
    def removed(self) -> bool:
        """The cluster's list does not have this site any more, and that is durable: it takes no part in anything, and
        is to be stopped."""
        return self.sites.excludes(self.ordinal) and self.sites_kept

    @property
    def disputes(self) -> Disputes:
        """Sites that report another list: they are not heard, and in no configuration with this one."""
        return self.changes.disputes

    @property
    def sites_kept(self) -> bool:
        """All that it knows of the list is durable."""
        return self.changes.kept.list_durable

    @property
    def forgotten(self) -> int:
        """No configuration above this was used while an earlier incarnation of this site was in it; 0: it can't
        tell."""
        return self.changes.kept.forgotten

    @property
    def phase(self) -> str:
        return self.changes.phase.value

    @property
    def behind(self) -> str | None:
        """Why this site's storage is older than what others know of the site, if it is: then it is in no
        configuration with anyone."""
        return self.changes.hearing.behind.get(self.ordinal)

    @property
    def step(self) -> str:
        """Where in its phase the site is, for the tables of what was tested."""
        round_ = self.changes.round
        if round_ is None:
            return self.phase
        if self.changes.phase is Phase.FORMING:
            return "forming: states" if round_.answered else "forming: sync"
        recovery = self.changes.recovery
        return "recovering: exchange" if recovery is not None and recovery.lacking else "recovering: wait"

    def withdraw(self) -> int:
        """Takes back what was submitted and is not sent yet, but for a message of which fragments are out."""
        return self.outbox.withdraw()

    def room(self) -> int:
        """How many messages `submit` would take now."""
        return self.outbox.room()

    @property
    def drained(self) -> bool:
        """Nothing waits to be sent, and every member has all that this site has sent."""
        return not self.outbox and self._current.multicast.window.empty

    def deadline(self) -> int:
        """When the site wants to be called though nothing happens."""
        at = self._beacons.deadline()
        change = self.changes.deadline()
        if change is not None and change < at:
            at = change
        if self._current.frozen:
            return at
        if self._current.pressed:
            return self._last
        own = self._current.deadline()
        return at if own is None or own > at else own

    # -- inputs

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        """Takes a message to be sent in this configuration or, while it changes, in the next.

        Raises Rejected if it is too large, Unavailable if too much waits already.
        """
        self._stir(now)
        self.outbox.submit(service, payload)

    def submit_many(self, service: Service, payloads: Sequence[bytes], now: int) -> int:
        """Takes as many as there is room for, from the first on; returns how many."""
        self._stir(now)
        return self.outbox.submit_many(service, payloads)

    def renew(self, now: int) -> bool:
        """Asks for a new configuration with the same members. Returns False while one is being formed anyway."""
        self._stir(now)
        return self.changes.renew(now)

    def is_silent(self, site: int, now: int) -> bool:
        """The site was not heard for several beacons."""
        self._wake(now)
        return self.changes.hearing.is_silent(site, now)

    def suspect(self, site: int, now: int) -> bool:
        """The layer above gets no further with this site: it counts as unheard for a while. Returns whether it was
        heard until now."""
        self._stir(now)
        hearing = self.changes.hearing
        if site == self.ordinal or not hearing.hears(site):
            return False
        hearing.leave_out(site, now)
        return True

    def take_packets(self) -> list[Packet]:
        """Packets of channels that came since the last call, in order."""
        packets, self._packets = self._packets, []
        return packets

    def drop_packets(self) -> None:
        """Nobody took them in this turn."""
        if self._packets:
            self.counters.stale += len(self._packets)
            self._packets.clear()

    def used(self, version: int, number: int, now: int, chosen: NextList | None = None) -> None:
        """The primary configuration of this number is used, and all its members have stored this version of the
        list, the newest that they knew. `chosen`: the same of a proposal for the next."""
        self._stir(now)
        self.changes.used(version, number, chosen)

    def propose(self, proposal: NextList, now: int) -> None:
        """A proposal for the next version of the list was delivered, in the configuration that is its stamp."""
        self._stir(now)
        self.changes.propose(proposal)

    def leave(self, now: int) -> None:
        """From now on this site reports that it hears nobody: the others go on without it at once."""
        self._stir(now)
        self.changes.hearing.leave()

    def synced(self, token: int, now: int) -> None:
        self._stir(now)
        self.changes.synced(token, now)
        self._check_installed(now)

    def tick(self, now: int) -> None:
        self._stir(now)

    def receive(self, data: bytes, now: int) -> None:
        """Takes a datagram; one that is malformed or stale is counted and dropped."""
        self._wake(now)
        try:
            datagram = decode(data)
        except Malformed:
            self.counters.malformed += 1
            return
        if type(datagram) is Packet:
            self._receive_packet(datagram, now)
            return
        self.stirred = True
        changes = self.changes
        match datagram:
            case Frame() | Alive() | Nack():
                self._receive_in_configuration(datagram, True, now)
                return
            case Relay(frame=frame):
                self._receive_in_configuration(frame, False, now)
                return
            case Beacon():
                self._beacons.receive(datagram, now)
                return
            case Propose(number=number, site=proposer, members=members, incs=incs):
                changes.receive_proposal(number, proposer, tuple(members), tuple(incs), now)
            case State():
                changes.receive_state(datagram, now)
            case Progress():
                changes.receive_progress(datagram, now)
            case Rebroadcast():
                changes.receive_rebroadcast(datagram, now)
        self._check_installed(now)

    def flush(self, now: int, effects: Effects | None = None) -> Effects:
        """Ends the turn: adds what it has brought to `effects`, and returns them."""
        effects = Effects() if effects is None else effects
        self._wake(now)
        self.changes.turn(now)
        self._check_installed(now)
        current = self._current
        if not current.frozen:
            sends, self._counter = current.turn(self.outbox, self._counter, now)
            for rank, datagram in sends:
                self._out.send(self._peers if rank is None else (current.members[rank],), datagram)
        self._beacons.speak(current, now)
        self._out.move_to(effects)
        # Whom it hears may have changed just now, and while it forms a configuration it looks at that in every turn.
        self.stirred = self.changes.hearing.changed or self.changes.phase is not Phase.OPERATIONAL
        return effects

    def _stir(self, now: int) -> None:
        self.stirred = True
        self._wake(now)

    def _wake(self, now: int) -> None:
        """After a long gap this site has slept: then it is no sign of failure that it has not heard the others."""
        gap = now - self._last
        self._last = now
        if gap > 2 * self._timing.beacon_every_ns:
            self.stirred = True
            self.changes.slept(gap, now)

    # -- the present configuration

    def _receive_in_configuration(self, datagram: Frame | Alive | Nack, direct: bool, now: int) -> None:
        """`direct`: it came from its sender itself, which is a sign of life."""
        current = self._current
        if datagram.conf != current.number:
            if self.changes.receive_early(datagram, now):
                self._check_installed(now)
            else:
                self.counters.stale += 1
            return
        sender = datagram.sender
        if sender >= len(current.members) or sender == current.rank:
            # Its own frames come back from others in answer to a nack that was meant for someone else.
            self.counters.stale += 1
            return
        if direct:
            self.changes.hearing.sign(current.members[sender], now)
        if current.frozen:
            self.counters.stale += 1
            return
        match datagram:
            case Frame():
                current.multicast.receive(datagram, now)
            case Alive():
                current.multicast.hear(datagram, now)
            case Nack():
                for frame in current.multicast.answer(datagram, now):
                    again = frame if frame.sender == current.rank else Relay(frame)
                    self._out.send((current.members[sender],), again)

    def _receive_packet(self, packet: Packet, now: int) -> None:
        """For the layer that has the channels: a site has no part in them."""
        site = packet.site
        if site == self.ordinal or site >= self.changes.hearing.sites:
            self.counters.malformed += 1
        elif len(self._packets) >= _MOST_PACKETS:
            self.counters.overflow += 1
        else:
            if site in self._current.members:
                self.changes.hearing.sign(site, now)
                if self.changes.hearing.changed:
                    self.stirred = True
            self._packets.append(packet)

    def _check_installed(self, now: int) -> None:
        if self.changes.current is not self._current:
            self._install(self.changes.current)
            early, self.changes.early = self.changes.early, []
            for datagram in early:
                self._receive_in_configuration(datagram, False, now)

    def _install(self, configuration: Configuration) -> None:
        self._current = configuration
        self._beacons.set_round_trips(configuration)
        self._peers = tuple(site for site in configuration.members if site != self.ordinal)
        # Whether these members can take a frame in several packets, the shell says again.
        self.outbox.frame_bytes = self.options.limits.packet_bytes or self.options.limits.frame_bytes
        if self.options.return_unsent:
            self._out.unsent += self.outbox.give_back()
        else:
            self.outbox.restart()

    def invariants(self) -> None:
        self.changes.invariants()
