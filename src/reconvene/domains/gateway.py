"""A gateway's part in the cluster above: what it has delivered there, and what it has to send there.

Given: the upper site's configurations and safe messages, in order. Promised: a log of both, which the representative
brings into its cluster, and from which a standby goes on where the last representative ended. All gateways of a
configuration above find the same messages at the same places, and each message once: a crossing that was sent twice
(the next representative can't know what the last one's became of) counts where it came first.

What came in a transitional configuration can be told to the cluster only when the gateway knows that it still
represents it: another gateway of the cluster may be in another component, whose clusters never see those messages.
`needs` says so: the number of the configuration above which the gateway must have been elected with.

Messages that may have crossed before get no place in a transitional configuration, at any gateway: where the
configuration parted, others may have the earlier crossing, and with it the messages at another place. Nor does what
comes after them there: it may be of the same senders, or follow from them. All this crosses again in the next one.
"""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent
from reconvene.domains.events import Crossed, MessageId, WideEvent
from reconvene.domains.messages import CROSSING, Crossing, Gone, Message, Roster, Seeing, decode, decoded, encode
from reconvene.domains.rosters import Rosters
from reconvene.domains.seen import Seen, SenderId
from reconvene.domains.tree import Tree
from reconvene.ids import Service

__all__ = ["Brought", "Gateway", "Launch", "Told", "UpperConf"]

_KEPT = 1_024
_KEPT_BYTES = 1 << 20
"""Entries behind what the cluster has: for a part of the cluster that was cut off for a moment."""
_MOST = 65_536
_MOST_BYTES = 64 << 20
"""Entries at all. A cluster that is further behind leaves its wide configuration: it does not hold up the others."""
_PENDING = 1 << 62
RENEW_EVERY_NS = 500_000_000


class UpperConf(Struct):
    conf: str
    regular: bool
    number: int
    """Of the regular configuration that its places belong to."""
    domains: tuple[str, ...]
    after: str
    """The configuration that it follows, regular or transitional."""
    needs: int
    floor: list[tuple[str, int, int, int]]
    """Site, incarnation and both counters of this domain's senders: what gets no place in it."""


class Brought(Struct):
    """A crossing that was delivered above."""

    place: tuple[int, ...]
    id: tuple[str, int, int]
    """Site, incarnation and counter, above."""
    crossing: Crossing
    indices: list[int]
    """Of the crossing's messages: those that have their place here, and not an earlier one."""
    needs: int

    @property
    def end(self) -> tuple[int, ...]:
        return (*self.place, len(self.crossing.messages))

    @property
    def size(self) -> int:
        return sum(len(message.data) for message in self.crossing.messages)


class Told(Struct):
    """A roster that was delivered above."""

    place: tuple[int, ...]
    roster: Roster
    needs: int

    @property
    def end(self) -> tuple[int, ...]:
        return (*self.place, 0)

    @property
    def size(self) -> int:
        return sum(len(group) + sum(map(len, processes)) for group, processes in self.roster.groups)


Entry = UpperConf | Brought | Told


class Launch(Struct, frozen=True):
    """A crossing that is to be sent above, and its CROSS's id in the cluster."""

    crossing: Crossing
    cross: tuple[str, int, int]


class Gateway:
    service = Service.SAFE
    """Of all that it sends: with agreed, a dying gateway could tell its cluster what nobody else has."""

    def __init__(self, tree: Tree, domain: str) -> None:
        self.tree = tree
        self.domain = domain
        self.entries: deque[Entry] = deque()
        self.first = 0
        """The index of the first entry that is kept; `first + len(entries)` is the next one's."""
        self.number = 0
        self.conf: UpperConf | None = None
        """The regular configuration that it is in."""
        self.events: list[WideEvent] = []
        self.malformed = 0
        """Crossings that no correct gateway sends."""
        self.renew = False
        """Its configuration has too low a number for its cluster: another one with the same members is needed."""
        self.outdated = False
        """Its cluster has seen something that the others of this configuration should have been told (SEEN)."""
        self.elected = -1
        """The number with which it represents its cluster; -1: it does not."""
        self.known: Callable[[], Seen] = Seen
        """What its cluster has seen."""
        self._start: tuple[str, tuple[int, ...]] = ("", ())
        """The configuration and the place of the last entry that was dropped."""
        self._bytes = 0
        self._first_rosters = Rosters()
        """What was told up to the first entry that is kept …"""
        self.rosters = Rosters()
        """… and up to the last, in its configuration."""
        self._roster: Roster | None = None
        """To be told."""
        self._placed = Seen()
        self._transitional = False
        self._forming: Changed | None = None
        """A regular configuration in which not all members have said yet what they have seen."""
        self._told: set[int] = set()
        self._seeing_due = False
        self._above = Seen()
        """All that was delivered here, in whatever configuration."""
        self._last = ""
        self._again: deque[bytes] = deque()
        """Crossings that were taken by a configuration that is over, and not sent in it."""
        self._launches: deque[Launch] = deque()
        self._encoded: bytes | None = None
        """The first of them, once it was asked for."""
        self._flying: dict[tuple[str, int, int], bytes] = {}
        """By local configuration, number and term: crossings that it has sent, and that are not delivered."""
        self._dropped: deque[bytes] = deque()
        """Those that got no place in the transitional configuration."""
        self._dropping = False
        """Nothing gets a place in it any more."""
        self._gone: deque[str] = deque()
        """Gateways of its own cluster that have left that, and that others are to be told of."""
        self.suspects: list[int] = []
        """Sites above that have left their clusters, as the others there say: its site need not wait for them."""

    # -- what comes from above

    def take(self, events: Sequence[LayerEvent]) -> None:
        for event in events:
            if type(event) is Delivered:
                self._delivered(event)
            elif type(event) is Changed and event.kind is not ConfKind.HIDDEN:
                self._changed(event)

    def _changed(self, event: Changed) -> None:
        if event.kind is ConfKind.TRANSITIONAL:
            if self._forming is not None:
                self._formed(self._forming)  # nothing has crossed in it
            self._transitional = True
            self._dropping = False
            self._append(UpperConf(event.conf, False, self.number, self._domains(event), self._last, _PENDING, []))
            self._last = event.conf
            return
        self._transitional = self.outdated = False
        self._roster = None
        self._forming = event
        self._told = set()
        self._seeing_due = True
        self._placed = Seen()

    def _domains(self, event: Changed) -> tuple[str, ...]:
        return tuple(sorted({self.tree.domain_of(member) for member in event.members}))

    def _formed(self, event: Changed) -> None:
        """All that crosses in this configuration comes after this."""
        self._forming = None
        self.number = int(event.conf)
        for entry in reversed(self.entries):
            if entry.needs != _PENDING:
                break
            entry.needs = self.number
        floor = newest(self._placed, self.domain)
        self.conf = UpperConf(event.conf, True, self.number, self._domains(event), self._last, self.number, floor)
        self._last = event.conf
        self._append(self.conf)

    def _delivered(self, event: Delivered) -> None:
        for index, message in decoded(event):
            if isinstance(message, Seeing):
                self._seeing(event.sender, message)
            elif isinstance(message, Gone):
                self._left(event.sender, message)
            elif isinstance(message, Roster) and self._speaks_for(event.sender, message.domain):
                self._told_above(event, index, message)
            elif isinstance(message, Crossing) and self._speaks_for(event.sender, message.domain):
                self._crossing(event, index, message)
            else:
                self.malformed += 1

    def _speaks_for(self, sender: int, domain: str) -> bool:
        """A gateway speaks for its own domain only."""
        return domain == self.tree.domain_of(sender)

    def _seeing(self, sender: int, seeing: Seeing) -> None:
        forming = self._forming
        if forming is None or sender in self._told:
            return
        self._told.add(sender)
        self._placed.merge(seeing.seen)
        if self._told == set(forming.members):
            self._formed(forming)

    def _left(self, sender: int, gone: Gone) -> None:
        site = self.tree.upper_site(self.tree.domain_of(sender), gone.gateway)
        if site is None or site == sender:
            self.malformed += 1  # a gateway speaks for its own domain only, and for others of it
        else:
            self.suspects.append(site)

    def _crossing(self, event: Delivered, index: int, crossing: Crossing) -> None:
        if self._forming is not None:
            self.malformed += 1  # its sender had not heard all
            return
        assert event.timestamp is not None, "crossings are safe messages"
        own = self._flying.pop(_name(crossing), None) if crossing.domain == self.domain else None
        if self._transitional and (crossing.again or self._dropping):
            self._dropping = True
            if own is not None:
                self._dropped.append(own)
            return
        new = [i for i, message in enumerate(crossing.messages) if self._place(crossing.domain, message)]
        upper_id = (self.tree.upper[event.sender], event.incarnation, event.first + index)
        needs = _PENDING if self._transitional else self.number
        self._append(Brought((*event.timestamp, index), upper_id, crossing, new, needs))

    def _told_above(self, event: Delivered, index: int, roster: Roster) -> None:
        sites = len(self.tree.domains[roster.domain].sites)
        if self._forming is not None or any(site >= sites for site in roster.sites):
            self.malformed += 1
            return
        assert event.timestamp is not None, "rosters are safe messages"
        self._append(Told((*event.timestamp, index), roster, _PENDING if self._transitional else self.number))

    def _place(self, domain: str, message: Message) -> bool:
        named = SenderId(domain, message.site), message.incarnation, Service(message.service), message.counter
        self._above.add(*named)
        return self._placed.add(*named)

    # -- the log

    @property
    def end(self) -> int:
        return self.first + len(self.entries)

    def entry(self, index: int) -> Entry:
        return self.entries[index - self.first]

    def _append(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.rosters = _after(self.rosters, entry)
        if not isinstance(entry, UpperConf):
            self._bytes += entry.size
        while len(self.entries) > _MOST or self._bytes > _MOST_BYTES:
            self._drop()

    def trim(self, reached: int) -> None:
        """The cluster has all before this index: only the last of these are kept."""
        while self.first < reached and (reached - self.first > _KEPT or self._bytes > _KEPT_BYTES):
            self._drop()

    def _drop(self) -> None:
        entry = self.entries.popleft()
        self.first += 1
        self._first_rosters = _after(self._first_rosters, entry)
        if isinstance(entry, UpperConf):
            self._start = (entry.conf, (entry.number,))
        else:
            self._start = (self._start[0], entry.end)
            self._bytes -= entry.size

    def find(self, conf: str, line: tuple[int, ...]) -> int | None:
        """The index from which sites in this wide configuration go on that are at this line. None: they can't."""
        inside = self._start[0] == conf and line >= self._start[1]
        if not conf:
            return None
        for index, entry in enumerate(self.entries, self.first):
            if isinstance(entry, UpperConf):
                if inside:
                    return index
                inside = entry.conf == conf
            elif inside and entry.place > line:
                return index
        return self.end if inside else None

    def reached(self, index: int) -> tuple[int, ...]:
        """The last place before this index in its configuration."""
        for earlier in range(index - 1, self.first - 1, -1):
            entry = self.entry(earlier)
            if not isinstance(entry, UpperConf):
                return entry.end
            if entry.regular:
                return (entry.number,)
        return self._start[1]

    def rosters_at(self, index: int) -> list[Roster]:
        """What was told before this index in its configuration."""
        found = Rosters(self._first_rosters.all())
        for earlier in range(self.first, min(index, self.end)):
            found = _after(found, self.entry(earlier))
        return found.all()

    def permitted(self, index: int, number: int) -> bool:
        """May the entry be told to the cluster by a representative that was elected with this number?"""
        return index < self.end and self.entry(index).needs <= number

    def placed(self, index: int) -> list[tuple[str, int, int, int]]:
        """Site, incarnation and both counters of this domain's senders: what can get no place from `index` on
        in the configuration above."""
        found = {(site, born): [fifo, ordered] for site, born, fifo, ordered in newest(self._placed, self.domain)}
        for later in range(self.end - 1, max(index, self.first) - 1, -1):
            entry = self.entry(later)
            if not isinstance(entry, Brought) or entry.crossing.domain != self.domain:
                continue
            for i in reversed(entry.indices):
                message = entry.crossing.messages[i]
                last = found.get((message.site, message.incarnation))
                if last is not None:
                    last[Service(message.service) is not Service.FIFO] = message.counter - 1
        return [(*sender, fifo, ordered) for sender, (fifo, ordered) in sorted(found.items())]

    def has_been_told(self, seen: Seen) -> bool:
        """None of these messages can get a place from here on in the configuration above. Of each sender it goes by
        the newest incarnations, as SEEN does: else another configuration might not help."""
        both = Seen()
        both.merge(self._placed.table())
        both.merge(seen.table())
        return both.table() == self._placed.table()

    # -- what goes up

    def tell(self, roster: Roster) -> None:
        self._roster = roster

    def launch(self, launch: Launch) -> None:
        self._launches.append(launch)

    def resign(self) -> None:
        """Its term is over: the next representative sends what waits here."""
        self._launches.clear()
        self._encoded = None
        self._again.clear()
        self._flying.clear()
        self._dropped.clear()
        self._roster = None

    @property
    def wants_turn(self) -> bool:
        """Is there something to be sent above? Asked in each turn of its cluster, so it encodes nothing."""
        if self.renew or self._gone or self._seeing_due:
            return True
        return self.may_launch and bool(self._roster is not None or self._dropped or self._again or self._launches)

    @property
    def formed(self) -> bool:
        """Every member of its configuration above has said what it has seen."""
        return self._forming is None

    @property
    def may_launch(self) -> bool:
        """After a change above, it goes on only once its cluster has elected it with that."""
        return self.formed and self.elected == self.number

    def left(self, gateway: str) -> None:
        """This other gateway has left the cluster's configuration."""
        if gateway not in self._gone:
            self._gone.append(gateway)

    def next(self) -> tuple[Service, bytes] | None:
        """What is to be sent above next; `sent` follows, if it is taken."""
        if self._gone:
            # Not safe, nor agreed: what is waits for the one that has left.
            return Service.FIFO, encode(Gone(self._gone[0]))
        payload = self._next()
        return None if payload is None else (self.service, payload)

    def _next(self) -> bytes | None:
        if self._seeing_due:
            seen = Seen()
            seen.merge(self.known().table())
            seen.merge(self._above.table())
            return encode(Seeing(seen.table()))
        if not self.may_launch:
            return None
        if self._roster is not None:
            return encode(self._roster)
        if self._dropped or self._again:
            return (self._dropped or self._again)[0]
        if self._launches and self._encoded is None:
            self._encoded = encode(self._launches[0].crossing)
        return self._encoded

    def sent(self) -> None:
        if self._gone:
            self._gone.popleft()
            return
        if self._seeing_due:
            self._seeing_due = False
            return
        if self._roster is not None:
            self._roster = None
            return
        waiting = self._dropped or self._again
        if waiting:
            self._sent_again(waiting.popleft())
            return
        launch = self._launches.popleft()
        crossing = launch.crossing
        assert self._encoded is not None, "`next` came before"
        self._flying[_name(crossing)], self._encoded = self._encoded, None
        ids = tuple(MessageId(self.domain, m.site, m.incarnation, m.counter) for m in crossing.messages)
        self.events.append(Crossed(crossing.conf, crossing.term, launch.cross, crossing.pos, ids))

    def _sent_again(self, payload: bytes) -> None:
        self._flying[_name(_crossing_in(payload))] = payload

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        """A configuration above is over before it has sent these. Crossings of an earlier term are left out: the
        cluster carries their messages on, and some would get a place before earlier ones of their senders."""
        crossings = (payload for _, payload in unsent if payload[0] == CROSSING)
        self._again.extend(payload for payload in crossings if _name(_crossing_in(payload)) in self._flying)


def _crossing_in(payload: bytes) -> Crossing:
    crossing = decode(payload)
    assert isinstance(crossing, Crossing), "nothing else is sent again"
    return crossing


def _name(crossing: Crossing) -> tuple[str, int, int]:
    return crossing.conf, crossing.pos, crossing.term


def _after(rosters: Rosters, entry: Entry) -> Rosters:
    """What is told after this entry."""
    if isinstance(entry, UpperConf):
        return Rosters() if entry.regular else rosters
    if isinstance(entry, Told):
        rosters.apply(entry.roster)
    return rosters


def newest(seen: Seen, domain: str) -> list[tuple[str, int, int, int]]:
    """Site, incarnation and both counters of the domain's senders: of each the newest incarnations."""
    return [(site, born, *lanes) for site, born, lanes in seen.of_domain(domain)]
